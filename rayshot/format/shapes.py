"""The shapes of classes whose objects a pickle holds by value or by place: it does not say the names of what it holds.

The pickle of an enum's member holds its value, and that of a named tuple, of a frozen dataclass with slots or of a
`msgspec.Struct` the values of its fields in their order. If the class changes, they come back as other members and in
other fields. So a snapshot records for each actor the shapes of such classes that its state and its messages hold, and
a restore compares them with those of today; see `reshaping`. Other dataclasses go by names, and have a shape since one
word, such as `slots`, makes them go by order.

A class that says by itself how it is pickled has no shape. attrs and pydantic go by names.
"""

import copyreg
import dataclasses
import enum
import math
import operator
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ShapeKind = Literal["enum", "flag", "fields", "row", "names"]
ENUM: ShapeKind = "enum"
FLAG: ShapeKind = "flag"
FIELDS: ShapeKind = "fields"
"""Its objects are made of their fields, as arguments. Earlier versions recorded it for ROW, too."""
ROW: ShapeKind = "row"
"""A dataclass whose objects have the list of their fields for a state."""
NAMED: ShapeKind = "names"
"""A dataclass whose objects have a state with the names of their fields."""
MEMBERS = (ENUM, FLAG)
SHAPES_MAX = 1_000
"""An actor's table has at most so many classes; the rest is not recorded."""
PARTS_MAX = 1_000
"""A class with more members or fields is not recorded."""
TEXT_LENGTH_MAX = 1_000
_KINDS_MAX = 10_000
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_PICKLE_PROTOCOL = 5
_TUPLE_ARGUMENTS = namedtuple("_Any", ()).__getnewargs__.__code__  # type: ignore[attr-defined]  # noqa: PYI024
"""The code of what a named tuple gives to pickles, the same for all of them."""

Scalar = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """What a class was: the names of its fields in their order, or of its members with their values.

    `parts` are (name, value); a field's value is None. Members whose values are no scalars are missing.
    """

    kind: ShapeKind
    parts: tuple[tuple[str, Scalar], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its members or fields."""
        return tuple(name for name, _ in self.parts)


Shapes = Mapping[str, Shape]
"""By "module.Qualname"."""


class NotedTypes(dict[type, Any]):
    """The dispatch table of picklers that notes the shapes of the types that they meet, and changes no pickle.

    `given` are the reducers of types that are pickled in a way of their own. `find_reducer` returns that of another
    type, or None.
    """

    def __init__(
        self, given: Mapping[type, Any], find_reducer: Callable[[type], Any | None] = lambda _kind: None
    ) -> None:
        super().__init__(given)
        self.shapes: dict[str, Shape] = {}
        self._find_reducer = find_reducer

    def __missing__(self, kind: type) -> Any:
        """A pickler asks for the reducer of a type that it meets for the first time."""
        shape, name = shape_of(kind), f"{kind.__module__}.{kind.__qualname__}"
        if shape is not None and len(self.shapes) < SHAPES_MAX and is_scalar(name):
            self.shapes[name] = shape
        reduce = self[kind] = _NAME if issubclass(kind, type) else self._find_reducer(kind) or _REDUCE
        return reduce


_REDUCE = operator.methodcaller("__reduce_ex__", _PICKLE_PROTOCOL)
_NAME = operator.attrgetter("__qualname__")
"""Of a class: a pickler takes a text for the name of a global."""


class NotedInMessages:
    """The shapes of all types that this process has pickled outside of its state.

    Its tables are kept, so that a small message pays nothing for them. `given` returns the reducers that count now;
    `find_reducer` see NotedTypes.
    """

    def __init__(self, given: Callable[[], Mapping[type, Any]], find_reducer: Callable[[type], Any | None]) -> None:
        self._given = given
        self._find_reducer = find_reducer
        self._table = NotedTypes(given(), find_reducer)
        self._registered = len(copyreg.dispatch_table)

    @property
    def table(self) -> NotedTypes:
        """For the next pickler; another one if `copyreg` has learned a class, or if classes were too many to keep."""
        if len(copyreg.dispatch_table) != self._registered or len(self._table) > _KINDS_MAX:
            self._registered = len(copyreg.dispatch_table)
            shapes = self._table.shapes
            self._table = NotedTypes(self._given(), self._find_reducer)
            self._table.shapes = shapes
        return self._table


def shape_of(kind: type) -> Shape | None:
    """The shape of a class; None if pickles hold its objects by names, or as it says itself."""
    if isinstance(kind, enum.EnumType):
        return _shape_of_enum(kind)
    if issubclass(kind, type):
        return None
    shape = _shape_of_dataclass(kind) if dataclasses.is_dataclass(kind) else _shape_of_fields(kind)
    return None if shape is None or len(shape.parts) > PARTS_MAX else shape


def members_of(kind: Any) -> Shape:
    """All members of an enum, also where their values are no scalars, or it says by itself how it is pickled.

    `_value_` is what pickles hold; a class may have a `value` of its own.
    """
    members = tuple((name, one._value_) for name, one in kind.__members__.items())
    return Shape(FLAG if issubclass(kind, enum.Flag) else ENUM, members)


def _shape_of_enum(kind: Any) -> Shape | None:
    if kind.__reduce_ex__ is not enum.Enum.__reduce_ex__ or len(kind.__members__) > PARTS_MAX:
        return None
    shape = members_of(kind)
    members = tuple(part for part in shape.parts if is_scalar(part[1]))
    return Shape(shape.kind, members) if members else None


def is_scalar(value: object) -> bool:
    """Whether a manifest can hold a member's value, so that it is compared by equality."""
    if type(value) is int:
        return _LONG_MIN <= value <= _LONG_MAX
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is str:
        return len(value) <= TEXT_LENGTH_MAX and not _HALF_OF_A_PAIR.search(value)
    return value is None or type(value) is bool


def _shape_of_dataclass(kind: Any) -> Shape | None:
    given = getattr(kind, "__getstate__", None)
    if given is getattr(dataclasses, "_dataclass_getstate", kind):
        of = ROW
    elif (
        given is object.__getstate__ and not hasattr(kind, "__getnewargs__") and not hasattr(kind, "__getnewargs_ex__")
    ):
        of = NAMED
    else:
        return None
    return _shape(of, (field.name for field in dataclasses.fields(kind))) if _is_plainly_reduced(kind) else None


def _shape_of_fields(kind: Any) -> Shape | None:
    """That of a class whose objects are made of a row of the values of their fields."""
    if not issubclass(kind, tuple):
        names = _struct_fields(kind)
        return None if names is None else _shape(FIELDS, names)
    code = getattr(getattr(kind, "__getnewargs__", None), "__code__", None)
    return _shape(FIELDS, kind._fields) if code is _TUPLE_ARGUMENTS and _is_plainly_reduced(kind) else None


def _shape(kind: ShapeKind, names: Iterable[str]) -> Shape:
    return Shape(kind, tuple((name, None) for name in names))


def _struct_fields(kind: Any) -> tuple[str, ...] | None:
    """The names of the fields of a `msgspec.Struct`, whose objects are pickled as a call with all of them in order."""
    made = next((one for one in kind.__mro__ if one.__module__ == "msgspec._core"), None)
    if made is None or kind.__reduce__ is not made.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return None
    return tuple(kind.__struct_fields__)


def _is_plainly_reduced(kind: Any) -> bool:
    return bool(kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__)
