"""Elements of containers, column by column: a dict of a million numbers gives a million rows.

Plain elements become columns without a Python step for each cell; all others are read row by row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from types import MappingProxyType
from typing import Any

from rayshot.analysis import values
from rayshot.analysis.element_rows import Element, EntryRow, elements_of
from rayshot.analysis.state_views import AttributeRow, attribute_rows
from rayshot.analysis.view import Block, Cells, Column, Repeated
from rayshot.format.entries import ActorEntry
from rayshot.inert.jsonable import LONG_MAX, LONG_MIN
from rayshot.snapshots.snapshot import Snapshot

ROWS = 4096
TEXT_LENGTH = 8 << 20
"""A block ends when its texts have this many characters."""
_PLAIN_LENGTH_MAX = TEXT_LENGTH // ROWS
_PLAIN = frozenset({type(None), bool, int, float, str})


def entry_blocks(
    snapshot: Snapshot, actor: ActorEntry, columns: Sequence[Column], attribute: str | None = None
) -> Iterator[Block]:
    """The cells of `columns` for the elements of an actor's attributes; raises what single rows would raise."""
    for row in attribute_rows(snapshot, actor, attribute):
        elements = elements_of(row.shown)
        while some := list(islice(elements, ROWS)):
            items = [element.value for element in some]
            if _are_plain(items):
                yield Block(len(some), _columns(snapshot, row, some, items, columns))
            else:
                yield from _single_rows(snapshot, row, some, columns)


def _are_plain(items: Sequence[Any]) -> bool:
    """Whether all items are None, truth values, numbers that JSON has, or short texts."""
    kinds = set(map(type, items))
    if not kinds <= _PLAIN:
        return False
    if int in kinds and not all(LONG_MIN <= item <= LONG_MAX for item in items if type(item) is int):
        return False
    if float in kinds and not all(isfinite(item) for item in items if type(item) is float):
        return False
    return str not in kinds or all(len(item) <= _PLAIN_LENGTH_MAX for item in items if type(item) is str)


def _single_rows(
    snapshot: Snapshot, row: AttributeRow, elements: Sequence[Element], columns: Sequence[Column]
) -> Iterator[Block]:
    gathered: list[list[Any]] = []
    length = 0
    for element in elements:
        entry = EntryRow(row, element)
        gathered.append([column.cell(snapshot, entry) for column in columns])
        length += sum(len(cell) for cell in gathered[-1] if isinstance(cell, str))
        if length >= TEXT_LENGTH:
            yield Block(len(gathered), list(zip(*gathered, strict=True)))
            gathered, length = [], 0
    if gathered:
        yield Block(len(gathered), list(zip(*gathered, strict=True)))


def _columns(
    snapshot: Snapshot, row: AttributeRow, elements: Sequence[Element], items: list[Any], columns: Sequence[Column]
) -> list[Cells]:
    kinds = set(map(type, items))
    first = EntryRow(row, elements[0])
    cells: list[Cells] = []
    for column in columns:
        if column.name in _OF_ITEMS:
            kind, of_items = _OF_ITEMS[column.name]
            cells.append(of_items(items) if kind is None or kind in kinds else Repeated(None))
        elif column.name in _OF_ELEMENTS:
            cells.append(_OF_ELEMENTS[column.name](row.attribute, elements))
        else:
            cells.append(Repeated(column.cell(snapshot, first)))
    return cells


def _only(kind: type) -> tuple[type, Callable[[list[Any]], Cells]]:
    return kind, lambda items: [item if type(item) is kind else None for item in items]


_OF_ITEMS: Mapping[str, tuple[type | None, Callable[[list[Any]], Cells]]] = MappingProxyType(
    {
        "type": (None, lambda items: [type(item).__name__ for item in items]),
        "value": (None, lambda items: [values.as_json(item) for item in items]),
        "value_long": _only(int),
        "value_double": _only(float),
        "value_string": (str, lambda items: list(map(values.as_string, items))),
        "value_bool": _only(bool),
        "truncated": (None, lambda _: Repeated(cell=False)),
    }
)
"""Columns computed from plain values: the type without which the column is null, and the function for its cells."""

_OF_ELEMENTS: Mapping[str, Callable[[str, Sequence[Element]], Cells]] = MappingProxyType(
    {
        "path": lambda attribute, elements: [attribute + element.step for element in elements],
        "key": lambda _, elements: [element.key for element in elements],
        "key_type": lambda _, elements: [element.key_type for element in elements],
        "index": lambda _, elements: [element.place for element in elements],
    }
)
"""Columns that differ between elements. All other columns have one value for an attribute."""
