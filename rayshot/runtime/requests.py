"""Snapshots as those see them who asked for one and who wait for one: the coordinator's notes beside the Collector."""

import threading
from dataclasses import dataclass, field

from rayshot.errors import RayshotError, SnapshotAborted
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector import AnnounceEnd
from rayshot.store.records import CommitRecord


@dataclass(slots=True)
class Request:
    """Somebody waits for a snapshot. `record` or `error` is there when `done` is set.

    `initiators` are the actors that were asked to begin it, `helpers` those whom the coordinator tells (None: all).
    """

    mode: str
    label: str | None = None
    initiators: tuple[str, ...] = ()
    helpers: frozenset[str] | None = None
    done: threading.Event = field(default_factory=threading.Event)
    record: CommitRecord | None = None
    error: RayshotError | None = None

    def settle(self, outcome: CommitRecord | RayshotError) -> None:
        """Let the one who waits go on."""
        if isinstance(outcome, RayshotError):
            self.error = outcome
        else:
            self.record = outcome
        self.done.set()


@dataclass(slots=True)
class UnderWay:
    """One snapshot under way. Times by time.monotonic but `taken_at`, which is seconds since 1970.

    `aligning`: if it is an aligned one, nobody was told yet to stop waiting.
    """

    began: float
    taken_at: float
    deadline: float
    request: Request
    hold_s: list[float] = field(default_factory=list)
    state_bytes: int = 0
    aligning: bool = True
    recorded_s: float | None = None


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


def never_begun(request: Request) -> SnapshotAborted:
    """The actor that was asked to begin did not come to it in time."""
    initiator = request.initiators[0]
    return SnapshotAborted(
        f"actor {initiator!r} was asked to begin a snapshot and had not done so when its time was up: does a handler "
        "of it take long? See system.status()",
        reason=AbortReason.TIMEOUT.value,
        missing=(initiator,),
    )
