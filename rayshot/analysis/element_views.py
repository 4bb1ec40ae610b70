"""Tables of what values hold: the elements of containers one level down, and numpy arrays at any depth."""

import sys
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.element_blocks import entry_blocks
from rayshot.analysis.element_rows import EntryRow, elements_of, is_object_array
from rayshot.analysis.state_views import AttributeRow, attribute_rows
from rayshot.analysis.view import EVERY, Column, View, actors, state_bytes, typed_columns
from rayshot.format.entries import ActorEntry
from rayshot.inert.redaction import hides_a_field
from rayshot.snapshots.snapshot import Snapshot

VALUES_MAX = 1 << 24
"""The largest number of values of one array in a cell."""
_NUMBERS = "biuf"
"""Kinds of numpy dtypes that can become doubles."""
_PATH = "the attribute, then each step that leads to it; a key that is not a text is written as in `value`"


class ArrayRow(NamedTuple):
    """One numpy array."""

    attribute: AttributeRow
    path: str
    array: Any

    @property
    def values(self) -> Any:
        """The numbers in C order, as doubles; None if they are not numbers, or too many."""
        if self.array.dtype.kind not in _NUMBERS or self.array.size > VALUES_MAX:
            return None
        return self.array.astype("f8").reshape(-1)


def _entry_rows(snapshot: Snapshot, actor: ActorEntry, attribute: str | None = None) -> Iterator[EntryRow]:
    for row in attribute_rows(snapshot, actor, attribute):
        for element in elements_of(row.shown):
            yield EntryRow(row, element)


def _array_rows(snapshot: Snapshot, actor: ActorEntry, attribute: str | None = None) -> Iterator[ArrayRow]:
    for row in attribute_rows(snapshot, actor, attribute):
        numpy = sys.modules.get("numpy")  # without it arrays are records
        if numpy is None:
            return
        seen: set[int] = set()
        waiting = [(row.attribute, row.shown)]
        while waiting:
            path, value = waiting.pop()
            if isinstance(value, numpy.ndarray) and not is_object_array(value):
                if not hides_a_field(value.dtype):
                    yield ArrayRow(row, path, value)
            elif id(value) not in seen:
                seen.add(id(value))
                if isinstance(value, numpy.ndarray):
                    yield ArrayRow(row, path, value)
                inner = [(path + element.step, element.value) for element in elements_of(value)]
                waiting += reversed(inner)


_ENTRY_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.attribute.actor),
    Column("attribute", "string", "the attribute that holds the element", lambda _, row: row.attribute.attribute),
    Column(
        "path",
        "string",
        f"{_PATH}; `.$args[0]` is a value that its object's pickle gives no name, as in `value`",
        lambda _, row: row.attribute.attribute + row.element.step,
    ),
    Column(
        "key",
        "string",
        "its key in a dict, written as text; the name of an attribute; null in lists and sets; at "
        f"most {values.KEY_LENGTH_MAX:,} characters",
        lambda _, row: row.element.key,
    ),
    Column(
        "key_type",
        "string",
        "the key's class; `attribute` for the name of an attribute",
        lambda _, row: row.element.key_type,
    ),
    Column(
        "index",
        "bigint",
        "its place in a list, tuple, deque, array of objects (in C order) or among values without names, from 0; in "
        'Python it is `row["index"]`, as `row.index` is a method',
        lambda _, row: row.element.place,
    ),
    Column("type", "string", "the value's class", lambda _, row: values.type_name(row.element.value)),
    Column("value", "string", "as JSON", lambda _, row: row.json[0], json=True),
    *typed_columns(attrgetter("element.value")),
    Column("truncated", "boolean", "whether a cell of the row leaves anything out", lambda _, row: row.json[1]),
)

_ARRAY_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.attribute.actor),
    Column("attribute", "string", "the attribute that holds the array", lambda _, row: row.attribute.attribute),
    Column("path", "string", f"{_PATH}; `.$args[0]` as in `entries`", lambda _, row: row.path),
    Column("dtype", "string", "numpy's name of its type", lambda _, row: str(row.array.dtype)),
    Column("shape", "array<bigint>", "its lengths, one for each dimension", lambda _, row: list(row.array.shape)),
    Column(
        "values",
        "array<double>",
        f"its numbers in C order, wide integers rounded; null for other types and above {VALUES_MAX:,} of them",
        lambda _, row: row.values,
    ),
)

ELEMENT_VIEWS = (
    View(
        "entries",
        "one row for each element of an attribute that is a container, one level down",
        (*EVERY, *_ENTRY_COLUMNS),
        _entry_rows,
        actors,
        weigh=state_bytes,
        options=("actor",),
        row_options=("attribute",),
        blocks=entry_blocks,
    ),
    View(
        "arrays",
        "one row for each numpy array in a state, however deep",
        (*EVERY, *_ARRAY_COLUMNS),
        _array_rows,
        actors,
        weigh=state_bytes,
        options=("actor",),
        row_options=("attribute",),
    ),
)
