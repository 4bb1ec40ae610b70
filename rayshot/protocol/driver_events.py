"""What the machine of a driver is told, and what it orders."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded, SnapshotEnded
from rayshot.protocol.identity import Owed, SnapshotId


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    """An answer came from a process; `tags` are the snapshots that were open there.

    It answers message `number` to `receiver`, and was given in the life `incarnation` of the system. Number 0: an
    answer that a program cannot see, such as the acknowledgement of a batch. `late`: the receiver may answer such a
    call after later ones. `answer` is what it said, as bytes that differ if two answers differ; b"": it is not to be
    compared. `again`: the program does not get it, as it has another one of an earlier life, or an error.
    """

    tags: tuple[SnapshotId, ...]
    receiver: str = ""
    number: int = 0
    incarnation: int = 1
    late: bool = False
    answer: bytes = b""
    again: bool = False

    def __post_init__(self) -> None:
        assert self.number >= 0, f"number is {self.number}, not at least 0"
        assert self.incarnation >= 1, f"incarnation is {self.incarnation}, not at least 1"


@dataclass(frozen=True, slots=True)
class ActorMade:
    """The driver made an actor: message 1 to it is its creation. Until its process has this, the actor is starting."""

    name: str


@dataclass(frozen=True, slots=True)
class ActorsMentioned:
    """Message `number` to the receiver, which has not been taken yet, mentions actors that this driver made."""

    receiver: str
    number: int
    actors: frozenset[str]


@dataclass(frozen=True, slots=True)
class CallMade:
    """A driver that keeps what it sent made a call as message `number`, and its outcome is being fetched."""

    receiver: str
    call_id: int
    number: int

    def __post_init__(self) -> None:
        assert self.number >= 1, f"number is {self.number}, not at least 1"


@dataclass(frozen=True, slots=True)
class OutcomeCame:
    """The outcome of a call came, given in the life `incarnation`, with the snapshots that were open there.

    Life 0: the outcome does not say, so it is that in which it was asked for. `late`, `answer` and `again` are as in
    AnswerArrived.
    """

    receiver: str
    call_id: int
    tags: tuple[SnapshotId, ...] = ()
    incarnation: int = 0
    late: bool = False
    answer: bytes = b""
    again: bool = False


@dataclass(frozen=True, slots=True)
class OutcomeLost:
    """The fetch of an outcome failed with the receiver's process."""

    receiver: str
    call_id: int


@dataclass(frozen=True, slots=True)
class MessagesHanded:
    """All messages to a receiver up to `last` have left in this life: it can be asked for outcomes of those again."""

    receiver: str
    last: int


@dataclass(frozen=True, slots=True)
class CutCommitted:
    """A durable snapshot that advances holds all messages up to these numbers, keyed by receiver.

    `received` says up to which numbers they are processed there, and `owed` which calls among these are not answered.
    Messages to `ended` processes that were not processed stay dead letters for ever.
    """

    snapshot: SnapshotId
    sent: Mapping[str, int]
    ended: frozenset[str] = frozenset()
    received: Mapping[str, int] = field(default_factory=dict)
    owed: Owed = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_numbers(self.sent, self.received)


@dataclass(frozen=True, slots=True)
class SystemRolledBack:
    """The system went back to a cut: a new incarnation begins, in which these numbers of this driver are known.

    `received` and `owed` are as in CutCommitted. The `ended` processes have ended in the cut, and nothing is sent to
    them again.
    """

    incarnation: int
    sent: Mapping[str, int]
    ended: frozenset[str] = frozenset()
    received: Mapping[str, int] = field(default_factory=dict)
    owed: Owed = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.incarnation >= 1, f"incarnation is {self.incarnation}, not at least 1"
        _check_numbers(self.sent, self.received)


def _check_numbers(*several: Mapping[str, int]) -> None:
    for name, number in (item for numbers in several for item in numbers.items()):
        assert number >= 0, f"{name} is {number}, not at least 0"


@dataclass(frozen=True, slots=True)
class EvictionOffer:
    """What a driver could evict: by receiver, messages that arrived in this life, and answers given in it.

    Of the calls up to `received`, those that are `owed` are not answered.
    """

    sent: Mapping[str, int]
    received: Mapping[str, int]
    owed: Owed = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OfferTaken:
    """From now on the system goes back to no cut without this: the driver evicts it."""

    incarnation: int
    offer: EvictionOffer


DriverEvent = (
    BatchTaken
    | BatchAcknowledged
    | ReceiverEnded
    | SnapshotEnded
    | AnswerArrived
    | ActorMade
    | ActorsMentioned
    | CallMade
    | OutcomeCame
    | OutcomeLost
    | MessagesHanded
    | CutCommitted
    | OfferTaken
    | SystemRolledBack
)


@dataclass(frozen=True, slots=True)
class SendTagged:
    """Transport messages `first` .. `first + count - 1` under this incarnation with these tags."""

    receiver: str
    incarnation: int
    first: int
    count: int
    tags: tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class ReleaseMessages:
    """Nobody can need the messages up to `last` again: release them."""

    receiver: str
    last: int


@dataclass(frozen=True, slots=True)
class FetchAgain:
    """Ask the receiver for the outcome of a call that it handles again in this life: message `number`."""

    receiver: str
    call_id: int
    number: int


@dataclass(frozen=True, slots=True)
class TellOfChange:
    """Tell the program: it got the answer `before` of message `number`, and this life gave `now`.

    Behind the first answer the driver sent message `first` at first: its receiver, and its number there.
    """

    receiver: str
    number: int
    before: bytes
    now: bytes
    first: tuple[str, int]


DriverEffect = SendTagged | ReleaseMessages | FetchAgain | TellOfChange
