"""The table of messages in flight."""

from collections.abc import Iterator, Sequence

from rayshot.analysis import values
from rayshot.analysis.message_rows import PART_BYTES, PART_MESSAGES, PARTS_MAX, MessagePart, MessageRow
from rayshot.analysis.view import EVERY, Block, Column, View, channel_bytes, channels
from rayshot.format.entries import ChannelEntry
from rayshot.snapshots.snapshot import Snapshot


def message_parts(snapshot: Snapshot) -> list[MessagePart]:
    """The channels, in parts of about PART_MESSAGES messages or PART_BYTES, from their counters and sizes."""
    return [part for entry in channels(snapshot) for part in _cut(entry)]


def _cut(entry: ChannelEntry) -> Iterator[MessagePart]:
    """The parts of a channel: at least one, even if nothing is in flight."""
    count, size = entry.sent - entry.received, channel_bytes(entry)
    wanted = max(count // PART_MESSAGES, size // PART_BYTES)
    length = -(-count // max(1, min(wanted, PARTS_MAX)))
    for first in range(entry.received + 1, max(entry.sent, entry.received + 1) + 1, max(1, length)):
        last = min(first + length - 1, entry.sent)
        yield MessagePart(entry, first, last, size * (last + 1 - first) // max(1, count))


def _message_rows(snapshot: Snapshot, part: MessagePart) -> Iterator[MessageRow]:
    channel = snapshot.channel(part.sender, part.receiver)
    for frame in channel.frames(part.first, part.last):
        for message in channel.decode(frame):
            yield MessageRow.of(channel, message)


def _message_blocks(snapshot: Snapshot, part: MessagePart, columns: Sequence[Column]) -> Iterator[Block]:
    from rayshot.analysis.frames import message_blocks  # noqa: PLC0415 - needs msgspec, which may be missing

    return message_blocks(snapshot, part, columns)


_MESSAGE_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.channel.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.channel.receiver),
    Column("number", "bigint", "its number on the channel", lambda _, row: row.message.number),
    Column(
        "part",
        "string",
        "where it waited: in the receiver's mailbox or in the sender's outbox",
        lambda _, row: row.part,
    ),
    Column("kind", "string", "tell, call, reply or create", lambda _, row: row.message.kind),
    Column(
        "call_id",
        "bigint",
        "the caller's number for a call, which its reply has too; null for other messages",
        lambda _, row: values.as_long(row.message.call_id),
    ),
    Column("method", "string", "empty for a reply", lambda _, row: values.sound_text(row.message.method)),
    Column("args", "string", "as a JSON array", lambda _, row: row.args[0], json=True),
    Column("kwargs", "string", "as a JSON object", lambda _, row: row.kwargs[0], json=True),
    Column(
        "truncated",
        "boolean",
        "whether a cell of the row leaves anything out",
        lambda _, row: row.args[1] or row.kwargs[1],
    ),
)

MESSAGE_VIEWS = (
    View(
        "messages",
        "one row for each message in flight",
        (*EVERY, *_MESSAGE_COLUMNS),
        _message_rows,
        message_parts,
        weigh=lambda part: part.cost_bytes,
        options=("sender", "receiver"),
        blocks=_message_blocks,
    ),
)
