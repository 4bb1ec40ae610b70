"""Values of classes that changed: what their pickles hold by value or by place becomes what it was by name.

A `Reshaped` stands among the names of a load for a class whose shape was another one when it was recorded. Its
`reshaping` turns the recorded values into those of today's class. The rules for the members of an enum:

- A member whose name is there is that member, whatever its value is now.
- A member whose name is gone, and whose value belongs to a new name, was renamed: its value counts.
- Any other member whose name is gone is lost. Values that belong to no recorded member stay as they are.

A flag goes by its single bits, by the same rules; other bits stay. Fields go by their names, and a new field gets its
default. Where the number of fields is the same, a new name in the place of one that is gone is its new name. Any other
field that is gone is lost, and a new one without a default is missing.
"""

import dataclasses
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from rayshot.format.by_value import Names
from rayshot.format.pickle_bytes import mentions
from rayshot.format.shapes import FIELDS, FLAG, Shape, shape_of


class LostPart(LookupError):
    """A value is a member, or has a field, that its class does not have any more."""


class Reshaped:
    """A class that was recorded under `name` with this shape. `to` replaces it; None: it is found by its name."""

    def __init__(self, name: str, shape: Shape, to: Any = None) -> None:
        self.name = name
        self.shape = shape
        self.to = to

    def __reduce__(self) -> Any:
        return Reshaped, (self.name, self.shape, self.to)

    @cached_property
    def kind(self) -> Any:
        """Today's class; None if this process has none. Imports its module."""
        return _find(self.name) if self.to is None else self.to

    @cached_property
    def reshaping(self) -> "Reshaping | None":
        """What turns recorded values into today's; None if there is no such class of that kind."""
        today = shape_of(self.kind) if isinstance(self.kind, type) else None
        if today is None or today.kind != self.shape.kind:
            return None
        return Fields(self, today) if self.shape.kind == FIELDS else Members(self, today)

    @property
    def changes(self) -> bool:
        """Whether there are recorded values that are not those of today."""
        return self.reshaping is not None and self.reshaping.changes


class Reshaping(ABC):
    """How the values of one class change. `lost` says in words what has no place any more, `renamed` what has another.

    `changes` is false where the recorded values are those of today.
    """

    changes = False

    def __init__(self) -> None:
        self.lost: dict[Any, str] = {}
        self.renamed: list[tuple[str, str]] = []

    @abstractmethod
    def values(self, recorded: Sequence[Any]) -> Sequence[Any]:
        """What stands in the place of recorded arguments, or of a recorded state. Raises LostPart."""

    @abstractmethod
    def is_lost(self, recorded: Sequence[Any]) -> str:
        """In words, what of these values has no place any more; empty if there is nothing."""


class Members(Reshaping):
    """The members of an enum, or the bits of a flag."""

    def __init__(self, reshaped: Reshaped, today: Shape) -> None:
        super().__init__()
        self._name = reshaped.name
        self._is_flag = reshaped.shape.kind == FLAG
        there, recorded = dict(today.parts), dict(reshaped.shape.parts)
        new = {_key(value): name for name, value in today.parts if name not in recorded}
        self._today: dict[Any, Any] = {}
        for name, value in reshaped.shape.parts:
            key = _key(value)
            if name in there:
                self._today[key] = there[name]
            elif key in new and key not in self._today:
                self._today[key] = value
                self.renamed.append((name, new[key]))
            elif key not in self._today:
                self.lost[key] = name
        for key in self._today:
            self.lost.pop(key, None)
        moved = any(_key(value) != key for key, value in self._today.items() if not self._is_flag or _is_bit(key[1]))
        self.changes = moved or bool(self.lost)

    def values(self, recorded: Sequence[Any]) -> Sequence[Any]:
        """See Reshaping."""
        if len(recorded) != 1:
            return recorded
        if lost := self.is_lost(recorded):
            raise LostPart(f"{self._name} does not have {lost} any more")
        (value,) = recorded
        return (self._flag(value) if self._is_flag else self._today.get(_key(value), value),)

    def is_lost(self, recorded: Sequence[Any]) -> str:
        """See Reshaping."""
        value = recorded[0] if len(recorded) == 1 else None
        keys = map(_key, _bits(value)) if self._is_flag else [_key(value)]
        return ", ".join(self.lost[key] for key in keys if key in self.lost)

    def _flag(self, value: Any) -> Any:
        bits = _bits(value)
        if not bits:
            return value
        found = 0
        for bit in bits:
            found |= self._today.get(_key(bit), bit)
        return found


class Fields(Reshaping):
    """The fields of a named tuple, of a frozen dataclass with slots, or of a struct."""

    def __init__(self, reshaped: Reshaped, today: Shape) -> None:
        super().__init__()
        self._name, self._recorded = reshaped.name, reshaped.shape.names
        names, kind = today.names, reshaped.kind
        gone = [name for name in self._recorded if name not in names]
        places = {name: place for place, name in enumerate(self._recorded)}
        if len(names) == len(self._recorded):
            heirs = {names[places[name]]: places[name] for name in gone if names[places[name]] not in places}
            if len(heirs) == len(gone):
                self.renamed = [(self._recorded[place], name) for name, place in heirs.items()]
                places, gone = {**places, **heirs}, []
        self._plan: list[tuple[int | None, Callable[[], Any]]] = []
        for name in names:
            default = None if name in places else _default_of(kind, name)
            if name not in places and default is None:
                self.lost[name] = f"nothing for {name}"
            self._plan.append((places.get(name), default or _nothing))
        self.lost |= {name: name for name in gone}
        kept, count = [place for place, _ in self._plan], len(self._recorded)
        added = len(kept) > count and dataclasses.is_dataclass(kind)  # others give the defaults of the last ones
        self.changes = kept[:count] != [*range(count)] or added or bool(self.lost)

    def values(self, recorded: Sequence[Any]) -> Sequence[Any]:
        """See Reshaping."""
        if len(recorded) != len(self._recorded):
            return recorded
        if self.lost:
            raise LostPart(f"{self._name} does not fit a value with {', '.join(self.lost.values())}")
        made = [default() if place is None else recorded[place] for place, default in self._plan]
        return made if isinstance(recorded, list) else tuple(made)

    def is_lost(self, recorded: Sequence[Any]) -> str:
        """See Reshaping."""
        return ", ".join(self.lost.values()) if len(recorded) == len(self._recorded) else ""


def reshapings(names: Names) -> dict[type, Reshaping]:
    """What changes among these names, by today's class."""
    changed = (one for one in names.values() if isinstance(one, Reshaped) and one.changes)
    return {one.kind: one.reshaping for one in changed if one.reshaping is not None}


def must_reshape(stream: bytes | memoryview, names: Names) -> bool:
    """Whether a pickle may hold values of a class whose shape changed."""
    changed = [name for name, one in names.items() if isinstance(one, Reshaped) and one.changes]
    return any(mentions(bytes(stream), name) for name in changed)


def _key(value: Any) -> tuple[type, Any]:
    """1 is not True."""
    return type(value), value


def _is_bit(value: Any) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0


def _bits(value: Any) -> list[int]:
    if type(value) is not int or value < 0:
        return []
    return [1 << place for place in range(value.bit_length()) if value >> place & 1]


def _nothing() -> None:
    return None


def _default_of(kind: Any, name: str) -> Callable[[], Any] | None:
    """What gives a field its value where a recorded one is missing; None if nothing does."""
    if dataclasses.is_dataclass(kind):
        field = kind.__dataclass_fields__[name]
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory
        default = field.default
        return None if default is dataclasses.MISSING else lambda: default
    if issubclass(kind, tuple):
        return (lambda: kind._field_defaults[name]) if name in kind._field_defaults else None
    fields, defaults = kind.__struct_fields__, kind.__struct_defaults__
    place = fields.index(name) - len(fields) + len(defaults)
    if place < 0 or repr(defaults[place]) == "NODEFAULT":
        return None
    return getattr(defaults[place], "factory", lambda: defaults[place])


def _find(name: str) -> Any:
    """The class of that recorded name; None if there is none, for whatever reason."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:cut])
        try:
            found: Any = sys.modules.get(module) or importlib.import_module(module)
            for part in parts[cut:]:
                found = getattr(found, part)
        except Exception:  # noqa: BLE001, S112 - of a module that raises; whoever needs the class says so
            continue
        return found
    return None
