"""Orders that a participant gives to whoever drives it, in the imperative."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Record
from rayshot.protocol.events import Marker
from rayshot.protocol.identity import SnapshotId


@dataclass(frozen=True, slots=True)
class CaptureState:
    """Capture the state at the next moment between two handlers, then say StateCaptured or CaptureFailed.

    Of each sender in `behind` the messages up to that number are to be processed before; a process that ends, and
    will process none any more, captures at once. A later order for the same snapshot takes the place of this one.
    """

    snapshot: SnapshotId
    behind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AwaitMarkers:
    """An aligned snapshot is open here, to be captured later: obey `limits`, and its deadline."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class PauseHandlers:
    """Let the running handler end, run and fire nothing while the machine is `paused`, and say HandlersPaused.

    What was sent goes on to be transported, whatever limits there are.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class ReportQuiet:
    """Tell the coordinator that no handler runs here, and that all that was sent has arrived."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Transport `count` messages from number `first` on with these markers.

    Count 0: a batch without messages, for its markers, or the last one, `closing`.
    """

    receiver: str
    first: int
    count: int
    markers: tuple[Marker, ...]
    closing: bool = False


@dataclass(frozen=True, slots=True)
class DeliverBatch:
    """Put the messages `first` .. `last` of `sender`, which arrived now or are held, into the mailbox."""

    sender: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class HoldBatch:
    """Hold this batch back: messages before it are still missing."""

    sender: str
    first: int


@dataclass(frozen=True, slots=True)
class DropBatch:
    """Drop this batch.

    `why` is "duplicate", "stale" (of another incarnation), "dead letter" (its sender died before what came before it
    arrived) or "ended" (this process has ended: the sender must be told, see ReceiverEnded).
    """

    sender: str
    first: int
    why: str


@dataclass(frozen=True, slots=True)
class ReportRecord:
    """Hand the record, the captured state and the messages that lie here to the collector.

    These are, per receiver, the messages released+1 .. sent, be they transported or not, and, per sender, the mailbox's
    received+1 .. arrived.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """Tell the collector that this process gives no record."""

    snapshot: SnapshotId
    detail: str
    reason: AbortReason = AbortReason.CAPTURE_FAILED


@dataclass(frozen=True, slots=True)
class ReportEnd:
    """Tell the coordinator that this process ends; `record` holds its final counters.

    It stands in for the record in every snapshot that this process never learned of, but not in the `unfinished`
    ones, which it learned of and gave up.
    """

    record: Record
    unfinished: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class AnnounceSnapshot:
    """Tell the coordinator of a snapshot that this process began; those it began below `floor` are over for it."""

    snapshot: SnapshotId
    floor: int = 0


@dataclass(frozen=True, slots=True)
class ForgetSnapshot:
    """Release what is kept for the snapshot alone: see Participant.released."""

    snapshot: SnapshotId


Effect = (
    CaptureState
    | AwaitMarkers
    | PauseHandlers
    | ReportQuiet
    | SendBatch
    | DeliverBatch
    | HoldBatch
    | DropBatch
    | ReportRecord
    | ReportFailure
    | ReportEnd
    | AnnounceSnapshot
    | ForgetSnapshot
)
