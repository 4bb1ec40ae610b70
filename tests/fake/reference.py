"""References to answers and objects, each of which has an owner: the process that called, or that put it."""

import pickle
from itertools import count
from weakref import WeakSet

import cloudpickle

from rayshot.runtime.door import door
from tests.fake.threads import Present, schedule, wait_among, wake_all

_numbers = count(1)


def packed(value):
    """What crosses from one process to another: a copy, never the object."""
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return cloudpickle.dumps(value, 5)


unpacked = pickle.loads


class Value:
    """An answer or an object. It is there when `data` or `error` is.

    Nobody else tells its owner of it. Others hear of the owner's death only as long as they hold a reference.
    """

    def __init__(self, owner, task):
        self.owner, self.task, self.number = owner, task, next(_numbers)
        self.data = self.error = None
        self.waiting, self.callbacks, self.references = [], [], WeakSet()

    @property
    def is_there(self):
        return self.data is not None or self.error is not None

    def settle(self, data=None, error=None):
        """From now on it can be read, and its callbacks can run."""
        if self.is_there or self.owner.is_dead:
            return
        self.data, self.error = data, error
        wake_all(self.waiting)
        for run, tell in self._take_callbacks():
            run.call_back(lambda tell=tell: tell(self.result()))

    def _take_callbacks(self):
        told, self.callbacks = self.callbacks, []
        for reference in sorted(self.references, key=lambda one: one.order):
            told += [(reference.run, tell) for tell in reference.callbacks]
            reference.callbacks = []
        return told

    def owner_died(self):
        """It is lost to all others, unless they have read it."""
        if self.is_there:
            return
        self.error = lambda: door.OwnerDied(self.hex(), b"", "")
        wake_all(self.waiting)
        for run, tell in self._take_callbacks():
            if run is not self.owner:
                run.call_back(lambda tell=tell: tell(self.result()))

    def result(self):
        """A copy of the value, or the error as Ray has it."""
        return unpacked(self.data) if self.error is None else self.error()

    def hex(self):
        return f"{self.number:056x}"


class Reference:
    """As one process holds it."""

    def __init__(self, value, run):
        self.value, self.run, self.callbacks = value, run, []
        self.order = next(_numbers)
        if run is not value.owner:
            value.references.add(self)

    def when_there(self, tell):
        """Call `tell` with the result, on the one thread of this process for that."""
        if self.value.is_there:
            self.run.call_back(lambda: tell(self.value.result()))
        elif self.run is self.value.owner:
            self.value.callbacks.append((self.run, tell))
        else:
            self.callbacks.append(tell)

    def task_id(self):
        return self.value.task

    def hex(self):
        return self.value.hex()

    def __reduce__(self):
        Present.cluster.values[self.value.number] = self.value
        return Reference.received, (self.value.number,)  # rayshot looks for the name of the class

    @staticmethod
    def received(number):
        """As the process holds it that acts now."""
        return Reference(Present.cluster.values[number], schedule().current.run)

    def __eq__(self, other):
        return isinstance(other, Reference) and other.value is self.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"Reference({self.value.number})"


def await_values(values, count, timeout_s):
    """Wait until so many are there, or the time is over."""
    plan = schedule()
    until_s = None if timeout_s is None else plan.now_s + timeout_s
    while sum(value.is_there for value in values) < count:
        left_s = None if until_s is None else until_s - plan.now_s
        if left_s is not None and left_s <= 0:
            return
        waiting = _Several([value.waiting for value in values if not value.is_there])
        wait_among(waiting, "an answer", left_s)


class _Several(list):
    """A thread that waits at several places at once."""

    def __init__(self, places):
        super().__init__()
        self._places = places

    def append(self, thread):
        for place in self._places:
            place.append(thread)

    def __contains__(self, thread):
        return any(thread in place for place in self._places)

    def remove(self, thread):
        for place in self._places:
            if thread in place:
                place.remove(thread)
