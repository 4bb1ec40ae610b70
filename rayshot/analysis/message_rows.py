"""One message in flight, and the parts of a channel that tasks read."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.format.codec import RecordedMessage
from rayshot.format.entries import ChannelEntry
from rayshot.inert.redaction import shown_call
from rayshot.protocol.identity import Channel
from rayshot.snapshots.channel_state import ChannelState

PART_MESSAGES = 100_000
PART_BYTES = 16 << 20
PARTS_MAX = 1_000
"""The largest number of parts of one channel, whatever its counters say."""
MESSAGE_COST_BYTES = PART_BYTES // PART_MESSAGES + 1
"""The cost of reading a message, in bytes read."""


class MessagePart(NamedTuple):
    """The messages `first` .. `last` of a channel, together `bytes` large: the smallest share of a task."""

    entry: ChannelEntry
    first: int
    last: int
    bytes: int

    @property
    def sender(self) -> str:
        """The sender of the channel."""
        return self.entry.sender

    @property
    def receiver(self) -> str:
        """The receiver of the channel."""
        return self.entry.receiver

    @property
    def cost_bytes(self) -> int:
        """The cost of reading it: its bytes, or the cost of many small messages if that is more."""
        return max(self.bytes, (self.last + 1 - self.first) * MESSAGE_COST_BYTES)


@dataclass
class MessageRow:
    """One message in flight."""

    channel: Channel
    part: str
    message: RecordedMessage

    @classmethod
    def of(cls, channel: ChannelState, message: RecordedMessage) -> "MessageRow":
        """The row of a message of `channel`."""
        return cls(channel.channel, "mailbox" if message.number <= channel.arrived else "outbox", message)

    @cached_property
    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with placeholders for values that are named like secrets."""
        return shown_call(self.message.method, self.message.args, self.message.kwargs)

    @cached_property
    def args(self) -> tuple[str, bool]:
        """The arguments in JSON, and whether they were cut."""
        return values.in_json(self.call[0])

    @cached_property
    def kwargs(self) -> tuple[str, bool]:
        """As `args`, for the keyword arguments."""
        return values.in_json(self.call[1])
