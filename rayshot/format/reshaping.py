"""Values of classes that changed: what their pickles hold by value or by place becomes what it was by name.

A `Reshaped` stands among the names of a load for a class whose shape was another one when it was recorded. Its
`reshaping` turns the recorded values into those of today's class. The rules for the members of an enum:

- A member whose name is there is that member, whatever its value is now.
- A member whose name is gone, and whose value belongs to a new name, was renamed: its value counts.
- Any other member whose name is gone is lost. A value of no recorded member stays as it is; it is lost if it means a
  recorded member today.

A flag goes by its single bits, and by members of many bits where those have no names, by the same rules. If an enum
became a flag, or a flag an enum, members go by their names only, and other values are lost.

Fields go by their names, and a new field gets its default. Where the number of fields is the same, a new name in the
place of one that is gone is its new name. Any other field that is gone is lost, and a new one without a default is
missing. It makes no difference how the recorded class and today's give their fields to pickles, but only a dataclass
can be filled: if another class stands for a dataclass, all is lost.
"""

import dataclasses
import enum
import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any

from rayshot.errors import CodeMismatch
from rayshot.format.classes_by_value import Names
from rayshot.format.global_names import find_dotted
from rayshot.format.pickle_bytes import mentions
from rayshot.format.shapes import FIELDS, FLAG, MEMBERS, NAMED, ROW, Shape, ShapeKind, is_scalar, members_of, shape_of


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
    def today(self) -> Shape | None:
        """The shape of today's class, if it has one."""
        kind = self.kind
        if isinstance(kind, enum.EnumType):
            return members_of(kind)
        return shape_of(kind) if isinstance(kind, type) else None

    @cached_property
    def reshaping(self) -> "Reshaping | None":
        """What turns recorded values into today's; None if there is no such class, or if it takes them as they are."""
        if not isinstance(self.kind, type):
            return None
        was, today = self.shape.kind, self.today
        if today is None:
            return None if _takes(self.kind, was) else Gone(self)
        if was in MEMBERS and today.kind in MEMBERS:
            return EnumMembers(self, today)
        if was in MEMBERS or today.kind in MEMBERS or (today.kind == FIELDS != was):
            return Gone(self)
        by_itself = was == ROW and today.kind == NAMED and _takes(self.kind, was)
        return None if was == NAMED == today.kind or by_itself else Fields(self, today)

    @property
    def changes(self) -> bool:
        """Whether there are recorded values that are not those of today."""
        return self.reshaping is not None and self.reshaping.changes


class Attributes(dict[str, Any]):
    """The fields of a dataclass, for an object that has none yet."""

    def fill(self, made: Any) -> None:
        """Give them to the object, also if it is frozen."""
        for name, value in self.items():
            object.__setattr__(made, name, value)


class Reshaping(ABC):
    """How the values of one class change. `renamed` says in words what has another place.

    `changes` is false where the recorded values are those of today. `may_lose`: some may have no place any more.
    """

    changes = True
    may_lose = True
    _refusal = "{} does not fit a value with {}"

    def __init__(self, reshaped: Reshaped) -> None:
        self._name = reshaped.name
        self._was = reshaped.shape.kind
        self.renamed: list[tuple[str, str]] = []

    def values(self, recorded: Any) -> Any:
        """What stands in the place of recorded arguments, a tuple, or of a recorded state. Raises LostPart.

        If it is `Attributes`, an object is made without arguments, and filled with them.
        """
        if lost := self.is_lost(recorded):
            raise LostPart(self._refusal.format(self._name, lost))
        return self._values(recorded)

    @abstractmethod
    def is_lost(self, recorded: Any) -> str:
        """In words, what of these values has no place any more; empty if there is nothing."""

    @abstractmethod
    def _values(self, recorded: Any) -> Any:
        """As `values`, of what is not lost."""


class Gone(Reshaping):
    """A class of another sort, for which recorded values mean nothing."""

    _refusal = "{} is another kind of class than it was, and does not take {}"

    def is_lost(self, recorded: Any) -> str:
        """See Reshaping."""
        is_something_else = self._was == FIELDS and (type(recorded) is not tuple or not recorded)
        return "" if is_something_else else "recorded values"

    def _values(self, recorded: Any) -> Any:
        return recorded


class EnumMembers(Reshaping):
    """The members of an enum, or the bits of a flag."""

    _refusal = "{} does not have {} any more"

    def __init__(self, reshaped: Reshaped, today: Shape) -> None:
        super().__init__(reshaped)
        self._is_same = self._was == today.kind
        self._by_bits = self._is_same and self._was == FLAG
        there, recorded = dict(today.parts), dict(reshaped.shape.parts)
        parts = _independent(reshaped.shape.parts) if self._by_bits else reshaped.shape.parts
        unknown = {_key(value): name for name, value in today.parts if name not in recorded and is_scalar(value)}
        new = unknown if self._is_same else {}
        self._today: dict[Any, Any] = {}
        self._lost: dict[Any, str] = {}
        kept = dict(parts)
        for name, value in kept.items():
            key = _key(value)
            if name in there:
                self._today[key] = there[name]
            elif key in new and key not in self._today:
                self._today[key] = value
                self.renamed.append((name, new[key]))
            elif key not in self._today:
                self._lost[key] = name
        for key in self._today:
            self._lost.pop(key, None)
        self._order = [key for key in map(_key, kept.values()) if key in self._today or key in self._lost]
        moved = [value for name, value in today.parts if name in kept and _key(value) != _key(kept[name])]
        self._taken = [_key(value) for value in moved if is_scalar(value)]
        self.may_lose = bool(self._lost) or not self._is_same
        self.changes = self.may_lose or any(_key(value) != key for key, value in self._today.items())

    def is_lost(self, recorded: Any) -> str:
        """See Reshaping."""
        return "" if type(recorded) is not tuple or len(recorded) != 1 else ", ".join(self._find(recorded[0])[1])

    def _values(self, recorded: Any) -> Any:
        return recorded if type(recorded) is not tuple or len(recorded) != 1 else (self._find(recorded[0])[0],)

    def _find(self, value: Any) -> tuple[Any, list[str]]:
        """Today's value, and in words what is lost of the recorded one."""
        if self._by_bits:
            return self._find_bits(value) if type(value) is int and value > 0 else (value, [])
        key = _key(value) if is_scalar(value) else (type(value), None)
        if key in self._today:
            return self._today[key], []
        if key in self._lost:
            return value, [self._lost[key]]
        return value, [f"the value {value!r}"] if key in self._taken or not self._is_same else []

    def _find_bits(self, value: int) -> tuple[int, list[str]]:
        found, rest, lost = 0, value, []
        for key in self._order:
            bits = key[1]
            if value & bits == bits and rest & bits:
                rest &= ~bits
                if key in self._lost:
                    lost.append(self._lost[key])
                else:
                    found |= self._today[key]
        taken = rest & functools.reduce(operator.or_, (bits for _, bits in self._taken), 0)
        return found | rest, [*lost, f"the value {taken}"] if taken else lost


class Fields(Reshaping):
    """The fields of a named tuple, of a dataclass, or of a struct."""

    def __init__(self, reshaped: Reshaped, today: Shape) -> None:
        super().__init__(reshaped)
        self._recorded, self._fills = reshaped.shape.names, today.kind != FIELDS
        names, kind = today.names, reshaped.kind
        gone = [name for name in self._recorded if name not in names]
        places = {name: place for place, name in enumerate(self._recorded)}
        if len(names) == len(self._recorded):
            heirs = {names[places[name]]: places[name] for name in gone if names[places[name]] not in places}
            if len(heirs) == len(gone):
                self.renamed = [(self._recorded[place], name) for name, place in heirs.items()]
                places, gone = {**places, **heirs}, []
        self._sources = {name: self._recorded[places[name]] for name in names if name in places}
        self._defaults = {name: made for name in names if name not in places and (made := _default_of(kind, name))}
        missing = [name for name in names if name not in self._sources and name not in self._defaults]
        self._names = names
        self._lost = ", ".join([f"nothing for {name}" for name in missing] + gone)
        self.may_lose = bool(self._lost)
        kept, count = [places.get(name) for name in names], len(self._recorded)
        added = len(kept) > count and self._fills  # others give the defaults of the last ones
        self.changes = self._was != today.kind or kept[:count] != [*range(count)] or added or self.may_lose

    def is_lost(self, recorded: Any) -> str:
        """See Reshaping."""
        return self._lost if self._lost and self._by_name(recorded) is not None else ""

    def _values(self, recorded: Any) -> Any:
        values = self._by_name(recorded)
        if values is None:
            return recorded
        found = {name: default() for name, default in self._defaults.items()}
        found |= {name: values.pop(source) for name, source in self._sources.items() if source in values}
        return Attributes(found | values) if self._fills else tuple(found[name] for name in self._names)

    def _by_name(self, recorded: Any) -> dict[str, Any] | None:
        """The recorded fields with their recorded names; None if that is something else."""
        if self._was == NAMED:
            halves = recorded if type(recorded) is tuple else (recorded,)
            known = [half for half in halves if half is not None]
            return {**known[0], **known[-1]} if known and all(type(half) is dict for half in known) else None
        is_row = (type(recorded) is tuple and self._was == FIELDS) or (type(recorded) is list and self._fills)
        if not is_row or len(recorded) != len(self._recorded):
            return None
        return dict(zip(self._recorded, recorded, strict=True))


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


def _independent(parts: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The members of a flag that are not made of others: of one bit, then of many bits without names, large first."""
    flags = sorted((part for part in parts if part[1] > 0), key=lambda part: -part[1].bit_count())
    single = [part for part in flags if part[1].bit_count() == 1]
    named = functools.reduce(operator.or_, (value for _, value in single), 0)
    return single + [part for part in flags if part[1] & ~named]


def _takes(kind: type, was: ShapeKind) -> bool:
    """Whether a class that has no such shape itself says what becomes of recorded values."""
    if was == FIELDS:
        return getattr(kind, "__new__", None) is not object.__new__
    return was != ROW or hasattr(kind, "__setstate__")


def _default_of(kind: Any, name: str) -> Callable[[], Any] | None:
    """What gives a field its value where a recorded one is missing; None if nothing does."""
    if dataclasses.is_dataclass(kind):
        field = kind.__dataclass_fields__[name]
        factory: Any = field.default_factory
        if not _is_missing(factory):
            return factory  # type: ignore[no-any-return]
        return None if _is_missing(field.default) else lambda: field.default
    if issubclass(kind, tuple):
        return (lambda: kind._field_defaults[name]) if name in kind._field_defaults else None
    fields, defaults = kind.__struct_fields__, kind.__struct_defaults__
    place = fields.index(name) - len(fields) + len(defaults)
    if place < 0 or repr(defaults[place]) == "NODEFAULT":
        return None
    return getattr(defaults[place], "factory", lambda: defaults[place])


def _is_missing(default: object) -> bool:
    """`dataclasses.MISSING` is another object in a class that has come by value."""
    return type(default).__qualname__ == type(dataclasses.MISSING).__qualname__


def _find(name: str) -> Any:
    """The class of that recorded name; None if there is none, for whatever reason: whoever needs it says so."""
    with suppress(CodeMismatch, ImportError):
        return find_dotted(name)
    return None
