"""What an answer said, in a few bytes beside it: a driver keeps them, and compares them when it is given again.

Only what is cheap to compare is compared: plain values, texts and bytes up to LENGTH_MAX, and containers of up to
ITEMS_MAX such values in all. Of errors, and of all other values, it is only the class.
"""

import hashlib
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from rayshot.errors import ActorExited
from rayshot.format.codec import FLAT
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import pack, unpack

ITEMS_MAX = 64
LENGTH_MAX = 65_536
WHOLE_MAX = 48
"""A value of up to so many bytes is kept as it is, and can be shown; of a larger one the digest and the kind."""
DIGEST_BYTES = 16
SHOWN_MAX = 80

_WHOLE, _DIGEST, _RAISED, _KIND = b"=", b"#", b"!", b"?"
_TOO_MUCH = "it is not cheap to compare"


def digest(value: Any) -> bytes:
    """Bytes that differ if two outcomes differ; b"" for an error that says nothing of the call."""
    kind = type(value)
    if isinstance(value, door.CallFailed):
        return _of_error(value)
    try:
        packed = pack(value if kind in FLAT and _is_short(value) else _plain(value, [ITEMS_MAX]))
    except Exception:  # noqa: BLE001 - it runs code of the value's class; and no bytes are cheap for some values
        return _KIND + _name(kind)
    if len(packed) <= WHOLE_MAX:
        return _WHOLE + packed
    return _DIGEST + hashlib.blake2b(packed, digest_size=DIGEST_BYTES).digest() + _name(kind)


def describe(answer: bytes) -> str:
    """What a digest shows of its answer, on one line of up to SHOWN_MAX characters."""
    assert answer, "an outcome that says nothing of the call is not shown"
    kind, rest = answer[:1], answer[1:]
    if kind == _WHOLE:
        text = repr(unpack(rest))
        return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."
    if kind == _DIGEST:
        return f"a value of class {rest[DIGEST_BYTES:].decode()} (digest {rest[:4].hex()})"
    return f"{'the error' if kind == _RAISED else 'a value of class'} {rest.decode()}"


def _of_error(error: door.CallFailed) -> bytes:
    if isinstance(error, door.Raised):
        return _RAISED + _name(type(error.cause))
    return _RAISED + b"ActorExited" if isinstance(error, ActorExited) else b""


def _name(kind: type) -> bytes:
    return kind.__qualname__[:SHOWN_MAX].encode(errors="replace")


def _is_short(value: Any) -> bool:
    return not isinstance(value, str | bytes) or len(value) <= LENGTH_MAX


def _plain(value: Any, left: list[int]) -> Any:
    """The value as msgpack takes it; two equal values become the same. `left`: how many items it may have yet.

    Raises any error for a value of which only the class is compared.
    """
    kind = type(value)
    left[0] -= 1
    if left[0] < 0 or not _is_short(value):
        raise ValueError(_TOO_MUCH)
    if kind in FLAT:
        return value
    if isinstance(value, Enum):
        return f"{kind.__qualname__}.{value.name or value.value}"  # some flags have no name
    if is_dataclass(kind):
        return {kind.__qualname__: {field.name: _plain(getattr(value, field.name), left) for field in fields(kind)}}
    is_named = isinstance(value, tuple) and hasattr(kind, "_fields")
    if not (is_named or kind in (tuple, list, dict, set, frozenset)) or len(value) > left[0]:
        raise ValueError(_TOO_MUCH)
    if kind is dict:
        if not FLAT.issuperset(map(type, value)):
            raise ValueError(_TOO_MUCH)
        return {key: _plain(value[key], left) for key in sorted(value, key=pack)}
    items = [_plain(item, left) for item in value]
    return {kind.__name__: sorted(items, key=pack)} if kind in (set, frozenset) else items
