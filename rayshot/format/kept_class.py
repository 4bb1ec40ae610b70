"""A class by value, kept: what a pickle's definition of a class makes, for the next pickle with the same bytes.

cloudpickle writes a class of a notebook or a script into every message, thousands of bytes for an object of a few. The
machine reads such a definition once, by itself: from where it begins, with an empty stack, and with a memo out of which
nothing can be recalled. What comes of it then depends on nothing but those bytes and the number of memo entries before
them, so that no other pickle, whoever wrote it, can change what it means.

What is kept is shared and never changed. Of all that the definition left in the memo a later opcode may get a text, a
number, a name of a global or the class itself, these as records of its own. Whoever recalls anything else reads the
pickle from the beginning, in the ordinary way.
"""

import copy
from dataclasses import dataclass
from typing import Any

from rayshot.format.inert_record import Inert

BEGINNING = "cloudpickle.cloudpickle"
"""The text that a definition begins with, where it is the first in its pickle."""
DEFINITION_BYTES_MAX = 64 << 10
MEMO_BEFORE_MAX = 256
_KEPT_MAX = 64
_KEY_BYTES = 256
_SCALARS = frozenset({str, bytes, int, float, bool, type(None)})


class NotShared(Exception):
    """A pickle asks for a part of a kept class that could be changed."""


class KeptPart:
    """In a memo: something of a kept class; `part` is None for what is not given out."""

    __slots__ = ("part",)

    def __init__(self, part: Inert | None) -> None:
        self.part = part

    def own(self) -> Inert:
        """A record that its pickle may do with what it likes; raises NotShared."""
        if self.part is None:
            raise NotShared
        return own_record(self.part)


@dataclass(frozen=True, slots=True)
class KeptClass:
    """What the bytes `definition` make where the memo has `before` entries: a record, and `memo` behind those.

    `places` are those of the record in the memo, `work` is what it takes of a reading's budget.
    """

    definition: bytes
    before: int
    record: Inert
    memo: dict[int, Any]
    places: tuple[int, ...]
    work: int


def own_record(record: Inert) -> Inert:
    """Another record of the same class or global, whose own containers are new; its state is shared."""
    own = copy.copy(record)
    own.kwargs, own.items, own.entries = {}, [], {}
    return own


def shareable(value: Any) -> Any:
    """What a memo may hold for many pickles in the place of `value`."""
    if type(value) in _SCALARS:
        return value
    plain = type(value) is Inert and value.args is None and not (value.kwargs or value.items or value.entries)
    return KeptPart(value if plain else None)


_kept: dict[tuple[int, bytes], KeptClass] = {}


def find_kept(data: bytes, start: int, before: int) -> KeptClass | None:
    """The kept class whose definition stands at `start`."""
    kept = _kept.get((before, data[start : start + _KEY_BYTES]))
    return kept if kept is not None and data.startswith(kept.definition, start) else None


def keep(kept: KeptClass) -> None:
    """Keep a class, one of the last few."""
    if len(_kept) >= _KEPT_MAX:
        _kept.clear()
    _kept[kept.before, kept.definition[:_KEY_BYTES]] = kept
