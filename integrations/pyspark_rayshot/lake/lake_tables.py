"""The tables of a lake, in the order in which a batch commits them, and the content of their columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from rayshot.analysis.batches import arrow_schema
from rayshot.analysis.state_views import AttributeRow
from rayshot.analysis.view import EVERY, Column
from rayshot.analysis.views import VIEWS
from rayshot.snapshots.snapshot import Snapshot


class ActorMoment(NamedTuple):
    """A row of the view `actors`, and what the actor had counted on channels that no longer exist."""

    row: Any
    gone: int


class Change(NamedTuple):
    """A row of `state_changes`; `new` is a value in a snapshot, or the cells of an earlier value in the table.

    `new` is None if the attribute no longer exists.
    """

    actor: str
    attribute: str
    clock: int
    change: str
    seen_in: str
    new: AttributeRow | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One table: a row's cells are computed from a snapshot and a row, as in views."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow; the `comment` in each field's metadata says what it holds."""
        plain = arrow_schema(self.columns, dict.fromkeys((column.name for column in self.columns), True))
        fields = zip(plain, self.columns, strict=True)
        return pa.schema([field.with_metadata({"comment": column.about}) for field, column in fields])


def _of_new(column: Column) -> Column:
    def cell(snapshot: Snapshot, change: Change) -> Any:
        match change.new:
            case None:
                return None
            case AttributeRow():
                return column.cell(snapshot, change.new)
            case cells:
                return cells[column.name]

    return replace(column, cell=cell)


def _of_row(column: Column) -> Column:
    return replace(column, cell=lambda snapshot, moment: column.cell(snapshot, moment.row))


VALUE_COLUMNS = VIEWS["state"].columns[len(EVERY) + len(("actor", "attribute")) :]
"""The columns of `state_changes` that say what the view `state` says of a value."""

_CHANGE_COLUMNS = (
    Column("actor", "string", "the actor that has the state", lambda _, row: row.actor),
    Column("attribute", "string", "the attribute's name, as in the view `state`", lambda _, row: row.attribute),
    Column(
        "clock",
        "bigint",
        "messages that the actor had processed and sent: `clock` + `gone` of `actors`; orders the rows of a life",
        lambda _, row: row.clock,
    ),
    Column(
        "change",
        "string",
        "added, changed, removed; restored: as it was in the snapshot that the life began with; ended: with its actor",
        lambda _, row: row.change,
    ),
    Column(
        "seen_in",
        "string",
        "the snapshot that shows it; not `snapshot` if `snapshot` came late and shows an earlier state",
        lambda _, row: row.seen_in,
    ),
)
_GONE = Column(
    "gone",
    "bigint",
    "messages that it had processed and sent on channels that no longer exist: `clock` + `gone` never falls in a life",
    lambda _, row: row.gone,
)

_ALL = (
    LakeTable("channels", "one row for each channel of each snapshot", VIEWS["channels"].columns),
    LakeTable(
        "actors",
        "one row for each actor of each snapshot",
        (*EVERY, *map(_of_row, VIEWS["actors"].columns[len(EVERY) :]), _GONE),
    ),
    LakeTable("messages", "one row for each message in flight in each snapshot", VIEWS["messages"].columns),
    LakeTable(
        "state_changes",
        "one row for each attribute of an actor that differs from the snapshot before, by the actor's clock",
        (*EVERY, *_CHANGE_COLUMNS, *map(_of_new, VALUE_COLUMNS)),
    ),
    LakeTable(
        "gaps",
        "one row for each snapshot that was deleted before the pipeline had read it, even if it came back later",
        EVERY,
    ),
    LakeTable("snapshots", "one row for each snapshot whose other rows are complete", VIEWS["snapshots"].columns),
)
TABLES: Mapping[str, LakeTable] = MappingProxyType({table.name: table for table in _ALL})
"""The tables by name; `snapshots` is committed last."""
