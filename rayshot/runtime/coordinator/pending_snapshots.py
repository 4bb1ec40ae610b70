"""Snapshots under way, and their ends: what the coordinator notes in addition to the Collector."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.errors import (
    Fenced,
    KeysMissing,
    LogLost,
    NoAnswer,
    OutsideFailed,
    SnapshotAborted,
    StateNotSerializable,
    StoreError,
)
from rayshot.format.entries import Outside
from rayshot.format.manifest import FINAL, FOLLOWS
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AnnounceEnd
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.runtime.coordinator.report_intake import Gathered
from rayshot.runtime.coordinator.requests import PendingRequest

log = logging.getLogger("rayshot")

KEYS_MISSING = (
    "the coordinator was started anew, and found its keys neither in the environment of its node nor with a vault: "
    "attach with rayshot.resume, from a program that has them"
)
STORE_S = 20.0
"""If the storage answers at all, it finishes a write at most so many seconds after the snapshot's time-out."""

NAMED_MAX = 5
"""An abort names so many actors that hold it up, and counts the others."""
UNSAID_S = 2.0

Abort = Callable[[SnapshotId, AbortReason, str], None]
AskWhy = Callable[[], Mapping[str, tuple[Any, ...] | None]]
"""Gives the answer of `Host.progress` of each actor that is missing."""


class Taken(NamedTuple):
    """A recorded snapshot, with the values for its manifest; `timeout_s` are the seconds left to write it.

    `stats` has the seconds until it was recorded, the figures of the recording, and `final` if the system stops with
    it. `recorded` has for each actor how many seconds it was stopped, and after how many seconds its record arrived.
    `outside` has what classes fixed outside, by actor.
    """

    mode: str
    label: str | None
    taken_at: float
    stats: Mapping[str, int | float]
    recorded: Mapping[str, tuple[float, float]]
    outside: Mapping[str, Outside]
    timeout_s: float


@dataclass(slots=True)
class PendingSnapshot:
    """A snapshot under way. Times are by time.monotonic, except `taken_at`, which is seconds since 1970.

    `follows` is the position of the last commit before it began; None if that is not known. `aligning`: for an aligned
    snapshot, the actors were not told yet to stop waiting. `is_late`: its time is over, and it is about to be aborted.
    """

    began: float
    taken_at: float
    deadline: float
    request: PendingRequest
    follows: int | None = None
    aligning: bool = True
    recorded_s: float | None = None
    is_late: bool = False

    @property
    def given_up_at(self) -> float:
        """Nobody waits for the storage any longer than until this time."""
        return self.deadline + STORE_S

    def give_up(self, snapshot: SnapshotId, timeout_s: float, ask: AskWhy, abort: Abort) -> None:
        """Abort it, unless it is being stored: its time is over. Who holds it up says so first, on a thread."""
        if not self.is_late:
            self.is_late = True
            threading.Thread(target=_give_up, args=(snapshot, timeout_s, ask, abort), daemon=True).start()

    def loses_patience(self, now: float, patience_s: float | None) -> bool:
        """Whether it has aligned for `patience_s` seconds or more. Returns True only once."""
        if patience_s is None or not self.aligning or now < self.began + patience_s:
            return False
        self.aligning = False
        return True

    def taken(self, gathered: Gathered) -> Taken:
        """The values for its commit, with the figures of the gathered reports."""
        figures = {
            "recorded_s": self.recorded_s or 0.0,
            **gathered.stats(),
            **({FOLLOWS: self.follows} if self.follows is not None else {}),
            **({FINAL: 1} if self.request.order.final else {}),
        }
        remaining_s = max(1.0, self.deadline - time.monotonic())
        recorded = {name: (hold_s, max(0.0, at - self.began)) for name, (hold_s, at) in gathered.recorded.items()}
        wanted, of = self.request, (self.taken_at, figures, recorded, gathered.outside, remaining_s)
        return Taken(wanted.mode, wanted.order.label, *of)

    def keep_nobody_waiting(self, snapshot: SnapshotId, now: float) -> None:
        """Let the waiting thread go on if the storage has not finished STORE_S seconds after the deadline."""
        if now >= self.given_up_at:
            self.request.refuse(
                NoAnswer(
                    f"the storage has not answered until {STORE_S:g} s behind the time-out of snapshot {snapshot}: it "
                    f"may still be committed; system.snapshots() shows it then",
                    snapshot=str(snapshot),
                )
            )

    def status(self, missing: tuple[str, ...], open_channels: tuple[Channel, ...]) -> dict[str, Any]:
        """The progress of the snapshot, for `Coordinator.status`."""
        return {
            "seconds": time.monotonic() - self.began,
            "recorded": self.recorded_s is not None,
            "missing": missing,
            "open_channels": open_channels,
        }


def _give_up(snapshot: SnapshotId, timeout_s: float, ask: AskWhy, abort: Abort) -> None:
    answers = ask()
    runs = [f"{of[1]} of {name!r} has run for {of[2]:.0f} s" for name, of in sorted(answers.items()) if of and of[1]]
    more = f" and {len(runs) - NAMED_MAX} more" if len(runs) > NAMED_MAX else ""
    why = f": {', '.join(runs[:NAMED_MAX])}{more}" if runs else ""
    abort(snapshot, AbortReason.TIMEOUT, f"not durable after {timeout_s:g} s{why}")


def abort_error(end: AnnounceEnd) -> SnapshotAborted:
    """The error for a program that waits for a snapshot which ended without a commit."""
    assert end.reason is not None
    waiting = f"; not recorded: {', '.join(end.missing)}" if end.missing else ""
    channels = f"; open channels: {', '.join(map(str, end.open_channels))}" if end.open_channels else ""
    kind = OutsideFailed if end.reason is AbortReason.OUTSIDE_FAILED else SnapshotAborted
    return kind(
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
        case StateNotSerializable() if error.evidence.get("loads") is False:
            return AbortReason.DOES_NOT_LOAD, error.message
        case StateNotSerializable():
            return AbortReason.OBJECT_MISSING, error.message
        case _:
            log.error("snapshot %s could not be written, a defect of rayshot", snapshot, exc_info=error)
            return AbortReason.DEFECT, repr(error)


def keys_missing() -> SnapshotAborted:
    """The error for a program that asks for a snapshot which could not be written, because keys are missing."""
    return SnapshotAborted(f"no snapshot was begun: {KEYS_MISSING}", reason=AbortReason.KEYS_MISSING.value)


def over_before_begun(snapshot: SnapshotId) -> SnapshotAborted:
    """The error if an actor's refusal of a snapshot arrived before the announcement of this snapshot."""
    detail = "an actor refused it, or gave it up, before the coordinator heard that it had begun"
    return abort_error(AnnounceEnd(snapshot, AbortReason.CAPTURE_FAILED, detail))


class Ends:
    """The ends of snapshots. An actor that joins must know them, because others may still send it their markers.

    All actors learn that a snapshot was committed from the begin of the next one, whose floor is above it. So the
    coordinator announces a commit itself only when it is UNSAID_S seconds old. Until then the actors tag their
    messages, which is the only cost.
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
        """An actor waits for the ends of snapshots from now on. Returns the ends that it must hear now."""
        self.leaving.add(name)
        return [(snapshot, self._floors.get(snapshot, 0)) for snapshot in self._unsaid]

    def said(self, initiator: str, floor: int) -> None:
        """All actors were told that the snapshots of this initiator with a counter below `floor` are over."""
        for snapshot in [k for k in self._unsaid if k.initiator == initiator and k.counter < floor]:
            del self._unsaid[snapshot]

    def overdue(self, now: float) -> list[tuple[SnapshotId, int]]:
        """Snapshots and floors that must be announced now, because no later snapshot has begun."""
        due = [snapshot for snapshot, when in self._unsaid.items() if when <= now]
        for snapshot in due:
            del self._unsaid[snapshot]
        return [(snapshot, self._floors.get(snapshot, 0)) for snapshot in due]

    def add(self, snapshot: SnapshotId, floor: int) -> None:
        """A snapshot ended, and with it all snapshots of its initiator below `floor`."""
        self._floors[snapshot] = floor
        over = [k for k in self._floors if k.initiator == snapshot.initiator and k.counter < floor and k != snapshot]
        for k in over:
            del self._floors[k]

    def known(self) -> list[tuple[SnapshotId, int]]:
        """Snapshots and floors that together name all snapshots that ended."""
        return list(self._floors.items())
