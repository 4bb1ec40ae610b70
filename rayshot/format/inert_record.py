"""What stands in for an object that the inert reader does not build: its name, its arguments and its state."""

import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeGuard

from rayshot.format.redaction import Redacted, shown, shown_mapping

_STATE_PAIR = 2
_INTEGER_BITS_SHOWN_MAX = 1_000


class Inert:
    """An object of a pickle, described instead of built. Nothing of it was imported or called.

    Records are compared and hashed by identity, because what is equal is for the class to say, which is not here;
    `alike` compares by content.
    """

    __slots__ = ("args", "class_name", "entries", "items", "kwargs", "members", "state")

    class_name: str
    """`module.Qualname` of the class or function."""

    args: tuple[Any, ...] | None
    """What it was called with; None for the class or function itself, which was not called."""

    kwargs: dict[str, Any]
    state: Any
    """What `__setstate__` would get, or None."""

    items: list[Any]
    """What would be appended or extended, for example of a subclass of list."""

    entries: dict[Any, Any]
    """What would be set by key, for example of a subclass of dict."""

    members: Mapping[tuple[type, Any], str] | None
    """Of an enum that is in the pickle, and of its members: the name of each by the value's type and the value."""

    def __init__(
        self,
        class_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        members: Mapping[tuple[type, Any], str] | None = None,
    ) -> None:
        self.class_name = class_name
        self.args = args
        self.kwargs = {} if kwargs is None else kwargs
        self.state = None
        self.items = []
        self.entries = {}
        self.members = members

    @property
    def member(self) -> str | None:
        """The name of a member of an enum, where the pickle tells; None for anything else."""
        match self.args:
            case (int() | str() as value,) if self.members is not None:
                return self.members.get((type(value), value))
        return None

    @property
    def attributes(self) -> dict[str, Any]:
        """Attribute -> value, as far as the state tells: from `__dict__` and from slots."""
        state = self.state
        pair = isinstance(state, tuple) and len(state) == _STATE_PAIR
        parts = state if pair else (state,)
        mappings = [part for part in parts if isinstance(part, Mapping)]
        if len(mappings) + sum(part is None for part in parts) != len(parts):
            return {}
        named = chain.from_iterable(mapping.items() for mapping in mappings)
        return {name: value for name, value in named if isinstance(name, str)}

    def __getitem__(self, key: Any) -> Any:
        """The attribute of that name, else what was set under that key; raises KeyError."""
        attributes = self.attributes
        return attributes[key] if isinstance(key, str) and key in attributes else self.entries[key]

    def __repr__(self) -> str:
        return _SHORT.repr(self)


@dataclass(frozen=True, slots=True)
class HandleRecord:
    """A handle of an actor. `system` is empty where the bytes leave it to their place, as messages do."""

    system: str
    name: str


def is_inert(value: object) -> TypeGuard[Inert]:
    """Whether `value` stands in for an object that was not built."""
    return isinstance(value, Inert)


class _Short(reprlib.Repr):
    """A repr of bounded depth, length and work, whatever the records hold; secrets are redacted."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxdeque = 6
        self.maxstring = self.maxother = 60

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Inert):
            return self._record(x, level)
        if isinstance(x, HandleRecord):
            return f"<actor {x.name}>"
        if isinstance(x, dict):
            return self.repr_dict(shown_mapping(x), level)  # type: ignore[arg-type]  # it asks for no more
        if isinstance(x, Redacted):
            return repr(x)
        if isinstance(x, bytes | bytearray | memoryview):
            return f"<{type(x).__name__} of {memoryview(x).nbytes} bytes>"
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(x, numpy.ndarray | numpy.void):
            return f"<{type(x).__name__} {x.dtype} {x.shape}>"
        return super().repr1(x, level)

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return super().repr_int(x, level) if bits <= _INTEGER_BITS_SHOWN_MAX else f"<integer of {bits} bits>"

    def _record(self, record: Inert, level: int) -> str:
        if level <= 0:
            return f"<{record.class_name} ...>"
        if record.args is None and record.state is None:
            return f"<{record.class_name} itself>"
        attributes = record.attributes
        words = [
            *(self.repr1(value, level - 1) for value in islice(record.args or (), self.maxlist)),
            *(self._pair(name, value, level) for name, value in islice(record.kwargs.items(), self.maxdict)),
            *(self._pair(name, value, level) for name, value in islice(attributes.items(), self.maxdict)),
        ]
        if record.state is not None and not attributes:
            words.append(self._pair("state", record.state, level))
        if record.items:
            words.append(self.repr1(record.items, level - 1))
        if record.entries:
            words.append(self.repr1(record.entries, level - 1))
        sizes = (len(record.args or ()), len(record.kwargs), len(attributes))
        if max(sizes) > self.maxlist:
            words.append("...")
        return f"<{' '.join([record.class_name, *words])}>"

    def _pair(self, name: str, value: Any, level: int) -> str:
        return f"{name:.60}={self.repr1(shown(name, value), level - 1)}"


_SHORT = _Short()


def short_repr(value: object) -> str:
    """A repr of bounded depth and length for anything that the inert reader gives."""
    return _SHORT.repr(value)
