"""A value of a state or a message, as the inert reader gave it, in table cells. Nothing of the value is ever called."""

import array
import json
import math
import sys
from collections import deque
from json.encoder import encode_basestring
from typing import Any

from rayshot.inert.anatomy import anatomy_of, is_numpy
from rayshot.inert.inert_object import HandleRecord, Inert
from rayshot.inert.jsonable import LONG_MAX, LONG_MIN, NODES_MAX, rendered
from rayshot.inert.times import Zone, ZonedTime

TEXT_LENGTH_MAX = 1 << 24
"""The longest text in one cell, in characters."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_DECIMAL_MAX = 10**38 - 1
KEY_LENGTH_MAX = 10_000
"""The longest key in one cell, in characters."""
_BRIEF_NODES_MAX = 100
_PYTHONS_OWN = frozenset({type(None), bool, int, float, str})
_SHORT_LENGTH_MAX = 1_000
_LONG_TEXTS_SHARE = 2
"""This part of a cell may be texts that are long by themselves."""


def sound_text(text: str) -> str:
    """`text` in a form that any encoding of Unicode can carry: a pickle may hold lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def type_name(value: Any) -> str:
    """The name of the value's class, "module.Class"; without the module for a builtin class."""
    if isinstance(value, Inert):
        return "(global)" if value.args is None and value.state is None else sound_text(value.public_name)
    if isinstance(value, HandleRecord):
        return "rayshot.ActorHandle"
    if isinstance(value, Zone):
        return "datetime.tzinfo"
    kind = value.kind if isinstance(value, ZonedTime) else type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def as_json(value: Any) -> str:
    """The text of `in_json`."""
    return in_json(value)[0]


def brief_json(value: Any) -> str:
    """The beginning of the value as JSON, for example of a key: at most KEY_LENGTH_MAX characters."""
    return sound_text(_encode(rendered(value, nodes_max=_BRIEF_NODES_MAX)[0])[:KEY_LENGTH_MAX])


def in_json(value: Any) -> tuple[str, bool]:
    """The value as JSON text of at most TEXT_LENGTH_MAX characters, and whether any of it was left out.

    See `jsonable` for the form.
    """
    if (type(value) is int and LONG_MIN <= value <= LONG_MAX) or (type(value) is float and math.isfinite(value)):
        return repr(value), False
    if type(value) is str and len(value) <= _SHORT_LENGTH_MAX:
        return encode_basestring(sound_text(value)), False
    long_texts_max = TEXT_LENGTH_MAX // _LONG_TEXTS_SHARE
    for nodes in (NODES_MAX, NODES_MAX // 100, NODES_MAX // 10_000):
        document, truncated = rendered(value, nodes_max=nodes, long_texts_max=long_texts_max)
        text = _encode(document)
        if len(text) <= TEXT_LENGTH_MAX:
            return text, truncated
    return '{"$omitted": 1}', True  # few values and still this long: no honest state


def as_long(value: Any) -> int | None:
    """The value, if it is an integer of at most 64 bits."""
    plain = _plain(value)
    return plain if type(plain) is int and LONG_MIN <= plain <= LONG_MAX else None


def as_decimal(value: Any) -> int | None:
    """The value, if it is an integer that is too wide for `as_long` and has at most 38 digits."""
    plain = _plain(value)
    fits = type(plain) is int and -_DECIMAL_MAX <= plain <= _DECIMAL_MAX and not LONG_MIN <= plain <= LONG_MAX
    return plain if fits else None


def as_double(value: Any) -> float | None:
    """The value, if it is a float (also NaN or infinity), or an integer too wide for `as_long`, which is rounded."""
    plain = _plain(value)
    if type(plain) is float:
        return plain
    if type(plain) is not int or LONG_MIN <= plain <= LONG_MAX:
        return None
    try:
        return float(plain)
    except OverflowError:
        return None


def as_string(value: Any) -> str | None:
    """The value, if it is a text of at most TEXT_LENGTH_MAX characters."""
    plain = _plain(value)
    return sound_text(plain) if type(plain) is str and len(plain) <= TEXT_LENGTH_MAX else None


def as_bool(value: Any) -> bool | None:
    """The value, if it is a truth value."""
    plain = _plain(value)
    return plain if type(plain) is bool else None


def size_bytes(value: Any) -> int:
    """The bytes of everything in the value; shared parts count once; what a pickle adds around it does not count."""
    total, seen, waiting = 0, set[int](), [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        if isinstance(item, str | bytes | bytearray | memoryview) or not isinstance(item, _SCALARS):
            seen.add(id(item))
        total += _own_bytes(item)
        found = anatomy_of(item)
        if found is not None:
            _, parts, order = found
            waiting += parts
            waiting += item.values() if order == "keyed" else ()
    return total


_SCALARS = (type(None), bool, int, float, complex)


def _plain(value: Any) -> Any:
    """A numpy scalar as a Python value; any other value unchanged.

    numpy's time spans stay unchanged: numpy counts them as integers of some unit.
    """
    numpy = None if type(value) in _PYTHONS_OWN else sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.bool_ | numpy.number | numpy.str_):
        return value if isinstance(value, numpy.timedelta64) else value.item()
    return value


def _own_bytes(item: Any) -> int:
    """The bytes of `item` without its parts."""
    if isinstance(item, str):
        return len(item) if item.isascii() else len(item.encode("utf-8", "surrogatepass"))
    if isinstance(item, bytes | bytearray | memoryview):
        return memoryview(item).nbytes
    if isinstance(item, bool) or item is None:
        return 1
    if isinstance(item, int):
        return max(1, (item.bit_length() + 7) // 8)
    if isinstance(item, float | complex):
        return 8 if isinstance(item, float) else 16
    if isinstance(item, list | tuple | dict | set | frozenset | deque):
        return 0
    if isinstance(item, array.array):
        return len(item) * item.itemsize
    if isinstance(item, Inert):
        return len(item.class_name)
    if isinstance(item, HandleRecord):
        return len(item.system) + len(item.name)
    if is_numpy(item):
        return int(item.nbytes)
    return len(str(item))  # dates, decimals, paths and the like
