"""What was in flight."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.view import EVERY, Column, View, channel_bytes, channels
from rayshot.format.codec import RecordedMessage
from rayshot.format.manifest import ChannelEntry
from rayshot.format.redaction import shown_call
from rayshot.protocol.identity import Channel
from rayshot.store.snapshot import Snapshot


class MessageRow(NamedTuple):
    """One message in flight."""

    channel: Channel
    part: str
    message: RecordedMessage

    @property
    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with what stands for those that are named like secrets."""
        return shown_call(self.message.method, self.message.args, self.message.kwargs)


def _message_rows(snapshot: Snapshot, entry: ChannelEntry) -> Iterable[MessageRow]:
    channel = snapshot.channel(entry.sender, entry.receiver)
    for message in channel.iterate():
        yield MessageRow(channel.channel, "mailbox" if message.number <= channel.arrived else "outbox", message)


_MESSAGE_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.channel.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.channel.receiver),
    Column("number", "bigint", "its number on the channel", lambda _, row: row.message.number),
    Column("part", "string", "where it waited: the receiver's mailbox, the sender's outbox", lambda _, row: row.part),
    Column("kind", "string", "tell, call, reply or create", lambda _, row: row.message.kind),
    Column("method", "string", "empty for a reply", lambda _, row: values.sound_text(row.message.method)),
    Column("args", "string", "as a JSON array", lambda _, row: values.as_json(row.call[0]), json=True),
    Column("kwargs", "string", "as a JSON object", lambda _, row: values.as_json(row.call[1]), json=True),
)

MESSAGE_VIEWS = (
    View(
        "messages",
        "one row for each message in flight",
        (*EVERY, *_MESSAGE_COLUMNS),
        _message_rows,
        channels,
        weigh=channel_bytes,
        options=("sender", "receiver"),
    ),
)
