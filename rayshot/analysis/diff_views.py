"""The changes between two snapshots: values that changed, how channels moved, and which messages moved on.

A snapshot is compared with the one before it, or with the one in the option `from`. Changes are shown only if the first
cut is before the second in one life. Any other pair has one row, with only its `relation`; if the user asked for this
pair alone, it is an error.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.message_rows import MessageRow
from rayshot.analysis.pairs import ActorPair, ChannelPair, NoStep, Pair, actor_pairs, channel_pairs
from rayshot.analysis.view import EVERY, Column, View, typed_columns
from rayshot.snapshots.diff import ABSENT, ValueChange, actor_changes
from rayshot.snapshots.snapshot import Snapshot

SENT, PROCESSED, WAITED, GONE = "sent", "processed", "waited", "gone"


@dataclass
class ValueRow:
    """One value that changed; without an actor the pair is not a step."""

    pair: Pair
    actor: str | None = None
    attribute: str | None = None
    change: str | None = None
    old: Any = ABSENT
    new: Any = ABSENT

    @cached_property
    def old_json(self) -> tuple[str | None, bool]:
        """The value before in JSON, None if there was none, and whether it was cut."""
        return (None, False) if self.old is ABSENT else values.in_json(self.old)

    @cached_property
    def new_json(self) -> tuple[str | None, bool]:
        """As `old_json`, for the value after."""
        return (None, False) if self.new is ABSENT else values.in_json(self.new)


class MoveRow(NamedTuple):
    """How one channel moved; None means not known."""

    pair: Pair
    sender: str | None = None
    receiver: str | None = None
    sent: int | None = None
    processed: int | None = None
    waited: int | None = None
    in_flight_before: int | None = None
    in_flight_after: int | None = None


class MessageMoveRow(NamedTuple):
    """What happened to one message; its content is known if it is in flight in either snapshot."""

    pair: Pair
    sender: str | None = None
    receiver: str | None = None
    number: int | None = None
    change: str | None = None
    content: MessageRow | None = None


def _value_rows(pair: Pair, actor: ActorPair | NoStep) -> Iterator[ValueRow]:
    if isinstance(actor, NoStep):
        yield ValueRow(pair)
        return
    for value in actor_changes(actor.old, actor.new, pair.old, pair.new):
        yield ValueRow(pair, actor.name, values.sound_text(value.name), _change(value), *value.shown)


def _change(value: ValueChange) -> str:
    if value.old is ABSENT:
        return "added"
    return "removed" if value.new is ABSENT else "changed"


def _move_rows(pair: Pair, channel: ChannelPair | NoStep) -> Iterator[MoveRow]:
    if isinstance(channel, NoStep):
        yield MoveRow(pair)
        return
    old, new = channel.old, channel.new
    sent, received = (old.sent, old.received) if old else (0, 0)
    if new is None:  # one of its ends is gone, and nothing says how far the channel came
        yield MoveRow(pair, channel.sender, channel.receiver, None, None, 0, sent - received, 0)
        return
    yield MoveRow(
        pair,
        channel.sender,
        channel.receiver,
        new.sent - sent,
        new.received - received,
        max(0, sent - new.received),
        sent - received,
        new.sent - new.received,
    )


def _message_rows(pair: Pair, channel: ChannelPair | NoStep) -> Iterator[MessageMoveRow]:
    if isinstance(channel, NoStep):
        yield MessageMoveRow(pair)
        return
    for change, number, content in _moves(pair, channel):
        yield MessageMoveRow(pair, channel.sender, channel.receiver, number, change, content)


def _moves(pair: Pair, channel: ChannelPair) -> Iterator[tuple[str, int, MessageRow | None]]:
    """(change, number, content) of messages in flight before or sent since; two for one both sent and processed."""
    old, new = channel.old, channel.new
    sent = old.sent if old else 0
    if new is None:
        ended = channel.receiver in pair.new.manifest.ended
        for row in _in_flight(pair.old, channel):
            yield GONE if ended else PROCESSED, row.message.number, row
        return
    if old is not None and new.received > old.received:
        for row in takewhile(lambda one: one.message.number <= new.received, _in_flight(pair.old, channel)):
            yield PROCESSED, row.message.number, row
    for number in range(sent + 1, new.received + 1):
        yield SENT, number, None
        yield PROCESSED, number, None
    for row in _in_flight(pair.new, channel):
        yield WAITED if row.message.number <= sent else SENT, row.message.number, row


def _in_flight(snapshot: Snapshot, channel: ChannelPair) -> Iterable[MessageRow]:
    state = snapshot.channel(channel.sender, channel.receiver)
    return (MessageRow.of(state, message) for message in state.iterate())


def _there(side: str) -> Callable[[ValueRow], Any]:
    """Read the value of that side; None if there is none."""

    def look(row: ValueRow) -> Any:
        value = getattr(row, side)
        return None if value is ABSENT else value

    return look


def _content(cell: Callable[[MessageRow], Any]) -> Callable[[Any, MessageMoveRow], Any]:
    """The cell of a message if its content is known, else null."""
    return lambda _, row: None if row.content is None else cell(row.content)


_PAIR_COLUMNS = (
    Column("from_snapshot", "string", "the snapshot that it is compared with", lambda _, row: str(row.pair.old.id)),
    Column(
        "relation",
        "string",
        "the relation of `from_snapshot` to it: before, equal; if after, incomparable or other life, the rest is null",
        lambda _, row: row.pair.relation.name,
    ),
)

_VALUE_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.actor),
    Column(
        "attribute",
        "string",
        "its name, or `(class)`, `(status)`, `(calls)`, `(timers)`, or `(state)` if the state is not a dict of texts",
        lambda _, row: row.attribute,
    ),
    Column("change", "string", "changed, added or removed", lambda _, row: row.change),
    Column(
        "old",
        "string",
        "the value before, as JSON; null if it did not exist",
        lambda _, row: row.old_json[0],
        json=True,
    ),
    Column(
        "new",
        "string",
        "the value after, as JSON; null if it does not exist",
        lambda _, row: row.new_json[0],
        json=True,
    ),
    *(column for side in ("old", "new") for column in typed_columns(_there(side), side)),
    Column(
        "truncated",
        "boolean",
        "whether a cell of the row leaves anything out",
        lambda _, row: None if row.actor is None else row.old_json[1] or row.new_json[1],
    ),
)

_CHANNEL_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.receiver),
)

_MOVE_COLUMNS = (
    Column(
        "sent",
        "bigint",
        "messages sent between the two; null if one end of the channel has ended",
        lambda _, row: row.sent,
    ),
    Column("processed", "bigint", "messages processed between the two; null like `sent`", lambda _, row: row.processed),
    Column("waited", "bigint", "messages in flight in both", lambda _, row: row.waited),
    Column("in_flight_before", "bigint", "sent - received before", lambda _, row: row.in_flight_before),
    Column("in_flight_after", "bigint", "sent - received after", lambda _, row: row.in_flight_after),
)

_MESSAGE_COLUMNS = (
    Column("number", "bigint", "its number on the channel", lambda _, row: row.number),
    Column(
        "change",
        "string",
        "sent, processed (two rows if both), waited in both; gone if it waited and its receiver ended",
        lambda _, row: row.change,
    ),
    Column(
        "kind",
        "string",
        "as in `messages`; null if it is in flight in neither snapshot",
        _content(attrgetter("message.kind")),
    ),
    Column(
        "method",
        "string",
        "empty for a reply; null like `kind`",
        _content(lambda row: values.sound_text(row.message.method)),
    ),
    Column("args", "string", "as a JSON array; null like `kind`", _content(lambda row: row.args[0]), json=True),
    Column("kwargs", "string", "as a JSON object; null like `kind`", _content(lambda row: row.kwargs[0]), json=True),
    Column(
        "truncated",
        "boolean",
        "whether `args` or `kwargs` leaves anything out; null as before",
        _content(lambda row: row.args[1] or row.kwargs[1]),
    ),
)


def _bytes(entry: ActorPair | ChannelPair | NoStep) -> int:
    return 0 if isinstance(entry, NoStep) else entry.bytes


DIFF_VIEWS = (
    View(
        "state_diff",
        "one row for each value that changed between a snapshot and the one before it",
        (*EVERY, *_PAIR_COLUMNS, *_VALUE_COLUMNS),
        _value_rows,
        actor_pairs,
        weigh=_bytes,
        options=("actor",),
        subject="step",
    ),
    View(
        "channel_diff",
        "one row for each channel of a snapshot or the one before it: what happened on it",
        (*EVERY, *_PAIR_COLUMNS, *_CHANNEL_COLUMNS, *_MOVE_COLUMNS),
        _move_rows,
        channel_pairs,
        options=("sender", "receiver"),
        subject="step",
    ),
    View(
        "message_diff",
        "one row for each message that was sent, processed or waiting between a snapshot and the one before it",
        (*EVERY, *_PAIR_COLUMNS, *_CHANNEL_COLUMNS, *_MESSAGE_COLUMNS),
        _message_rows,
        channel_pairs,
        weigh=_bytes,
        options=("sender", "receiver"),
        subject="step",
    ),
)
