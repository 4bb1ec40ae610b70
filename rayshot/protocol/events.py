"""Facts that a participant is told, in the past tense. An event with impossible numbers cannot be built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId


class Marker(NamedTuple):
    """Tells a receiver that `snapshot` cuts its channel behind message `sent`. Goes with batches until acknowledged."""

    snapshot: SnapshotId
    sent: int


@dataclass(frozen=True, slots=True)
class Begun:
    """The coordinator began a snapshot. All snapshots of that initiator with a counter below `floor` have ended.

    `inputs` are the senders whose markers an aligned snapshot waits for here. A stop-the-world snapshot is begun twice:
    first to pause the handlers, then to record when all processes are `quiet`.
    """

    snapshot: SnapshotId
    floor: int = 0
    inputs: frozenset[str] = frozenset()
    quiet: bool = False

    def __post_init__(self) -> None:
        assert self.floor >= 0, f"floor is {self.floor}, not at least 0"


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A handler of this process asked for a snapshot."""


@dataclass(frozen=True, slots=True)
class StateCaptured:
    """The state was captured between two handlers; these were the last numbers sent and processed per channel then.

    `owed` are, per driver, the numbers of its calls that were processed and not answered then.
    """

    snapshot: SnapshotId
    born: bool
    sent: Mapping[str, int]
    received: Mapping[str, int]
    owed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaptureFailed:
    """The state could not be captured, or the messages in flight that are stored here may not be kept."""

    snapshot: SnapshotId
    detail: str
    reason: AbortReason = AbortReason.CAPTURE_FAILED


@dataclass(frozen=True, slots=True)
class AlignmentTimedOut:
    """An aligned snapshot waited here as long as it may; from now on it is a Chandy-Lamport snapshot."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class HandlersPaused:
    """No handler runs any more; these were the last numbers sent."""

    snapshot: SnapshotId
    sent: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EverybodyRecorded:
    """All processes have recorded a stop-the-world snapshot: handlers may run again."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    """A snapshot was committed or aborted. All of that initiator with a counter below `floor` have ended."""

    snapshot: SnapshotId
    floor: int = 0

    def __post_init__(self) -> None:
        assert self.floor >= 0, f"floor is {self.floor}, not at least 0"


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """A snapshot's own deadline passed at this process, which must keep nothing more for it.

    Its end is not known here, so the process goes on telling others of the snapshot, but does not complete it.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """Messages `first` .. `first + count - 1` came from `sender`, with the markers due on that channel.

    A batch without messages brings markers, or is `closing`: the sender ends, and this is its last batch. `tags` come
    from drivers: snapshots whose effects the driver had seen before it sent this batch. `asked` is the number of the
    last message for whose answer the sender waits, or has waited; the machine does not look at it.
    """

    sender: str
    incarnation: int
    first: int
    count: int
    markers: tuple[Marker, ...] = ()
    tags: tuple[SnapshotId, ...] = ()
    closing: bool = False
    asked: int = 0

    def __post_init__(self) -> None:
        assert self.incarnation >= 1, f"incarnation is {self.incarnation}, not at least 1"
        assert self.first >= 1, f"first is {self.first}, not at least 1"
        assert self.count >= 0, f"count is {self.count}, not at least 0"
        for snapshot, sent in self.markers:
            assert sent >= 0, f"sent of {snapshot} is {sent}, not at least 0"


@dataclass(frozen=True, slots=True)
class BatchTaken:
    """The code that drives this machine took the next `count` messages from a channel's outbox to transport them."""

    receiver: str
    count: int

    def __post_init__(self) -> None:
        assert self.count >= 1, f"count is {self.count}, not at least 1"


@dataclass(frozen=True, slots=True)
class BatchAcknowledged:
    """The receiver has the messages up to `last` and the markers of the snapshots in `markers`.

    `recorded` are the snapshots that the receiver had recorded by then without knowing their end.
    """

    receiver: str
    last: int
    markers: tuple[SnapshotId, ...] = ()
    recorded: tuple[SnapshotId, ...] = ()

    def __post_init__(self) -> None:
        assert self.last >= 0, f"last is {self.last}, not at least 0"


@dataclass(frozen=True, slots=True)
class ReceiverReady:
    """The receiver said hello: messages that wait for it may be transported. Opens the channel if it is new."""

    receiver: str


@dataclass(frozen=True, slots=True)
class ReceiverEnded:
    """The receiver ended by its own wish; the channel to it no longer exists."""

    receiver: str


@dataclass(frozen=True, slots=True)
class DriverDied:
    """A driver is gone for ever: messages of it that arrived behind a gap are now dead letters."""

    driver: str


@dataclass(frozen=True, slots=True)
class DriversForgotten:
    """A stored cut that advances shows that this process had processed all messages that it took from dead drivers.

    So no message of these drivers is in flight here in that cut or any later one, and a rollback goes to one of these.
    Nothing is lost: what is not processed by now has been a dead letter since DriverDied. Nothing is processed twice or
    accepted late: the names stay, and whatever still comes from them is dropped until the next life, in which all that
    is under way now is stale.
    """

    drivers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Restored:
    """The process was loaded from a snapshot: a new incarnation whose counters continue at the cut.

    `sent` and `arrived` give n of each channel (messages in flight are in the receivers' mailboxes). `ended` are the
    senders among `arrived` that ended before the cut: nothing will follow their messages.
    """

    incarnation: int
    sent: Mapping[str, int] = field(default_factory=dict)
    arrived: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert self.incarnation >= 1, f"incarnation is {self.incarnation}, not at least 1"
        for name, number in (*self.sent.items(), *self.arrived.items()):
            assert number >= 0, f"{name} is {number}, not at least 0"


@dataclass(frozen=True, slots=True)
class EndRequested:
    """The process ends: `may_end` was true, no handler will run again, and no message in its mailbox is processed."""

    sent: Mapping[str, int]
    received: Mapping[str, int]


Event = (
    Begun
    | SnapshotRequested
    | StateCaptured
    | CaptureFailed
    | AlignmentTimedOut
    | HandlersPaused
    | EverybodyRecorded
    | SnapshotEnded
    | DeadlinePassed
    | BatchArrived
    | BatchTaken
    | BatchAcknowledged
    | ReceiverReady
    | ReceiverEnded
    | DriverDied
    | DriversForgotten
    | Restored
    | EndRequested
)
