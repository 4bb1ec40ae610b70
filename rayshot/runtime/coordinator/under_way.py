"""Snapshots under way, and their ends: the coordinator's notes beside the Collector."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.errors import Fenced, KeysMissing, LogLost, NoAnswer, SnapshotAborted, StateNotSerializable, StoreError
from rayshot.format.figures import FINAL, FOLLOWS
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import AnnounceEnd
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.runtime.coordinator.intake import Gathered
from rayshot.runtime.coordinator.requests import Request

log = logging.getLogger("rayshot")

KEYS_MISSING = (
    "the coordinator was started anew, and found its keys neither in the environment of its node nor with a vault: "
    "attach with rayshot.resume, from a program that has them"
)
STORE_S = 20.0
"""A storage that answers ends what is being stored by then, behind its time-out."""

UNSAID_S = 2.0


class Taken(NamedTuple):
    """A snapshot that was recorded, as its manifest says; `timeout_s` is what is left to write it.

    `stats` are figures, of the time until it was recorded and of the recording; `final` where its system stops with it.
    `recorded` has for each actor how long it was stopped, and after how many seconds its record had arrived.
    """

    mode: str
    label: str | None
    taken_at: float
    stats: Mapping[str, int | float]
    recorded: Mapping[str, tuple[float, float]]
    timeout_s: float


@dataclass(slots=True)
class UnderWay:
    """One snapshot under way. Times by time.monotonic but `taken_at`, which is seconds since 1970.

    `follows` is the position of the last commit before it began, None where that is not known. `aligning`: if it is an
    aligned one, nobody was told yet to stop waiting.
    """

    began: float
    taken_at: float
    deadline: float
    request: Request
    follows: int | None = None
    aligning: bool = True
    recorded_s: float | None = None

    def loses_patience(self, now: float, patience_s: float | None) -> bool:
        """Whether it has aligned for as long as it may; True once."""
        if patience_s is None or not self.aligning or now < self.began + patience_s:
            return False
        self.aligning = False
        return True

    def taken(self, gathered: Gathered) -> Taken:
        """What its commit says of it, with the figures of what was gathered."""
        figures = {
            "recorded_s": self.recorded_s or 0.0,
            **gathered.stats(),
            **({FOLLOWS: self.follows} if self.follows is not None else {}),
            **({FINAL: 1} if self.request.order.final else {}),
        }
        remaining_s = max(1.0, self.deadline - time.monotonic())
        recorded = {name: (hold_s, max(0.0, at - self.began)) for name, (hold_s, at) in gathered.recorded.items()}
        return Taken(self.request.mode, self.request.order.label, self.taken_at, figures, recorded, remaining_s)

    def keep_nobody_waiting(self, snapshot: SnapshotId, now: float) -> None:
        """Let the one who waits go on where the storage does not end although its time is up."""
        if now >= self.deadline + STORE_S:
            self.request.refuse(
                NoAnswer(
                    f"the storage has not answered until {STORE_S:g} s behind the time-out of snapshot {snapshot}: it "
                    f"may still be committed; system.snapshots() shows it then",
                    snapshot=str(snapshot),
                )
            )

    def status(self, missing: tuple[str, ...], open_channels: tuple[Channel, ...]) -> dict[str, Any]:
        """Where it stands, for `Coordinator.status`."""
        return {
            "seconds": time.monotonic() - self.began,
            "recorded": self.recorded_s is not None,
            "missing": missing,
            "open_channels": open_channels,
        }


def abort_error(end: AnnounceEnd) -> SnapshotAborted:
    """What the one who waits gets for a snapshot that ended without a commit."""
    assert end.reason is not None
    waiting = f"; not recorded: {', '.join(end.missing)}" if end.missing else ""
    channels = f"; open channels: {', '.join(map(str, end.open_channels))}" if end.open_channels else ""
    return SnapshotAborted(
        f"snapshot {end.snapshot} was aborted ({end.reason.value}): {end.detail}{waiting}{channels}",
        snapshot=str(end.snapshot),
        reason=end.reason.value,
        detail=end.detail,
        missing=end.missing,
        open_channels=tuple(map(tuple, end.open_channels)),
    )


def why_unwritten(snapshot: SnapshotId, error: Exception) -> tuple[AbortReason, str]:
    """Why a snapshot is not committed, after the committer raised `error`."""
    match error:
        case Fenced():
            return AbortReason.FENCED, error.message
        case KeysMissing():
            return AbortReason.KEYS_MISSING, error.message
        case StoreError() | LogLost():
            return AbortReason.STORE_UNAVAILABLE, error.message
        case StateNotSerializable():
            return AbortReason.OBJECT_MISSING, error.message
        case _:
            log.error("snapshot %s could not be written, a defect of rayshot", snapshot, exc_info=error)
            return AbortReason.DEFECT, repr(error)


def keys_missing() -> SnapshotAborted:
    """What the one gets who asks for a snapshot that could not be written for want of keys."""
    return SnapshotAborted(f"no snapshot was begun: {KEYS_MISSING}", reason=AbortReason.KEYS_MISSING.value)


def over_before_begun(snapshot: SnapshotId) -> SnapshotAborted:
    """What the one who waits gets where news overtook each other: an actor refused what it was told of too early."""
    detail = "an actor refused it, or gave it up, before the coordinator heard that it had begun"
    return abort_error(AnnounceEnd(snapshot, AbortReason.CAPTURE_FAILED, detail))


class Ends:
    """The ends of snapshots that whoever joins must know: others may still send it markers of them.

    That one was committed everybody learns in time from the beginning of the next one, whose floor is above it. So it
    is announced by itself only when it is UNSAID_S old: until then actors tag what they send, and that is all.
    """

    def __init__(self) -> None:
        self._floors: dict[SnapshotId, int] = {}
        self._unsaid: dict[SnapshotId, float] = {}
        self.leaving: set[str] = set()

    def leave_unsaid(self, snapshot: SnapshotId, now: float) -> tuple[str, ...]:
        """A coordinator's snapshot was committed. Returns the actors that must hear of it at once."""
        self._unsaid[snapshot] = now + UNSAID_S
        return tuple(self.leaving)

    def say_at_once(self, name: str) -> list[tuple[SnapshotId, int]]:
        """An actor waits for ends, now and from now on. Returns what it must hear."""
        self.leaving.add(name)
        return [(snapshot, self._floors.get(snapshot, 0)) for snapshot in self._unsaid]

    def said(self, initiator: str, floor: int) -> None:
        """All were told that what this initiator began with a counter below `floor` is over."""
        for snapshot in [k for k in self._unsaid if k.initiator == initiator and k.counter < floor]:
            del self._unsaid[snapshot]

    def overdue(self, now: float) -> list[tuple[SnapshotId, int]]:
        """Snapshots and floors to announce now, as no other one has begun."""
        due = [snapshot for snapshot, when in self._unsaid.items() if when <= now]
        for snapshot in due:
            del self._unsaid[snapshot]
        return [(snapshot, self._floors.get(snapshot, 0)) for snapshot in due]

    def add(self, snapshot: SnapshotId, floor: int) -> None:
        """A snapshot ended, and with it all of its initiator below `floor`."""
        self._floors[snapshot] = floor
        over = [k for k in self._floors if k.initiator == snapshot.initiator and k.counter < floor and k != snapshot]
        for k in over:
            del self._floors[k]

    def known(self) -> list[tuple[SnapshotId, int]]:
        """Snapshots and floors, which together say of all that ended that they did."""
        return list(self._floors.items())
