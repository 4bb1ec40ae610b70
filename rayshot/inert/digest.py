"""A digest of a value's content. Two snapshots give the same digest if the inert reader reads the same content.

Theory of operation. A value is encoded from its leaves up. A value that msgpack knows is encoded as its msgpack. Any
other value is a byte that msgpack never writes, and a digest of its type and of the encodings of its parts. So a row of
encodings has only one meaning. The parts of dicts and sets are sorted, and an object that occurs again is encoded once:
neither order nor sharing changes a digest. A cycle is encoded as the distance to its start.

All redacted values have the same digest, because the digest of a PIN would tell the PIN.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from blake3 import blake3

from rayshot.inert.anatomy import anatomy_of, kind_of, leaf_of, pack
from rayshot.inert.inert_object import Inert
from rayshot.inert.redaction import may_be_secrets, shown

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
            return pack(value)
        if id(value) in self._known:
            return self._known[id(value)][0]
        if id(value) in self._depths:
            return _digest("cycle", [pack(len(self._open) - self._depths[id(value)])])
        flat = _flat(value)
        if flat is not None and len(value) <= _FEW:
            return flat
        opened = _opened(value) if flat is None else None
        if opened is None:
            encoding = _digest(*leaf_of(value, redacted=True)) if flat is None else flat
            self._known[id(value)] = encoding, value
            return encoding
        self._depths[id(value)] = len(self._open)
        self._open.append(opened)
        return None


def _digest(kind: str, parts: Iterable[bytes | memoryview]) -> bytes:
    hasher = blake3(pack(kind))
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
    return _digest(f"flat {kind.__name__}", [pack(packed)])


def _opened(value: Any) -> _Open | None:
    """The parts of a container; None for other values."""
    if isinstance(value, Inert):
        attributes, args, state = value.parts
        called = None if value.args is None else args
        record = (value.class_name, called, value.kwargs, attributes, state, value.items, value.entries)
        return _Open(value, record, lambda encodings: _digest("record", encodings))
    found = anatomy_of(value)
    if found is None:
        return None
    facts, parts, order = found
    kind = kind_of(value)
    if order == "keyed":
        kind = " of ".join((kind, *facts))
        pairs = (part for key, item in value.items() for part in (key, shown(key, item)))
        return _Open(value, pairs, lambda encodings: _digest(kind, _sorted_pairs(encodings)))
    if order == "unordered":
        return _Open(value, parts, lambda encodings: _digest(kind, sorted(encodings)))
    return _Open(value, chain(facts, parts), lambda encodings: _digest(kind, encodings))


def _sorted_pairs(encodings: _Encodings) -> Iterator[bytes]:
    for pair in sorted(zip(encodings[::2], encodings[1::2], strict=True)):
        yield from pair
