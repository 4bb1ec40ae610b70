"""What an outbox works with: batches, who receives them, and the process that it belongs to."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rayshot.errors import MessageTooLarge
from rayshot.format.codec import Codec
from rayshot.protocol.events import Marker
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.beside import Slots, size_of
from rayshot.runtime.wire import Answer

if TYPE_CHECKING:  # outbox.py imports this module
    from rayshot.runtime.outbox import OutChannel


class Peer(Protocol):
    """The receiver's Ray methods, bound."""

    receive: Callable[[bytes], Any]
    receive_with: Callable[..., Any]
    """As `receive`, with what lies beside the messages; see `beside`."""
    probe: Callable[[Any], Any]
    """Does nothing with an object: fails where it is not to be had there."""
    await_credit: Callable[[str, int], Any]


class InFlight:
    """A batch that was transported and is not yet acknowledged. Count 0: it brings markers, or is the `closing` one.

    `slots` are those of its messages that have any, by their numbers.
    """

    __slots__ = ("body", "closing", "count", "first", "losses", "markers", "ref", "slots", "tags")

    def __init__(
        self,
        first: int,
        count: int,
        body: bytes,
        markers: tuple[Marker, ...],
        tags: tuple[SnapshotId, ...],
        *,
        closing: bool = False,
    ) -> None:
        self.first = first
        self.count = count
        self.body = body
        self.markers = markers
        self.tags = tags
        self.closing = closing
        self.losses = 0
        self.slots: Slots = {}
        self.ref: Any = None

    @property
    def last(self) -> int:
        """The number of its last message."""
        return self.first + self.count - 1

    @property
    def size(self) -> int:
        """Bytes of its messages, and of the large arguments beside them."""
        return len(self.body) + size_of(self.slots) if self.slots else len(self.body)


class Sender(Protocol):
    """What an outbox asks of the process it belongs to; all but `lost` are called under the lock."""

    name: str
    codec: Codec
    draining: bool
    """All that was sent leaves, as far as the receivers' credit goes and beyond."""

    def taken(self, receiver: str, count: int) -> InFlight:
        """Tell the machine that the next `count` messages are taken; returns the batch without its body."""

    def renewed(self, receiver: str, batch: InFlight) -> None:
        """Put the markers that are due now on a batch that is sent again."""

    def packed(self, batch: InFlight) -> bytes:
        """The batch as a packet."""

    def acknowledged(self, receiver: str, last: int, batch: InFlight, answer: Answer) -> int:
        """The receiver took the batch, and everything up to `last`. Returns up to where nothing is needed any more."""

    def refused(self, receiver: str, answer: Answer) -> None:
        """The receiver takes nothing: it stopped or ended."""

    def lost(self, receiver: str, error: Exception) -> bool:
        """A call failed. Says whether the receiver may still be there, and the batch is to be sent again."""

    def congested(self, channel: "OutChannel") -> None:
        """The outbox of this channel is above its limit, and this thread has sent the last message."""

    def kept(self) -> None:
        """Batches that were acknowledged are kept, as a record may need them."""

    def undeliverable(self, channel: "OutChannel", messages: Sequence[bytes], detail: str) -> None:
        """These messages have no receiver any more."""

    def connect(self, channel: "OutChannel") -> None:
        """Look the receiver up, in the background, and call `connected`."""


def encode_tells(
    codec: Codec, tells: list[list[Any]], undeliverable: Callable[[list[bytes], str], None]
) -> list[bytes]:
    """Encode tells of few arguments, all at once. One that is too large is left out, and told of by its method.

    It has an integer of that size, which was not looked at when it was sent, for speed.
    """
    try:
        return codec.tell_all(tells)
    except MessageTooLarge:
        encoded = []
        for method, *args in tells:
            try:
                encoded.append(codec.tell(method, args))
            except MessageTooLarge as error:
                undeliverable([codec.tell(method, ())], error.message)
        return encoded
