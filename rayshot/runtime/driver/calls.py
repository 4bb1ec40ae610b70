"""Calls of one driver: their numbers, the fetches of their outcomes, and the news that comes with answers."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rayshot.errors import NoAnswer
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import AnswerArrived, CallMade, DriverEffect, OutcomeCame, OutcomeLost
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import unpack


class Calls:
    """The calls that a driver made and has not seen answered, by receiver.

    The machine hears of each answer before the driver sends anything that may depend on it. `is_connected(receiver)`
    says whether the receiver can have answered. Call everything except `hear` under the driver's lock.
    """

    def __init__(self, machine: Driver, is_connected: Callable[[str], bool]) -> None:
        self.last_id = 0
        self._machine = machine
        self._is_connected = is_connected
        self._unanswered: dict[str, dict[Any, int]] = {}  # by receiver, the tags to come, with the numbers of the calls
        self._awaited: set[Any] = set()
        self._fetched_again: dict[int, Any] = {}  # call id -> the reference of the open fetch
        self._news: deque[tuple[SnapshotId, ...]] = deque()

    def check_room(self, receiver: str, limit: int | None) -> None:
        """Raise PendingCallsLimitExceeded if `limit` calls have no outcome yet: the actor's option allows no more."""
        if limit is not None and len(self._unanswered.get(receiver, ())) >= limit:
            self.take_news()
            if len(self._unanswered.get(receiver, ())) >= limit:
                raise door.TooManyCalls(
                    f"{limit} calls of this process to actor {receiver!r} have no result yet, as many as its option "
                    f"max_pending_calls allows: get results first. This call was not sent"
                )

    def next_id(self) -> int:
        """The number of the next call."""
        self.last_id += 1
        return self.last_id

    def first_open(self, receiver: str) -> int:
        """The number of the first call to the receiver that has no outcome here; the last number used if all have."""
        return next(iter(self._unanswered.get(receiver, {}).values()), self.last_id)

    def made(self, receiver: str, call_id: int, tags: Any, number: int) -> None:
        """A call was made as message `number`; `tags` is the reference to the life and the tags of its answer."""
        self._unanswered.setdefault(receiver, {})[tags] = call_id
        self._awaited.add(tags.task_id())  # which its result has too
        if self._machine.retains:
            self._machine.handle(CallMade(receiver, call_id, number))

    def fetched_again(self, call_id: int, tags: Any) -> None:
        """The outcome of a call was asked for again; `answered` hears of it."""
        self._fetched_again[call_id] = tags

    def is_unanswered(self, reference: Any) -> bool:
        """Whether `reference` is the outcome of a call of this driver, and this outcome has not arrived."""
        return reference.task_id() in self._awaited

    def hear(self, tags: Iterable[SnapshotId]) -> None:
        """This process got an outcome that may hold effects of open snapshots: its next messages carry this news.

        Takes no lock: Ray unpickles the outcome under one of Ray's locks, and `take_news` needs that lock.
        """
        self._news.append(tuple(tags))

    def take_news(self) -> list[DriverEffect]:
        """Tell the machine of answers that the user's code may have seen already. Returns its orders."""
        effects: list[DriverEffect] = []
        while self._news:
            effects += self._heard(self._news.popleft())
        for receiver, refs in tuple(self._unanswered.items()):
            if self._is_connected(receiver):
                ready, _ = door.wait(list(refs), num_returns=len(refs), timeout=0, fetch_local=False)
                call_ids = [refs.pop(ref) for ref in ready]
                self._awaited.difference_update(ref.task_id() for ref in ready)
                if not refs:
                    del self._unanswered[receiver]
                for call_id, answer in zip(call_ids, _got(ready), strict=True):
                    effects += self.answered(receiver, call_id, answer)
        return effects

    def _heard(self, tags: tuple[SnapshotId, ...]) -> Sequence[DriverEffect]:
        life = max((tag.incarnation for tag in tags), default=1)
        return self._machine.handle(AnswerArrived(tags, incarnation=life))

    def answered(self, receiver: str, call_id: int, answer: Any) -> Sequence[DriverEffect]:
        """Tell the machine of the answer of a call, or of the error that Ray has instead. Returns its orders."""
        again = self._fetched_again.pop(call_id, None) is not None
        if answer.__class__ is bytes:
            return self._machine.handle(OutcomeCame(receiver, call_id, *unpack_tags(answer), again))
        if isinstance(answer, door.Raised) and isinstance(answer.cause, NoAnswer):  # handled; its outcome is lost
            return self._machine.handle(OutcomeCame(receiver, call_id))
        return self._machine.handle(OutcomeLost(receiver, call_id))


def unpack_tags(answer: bytes) -> tuple[tuple[SnapshotId, ...], int, bool, bytes]:
    """What comes beside the answer of a call: `tags`, `incarnation`, `late` and `answer` of OutcomeCame."""
    if not answer:
        return (), 0, False, b""
    life, tags, late, said = unpack(answer)
    return tuple(SnapshotId(*tag) for tag in tags), life, late, said


def _got(refs: list[Any]) -> list[Any]:
    """For each call the packed life and tags of its answer, or the error that Ray has instead."""
    try:
        return list(door.get(refs))
    except door.CallFailed as error:  # the caller sees this error too: it holds a reference to the outcome
        return [error] if len(refs) == 1 else [found for ref in refs for found in _got([ref])]


class DurableCalls:
    """The durable calls that have no results yet: the actors that they went to must not end for want of a handle.

    An actor that has ended records no more snapshots, so what it had handled last could not be given as durable.
    `end(name)` ends an actor whose last handle was dropped; it is called on a thread of its own.
    """

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._open: Counter[str] = Counter()
        self._dropped: set[str] = set()
        self._lock = threading.Lock()  # its holders call nobody

    def made(self, receiver: str, tags: Any) -> None:
        """A durable call was made; `tags` is a reference that is ready when the result is."""
        with self._lock:
            self._open[receiver] += 1
        door.when_there(tags, lambda _: self._answered(receiver))

    def postpone(self, name: str) -> bool:
        """The last handle of an actor was dropped: whether it must live until its durable calls have results."""
        with self._lock:
            must_wait = name in self._open
            if must_wait:
                self._dropped.add(name)
            return must_wait

    def _answered(self, receiver: str) -> None:
        with self._lock:
            self._open[receiver] -= 1
            if self._open[receiver] > 0:
                return
            del self._open[receiver]
            if receiver not in self._dropped:
                return
            self._dropped.remove(receiver)
        threading.Thread(target=self._end, args=(receiver,), name="rayshot-dropped", daemon=True).start()
