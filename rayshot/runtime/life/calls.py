"""Calls of one driver: their numbers, the receivers that have not answered, and the news that comes with answers."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import ray

from rayshot.protocol.driver import AnswerArrived, Driver
from rayshot.protocol.identity import SnapshotId
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
        self._news: deque[tuple[SnapshotId, ...]] = deque()
        self._max: dict[str, int | None] = {}

    def limit(self, receiver: str, calls_max: int | None) -> None:
        """Let at most `calls_max` calls to the receiver wait for outcomes; None: any number."""
        self._max[receiver] = calls_max

    def forget(self, receiver: str) -> None:
        """The receiver has ended."""
        self._max.pop(receiver, None)

    def check_room(self, receiver: str) -> None:
        """Raise PendingCallsLimitExceeded if as many calls have no outcome yet as the actor's option allows."""
        limit = self._max.get(receiver)
        if limit is not None and len(self._unanswered.get(receiver, ())) >= limit:
            self.heed()
            if len(self._unanswered.get(receiver, ())) >= limit:
                raise ray.exceptions.PendingCallsLimitExceeded(
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

    def made(self, receiver: str, call_id: int, tags: Any) -> None:
        """A call was made; `tags` is the reference to the tags of its answer."""
        self._unanswered.setdefault(receiver, {})[tags] = call_id
        self._awaited.add(tags.task_id())  # which its result has too

    def is_unanswered(self, reference: Any) -> bool:
        """Whether `reference` is the outcome of a call of this driver, and this outcome has not arrived."""
        return reference.task_id() in self._awaited

    def hear(self, tags: Iterable[SnapshotId]) -> None:
        """This process got an outcome that may hold effects of open snapshots: its next messages carry this news.

        Takes no lock: Ray unpickles the outcome under one of Ray's locks, and `heed` needs that lock.
        """
        self._news.append(tuple(tags))

    def heed(self) -> None:
        """Tell the machine of answers that the user's code may have seen already."""
        while self._news:
            self._machine.handle(AnswerArrived(self._news.popleft()))
        for receiver, refs in tuple(self._unanswered.items()):
            if self._is_connected(receiver):
                ready, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0, fetch_local=False)
                for ref in ready:
                    del refs[ref]
                    self._awaited.discard(ref.task_id())
                if not refs:
                    del self._unanswered[receiver]
                for tags in _got(ready):
                    self._machine.handle(AnswerArrived(tuple(SnapshotId(*tag) for tag in unpack(tags)[1])))


def _got(refs: list[Any]) -> list[bytes]:
    """The tags that have arrived; calls that failed with their actor have no tags."""
    try:
        return [tags for tags in ray.get(refs) if tags]
    except ray.exceptions.RayError:  # the caller sees this error too: it holds a reference to the outcome
        return [] if len(refs) == 1 else [tags for ref in refs for tags in _got([ref])]
