"""A digest of a value's content. Two snapshots give the same digest if the inert reader reads the same content.

Theory of operation. A value is encoded from its leaves up. A value that msgpack knows is encoded as its msgpack. Any
other value is a byte that msgpack never writes, and a digest of its type and of the encodings of its parts. So a row of
encodings has only one meaning. The parts of dicts and sets are sorted, and an object that occurs again is encoded once:
neither order nor sharing changes a digest. A cycle is encoded as the distance to its start.

All redacted values have the same digest, because the digest of a PIN would tell the PIN.
"""

import array
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgpack
from blake3 import blake3

from rayshot.format.inert_record import HandleRecord, Inert
from rayshot.format.jsonable import hides_a_field
from rayshot.format.redaction import Redacted, may_be_secrets, shown

DIGEST_BYTES = 16
_MARK = b"\xc1"
_PLAIN = frozenset({type(None), bool, int, float, str})
_TEXTS = frozenset({str})
_FEW = 16
"""Plain values in a container that is quicker encoded again than looked up."""
_TEXT_LENGTH_MAX = 4096
"""A longer string may occur many times, and is encoded once."""
_LONG_MIN, _LONG_MAX = -(2**63), 2**64 - 1
"""The integers that msgpack can write."""
_Encodings = list[bytes]


def content_digest(value: Any) -> str:
    """The digest in hexadecimal. 1, 1.0 and True have different ones, and so have a list and a tuple.

    It takes time and memory linear in the content of the value, however it is nested.
    """
    return blake3(_Encoding().encode(value)).hexdigest(DIGEST_BYTES)


class _Open:
    """A container with some of its parts encoded."""

    __slots__ = ("encodings", "join", "parts", "value")

    def __init__(self, value: Any, parts: Iterable[Any], join: Callable[[_Encodings], bytes]) -> None:
        self.value = value
        self.parts: Iterator[Any] = iter(parts)
        self.join = join
        self.encodings: _Encodings = []


class _Encoding:
    """Encodes one value and all in it without recursion. `_known` are the containers met: encodings and themselves."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, Any]] = {}
        self._depths: dict[int, int] = {}
        self._open: list[_Open] = []

    def encode(self, value: Any) -> bytes:
        encoding = self._begin(value)
        while encoding is None or self._open:
            top = self._open[-1]
            if encoding is not None:
                top.encodings.append(encoding)
            encoding = None
            for part in top.parts:
                encoding = self._begin(part)
                break
            else:
                encoding = self._close()
        return encoding

    def _close(self) -> bytes:
        done = self._open.pop()
        encoding = done.join(done.encodings)
        del self._depths[id(done.value)]
        self._known[id(done.value)] = encoding, done.value
        return encoding

    def _begin(self, value: Any) -> bytes | None:
        """The encoding, or None where the value is a container that now stands on top of those that are open."""
        if _is_small(value):
            return _pack(value)
        if id(value) in self._known:
            return self._known[id(value)][0]
        if id(value) in self._depths:
            return _digest("cycle", [_pack(len(self._open) - self._depths[id(value)])])
        flat = _flat(value)
        if flat is not None and len(value) <= _FEW:
            return flat
        opened = _opened(value) if flat is None else None
        if opened is None:
            encoding = _leaf(value) if flat is None else flat
            self._known[id(value)] = encoding, value
            return encoding
        self._depths[id(value)] = len(self._open)
        self._open.append(opened)
        return None


def _digest(kind: str, parts: Iterable[bytes | memoryview]) -> bytes:
    hasher = blake3(_pack(kind))
    for part in parts:
        hasher.update(part)
    return _MARK + hasher.digest(DIGEST_BYTES)


def _is_small(value: Any) -> bool:
    """Whether it is a plain value that msgpack has in few bytes, and always in the same: of NaN there are many."""
    kind = type(value)
    if kind is str:
        return len(value) <= _TEXT_LENGTH_MAX
    if kind is float:
        return bool(value == value)  # noqa: PLR0124
    return kind in _PLAIN and (kind is not int or _LONG_MIN <= value <= _LONG_MAX)


def _pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _flat(value: Any) -> bytes | None:
    """A list, a tuple or a dict of plain values at once; None for anything else."""
    kind = type(value)
    if kind in {list, tuple} and all(map(_is_small, value)):
        packed = value
    elif (
        kind is dict
        and _TEXTS.issuperset(map(type, value))
        and all(map(_is_small, value))
        and all(map(_is_small, value.values()))
        and not may_be_secrets(value)
    ):
        packed = dict(sorted(value.items()))
    else:
        return None
    return _digest(f"flat {kind.__name__}", [_pack(packed)])


def _opened(value: Any) -> _Open | None:
    """The parts of a container; None for other values."""
    kind = _kind(value)
    if isinstance(value, list | tuple):
        return _Open(value, value, lambda encodings: _digest(kind, encodings))
    if isinstance(value, deque):
        return _Open(value, [value.maxlen, *value], lambda encodings: _digest(kind, encodings))
    if isinstance(value, set | frozenset):
        return _Open(value, value, lambda encodings: _digest(kind, sorted(encodings)))
    if isinstance(value, dict):
        if isinstance(value, defaultdict):
            kind = f"{kind} of {value.default_factory}"
        parts = (part for key, item in value.items() for part in (key, shown(key, item)))
        return _Open(value, parts, lambda encodings: _digest(kind, _sorted_pairs(encodings)))
    if isinstance(value, Inert):
        attributes, args, state = value.parts
        called = None if value.args is None else args
        record = (value.class_name, called, value.kwargs, attributes, state, value.items, value.entries)
        return _Open(value, record, lambda encodings: _digest("record", encodings))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype == object:
        return _Open(value, [*value.shape, *value.flat], lambda encodings: _digest(kind, encodings))
    return None


def _sorted_pairs(encodings: _Encodings) -> Iterator[bytes]:
    for pair in sorted(zip(encodings[::2], encodings[1::2], strict=True)):
        yield from pair


def _leaf(value: Any) -> bytes:
    """Encode a value that is neither plain nor a container."""
    kind = _kind(value)
    if type(value) is str:
        return _digest(kind, [value.encode("utf-8", "surrogatepass")])
    if type(value) is int:
        return _digest(kind, [hex(value).encode()])
    if isinstance(value, bytes | bytearray | memoryview):
        return _digest(kind, [bytes(value)])
    if isinstance(value, array.array):
        return _digest(kind, [value.typecode.encode(), value.tobytes()])
    if isinstance(value, HandleRecord):
        return _digest("handle", [_pack(value.system), _pack(value.name)])
    if isinstance(value, Redacted):
        return _digest("redacted", [])
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return _digest(kind, _numpy_parts(value))
    return _digest(kind, [_pack(str(value))])


def _numpy_parts(value: Any) -> Iterator[bytes]:
    yield _pack([str(value.dtype), *value.shape])
    if hides_a_field(value.dtype):
        return
    if value.dtype.names is None:
        yield value.tobytes()
        return
    for name in value.dtype.names:  # between fields there may be bytes that mean nothing
        yield from _numpy_parts(value[name])
