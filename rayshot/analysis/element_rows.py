"""The elements of a value, one level down."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.state_views import AttributeRow
from rayshot.inert.anatomy import is_numpy
from rayshot.inert.inert_object import Inert
from rayshot.inert.redaction import may_be_secrets, shown

_NAMES_AT_ONCE = 1_000


class Element(NamedTuple):
    """One element of a container. `step` leads to it; it has a `key`, or a `place` counted from 0, or neither."""

    step: str
    key: str | None
    key_type: str | None
    place: int | None
    value: Any


@dataclass
class EntryRow:
    """One element of an attribute's value, with values redacted that are named like secrets."""

    attribute: AttributeRow
    element: Element

    @cached_property
    def json(self) -> tuple[str, bool]:
        """The value in JSON, and whether it was cut."""
        return values.in_json(self.element.value)


def elements_of(value: Any) -> Iterator[Element]:
    """The elements of `value`, one level down; none if it is not a container."""
    if isinstance(value, dict):
        yield from _entries(value)
    elif isinstance(value, list | tuple | deque):
        yield from _items(value)
    elif isinstance(value, set | frozenset):
        yield from (Element(f"{{{values.brief_json(item)}}}", None, None, None, item) for item in value)
    elif isinstance(value, Inert) and not value.is_opaque:
        yield from _parts_of(value)
    elif is_object_array(value):
        yield from _array_items(value)


def is_object_array(value: Any) -> bool:
    """Whether `value` is a numpy array of any objects."""
    return is_numpy(value) and bool(value.dtype.kind == "O")


def _parts_of(record: Inert) -> Iterator[Element]:
    """The parts of an object: its attributes; parts without names get the names that JSON gives them."""
    attributes, args, state = record.parts
    for name, item in _shown_items(attributes):
        sound = values.sound_text(name[: values.KEY_LENGTH_MAX])
        yield Element(f".{sound}", sound, "attribute", None, item)
    if record.args is not None and record.member is None:
        yield from _behind(".$args", _items(args))
        yield from _behind(".$kwargs", _entries(record.kwargs))
        if type(state) in {list, tuple}:
            yield from _behind(".$state", _items(state))
        elif type(state) is dict:
            yield from _behind(".$state", _entries(state))
        elif state is not None:
            yield Element(".$state", None, None, None, state)
    yield from _items(record.items)
    yield from _entries(record.entries)


def _behind(step: str, elements: Iterable[Element]) -> Iterator[Element]:
    return (element._replace(step=step + element.step) for element in elements)


def _array_items(array: Any) -> Iterator[Element]:
    """The elements in C order, with indices as Python writes them."""
    places = sys.modules["numpy"].ndindex(array.shape)
    for place, (indices, item) in enumerate(zip(places, array.flat, strict=True)):
        yield Element(f"[{', '.join(map(str, indices)) or '()'}]", None, None, place, item)


def _entries(mapping: Mapping[Any, Any]) -> Iterator[Element]:
    for key, item in _shown_items(mapping):
        if type(key) is str:
            sound = values.sound_text(key[: values.KEY_LENGTH_MAX])
            yield Element(f"[{sound!r}]", sound, "str", None, item)
        else:
            text = values.brief_json(key)
            yield Element(f"[{text}]", text, values.type_name(key), None, item)


def _items(items: Iterable[Any]) -> Iterator[Element]:
    return (Element(f"[{index}]", None, None, index, item) for index, item in enumerate(items))


def _shown_items(mapping: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """The items, with placeholders for values that are named like secrets."""
    items = iter(mapping.items())
    while some := list(islice(items, _NAMES_AT_ONCE)):
        names = [key for key, _ in some if type(key) is str]
        if len(names) == len(some) and not may_be_secrets(names):
            yield from some
        else:
            yield from ((key, shown(key, item)) for key, item in some)
