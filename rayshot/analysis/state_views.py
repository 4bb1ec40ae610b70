"""Tables of what states hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from rayshot.analysis import values
from rayshot.analysis.view import EVERY, Column, View, actors, state_bytes, typed_columns
from rayshot.format.entries import ActorEntry
from rayshot.inert.digest import content_digest
from rayshot.inert.redaction import Redacted, shown
from rayshot.snapshots.diff import WHOLE_STATE
from rayshot.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class AttributeRow:
    """One attribute of an actor's state."""

    actor: str
    attribute: str
    value: Any

    @cached_property
    def shown(self) -> Any:
        """The value, or a placeholder if it is named like a secret."""
        return shown(self.attribute, self.value)

    @property
    def digest(self) -> str | None:
        """A digest of the value; None if the value is not shown."""
        return None if isinstance(self.shown, Redacted) else content_digest(self.shown)

    @cached_property
    def json(self) -> tuple[str, bool]:
        """The value in JSON, and whether it was cut."""
        return values.in_json(self.shown)


def attribute_rows(snapshot: Snapshot, actor: ActorEntry, attribute: str | None = None) -> Iterator[AttributeRow]:
    """The attributes of an actor; only `attribute` if it is given."""
    if actor.state is None:
        return
    state = snapshot.state(actor.name)
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        state = {WHOLE_STATE: state}
    for name, value in state.items():
        sound = values.sound_text(name)
        if attribute in {None, sound}:
            yield AttributeRow(actor.name, sound, value)


@dataclass(frozen=True)
class ObjectRow:
    """One actor with its state."""

    actor: ActorEntry
    state: Any

    @cached_property
    def json(self) -> tuple[str, bool]:
        """The state in JSON, and whether it was cut."""
        return values.in_json(self.state)


def _object_rows(snapshot: Snapshot, actor: ActorEntry) -> Iterator[ObjectRow]:
    if actor.state is not None:
        yield ObjectRow(actor, snapshot.state(actor.name))


_STATE_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.actor),
    Column(
        "attribute",
        "string",
        f"the attribute's name; `{WHOLE_STATE}` if the state is not a dict with text keys",
        lambda _, row: row.attribute,
    ),
    Column("type", "string", "the value's class", lambda _, row: values.type_name(row.value)),
    Column("bytes", "bigint", "the size of the value, shared parts once", lambda _, row: values.size_bytes(row.value)),
    Column("value", "string", "as JSON", lambda _, row: row.json[0], json=True),
    *typed_columns(attrgetter("shown"), decimal=True),
    Column(
        "digest",
        "string",
        "of the whole value: the same in two snapshots if the values are equal; redacted parts do not count",
        lambda _, row: row.digest,
    ),
    Column("truncated", "boolean", "whether a cell of the row leaves anything out", lambda _, row: row.json[1]),
)
_OBJECT_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.actor.name),
    Column("class_name", "string", "module.Class", lambda _, row: f"{row.actor.class_module}.{row.actor.class_name}"),
    Column("state", "string", "its attributes as JSON", lambda _, row: row.json[0], json=True),
    Column("truncated", "boolean", "whether a cell of the row leaves anything out", lambda _, row: row.json[1]),
)

STATE_VIEWS = (
    View(
        "state",
        "one row for each attribute of each actor",
        (*EVERY, *_STATE_COLUMNS),
        attribute_rows,
        actors,
        weigh=state_bytes,
        options=("actor",),
        row_options=("attribute",),
    ),
    View(
        "objects",
        "one row for each actor that has a state",
        (*EVERY, *_OBJECT_COLUMNS),
        _object_rows,
        actors,
        weigh=state_bytes,
        options=("actor",),
    ),
)
