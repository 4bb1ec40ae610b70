"""What a table is: its columns, and the functions that give its rows.

A view takes the entries of a manifest (its actors, or its channels), and gives rows for each of them; a column takes
its cell from a row. Only the columns that the user asks for are computed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from rayshot.analysis import values
from rayshot.errors import ConfigError
from rayshot.format.entries import ActorEntry, ChannelEntry
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import captured_bytes


class EntryOption(NamedTuple):
    """An option that selects entries: the field of the entry that it is compared with, and its meaning."""

    field: str
    about: str


ENTRY_OPTIONS: Mapping[str, EntryOption] = MappingProxyType(
    {
        "actor": EntryOption("name", "the name of an actor"),
        "sender": EntryOption("sender", "the name of an actor, or a driver as driver:ID"),
        "receiver": EntryOption("receiver", "the name of an actor"),
    }
)

ROW_OPTIONS: Mapping[str, str] = MappingProxyType({"attribute": "the name of an attribute"})
"""Options that select rows of an entry -> their meaning."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type as Spark spells it, its meaning, and the function that reads it from a snapshot and a row.

    A column that is `from_log` needs only the log: no manifest is read for it. `json`: its cells are texts that hold
    JSON.
    """

    name: str
    type: str
    about: str
    cell: Callable[[Snapshot, Any], Any]
    from_log: bool = False
    json: bool = False

    @property
    def ddl(self) -> str:
        """The column as Spark reads it."""
        comment = self.about.replace("'", r"\'")
        return f"{self.name} {self.type} COMMENT '{comment}'"


Subject = Literal["snapshot", "neighbours", "step", "log", "storage"]
"""What a table is about: each snapshot; each with the one before it, see `rayshot.analysis.pairs`; the changes between
two of them; the records of the log; all systems of the storage."""


class Repeated(NamedTuple):
    """A column of a block whose cells are all the same."""

    cell: Any


Cells = Repeated | Sequence[Any]
"""A column of a block."""


class Block(NamedTuple):
    """Several rows at once, given as the columns that were asked for."""

    count: int  # type: ignore[assignment]  # a tuple's own `count` is of no use here
    columns: Sequence[Cells]


@dataclass(frozen=True, slots=True)
class View:
    """One table.

    `subject` says what it is about: a Snapshot, a Pair of them, or a SystemView. `entries` gives the entries of one
    subject; it is None if a subject is not divided. `rows` gives the rows of one entry, or, for an undivided subject,
    those of the whole: then it gets the Piece. `weigh` gives roughly the bytes to read for one entry. `options` are
    those of ENTRY_OPTIONS that apply; `row_options` those of ROW_OPTIONS, which `rows` takes as keywords. `blocks`, if
    a view has it, gives the cells of the same rows column by column, which is faster.
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    rows: Callable[..., Iterable[Any]]
    entries: Callable[[Any], Sequence[Any]] | None = None
    weigh: Callable[[Any], int] = lambda _: 0
    options: tuple[str, ...] = ()
    row_options: tuple[str, ...] = ()
    blocks: Callable[..., Iterable[Block]] | None = None
    subject: Subject = "snapshot"

    @property
    def of_snapshots(self) -> bool:
        """Whether the user can select snapshots."""
        return self.subject not in {"log", "storage"}

    @property
    def of_pairs(self) -> bool:
        """Whether each row is about two snapshots."""
        return self.subject in {"neighbours", "step"}

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it; each column's comment says what it holds."""
        return ", ".join(column.ddl for column in self.columns)

    def columns_named(self, names: Iterable[str]) -> list[Column]:
        """The columns with those names, in the order of `names`."""
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
                    "read it with that type and cast it",
                    column=name,
                    expected=known[name].type,
                    value=kind,
                )


def actors(snapshot: Snapshot) -> Sequence[ActorEntry]:
    """The actors, as entries of a view with rows for each actor."""
    return snapshot.manifest.actors


def channels(snapshot: Snapshot) -> Sequence[ChannelEntry]:
    """The channels, as entries of a view with rows for each channel."""
    return snapshot.manifest.channels


def itself(_: Snapshot, entry: Any) -> Iterable[Any]:
    """The entry itself, for a view whose rows are the entries."""
    return (entry,)


def state_bytes(entry: ActorEntry) -> int:
    """The bytes of an actor's pickled state, as the weight for views that read it."""
    return captured_bytes(entry.state)


def channel_bytes(entry: ChannelEntry) -> int:
    """The bytes of the messages in flight on a channel."""
    return sum(blob.size for blob in entry.all_blobs())


def typed_columns(value: Callable[[Any], Any], prefix: str = "value", *, decimal: bool = False) -> tuple[Column, ...]:
    """The columns for a plain value; at most one of their cells is not null. `value` reads it from a row."""
    wide = (("decimal", "decimal(38,0)", "an integer of more than 64 bits and at most 38 digits", values.as_decimal),)
    kinds: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
        ("long", "bigint", "an integer of up to 64 bits", values.as_long),
        *(wide if decimal else ()),
        ("double", "double", "a float; a wider integer, rounded", values.as_double),
        ("string", "string", f"a text of up to {values.TEXT_LENGTH_MAX:,} characters", values.as_string),
        ("bool", "boolean", "a truth value", values.as_bool),
    )
    return tuple(Column(f"{prefix}_{name}", kind, about, _looked_up(cell, value)) for name, kind, about, cell in kinds)


def _looked_up(cell: Callable[[Any], Any], value: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda _, row: cell(value(row))


EVERY = (
    Column("system", "string", "the system's name", lambda snapshot, _: snapshot.system, from_log=True),
    Column("snapshot", "string", "the snapshot's id", lambda snapshot, _: str(snapshot.id), from_log=True),
    Column(
        "position",
        "bigint",
        "the place of its commit in the log that it was committed to; for a copy the log of the original",
        lambda snapshot, _: snapshot.position,
        from_log=True,
    ),
    Column("taken_at", "timestamp", "when it was taken", lambda snapshot, _: snapshot.taken_at, from_log=True),
    Column(
        "log_index",
        "bigint",
        "its place in the log of this storage: later snapshots have higher ones, copies included",
        lambda snapshot, _: snapshot.record.position,
        from_log=True,
    ),
    Column(
        "life",
        "bigint",
        "the life of the system that took it: each restore begins a new one",
        lambda snapshot, _: snapshot.id.incarnation,
        from_log=True,
    ),
)
"""The columns that all views begin with."""


def every_of_rows(**cells: Callable[[Any], Any]) -> tuple[Column, ...]:
    """EVERY for a table whose rows belong to no snapshot: each cell comes from its row alone."""
    return tuple(replace(column, cell=_of_row(cells[column.name])) for column in EVERY)


def _of_row(cell: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda _, row: cell(row)
