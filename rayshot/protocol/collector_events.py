"""What a collector is told, in the past tense, and what it orders, in the imperative."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import ALIGNED, CHANDY_LAMPORT, MODES, Channel, Mode, SnapshotId
from rayshot.protocol.record import Record


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    """Somebody outside the system, or the timer of periodic snapshots, asked for a snapshot.

    An aligned snapshot has `inputs` by process; these channels must have no cycle: see `forward_inputs`. Do not ask for
    a second aligned one while the collector `is_aligning`: each of them could hold back what the other waits for.
    """

    mode: Mode = CHANDY_LAMPORT
    inputs: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.mode in MODES, f"mode is {self.mode}, not one of {MODES}"
        assert self.mode == ALIGNED or not self.inputs, f"a {self.mode} snapshot waits for no inputs"


@dataclass(frozen=True, slots=True)
class SnapshotAnnounced:
    """`process` began a snapshot by itself; it has given up its own snapshots with counters below `floor`.

    `helpers` are the processes that are told to begin it too; None: all processes. With few helpers the snapshot
    spreads by its markers alone; if these do not reach all processes, AbortWanted ends it.
    """

    snapshot: SnapshotId
    process: str
    floor: int = 0
    helpers: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RecordArrived:
    """A process's record arrived, and its state is stored safely."""

    record: Record


@dataclass(frozen=True, slots=True)
class ProcessQuiet:
    """In a process that a stop-the-world snapshot paused, all its sent messages have arrived."""

    snapshot: SnapshotId
    process: str


@dataclass(frozen=True, slots=True)
class ProcessJoined:
    """A process said hello.

    To the successor of a lost coordinator the process names the `open_snapshots` that it gave up (DeadlinePassed). All
    of these have ended, and every process is told.
    """

    process: str
    open_snapshots: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """A process ended by its own wish and left its last record, which is not used for the `unfinished` snapshots."""

    record: Record
    unfinished: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessDied:
    """A process died."""

    process: str
    detail: str


@dataclass(frozen=True, slots=True)
class CaptureRefused:
    """A process cannot give a record."""

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

    While the snapshot is being stored, only the reasons of the code that stores it count (STORE_UNAVAILABLE,
    OBJECT_MISSING, DOES_NOT_LOAD, KEYS_MISSING, FENCED, DEFECT): it may be durable already.
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
    """Tell the process only to record; it may have recorded already."""

    process: str
    snapshot: SnapshotId
    floor: int
    inputs: frozenset[str] = frozenset()
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The cut is complete and checked: write it, then say SnapshotStored or AbortWanted.

    If a stop-the-world snapshot paused processes, tell them at once (EverybodyRecorded).
    """

    cut: Cut


@dataclass(frozen=True, slots=True)
class AnnounceEnd:
    """Tell every process, every driver and all waiting callers that it ended; `reason` is None if it was committed.

    The snapshot may never have begun here: its announcement is late, or a coordinator that was lost began it.

    All snapshots of its initiator with a counter below `floor` have ended as well.

    `missing` are the processes that had not answered, `open_channels` the channels that had not closed.
    `past_drivers` names, by process, the dead drivers that the process may forget from now on (DriversForgotten).
    """

    snapshot: SnapshotId
    reason: AbortReason | None
    detail: str = ""
    missing: tuple[str, ...] = ()
    open_channels: tuple[Channel, ...] = ()
    floor: int = 0
    past_drivers: Mapping[str, frozenset[str]] = field(default_factory=dict)


CollectorEffect = SendBegin | StoreSnapshot | AnnounceEnd
