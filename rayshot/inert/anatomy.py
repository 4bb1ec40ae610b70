"""What values of the inert reader consist of, one level at a time: for all that compares, digests or measures them.

A value is a container of parts, or a leaf of bytes. Only here it is said which types are what. Nothing of it is called.
"""

import array
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

import msgpack

from rayshot.inert.inert_object import HandleRecord, Inert
from rayshot.inert.redaction import Redacted, hides_a_field

Order = Literal["listed", "unordered", "keyed"]
"""How parts stand in a container. Those that are keyed are a dict, whose order means nothing."""
Anatomy = tuple[tuple[Any, ...], Collection[Any], Order]
"""Facts and parts of a container. Two of one type and with the same facts differ by their parts only."""


def anatomy_of(value: Any) -> Anatomy | None:
    """The anatomy of a container; None for a leaf."""
    if isinstance(value, list | tuple):
        return (), value, "listed"
    if isinstance(value, dict):
        facts = (str(value.default_factory),) if isinstance(value, defaultdict) else ()
        return facts, value, "keyed"
    if isinstance(value, Inert):
        return (value.class_name,), (value.args, value.kwargs, value.state, value.items, value.entries), "listed"
    if isinstance(value, set | frozenset):
        return (), value, "unordered"
    if isinstance(value, deque):
        return (value.maxlen,), value, "listed"
    if is_numpy(value) and value.dtype == object:
        return value.shape, value.ravel().tolist(), "listed"
    return None


def kind_of(value: Any) -> str:
    """The name of its type."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def is_numpy(value: Any) -> bool:
    """Whether it is an array or a scalar of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def pack(value: Any) -> bytes:
    """The msgpack of a plain value."""
    packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def leaf_of(value: Any, *, redacted: bool) -> tuple[str, Iterable[bytes]]:
    """The kind and the bytes of a leaf; equal leaves have equal ones. `redacted`: without fields that hide secrets."""
    kind = kind_of(value)
    if type(value) is str:
        return kind, [value.encode("utf-8", "surrogatepass")]
    if type(value) is int:
        return kind, [hex(value).encode()]
    if isinstance(value, bytes | bytearray | memoryview):
        return kind, [bytes(value)]
    if isinstance(value, array.array):
        return kind, [value.typecode.encode(), value.tobytes()]
    if isinstance(value, HandleRecord):
        return "handle", [pack(value.system), pack(value.name)]
    if isinstance(value, Redacted):
        return "redacted", []
    if is_numpy(value):
        return kind, _numpy_parts(value, redacted=redacted)
    return kind, [pack(str(value))]  # what is equal may be written in several ways


def _numpy_parts(value: Any, *, redacted: bool) -> Iterator[bytes]:
    yield pack([str(value.dtype), *value.shape])
    if redacted and hides_a_field(value.dtype):
        return
    if value.dtype.names is None:
        yield value.tobytes()
        return
    for name in value.dtype.names:  # between fields there may be bytes that mean nothing
        yield from _numpy_parts(value[name], redacted=redacted)
