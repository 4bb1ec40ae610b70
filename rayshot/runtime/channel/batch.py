"""A batch of messages that has left the outbox."""

from typing import Any

from rayshot.protocol.events import Marker
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.channel.attached_references import Slots, size_of


class InFlight:
    """A batch that was transported and is not yet acknowledged. With count 0 it brings only markers, or is `closing`.

    `slots` are the slots of its messages, by message number; messages without slots are missing.
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
        """Bytes of its messages and of the large arguments beside them."""
        return len(self.body) + size_of(self.slots) if self.slots else len(self.body)
