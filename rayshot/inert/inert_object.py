"""Records: they stand for objects that the inert reader does not build, with name, arguments and state."""

import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from rayshot.inert.redaction import Redacted, shown, shown_mapping

_STATE_PAIR = 2
_INTEGER_BITS_SHOWN_MAX = 1_000
_BASES_LOOKED_AT_MAX = 100
_FIELDS_MAX = 1_000
LIBRARIES = frozenset({"pandas", "pyarrow"})
"""Their objects are opaque: parts would only show how one version stores a frame, under names that are not public."""
_MADE_BY: Mapping[str, str] = MappingProxyType(
    {
        "_reconstruct_record_batch": "RecordBatch",
        "_reconstruct_table": "Table",
        "_restore_array": "Array",
        "_timedelta_unpickle": "Timedelta",
        "_unpickle_timestamp": "Timestamp",
        "__nat_unpickle": "NaT",
        "chunked_array": "ChunkedArray",
        "scalar": "Scalar",
        "schema": "Schema",
        "type_for_alias": "DataType",
    }
)
"""Function that a pickle calls -> the class of its result."""


class Parts(NamedTuple):
    """The named values in an object's pickle, and the other arguments and state, which have no names."""

    attributes: dict[str, Any]
    args: tuple[Any, ...]
    state: Any


class Inert:
    """An object of a pickle, described instead of built. Nothing of it was imported or called.

    Records are compared and hashed by identity, because only the missing class could say what is equal; `alike`
    compares by content.
    """

    __slots__ = ("_fields", "args", "bases", "class_name", "cls", "entries", "items", "kwargs", "members", "state")

    class_name: str
    """`module.Qualname` of the class or function."""

    args: tuple[Any, ...] | None
    """The arguments of its call; None for the class or function itself, which was not called."""

    kwargs: dict[str, Any]
    state: Any
    """The argument of `__setstate__`, or None."""

    items: list[Any]
    """The appended items, for example of a subclass of list."""

    entries: dict[Any, Any]
    """The values set by key, for example of a subclass of dict."""

    members: Mapping[tuple[type, Any], str] | None
    """For an enum in the pickle: (type of the value, value) -> the name of the member."""

    cls: "Inert | None"
    """For an object: the record of its class, which tells more if the pickle holds the class by value."""

    bases: tuple[Any, ...]
    """For a class in the pickle."""

    def __init__(
        self,
        class_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        cls: "Inert | None" = None,
    ) -> None:
        self.class_name = class_name
        self.args = args
        self.kwargs = {} if kwargs is None else kwargs
        self.state = None
        self.items = []
        self.entries = {}
        self.members = None
        self.cls = cls
        self.bases = ()
        self._fields: _Fields | None = None

    @property
    def member(self) -> str | None:
        """The name of a member of an enum, if the pickle holds it; None for other values."""
        match self.args:
            case (int() | str() as value,) if self.cls is not None and self.cls.members is not None:
                return self.cls.members.get((type(value), value))
        return None

    @property
    def is_opaque(self) -> bool:
        """Whether it is of one of LIBRARIES."""
        return self.class_name.partition(".")[0] in LIBRARIES

    @property
    def public_name(self) -> str:
        """The name of its class; for an opaque one without private modules, as in `pandas.DataFrame`."""
        if not self.is_opaque:
            return self.class_name
        library, _, inner = self.class_name.partition(".")
        name = inner.rpartition(".")[2]
        made = self.args[0] if self.args else None
        if name.startswith("_") and isinstance(made, Inert) and made.args is None and made.is_opaque:
            name = made.class_name.rpartition(".")[2]  # a function of theirs that is told what to make
        return f"{library}.{_MADE_BY.get(name, name)}"

    @property
    def attributes(self) -> dict[str, Any]:
        """Attribute -> value, as far as the pickle names them, see `parts`."""
        return self.parts.attributes

    @property
    def parts(self) -> Parts:
        """The named values of the arguments and the state, and the rest.

        The values of `__dict__` and slots have names. If the pickle holds the class, so have the fields of a named
        tuple, which are arguments, and the fields of a frozen dataclass with slots, whose state is a list.
        """
        args, state = self.args or (), self.state
        fields = _NO_FIELDS if self.cls is None else self.cls._own_fields()  # noqa: SLF001 - its own kind
        named: dict[str, Any] = {}
        if fields.args and len(fields.args) == len(args):
            named, args = dict(zip(fields.args, args, strict=True)), ()
        if fields.state and type(state) is list and len(fields.state) == len(state):
            named |= zip(fields.state, state, strict=True)
            state = None
        elif attributes := _attributes(state):
            named |= attributes
            state = None
        return Parts(named, args, state)

    def _own_fields(self) -> "_Fields":
        """The names of what objects of this class pickle by place; it is asked when the whole pickle is read."""
        if self.state is None:
            return _NO_FIELDS
        if self._fields is None:
            self._fields = _Fields(_tuple_fields(self), _dataclass_fields(self))
        return self._fields

    def __getitem__(self, key: Any) -> Any:
        """The attribute of that name, else what was set under that key; raises KeyError."""
        attributes = self.attributes
        return attributes[key] if isinstance(key, str) and key in attributes else self.entries[key]

    def __repr__(self) -> str:
        return _SHORT.repr(self)


class _Fields(NamedTuple):
    """The names of the arguments and of the values in the state of a class's objects; empty where there are none."""

    args: tuple[str, ...]
    state: tuple[str, ...]


_NO_FIELDS = _Fields((), ())


def _attributes(state: Any) -> dict[str, Any]:
    """The named values of a state: from `__dict__` and from slots."""
    pair = isinstance(state, tuple) and len(state) == _STATE_PAIR
    parts = state if pair else (state,)
    mappings = [part for part in parts if isinstance(part, Mapping)]
    if len(mappings) + sum(part is None for part in parts) != len(parts):
        return {}
    named = chain.from_iterable(mapping.items() for mapping in mappings)
    return {name: value for name, value in named if isinstance(name, str)}


def _tuple_fields(cls: Inert) -> tuple[str, ...]:
    return _field_names(_class_member(cls, "_fields"))


def _dataclass_fields(cls: Inert) -> tuple[str, ...]:
    """Of a dataclass whose objects pickle their values as a list, in the order of its fields."""
    get_state, fields = _class_member(cls, "__getstate__"), _class_member(cls, "__dataclass_fields__")
    if not isinstance(get_state, Inert) or get_state.class_name != "dataclasses._dataclass_getstate":
        return ()
    if not isinstance(fields, dict) or len(fields) > _FIELDS_MAX:
        return ()
    return _field_names(tuple(name for name, field in fields.items() if _has_value(field)))


def _has_value(field: Any) -> bool:
    """Whether a dataclass's objects have the field. They do not have a ClassVar or InitVar."""
    kind = field.attributes.get("_field_type") if isinstance(field, Inert) else None
    return not isinstance(kind, Inert) or kind.args == ("_FIELD",)


def _field_names(names: Any) -> tuple[str, ...]:
    """`names`, if they are such."""
    if not isinstance(names, tuple) or len(names) > _FIELDS_MAX or not all(type(name) is str for name in names):
        return ()
    return names if len(set(names)) == len(names) else ()


def _class_member(cls: Inert, name: str) -> Any:
    """The attribute `name` of a class in the pickle, or of its first base that has it, or None."""
    waiting: list[Any] = [cls]
    for _ in range(_BASES_LOOKED_AT_MAX):
        if not waiting:
            return None
        one = waiting.pop()
        if not isinstance(one, Inert) or one.args is not None:
            continue
        match one.state:
            case (dict() as members, _) if name in members:
                return members[name]
        waiting += reversed(one.bases[:_BASES_LOOKED_AT_MAX])
    return None


@dataclass(frozen=True, slots=True)
class HandleRecord:
    """A handle of an actor. `system` is empty if the bytes do not name it, as in messages."""

    system: str
    name: str


class _Short(reprlib.Repr):
    """A repr of bounded depth, length and work. Secrets are redacted."""

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
        attributes, args, state = record.parts
        words = [
            *(self.repr1(value, level - 1) for value in islice(args, self.maxlist)),
            *(self._pair(name, value, level) for name, value in islice(record.kwargs.items(), self.maxdict)),
            *(self._pair(name, value, level) for name, value in islice(attributes.items(), self.maxdict)),
        ]
        if state is not None:
            words.append(self._pair("state", state, level))
        if record.items:
            words.append(self.repr1(record.items, level - 1))
        if record.entries:
            words.append(self.repr1(record.entries, level - 1))
        sizes = (len(args), len(record.kwargs), len(attributes))
        if max(sizes) > self.maxlist:
            words.append("...")
        return f"<{' '.join([record.class_name, *words])}>"

    def _pair(self, name: str, value: Any, level: int) -> str:
        return f"{name:.60}={self.repr1(shown(name, value), level - 1)}"


_SHORT = _Short()


def short_repr(value: object) -> str:
    """A repr of bounded depth and length for any value of the inert reader."""
    return _SHORT.repr(value)
