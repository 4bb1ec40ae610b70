"""Facts that are told to a participant, in the past tense. An event with impossible numbers cannot be built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId


class Marker(NamedTuple):
    """Tells a receiver where `snapshot` cuts its channel: behind message `sent`. Rides on batches till acknowledged."""

    snapshot: SnapshotId
    sent: int


@dataclass(frozen=True, slots=True)
class Begun:
    """The coordinator began a snapshot. All by that initiator with a counter below `floor` have ended.

    `inputs` are the senders with whose markers an aligned snapshot is aligned here. A stop-the-world snapshot is begun
    twice: to pause the handlers, and to record when everybody is `quiet`.
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
    """The state was captured between two handlers; these were the last numbers sent and processed per channel."""

    snapshot: SnapshotId
    born: bool
    sent: Mapping[str, int]
    received: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CaptureFailed:
    """The state could not be captured, or the messages in flight that lie here may not be kept."""

    snapshot: SnapshotId
    detail: str
    reason: AbortReason = AbortReason.CAPTURE_FAILED


@dataclass(frozen=True, slots=True)
class AlignmentTimedOut:
    """An aligned snapshot waited here for as long as it may: from now on it is a Chandy-Lamport one."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class HandlersPaused:
    """No handler runs any more, and these were the last numbers sent."""

    snapshot: SnapshotId
    sent: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EverybodyRecorded:
    """All have recorded a stop-the-world snapshot: handlers may run again."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    """A snapshot was committed or aborted. All by that initiator with a counter below `floor` have ended."""

    snapshot: SnapshotId
    floor: int = 0

    def __post_init__(self) -> None:
        assert self.floor >= 0, f"floor is {self.floor}, not at least 0"


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """A snapshot's own deadline at this process passed: what is kept for it is too much by now.

    Its end is not known, so that the process goes on telling others of it, but will not complete it.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """Messages `first` .. `first + count - 1` came from `sender`, with the markers due on that channel.

    A batch without messages brings markers, or is `closing`: the sender ends and this is its last one. `tags` come from
    drivers: snapshots whose effects the driver saw before it sent this.
    """

    sender: str
    incarnation: int
    first: int
    count: int
    markers: tuple[Marker, ...] = ()
    tags: tuple[SnapshotId, ...] = ()
    closing: bool = False

    def __post_init__(self) -> None:
        assert self.incarnation >= 1, f"incarnation is {self.incarnation}, not at least 1"
        assert self.first >= 1, f"first is {self.first}, not at least 1"
        assert self.count >= 0, f"count is {self.count}, not at least 0"
        for snapshot, sent in self.markers:
            assert sent >= 0, f"sent of {snapshot} is {sent}, not at least 0"


@dataclass(frozen=True, slots=True)
class BatchTaken:
    """The driver of this machine took the next `count` messages from the outbox of a channel, to transport them."""

    receiver: str
    count: int

    def __post_init__(self) -> None:
        assert self.count >= 1, f"count is {self.count}, not at least 1"


@dataclass(frozen=True, slots=True)
class BatchAcknowledged:
    """The receiver has the messages up to `last` and the markers of the snapshots `markers`.

    `recorded` are the snapshots that it had recorded by then, and of whose end it did not know.
    """

    receiver: str
    last: int
    markers: tuple[SnapshotId, ...] = ()
    recorded: tuple[SnapshotId, ...] = ()

    def __post_init__(self) -> None:
        assert self.last >= 0, f"last is {self.last}, not at least 0"


@dataclass(frozen=True, slots=True)
class ReceiverReady:
    """The receiver said hello: what waits for it may be transported. Opens the channel where nothing was sent yet."""

    receiver: str


@dataclass(frozen=True, slots=True)
class ReceiverEnded:
    """The receiver ended by its own wish; the channel to it is no more."""

    receiver: str


@dataclass(frozen=True, slots=True)
class DriverDied:
    """A driver is gone for ever: what came from it and lies behind a gap has become dead letters."""

    driver: str


@dataclass(frozen=True, slots=True)
class DriversForgotten:
    """Of these dead drivers a stored cut that advances shows that this process had processed all that it took of them.

    So nothing of them is in flight here in that cut or any later one, and a rollback goes to one of these. Nothing is
    lost: what is not processed by now was a dead letter since DriverDied. Nothing is doubled or accepted late: the
    names stay, and drop whatever still comes, until the next life, in which all that is under way now is stale.
    """

    drivers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Restored:
    """The process was loaded from a snapshot: a new incarnation whose counters continue at the cut.

    `sent` and `arrived` are n of each channel (what was in flight lies in the receivers' mailboxes). `ended` are the
    senders among `arrived` that ended before the cut: nothing will follow what they sent.
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
    """The process ends: `may_end` was true, no handler will run again, and all who wait in its mailbox wait in vain."""

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
