"""What travels between simulated actors, and what one hands in with its record."""

from collections.abc import Mapping
from typing import NamedTuple

from rayshot.format.pickled import PickledState
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.events import BatchArrived


class ActorPacket(NamedTuple):
    """A batch on its way: what the receiver's machine will hear, and the encoded messages."""

    receiver: str
    batch: BatchArrived
    messages: tuple[bytes, ...]

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.batch.first + self.batch.count - 1

    def __str__(self) -> str:
        count, first = self.batch.count, self.batch.first
        what = "a marker" if count == 0 else f"message {first}" if count == 1 else f"messages {first} .. {self.last}"
        return f"{self.batch.sender} -> {self.receiver}: {'its end' if self.batch.closing else what}"


class RecordContent(NamedTuple):
    """What travels with a record: the pickled state (None before birth), and messages by the other end.

    `outboxes` end with the last message sent, `mailboxes` begin with the first one not yet processed.
    """

    specification: ActorSpecification | None
    state: PickledState | None
    outboxes: Mapping[str, tuple[bytes, ...]]
    mailboxes: Mapping[str, tuple[bytes, ...]]
