"""Orders that a participant gives to the code that drives it, in the imperative."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.events import Marker
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record


@dataclass(frozen=True, slots=True)
class CaptureState:
    """Capture the state at the next moment between two handlers, then say StateCaptured or CaptureFailed.

    For each sender in `behind`, process the messages up to that number first. A process that ends and will process no
    more messages captures at once. A later order for the same snapshot replaces this one.
    """

    snapshot: SnapshotId
    behind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AwaitMarkers:
    """An aligned snapshot is open here and will be captured later: obey `limits` and the snapshot's deadline."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class PauseHandlers:
    """Let the running handler end, run and fire nothing while the machine is `paused`, and say HandlersPaused.

    Keep transporting what was sent, even if limits are exceeded.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class ReportQuiet:
    """Tell the coordinator that no handler runs here and that everything sent from here has arrived."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SendBatch:
    """Transport `count` messages, beginning with number `first`, with these markers.

    Count 0: a batch without messages. It carries markers, or it is the last batch, `closing`.
    """

    receiver: str
    first: int
    count: int
    markers: tuple[Marker, ...]
    closing: bool = False


@dataclass(frozen=True, slots=True)
class DeliverBatch:
    """Put the messages `first` .. `last` of `sender`, which arrived now or were held, into the mailbox."""

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

    `why` is "duplicate", "stale" (of another incarnation), "dead letter" (its sender died before earlier messages had
    arrived) or "ended" (this process has ended: the sender must be told, see ReceiverEnded).
    """

    sender: str
    first: int
    why: str


@dataclass(frozen=True, slots=True)
class ReportRecord:
    """Give the record, the captured state and the recorded messages of this process to the collector.

    The messages are, per receiver, released+1 .. sent, transported or not, and, per sender, received+1 .. arrived from
    the mailbox.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """Tell the collector that this process cannot give a record."""

    snapshot: SnapshotId
    detail: str
    reason: AbortReason = AbortReason.CAPTURE_FAILED


@dataclass(frozen=True, slots=True)
class ReportEnd:
    """Tell the coordinator that this process ends; `record` holds its final counters.

    It takes the place of a record in every snapshot that this process never learned of. It does not in the `unfinished`
    snapshots, which the process learned of and gave up.
    """

    record: Record
    unfinished: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class AnnounceSnapshot:
    """Tell the coordinator of a snapshot that this process began; its own snapshots below `floor` are over for it."""

    snapshot: SnapshotId
    floor: int = 0


@dataclass(frozen=True, slots=True)
class ForgetSnapshot:
    """Release what is kept only for this snapshot: see Participant.released."""

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
