"""What a collector hears, in the past tense, and what it orders, in the imperative."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Cut, Record
from rayshot.protocol.identity import Channel, SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    """Somebody outside the system, or its rhythm, asked for a snapshot.

    With `inputs`, by process, it is an aligned one; these channels must have no cycle: see `forward_inputs`. One at a
    time: while the collector `is_aligning`, each of two could hold back what the other one waits for. `stopped`: a
    stop-the-world one.
    """

    inputs: Mapping[str, frozenset[str]] | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotAnnounced:
    """`process` began a snapshot by itself, and has given up those it began with counters below `floor`.

    `helpers` are who begin it too when told to, None for everybody. With few of them it spreads by its markers alone,
    and ends by AbortWanted where these do not reach all.
    """

    snapshot: SnapshotId
    process: str
    floor: int = 0
    helpers: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RecordArrived:
    """A process's record arrived and its state is held safely."""

    record: Record


@dataclass(frozen=True, slots=True)
class ProcessQuiet:
    """In a process that a stop-the-world snapshot paused all that was sent has arrived."""

    snapshot: SnapshotId
    process: str


@dataclass(frozen=True, slots=True)
class ProcessJoined:
    """A process said hello.

    To a successor of a lost coordinator it names the `open_snapshots` that it gave up (DeadlinePassed): all of these
    have ended, and everybody is told.
    """

    process: str
    open_snapshots: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """A process ended by its own wish and left its last record, which stands in for none of the `unfinished`."""

    record: Record
    unfinished: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessDied:
    """A process died."""

    process: str
    detail: str


@dataclass(frozen=True, slots=True)
class CaptureRefused:
    """A process gives no record."""

    snapshot: SnapshotId
    process: str
    detail: str
    reason: AbortReason = AbortReason.CAPTURE_FAILED


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """The commit record of the snapshot was written."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class AbortWanted:
    """The snapshot must end without a commit, for this reason.

    While it is being stored only the verdicts of the one who stores it count (STORE_UNAVAILABLE, OBJECT_MISSING,
    FENCED, DEFECT): it may be durable already.
    """

    snapshot: SnapshotId
    reason: AbortReason
    detail: str


CollectorEvent = (
    SnapshotWanted
    | SnapshotAnnounced
    | RecordArrived
    | ProcessJoined
    | ProcessQuiet
    | ProcessEnded
    | ProcessDied
    | CaptureRefused
    | SnapshotStored
    | AbortWanted
)


@dataclass(frozen=True, slots=True)
class SendBegin:
    """Tell the process to record. Orders nothing else: it may have recorded already."""

    process: str
    snapshot: SnapshotId
    floor: int
    inputs: frozenset[str] = frozenset()
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The cut is complete and checked: write it, then say SnapshotStored or AbortWanted.

    Tell those whom a stop-the-world snapshot has paused at once (EverybodyRecorded).
    """

    cut: Cut


@dataclass(frozen=True, slots=True)
class AnnounceEnd:
    """Tell every process, every driver and whoever waits that it ended; `reason` is None when it was committed.

    It may never have begun here: then its announcement is late, or it was begun by a coordinator that was lost.

    All snapshots of its initiator with a counter below `floor` have ended as well.

    `missing` are the processes that had not answered, `open_channels` the channels that had not closed.
    `past_drivers` are, by process, the dead drivers that it may forget from now on (DriversForgotten).
    """

    snapshot: SnapshotId
    reason: AbortReason | None
    detail: str = ""
    missing: tuple[str, ...] = ()
    open_channels: tuple[Channel, ...] = ()
    floor: int = 0
    past_drivers: Mapping[str, frozenset[str]] = field(default_factory=dict)


CollectorEffect = SendBegin | StoreSnapshot | AnnounceEnd
