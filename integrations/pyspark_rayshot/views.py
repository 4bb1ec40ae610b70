"""The tables that snapshots are read as. What a view has and what its columns hold is said here and nowhere else.

A view takes the entries of a manifest (its actors, or its channels), and gives rows for each of them; a column takes
its cell out of a row. Only the columns that are asked for are computed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark_rayshot import values
from rayshot.errors import ConfigError
from rayshot.format.codec import RecordedMessage
from rayshot.format.manifest import ActorEntry, ChannelEntry
from rayshot.format.redaction import shown, shown_call
from rayshot.protocol.identity import Channel
from rayshot.store.diff import WHOLE_STATE
from rayshot.store.snapshot import Snapshot
from rayshot.store.state import captured_bytes


class EntryOption(NamedTuple):
    """An option that selects entries: the field of the entry that it is compared with, and what it says."""

    field: str
    about: str


ENTRY_OPTIONS: Mapping[str, EntryOption] = MappingProxyType(
    {
        "actor": EntryOption("name", "the name of an actor"),
        "sender": EntryOption("sender", "the name of an actor, or a driver as driver:ID"),
        "receiver": EntryOption("receiver", "the name of an actor"),
    }
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type as Spark spells it, what it holds, and how it comes out of a snapshot and a row."""

    name: str
    type: str
    about: str
    cell: Callable[[Snapshot, Any], Any]

    @property
    def ddl(self) -> str:
        """The column as Spark reads it."""
        comment = self.about.replace("'", r"\'")
        return f"{self.name} {self.type} COMMENT '{comment}'"


@dataclass(frozen=True, slots=True)
class View:
    """One table.

    `rows` gives the rows of one entry (None stands for the snapshot itself); `entries` the entries of a
    snapshot, None where the snapshot itself is the only one; `weigh` tells roughly how many bytes are read for
    one entry; `options` are those of ENTRY_OPTIONS that apply.
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    rows: Callable[[Snapshot, Any], Iterable[Any]]
    entries: Callable[[Snapshot], Sequence[Any]] | None = None
    weigh: Callable[[Any], int] = lambda _: 0
    options: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it; each column's comment says what it holds."""
        return ", ".join(column.ddl for column in self.columns)

    def columns_named(self, names: Iterable[str]) -> list[Column]:
        """The columns of those names, in their order."""
        known = {column.name: column for column in self.columns}
        return [known[name] for name in names]

    def check_schema(self, wanted: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError unless the view has all columns `wanted`, given as (name, type)."""
        known = {column.name: column for column in self.columns}
        if not wanted:
            raise ConfigError(f"the schema has no columns; the view {self.name!r} has {', '.join(known)}")
        if len({name for name, _ in wanted}) < len(wanted):
            raise ConfigError(f"the schema names a column twice: {', '.join(name for name, _ in wanted)}")
        for name, kind in wanted:
            if name not in known:
                raise ConfigError(
                    f"the view {self.name!r} has no column {name!r} ({kind}); it has {', '.join(known)}",
                    column=name,
                    exists=list(known),
                )
            if known[name].type != kind:
                raise ConfigError(
                    f"the column {name!r} of the view {self.name!r} is {known[name].type}, not {kind}; "
                    "read it as that and cast it",
                    column=name,
                    expected=known[name].type,
                    value=kind,
                )


class AttributeRow(NamedTuple):
    """One attribute of an actor's state."""

    actor: str
    attribute: str
    value: Any

    @property
    def shown(self) -> Any:
        """The value, or what stands for one that is named like a secret."""
        return shown(self.attribute, self.value)


class MessageRow(NamedTuple):
    """One message in flight."""

    channel: Channel
    part: str
    message: RecordedMessage

    @property
    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with what stands for those that are named like secrets."""
        return shown_call(self.message.method, self.message.args, self.message.kwargs)


def _attribute_rows(snapshot: Snapshot, actor: ActorEntry) -> Iterable[AttributeRow]:
    if actor.state is None:
        return
    state = snapshot.state(actor.name)
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        yield AttributeRow(actor.name, WHOLE_STATE, state)
        return
    for name, value in state.items():
        yield AttributeRow(actor.name, values.sound_text(name), value)


def _message_rows(snapshot: Snapshot, entry: ChannelEntry) -> Iterable[MessageRow]:
    channel = snapshot.channel(entry.sender, entry.receiver)
    for message in channel.iterate():
        yield MessageRow(channel.channel, "mailbox" if message.number <= channel.arrived else "outbox", message)


def _whole(snapshot: Snapshot, _: None) -> Iterable[Snapshot]:
    return (snapshot,)


def _itself(_: Snapshot, entry: Any) -> Iterable[Any]:
    return (entry,)


def _actors(snapshot: Snapshot) -> Sequence[ActorEntry]:
    return snapshot.manifest.actors


def _channels(snapshot: Snapshot) -> Sequence[ChannelEntry]:
    return snapshot.manifest.channels


def _channel_bytes(entry: ChannelEntry) -> int:
    return sum(blob.size for blob in entry.all_blobs())


_EVERY = (
    Column("system", "string", "the system's name", lambda snapshot, _: snapshot.system),
    Column("snapshot", "string", "the snapshot's id", lambda snapshot, _: str(snapshot.id)),
    Column("position", "bigint", "its place in the commit log: later is higher", lambda snapshot, _: snapshot.position),
    Column("taken_at", "timestamp", "when it was taken", lambda snapshot, _: snapshot.taken_at),
)

_SNAPSHOT_COLUMNS = (
    Column("label", "string", "a person's word for a savepoint", lambda _, row: row.label),
    Column("mode", "string", "the protocol that took it", lambda _, row: row.mode),
    Column("actors", "bigint", "how many actors", lambda _, row: len(row.manifest.actors)),
    Column("channels", "bigint", "how many channels", lambda _, row: len(row.manifest.channels)),
    Column("in_flight", "bigint", "messages in flight on all channels", lambda _, row: row.in_flight),
    Column("bytes", "bigint", "size in the store, shared chunks included", lambda _, row: row.size_bytes),
    Column("chunks", "bigint", "how many chunks", lambda _, row: len(row.manifest.chunks)),
    Column("rayshot_version", "string", "what took it", lambda _, row: row.manifest.rayshot_version),
    Column("python_version", "string", "what it ran on", lambda _, row: row.manifest.python_version),
    Column(
        "stats",
        "map<string,double>",
        "durations, sizes and counts from when it was taken",
        lambda _, row: [(name, float(number)) for name, number in row.stats.items()],
    ),
)

_ACTOR_COLUMNS = (
    Column("actor", "string", "its name", lambda _, row: row.name),
    Column("class_name", "string", "module.Class", lambda _, row: f"{row.class_module}.{row.class_name}"),
    Column("status", "string", "born or unborn; only a born actor has a state", lambda _, row: row.status),
    Column("state_bytes", "bigint", "its state as it was pickled", lambda _, row: captured_bytes(row.state)),
    Column("methods", "array<string>", "what can be sent to it", lambda _, row: list(row.methods)),
)

_STATE_COLUMNS = (
    Column("actor", "string", "whose state", lambda _, row: row.actor),
    Column(
        "attribute",
        "string",
        f"the attribute's name; `{WHOLE_STATE}` where a state is no dict of attributes",
        lambda _, row: row.attribute,
    ),
    Column("type", "string", "the value's class", lambda _, row: values.type_name(row.value)),
    Column("bytes", "bigint", "what the value holds, shared parts once", lambda _, row: values.size_bytes(row.value)),
    Column("value", "string", "as JSON; what does not fit is marked", lambda _, row: values.as_json(row.shown)),
    Column("value_long", "bigint", "an integer of up to 64 bits", lambda _, row: values.as_long(row.shown)),
    Column("value_double", "double", "a float; a wider integer, rounded", lambda _, row: values.as_double(row.shown)),
    Column(
        "value_string",
        "string",
        f"a text of up to {values.TEXT_LENGTH_MAX:,} characters",
        lambda _, row: values.as_string(row.shown),
    ),
    Column("value_bool", "boolean", "a truth value", lambda _, row: values.as_bool(row.shown)),
)

_CHANNEL_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.receiver),
    Column("sent", "bigint", "number of the last message sent before the cut", lambda _, row: row.sent),
    Column("arrived", "bigint", "of the last one that had come to the mailbox", lambda _, row: row.arrived),
    Column("received", "bigint", "of the last one processed before the cut", lambda _, row: row.received),
    Column("in_flight", "bigint", "sent - received", lambda _, row: row.sent - row.received),
    Column("bytes", "bigint", "of the messages in flight", lambda _, row: _channel_bytes(row)),
)

_MESSAGE_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.channel.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.channel.receiver),
    Column("number", "bigint", "its number on the channel", lambda _, row: row.message.number),
    Column("part", "string", "where it waited: the receiver's mailbox, the sender's outbox", lambda _, row: row.part),
    Column("kind", "string", "tell, call, reply or create", lambda _, row: row.message.kind),
    Column("method", "string", "empty for a reply", lambda _, row: values.sound_text(row.message.method)),
    Column("args", "string", "as a JSON array", lambda _, row: values.as_json(row.call[0])),
    Column("kwargs", "string", "as a JSON object", lambda _, row: values.as_json(row.call[1])),
)

_ALL = (
    View("snapshots", "one row for each snapshot", (*_EVERY, *_SNAPSHOT_COLUMNS), _whole),
    View(
        "actors",
        "one row for each actor of each snapshot",
        (*_EVERY, *_ACTOR_COLUMNS),
        _itself,
        _actors,
        options=("actor",),
    ),
    View(
        "state",
        "one row for each attribute of each actor",
        (*_EVERY, *_STATE_COLUMNS),
        _attribute_rows,
        _actors,
        weigh=lambda entry: captured_bytes(entry.state),
        options=("actor",),
    ),
    View(
        "channels",
        "one row for each channel that was ever used",
        (*_EVERY, *_CHANNEL_COLUMNS),
        _itself,
        _channels,
        options=("sender", "receiver"),
    ),
    View(
        "messages",
        "one row for each message in flight",
        (*_EVERY, *_MESSAGE_COLUMNS),
        _message_rows,
        _channels,
        weigh=_channel_bytes,
        options=("sender", "receiver"),
    ),
)

VIEWS: Mapping[str, View] = MappingProxyType({view.name: view for view in _ALL})
