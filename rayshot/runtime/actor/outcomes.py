"""Outcomes of drivers' calls, at the actor that handles them.

The message of a call comes numbered with all others; a Ray call of its own fetches the outcome, and is what the driver
has a reference to. The two come in any order. Each fetch that waits takes one of CALLS_AT_ONCE threads, and further
ones queue up behind them. Should all threads wait for what does not come, while there are outcomes that none of them
waits for, a round begins: each fetch gives its place up once, and Ray puts it at the end of the queue.
"""

import threading
import traceback
from collections.abc import Collection
from itertools import takewhile
from typing import Any, NamedTuple

import ray

from rayshot.errors import ActorExited, MessageNotSerializable, NoAnswer, RayshotError, SystemDown
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.wire.actor_errors import as_rays

CALLS_AT_ONCE = 8
"""Driver calls that may wait for their outcomes at one actor at a time. More threads cost each call more."""
FETCHED_S = 30.0
"""The connection may break on which an outcome goes, and Ray fetches again: it stays for so long, and at most for twice
as long, where its driver does not say before that it has it."""
STAY_BYTES_MAX = 1 << 20
"""A larger value does not stay: it would lie in memory beside the one in the object store."""
STUCK_S = 0.5
"""So long all threads wait, and none gets what it waits for, before a round begins."""


GONE = (
    "this program counts as dead in its system, as Ray had lost sight of it, and nothing more is taken from it: "
    "start it anew"
)


class NotYet(Exception):
    """A fetch gives its place up; Ray tries it again behind all others, and says so in a line of its log."""


class Outcome(NamedTuple):
    """What came of a call: a value, or a RayTaskError that Ray raises where the value is asked for; the driver's tags.

    `error`: what is raised instead. `size` of the value in bytes.
    """

    value: Any
    tags: tuple[SnapshotId, ...] = ()
    error: Exception | None = None
    size: int = 0


_Key = tuple[str, int]
_Fetched = dict[str, dict[int, Outcome]]


class _Waiter:
    """A thread that waits for an outcome."""

    __slots__ = ("done", "outcome")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.outcome = Outcome(None)

    def give(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.done.set()


class Outcomes:
    """`lock` is the process's. All but `fetch` are called under it.

    `_settled` has the last call of each driver that was answered, as its calls are answered in their order. `_given`
    counts what waiting threads got. In a round `_turned` are those that gave their places up. `_withheld` are outcomes
    that are to be given when none of the snapshots beside them is left. `_fetched`, by driver and call, were given, and
    those in `_fetched_before` some time ago.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._kept: dict[_Key, Outcome] = {}
        self._waiting: dict[_Key, _Waiter] = {}
        self._settled: dict[str, int] = {}
        self._gone: set[str] = set()
        self._down: Outcome | None = None
        self._given = 0
        self._turned: set[_Key] | None = None
        self._withheld: list[tuple[_Key, Outcome, set[SnapshotId]]] = []
        self._fetched: _Fetched = {}
        self._fetched_before: _Fetched = {}
        self._is_ageing = False

    def __bool__(self) -> bool:
        """Whether there are outcomes that nobody has fetched."""
        return bool(self._kept or self._withheld)

    def settle(self, sender: str, call_id: int, outcome: Outcome, until: Collection[SnapshotId] = ()) -> None:
        """A call was handled: give its outcome to who waits for it, or keep it. Not before all `until` are released."""
        if sender in self._gone:
            return
        if until:
            self._withheld.append(((sender, call_id), outcome, set(until)))
            return
        self._settled[sender] = call_id
        waiter = self._waiting.pop((sender, call_id), None)
        if waiter is None:
            self._kept[sender, call_id] = outcome
        else:
            self._given += 1
            self._stay(sender, call_id, outcome)
            waiter.give(outcome)

    def _stay(self, sender: str, call_id: int, outcome: Outcome) -> None:
        if outcome.size > STAY_BYTES_MAX:
            return
        self._fetched.setdefault(sender, {})[call_id] = outcome
        if not self._is_ageing:
            self._is_ageing = True
            self._age_later()

    def _age_later(self) -> None:
        timer = threading.Timer(FETCHED_S, self._age)
        timer.daemon = True
        timer.start()

    def _age(self) -> None:
        with self._lock:
            self._fetched_before, self._fetched = self._fetched, {}
            self._is_ageing = bool(self._fetched_before)
            if self._is_ageing:
                self._age_later()

    def release(self, snapshot: SnapshotId) -> None:
        """Every actor has recorded this snapshot, or it is over: nobody can bring news of it to one that has not."""
        withheld, self._withheld = self._withheld, []
        for (sender, call_id), outcome, until in withheld:  # in the order of the calls, so a driver's are settled in it
            self.settle(sender, call_id, outcome, until - {snapshot})

    def fetch(self, sender: str, call_id: int, has_all_before: int = 0) -> Outcome:
        """The outcome of a call, once it is there. The driver has those of its calls `has_all_before`. Takes the lock.

        Raises NotYet where this thread is wanted for others; SystemDown; NoAnswer where it was fetched long ago.
        """
        key = sender, call_id
        with self._lock:
            if (outcome := self._find(sender, call_id, has_all_before)) is not None:
                return outcome
            waiter = self._enter(key)
            is_last = len(self._waiting) >= CALLS_AT_ONCE
        given = -1
        while not waiter.done.wait(STUCK_S if is_last else None):
            given = self._look_whether_stuck(given)
        if waiter.outcome.error is not None:
            raise waiter.outcome.error.with_traceback(None)
        return waiter.outcome

    def _find(self, sender: str, call_id: int, has_all_before: int) -> Outcome | None:
        outcome = self._kept.pop((sender, call_id), None)
        if outcome is not None:
            self._stay(sender, call_id, outcome)
        for fetched in (calls for of in (self._fetched, self._fetched_before) if (calls := of.get(sender))):
            for confirmed in tuple(takewhile(lambda number: number < has_all_before, fetched)):
                del fetched[confirmed]
            outcome = outcome or fetched.get(call_id)
        return outcome

    def _enter(self, key: _Key) -> _Waiter:
        sender, call_id = key
        if sender in self._gone:  # Ray runs what the dead have called too
            raise NoAnswer(GONE)
        if call_id <= self._settled.get(sender, 0):
            raise NoAnswer(
                "the call was handled, and its result was lost with the connection on which it came back: "
                "ask the actor what it did before you call it again"
            )
        if self._down is not None:
            waiter = _Waiter()
            waiter.give(self._down)
            return waiter
        if (earlier := self._waiting.pop(key, None)) is not None:  # its connection broke, and Ray tried again
            earlier.give(Outcome(None, error=NotYet()))
        if self._turned is not None:
            if self._kept and key not in self._turned:
                self._turned.add(key)
                raise NotYet
            self._turned = None  # all have had their turn
        waiter = self._waiting[key] = _Waiter()
        return waiter

    def _look_whether_stuck(self, given_before: int) -> int:
        """Begin a round where nobody has got anything since `given_before`; returns what was given. Takes the lock."""
        with self._lock:
            is_crowded = len(self._waiting) >= CALLS_AT_ONCE and bool(self._kept)
            if is_crowded and self._given == given_before:
                self._turned = set(self._waiting)
                for waiter in self._waiting.values():
                    waiter.give(Outcome(None, error=NotYet()))
                self._waiting.clear()
            return self._given

    def forget(self, driver: str) -> None:
        """Nobody waits for outcomes of this driver's calls any more: it is gone, or of an earlier life."""
        self._gone.add(driver)
        for of_driver in (self._settled, self._fetched, self._fetched_before):
            of_driver.pop(driver, None)
        self._withheld = [withheld for withheld in self._withheld if withheld[0][0] != driver]
        for key in [key for key in self._kept if key[0] == driver]:
            del self._kept[key]
        for key in [key for key in self._waiting if key[0] == driver]:
            self._waiting.pop(key).give(Outcome(None, error=NoAnswer(GONE)))

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Nothing is handled any more. An error that is Ray's too is given as a value: Ray raises it as it is."""
        self._down = Outcome(error) if isinstance(error, ray.exceptions.RayError) else Outcome(None, error=error)
        for waiter in self._waiting.values():
            waiter.give(self._down)
        self._waiting.clear()
        self._withheld.clear()


def failure(error: Exception, actor: str) -> ray.exceptions.RayError:
    """What a handler raised, as Ray raises it where the result is asked for: as an instance of its class too.

    As a value of its own, so that nothing has to be attached to the error, which may be frozen. One that says that the
    actor ended is one of Ray's by itself, and is raised as it is.
    """
    if isinstance(error, ActorExited):
        return as_rays(error)
    report = "".join(traceback.format_exception(error))
    if isinstance(error, ray.exceptions.RayTaskError):  # of a task whose result the handler got
        error = error.cause
    return ray.exceptions.RayTaskError("", report, error, proctitle=f"ray::{actor}")


def sendable(error: Exception) -> RayshotError:
    """An error of ours that any process can unpickle."""
    if isinstance(error, RayshotError):
        return error
    return MessageNotSerializable(f"the result of the call cannot be sent: {error!r}")
