"""Calls of the fake: on their way in any order, done by a thread of their group, and answered at some time."""

import traceback
from functools import cache
from typing import NamedTuple

from rayshot.runtime.door import door
from tests.fake.reference import Reference, Value, packed, unpacked
from tests.fake.threads import Present, schedule

CONNECT_S = 20.0
"""After so many seconds a caller that has no connection to a process that is stopped finds that it gets none."""


class Marks(NamedTuple):
    """What `door.method` says of a method."""

    name: str
    group: str
    results: int
    again: bool
    again_on: tuple[type[Exception], ...]


@cache
def marks_of(kind):
    """The methods of a class that others call, by name."""
    found = {}
    for name in dir(kind):
        method = getattr(kind, name)
        group = getattr(method, "__ray_concurrency_group__", None)
        if group is not None:
            found[name] = Marks(
                name,
                group,
                getattr(method, "__ray_num_returns__", 1),
                bool(getattr(method, "__ray_max_task_retries__", 0)),
                tuple(getattr(method, "__ray_retry_exceptions__", ())),
            )
    return found


class Call:
    """One of a process, by another one. What a loss does to it depends on whether its method may be called `again`."""

    def __init__(self, process, marks, data, caller, gates):
        self.process, self.marks, self.data, self.caller = process, marks, data, caller
        self._gates = gates
        self.values = [Value(caller, self) for _ in range(marks.results)]
        self.run = None
        self.attempt = 0
        """Only what comes of the last one counts: before another one is made, the connection was lost."""

    @classmethod
    def make(cls, process, marks, args, kwargs):
        """Send it; returns the references to its results."""
        cluster, caller = Present.cluster, schedule().current.run
        gates = [arg.value for arg in args if isinstance(arg, Reference)]
        call = cls(process, marks, packed((args, kwargs)), caller, gates)
        if not caller.is_dead:
            process.calls[call] = True
            cluster.counts[marks.name] += 1
            schedule().later(call.travel)
        found = [Reference(value, caller) for value in call.values]
        return found[0] if marks.results == 1 else tuple(found)

    # On its way ------------------------------------------------------------------------------------------------

    def travel(self):
        """It comes to the process, or not, or twice."""
        if not self._is_open:
            return
        if unready := [value for value in self._gates if not value.is_there]:
            unready[0].callbacks.append((_Anywhere, lambda _: self.travel()))
            return
        fate = Present.cluster.fate_of_call(self)
        if fate == "lost":
            self._lost()
            return
        if fate == "twice" and self.marks.again:
            schedule().later(self.arrive)
        self.arrive()

    @property
    def _is_open(self):
        return self in self.process.calls

    def arrive(self):
        """It is there."""
        process = self.process
        if not self._is_open:
            return
        if failed := next((value for value in self._gates if value.error is not None), None):
            self.fail(failed.error)
        elif process.is_gone:
            self.fail(process.death)
        elif process.works and process.run.is_stopped and self.caller not in process.run.callers:
            self._connect(process.run)
        elif process.works:
            self.run = process.run
            self.run.callers.add(self.caller)
            self.attempt += 1
            process.run.take(self, self.attempt)
        elif process.is_away and not self.marks.again:
            self._lost()
        else:
            process.waiting.append(self)

    def _connect(self, run):
        """Its caller has no connection to this process, which is stopped."""
        run.connecting.append(self)

        def give_up():
            if self in run.connecting and self._is_open:
                run.connecting.remove(self)
                self._lost()

        schedule().at(schedule().now_s + CONNECT_S, give_up)

    def _lost(self):
        if self.marks.again:
            schedule().later(self.travel)
        else:
            self.fail(lambda: door.Unavailable(f"{self.process} cannot be reached", None))

    # Done ------------------------------------------------------------------------------------------------------

    def execute(self, instance, attempt):
        """On a thread of the process."""
        try:
            args, kwargs = unpacked(self.data)
            args = [arg.value.result() if isinstance(arg, Reference) else arg for arg in args]
            result = getattr(instance, self.marks.name)(*args, **kwargs)
            results = [packed(one) for one in (result if self.marks.results > 1 else [result])]
        except Exception as error:  # noqa: BLE001 - it is the answer
            if isinstance(error, self.marks.again_on):
                schedule().later(lambda: self.arrive() if attempt == self.attempt else None)
                return
            Present.cluster.note_defect(error)
            failure = self.failure(self.marks.name, error)
            Present.cluster.bring(self, lambda: self._answered(attempt, lambda value: value.settle(error=failure)))
            return
        assert len(results) == self.marks.results, f"{self.marks.name} gave {len(results)} results"
        data = dict(zip(self.values, results, strict=True))
        Present.cluster.bring(self, lambda: self._answered(attempt, lambda value: value.settle(data[value])))

    @staticmethod
    def failure(name, error):
        """What makes a copy of the error as Ray gives it to a caller."""
        text, cause = "".join(traceback.format_exception(error)), packed(error)
        return lambda: door.Raised(name, text, unpacked(cause), "fake", 1, "fake")

    def _answered(self, attempt, settle):
        """The answer comes, or not. The results are ready together, the first one first."""
        if not self._is_open or attempt != self.attempt:
            return
        if Present.cluster.fate_of_answer(self) == "lost":
            self._lost()
            return
        del self.process.calls[self]
        for value in self.values:
            settle(value)

    def fail(self, error):
        """It has no answer for this reason."""
        if self.process.calls.pop(self, None):
            schedule().later(lambda: [value.settle(error=error) for value in self.values])

    def process_died(self, *, comes_back):
        """Its process is gone, and maybe started again."""
        if not comes_back:
            self.fail(self.process.death)
        elif self.run is None:
            pass  # it is still on its way
        elif self.marks.again:
            self.run = None
            self.process.waiting.append(self)
        else:
            self._lost()


class _Anywhere:
    """Where a call waits for its arguments, which is no process."""

    @staticmethod
    def call_back(work):
        schedule().later(work)
