"""What a value contains, one level down."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.state_views import AttributeRow
from rayshot.format.inert_record import Inert
from rayshot.format.opaque import is_opaque
from rayshot.format.redaction import may_be_secrets, shown

_NAMES_AT_ONCE = 1_000


class Element(NamedTuple):
    """One element of a container. `step` leads to it; it has a `key`, or a `place` from 0 on, or none of both."""

    step: str
    key: str | None
    key_type: str | None
    place: int | None
    value: Any


@dataclass
class EntryRow:
    """One element of an attribute's value, what is named like a secret redacted."""

    attribute: AttributeRow
    element: Element

    @cached_property
    def json(self) -> tuple[str, bool]:
        """The value in JSON, and whether it was cut."""
        return values.in_json(self.element.value)


def elements_of(value: Any) -> Iterator[Element]:
    """What `value` contains, one level down; nothing for what is no container."""
    if isinstance(value, dict):
        yield from _entries(value)
    elif isinstance(value, list | tuple | deque):
        yield from _items(value)
    elif isinstance(value, set | frozenset):
        yield from (Element(f"{{{values.brief_json(item)}}}", None, None, None, item) for item in value)
    elif isinstance(value, Inert) and not is_opaque(value):
        for name, item in _shown_items(value.attributes):
            sound = values.sound_text(name[: values.KEY_LENGTH_MAX])
            yield Element(f".{sound}", sound, "attribute", None, item)
        yield from _items(value.items)
        yield from _entries(value.entries)


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
    """The items, with what stands for those that are named like secrets."""
    items = iter(mapping.items())
    while some := list(islice(items, _NAMES_AT_ONCE)):
        names = [key for key, _ in some if type(key) is str]
        if len(names) == len(some) and not may_be_secrets(names):
            yield from some
        else:
            yield from ((key, shown(key, item)) for key, item in some)
