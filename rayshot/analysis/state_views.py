"""What states hold."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.view import EVERY, Column, View, actors
from rayshot.format.manifest import ActorEntry
from rayshot.format.redaction import shown
from rayshot.store.diff import WHOLE_STATE
from rayshot.store.snapshot import Snapshot
from rayshot.store.state import captured_bytes


class AttributeRow(NamedTuple):
    """One attribute of an actor's state."""

    actor: str
    attribute: str
    value: Any

    @property
    def shown(self) -> Any:
        """The value, or what stands for one that is named like a secret."""
        return shown(self.attribute, self.value)


def _attribute_rows(snapshot: Snapshot, actor: ActorEntry) -> Iterable[AttributeRow]:
    if actor.state is None:
        return
    state = snapshot.state(actor.name)
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        yield AttributeRow(actor.name, WHOLE_STATE, state)
        return
    for name, value in state.items():
        yield AttributeRow(actor.name, values.sound_text(name), value)


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
    Column(
        "value", "string", "as JSON; what does not fit is marked", lambda _, row: values.as_json(row.shown), json=True
    ),
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

STATE_VIEWS = (
    View(
        "state",
        "one row for each attribute of each actor",
        (*EVERY, *_STATE_COLUMNS),
        _attribute_rows,
        actors,
        weigh=lambda entry: captured_bytes(entry.state),
        options=("actor",),
    ),
)
