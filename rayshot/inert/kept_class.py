"""Keeps the record of a class by value for the next pickle that defines the class with the same bytes.

cloudpickle writes a class of a notebook or a script into every message: thousands of bytes for an object of a few. The
machine reads such a definition once and alone: from its start, with an empty stack, and with a memo that it cannot
recall from. So the result depends only on those bytes and on the number of memo entries before them, and no other
pickle can change its meaning.

Kept records are shared and never change. A later opcode may recall from the definition's memo a string, a number, a
name of a global or the class itself, the last two as records of its own. If a pickle recalls anything else, the machine
reads it from the beginning, in the ordinary way.
"""

import copy
from dataclasses import dataclass
from typing import Any

from rayshot.inert.inert_object import Inert

BEGINNING = "cloudpickle.cloudpickle"
"""The first string of a definition that is the first in its pickle."""
DEFINITION_BYTES_MAX = 64 << 10
MEMO_BEFORE_MAX = 256
_KEPT_MAX = 64
_KEY_BYTES = 256
_SCALARS = frozenset({str, bytes, int, float, bool, type(None)})


class NotShared(Exception):
    """A pickle asks for a part of a kept class that could be changed."""


class KeptPart:
    """An entry of a memo that belongs to a kept class; `part` is None if it must not be recalled."""

    __slots__ = ("part",)

    def __init__(self, part: Inert | None) -> None:
        self.part = part

    def own(self) -> Inert:
        """A record that the pickle may change. Raises NotShared."""
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
    """A new record of the same class or global. Its own containers are new; its state is shared."""
    own = copy.copy(record)
    own.kwargs, own.items, own.entries = {}, [], {}
    return own


def shareable(value: Any) -> Any:
    """The entry that the memos of many pickles may hold instead of `value`."""
    if type(value) in _SCALARS:
        return value
    plain = type(value) is Inert and value.args is None and not (value.kwargs or value.items or value.entries)
    return KeptPart(value if plain else None)


_kept: dict[tuple[int, bytes], KeptClass] = {}


def find_kept(data: bytes, start: int, before: int) -> KeptClass | None:
    """The kept class whose definition begins at `start`."""
    kept = _kept.get((before, data[start : start + _KEY_BYTES]))
    return kept if kept is not None and data.startswith(kept.definition, start) else None


def keep(kept: KeptClass) -> None:
    """Keep a class among the last few."""
    if len(_kept) >= _KEPT_MAX:
        _kept.clear()
    _kept[kept.before, kept.definition[:_KEY_BYTES]] = kept
