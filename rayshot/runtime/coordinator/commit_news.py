"""Which actors hear of each durable snapshot at once, and who has not done yet what follows from one outside."""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rayshot.errors import RayshotError
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.wire.host_identity import Abandoned

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer

log = logging.getLogger("rayshot")
SETTLE_S = 60.0
"""A stop waits so many seconds for what follows outside from its savepoint."""
OWED_MAX = 100
"""Of each actor that is behind so many snapshots are known, the oldest among them."""


class OutsideFigures(NamedTuple):
    """What an actor has not done yet outside.

    It is behind `snapshot`, the oldest durable one from which something follows, since `seconds`; `trouble` says why it
    failed last, "" if it did not.
    """

    snapshot: SnapshotId
    seconds: float
    trouble: str


@dataclass(slots=True)
class _Owed:
    """What an actor owes: by snapshot, in the order of their commits, since when, by time.monotonic."""

    since: dict[SnapshotId, float] = field(default_factory=dict)
    trouble: str = ""


class CommitNews:
    """See the module. Call everything under the system's lock, except `await_settled` and `behind_s`, which take it.

    `advanced` is the newest snapshot of this life that was committed and advances. `failures` counts what was tried
    outside in vain.
    """

    def __init__(self, members: Members, committer: "Committer", lock: SystemLock) -> None:
        self.advanced: SnapshotId | None = None
        self.failures = 0
        self._members, self._committer, self._lock = members, committer, lock
        self._following: set[str] = set()
        self._owed: dict[str, _Owed] = {}
        self._changed, self._is_over = threading.Event(), False

    def follow(self, name: str, *, taken_by_itself: bool) -> None:
        """Tell this actor of each snapshot that advances from now on, and of the last one.

        Snapshots are `taken_by_itself`, or somebody asks for them.
        """
        if not (taken_by_itself or self._following):
            log.warning(
                "%s: answers with durable=True, and rows of sinks, wait for the next snapshot, and somebody must ask "
                "for it, as interval_s of the SnapshotConfig is None",
                name,
            )
        self._following.add(name)
        if self.advanced is not None:
            self._members.tell(name, "advanced", self.advanced)

    def committed(self, snapshot: SnapshotId, settling: set[str]) -> None:
        """A snapshot was committed, and advances. From it follows something outside, at the `settling` actors."""
        self.advanced = snapshot
        self.owe(snapshot, settling)
        for name in sorted(self._following | settling):
            self._members.tell(name, "advanced", snapshot)

    def take_over(self, answers: Mapping[str, Abandoned], savepoint: SnapshotId | None, there: Iterable[str]) -> None:
        """Another coordinator led the life: learn from the actors who is behind.

        With a `savepoint` the system was stopped: of the actors with something outside `there` nobody knows what those
        did that do not answer.
        """
        now = time.monotonic()
        for name, answer in answers.items():
            if (due := answer.outside) is not None:
                since = {snapshot: now - seconds for snapshot, seconds in due.owed.items()}
                since |= {one: now for one in (self.advanced, savepoint) if one is not None and one in due.told}
                if since:
                    self._owed[name] = _Owed(since, due.trouble)
        if savepoint is not None:
            self.owe(savepoint, {*there} - answers.keys())

    def owe(self, snapshot: SnapshotId, settling: Iterable[str]) -> None:
        """This snapshot is durable, or the actors go on from it: they have something to do outside."""
        for name in () if self._committer.is_look else settling:
            since = self._owed.setdefault(name, _Owed()).since
            since[snapshot] = time.monotonic()
            if len(since) > OWED_MAX:
                del since[tuple(since)[1]]

    def give_up_durable(self, error: RayshotError) -> None:
        """No snapshot can be taken: who waits for a durable answer hears why."""
        for name in sorted(self._following):
            self._members.tell(name, "give_up_durable", error)

    def settled(self, name: str, snapshot: SnapshotId, trouble: str) -> None:
        """An actor has done all that follows from this snapshot and earlier ones; or not yet, for that `trouble`."""
        owed = self._owed.get(name)
        if owed is None or snapshot not in owed.since:  # it was said before
            return
        owed.trouble = trouble
        if trouble:
            self.failures += 1
            return
        for older in tuple(owed.since):
            del owed.since[older]
            if older == snapshot:
                break
        if not owed.since:
            del self._owed[name]
        self._changed.set()

    def forget(self, name: str) -> None:
        """The actor has ended."""
        self._following.discard(name)
        self._owed.pop(name, None)
        self._changed.set()

    def end(self) -> None:
        """The life is over: nobody settles any more."""
        self._is_over = True
        self._changed.set()

    def await_settled(self) -> tuple[str, ...]:
        """Wait until all is done outside that follows from durable snapshots, SETTLE_S seconds at most.

        Returns the actors that have not done it, sorted. Takes the lock.
        """
        until = time.monotonic() + SETTLE_S
        while True:
            with self._lock:
                self._changed.clear()
                late = tuple(sorted(self._owed))
            if not late or self._is_over or not self._changed.wait(max(0.0, until - time.monotonic())):
                return late

    @property
    def behind_s(self) -> float:
        """For how many seconds some actor is behind; 0 if none is. Takes the lock."""
        with self._lock:
            return max((one.seconds for one in self.figures().values()), default=0.0)

    def figures(self) -> Mapping[str, OutsideFigures]:
        """What each actor that is behind has not done yet."""
        now, found = time.monotonic(), {}
        for name, owed in self._owed.items():
            snapshot, since = next(iter(owed.since.items()))
            found[name] = OutsideFigures(snapshot, now - since, owed.trouble)
        return found
