"""A batch of messages that has left the outbox."""

from typing import TYPE_CHECKING, Any

from rayshot.protocol.events import Marker
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.channel.attached_references import Slots, size_of

if TYPE_CHECKING:
    from rayshot.runtime.wire.packets import Acks


class InFlight:
    """A batch that was transported and is not yet acknowledged. With count 0 it brings only markers, or is `closing`.

    `slots` are the slots of its messages, by message number; messages without slots are missing. `acks` are the answers
    to riders that leave with it, see `boarding`. If it is a rider itself, `rides_on` is the first message of the batch
    with whose answer it left; 0 if it left by a call.
    """

    __slots__ = ("acks", "body", "closing", "count", "first", "losses", "markers", "ref", "rides_on", "slots", "tags")

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
        self.losses = self.rides_on = 0
        self.acks: Acks = ()
        self.slots: Slots = {}
        self.ref: Any = None

    @property
    def last(self) -> int:
        """The number of its last message."""
        return self.first + self.count - 1

    @property
    def size(self) -> int:
        """Bytes of its messages and of the large arguments beside them."""
        return len(self.body) + size_of(self.slots) if self.slots else len(self.body)
