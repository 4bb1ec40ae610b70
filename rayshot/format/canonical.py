"""Canonical msgpack: one document has exactly one spelling, and reading it takes bounded memory.

Theory of operation. The bytes may come from an attacker. A first walk builds nothing. It proves that every announced
array, map and string is really there. So the second walk, which builds, never allocates for elements that do not
exist. Hooks refuse extension types, and count the containers where there can be too many. At the end the result is
packed again and compared with the bytes. This refuses a longer spelling of an integer, a float of 32 bits, a map with
the same key twice, and anything else that has two spellings. Therefore pack(unpack(x)) == x for every x that `unpack`
accepts.
"""

from typing import Any, NoReturn

import msgpack

from rayshot.errors import BadManifest, LimitExceeded
from rayshot.format.bounds import CONTAINERS_MAX
from rayshot.format.msgpack_walk import count_documents

_TIMESTAMP_AS_DATETIME = 3
"""Timestamps never reach `ext_hook`. Read as a datetime, one fails when it is packed again."""


def pack(tree: Any) -> bytes:
    """Spell a tree of None, bool, 64-bit int, float, str, bytes, list, tuple (reads as a list) and dict."""
    packed: bytes = msgpack.packb(tree)
    return packed


def unpack(data: bytes, *, what: str, bytes_max: int) -> Any:
    """Read one canonical document of at most `bytes_max` bytes.

    `what` names the document in errors. Raises LimitExceeded for too many bytes or containers. Raises BadManifest for
    everything else: a cut document, trailing bytes, unknown types, repeated keys, a spelling that is not canonical.
    """
    if len(data) > bytes_max:
        raise LimitExceeded(f"{what} has {len(data)} bytes, above the limit of {bytes_max}", limit=bytes_max)
    try:
        _walk(data, what)
        tree = _build(data, what)
        same = pack(tree) == data
    except (msgpack.exceptions.UnpackException, ValueError, TypeError, OverflowError) as error:
        raise BadManifest(f"{what} is not readable msgpack: {type(error).__name__}: {error}") from error
    if not same:
        raise BadManifest(f"{what} is not canonical msgpack: another program wrote it, or changed it")
    return tree


def _walk(data: bytes, what: str) -> None:
    if count_documents(data, 1) != 1:
        raise BadManifest(f"{what} is not one document: it is cut, or other bytes follow it")


def _build(data: bytes, what: str) -> Any:
    left = CONTAINERS_MAX

    def count(container: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise LimitExceeded(f"{what} holds more than {CONTAINERS_MAX} lists and maps", limit=CONTAINERS_MAX)
        return container

    def refuse(code: int, _data: bytes) -> NoReturn:
        raise BadManifest(f"{what} holds the extension type {code}; extension types are not allowed")

    # each takes a byte at least, and a call for each would take more time than all the rest
    hooks: dict[str, Any] = {"list_hook": count, "object_hook": count} if len(data) > CONTAINERS_MAX else {}
    return msgpack.unpackb(data, ext_hook=refuse, timestamp=_TIMESTAMP_AS_DATETIME, **hooks)
