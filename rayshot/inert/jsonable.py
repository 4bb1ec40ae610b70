"""Values of the inert reader as JSON, for the command line, for tables and for people.

This is a rendering, not an encoding: it ends for every value, and shows what it leaves out. Values that JSON knows
stay; tuples and arrays become lists; dates, numbers and paths become strings, and so do integers wider than 64 bits. An
object whose keys start with `$` describes a value that JSON does not have:

    {"$class": name, attribute: value}                  an object of a class that is not here, by its attributes
    {.. "$args": [], "$kwargs": {}, "$state": .., "$items": [], "$entries": ..}     what else its pickle holds, such as
                                                        fields of a named tuple whose class is not in the pickle
    {"$class": name, "name": member, "value": ..}       a member of an enum; the pickle holds names only where it holds
                                                        the class: else it is an object like any, with its value
    {"$class": name, "$omitted": 1}                     an object of pandas or pyarrow
    {"$global": name}                                   a class or function itself
    {"$actor": name, "system": name}                    a handle
    {"$bytes": length, "head": "hexadecimal"}           bytes, and memory of any kind
    {"$array": dtype, "shape": [], "head": []}          a numpy array and its first values
    {"$set": []}, {"$dict": [[key, value]]}             a set; a dict with keys that are not all plain strings, or of
                                                        which two would be the same text here
    {"$cycle": levels}                                  the value that many levels further out, again
    {"$omitted": count}                                 so many more that did not fit

What is named like a secret is "<redacted>", see `redaction`.
"""

import array
import datetime as dt
import decimal
import fractions
import math
import pathlib
import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from rayshot.inert.inert_object import HandleRecord, Inert, short_repr
from rayshot.inert.redaction import REDACTED, Redacted, hides_a_field, shown
from rayshot.inert.times import Zone, ZonedTime

NODES_MAX = 100_000
DEPTH_MAX = 32
TEXT_LENGTH_MAX = 10_000
HEAD_BYTES = 32
HEAD_ITEMS = 16
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
"""The integers that all readers of JSON take."""
_INTEGER_BITS_MAX = 4_096
_AS_TEXT = (
    decimal.Decimal,
    fractions.Fraction,
    complex,
    uuid.UUID,
    pathlib.PurePath,
    range,
    slice,
    dt.timedelta,
    dt.timezone,
    Zone,
    ZonedTime,
)
_Json = Any


def jsonable(value: Any, *, nodes_max: int = NODES_MAX, depth_max: int = DEPTH_MAX) -> _Json:
    """Render `value` as at most about `nodes_max` values, `depth_max` levels deep, for `json.dumps`.

    It never raises, and never calls anything of an object that it does not know. A cut string says so at its end.
    """
    return _Rendering(nodes_max, depth_max).render(value)


def rendered(value: Any, *, nodes_max: int = NODES_MAX, long_texts_max: int = 0) -> tuple[_Json, bool]:
    """As `jsonable`, and whether anything was left out. A cut string does not say so here.

    Strings longer than TEXT_LENGTH_MAX stay whole up to `long_texts_max` characters in all.
    """
    rendering = _Rendering(nodes_max, DEPTH_MAX, long_texts_max, marks_texts=False)
    return rendering.render(value), rendering.truncated


class _Rendering:
    """One rendering: the rest of its size, and the containers that it is in.

    `truncated`: something was left out.
    """

    def __init__(self, nodes_max: int, depth_max: int, long_texts_max: int = 0, *, marks_texts: bool = True) -> None:
        self.truncated = False
        self._nodes_left = nodes_max
        self._depth_max = depth_max
        self._long_texts_left = long_texts_max
        self._marks_texts = marks_texts
        self._outer: dict[int, int] = {}

    def render(self, value: Any) -> _Json:
        self._nodes_left -= 1
        if type(value) is str:
            return self._text(value)
        if type(value) is int:
            return self._integer(value)
        scalar = _SCALARS.get(type(value))
        if scalar is not None:
            return scalar(value)
        if isinstance(value, _AS_TEXT):
            return self._text(str(value))
        if isinstance(value, dt.date | dt.time):
            return value.isoformat()
        if isinstance(value, bytes | bytearray | memoryview):
            return self._memory(value)
        if isinstance(value, HandleRecord):
            return {"$actor": self._text(value.name), "system": self._text(value.system)}
        if value is ... or value is NotImplemented:
            return {"$global": f"builtins.{value!r}"}
        return self._enter(value)

    def _text(self, text: str) -> str:
        """The string in a form that UTF-8 can encode, cut if it is long and there are too many long ones."""
        if len(text) > TEXT_LENGTH_MAX:
            self._long_texts_left -= len(text)
        if len(text) <= TEXT_LENGTH_MAX or self._long_texts_left >= 0:
            return _sound(text)
        self.truncated = True
        cut = _sound(text[:TEXT_LENGTH_MAX])
        return f"{cut}... ({len(text)} characters)" if self._marks_texts else cut

    def _integer(self, value: int) -> _Json:
        if LONG_MIN <= value <= LONG_MAX:
            return value
        bits = value.bit_length()
        if bits <= _INTEGER_BITS_MAX:
            return str(value)
        self.truncated = True
        return f"(an integer of {bits} bits)"

    def _memory(self, value: bytes | bytearray | memoryview) -> dict[str, _Json]:
        view = memoryview(value)
        head = bytes(view.cast("B")[:HEAD_BYTES]) if view.nbytes and view.c_contiguous else b""
        self.truncated |= len(head) < view.nbytes
        return {"$bytes": view.nbytes, "head": head.hex()}

    def _omit(self, count: int) -> int:
        self.truncated = True
        return count

    def _enter(self, value: Any) -> _Json:
        """Render a container, unless it is being rendered already or too deep."""
        depth = len(self._outer)
        if id(value) in self._outer:
            return {"$cycle": depth - self._outer[id(value)]}
        if depth >= self._depth_max:
            return {"$omitted": self._omit(1)}
        self._outer[id(value)] = depth
        try:
            return self._render_container(value)
        finally:
            del self._outer[id(value)]

    def _render_container(self, value: Any) -> _Json:
        if isinstance(value, list | tuple | deque | array.array):
            return self._list(value, len(value))
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, set | frozenset):
            few = sorted(value, key=short_repr) if len(value) <= self._nodes_left else value
            return {"$set": self._list(few, len(value))}
        if isinstance(value, Inert):
            return self._record(value)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic | numpy.dtype):
            return self._numpy(value, numpy)
        self.truncated = True
        return {"$class": f"{type(value).__module__}.{type(value).__qualname__}"}

    def _list(self, items: Iterable[Any], length: int) -> list[_Json]:
        rendered: list[_Json] = []
        for item in items:
            if self._nodes_left <= 0:
                rendered.append({"$omitted": self._omit(length - len(rendered))})
                break
            rendered.append(self.render(item))
        return rendered

    def _dict(self, mapping: dict[Any, Any]) -> _Json:
        few = list(islice(mapping, max(self._nodes_left, 1)))
        if all(type(key) is str and not key.startswith("$") for key in few) and not _may_collide(few):
            return self._object(mapping)
        pairs = ((key, shown(key, item)) for key, item in mapping.items())
        return {"$dict": self._list(pairs, len(mapping))}

    def _object(self, mapping: dict[str, Any]) -> dict[str, _Json]:
        rendered: dict[str, _Json] = {}
        for key, item in mapping.items():
            if self._nodes_left <= 0:
                rendered["$omitted"] = self._omit(len(mapping) - len(rendered))
                break
            rendered[self._text(key)] = self.render(shown(key, item))
        return rendered

    def _record(self, record: Inert) -> dict[str, _Json]:
        name = record.public_name
        if record.args is None:
            return {"$global": name}
        if record.is_opaque:
            return {"$class": name, "$omitted": self._omit(1)}
        if record.member is not None and record.args:
            return {"$class": name, "name": self._text(record.member), "value": self.render(record.args[0])}
        attributes, args, state = record.parts
        parts = {
            "$args": args,
            "$kwargs": record.kwargs,
            "$state": state,
            "$items": record.items,
            "$entries": record.entries,
        }
        own = self._dict(attributes)
        others = {key: self.render(part) for key, part in parts.items() if part is not None and not _is_empty(part)}
        return {"$class": name, **own, **others}

    def _numpy(self, value: Any, numpy: Any) -> _Json:
        if isinstance(value, numpy.dtype):
            return self._text(str(value))
        if isinstance(value, numpy.void) and hides_a_field(value.dtype):
            return repr(REDACTED)
        if isinstance(value, numpy.generic):
            has_no_plain_twin = value.dtype.char in "gGmM"
            return self._text(str(value)) if has_no_plain_twin else self.render(value.item())
        if hides_a_field(value.dtype):
            return {"$array": str(value.dtype), "shape": list(value.shape), "head": repr(REDACTED)}
        head = self._list(islice(value.flat, HEAD_ITEMS), min(value.size, HEAD_ITEMS))
        self.truncated |= value.size > HEAD_ITEMS
        return {"$array": str(value.dtype), "shape": list(value.shape), "head": head}


def _sound(text: str) -> str:
    """The string, with escapes for lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def _may_collide(keys: list[str]) -> bool:
    """Whether two keys may be rendered as the same string: then they begin with the same."""
    if all(key.isascii() and len(key) <= TEXT_LENGTH_MAX for key in keys):
        return False
    return len({_sound(key[:TEXT_LENGTH_MAX])[:TEXT_LENGTH_MAX] for key in keys}) < len(keys)


def _is_empty(part: Any) -> bool:
    return isinstance(part, tuple | list | dict) and not part


def _real(value: float) -> _Json:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_SCALARS: dict[type, Callable[[Any], _Json]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    float: _real,
    Redacted: repr,
}
