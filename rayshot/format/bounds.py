"""The largest sizes and counts that a reader accepts, and the checks that every field read from bytes passes.

A check returns its value or raises. It raises LimitExceeded if a size or count is over its bound, UnsafePath if a key
would leave its folder, and BadManifest for anything else. A check looks at the type first, so it takes any value.
"""

import math
import re
import reprlib
from collections.abc import Callable, Collection, Sized
from itertools import islice
from typing import Any

from rayshot.errors import BadManifest, ConfigError, LimitExceeded, UnsafePath
from rayshot.protocol.identity import DRIVER_PREFIX, check_actor_name, check_name, is_driver, is_initiator

MANIFEST_BYTES_MAX = 256 << 20
ENVELOPE_BYTES_MAX = MANIFEST_BYTES_MAX + (8 << 20)
"""The largest stored manifest: signed, and encrypted with its wrapped keys."""

DATA_KEYS_MAX = 100_000
"""One encrypted snapshot can use chunks of so many snapshots."""

CONTAINERS_MAX = 16_000_000
"""Lists and maps in one document. An empty list is one byte, but takes dozens of bytes of memory."""

ACTORS_MAX = 1_000_000
CHANNELS_MAX = 4_000_000
CHUNKS_MAX = 4_000_000
METHODS_MAX = 10_000
STATS_MAX = 1_000
BUFFERS_MAX = 1_000_000
"""Out-of-band buffers of one actor's state."""

SLOTS_MAX = 1_000_000
"""Slots of one message, and messages with slots of one channel."""

OWED_MAX = 1_000_000
"""Calls of one channel without an answer."""

SPANS_MAX = 1_000_000
"""Spans of one blob."""

CHUNK_BYTES_MAX = 64 << 20
"""One chunk, before compression and after."""

BLOB_BYTES_MAX = 64 << 30
OUTSIDE_FILES_MAX = 100_000
"""Files of one actor in one snapshot."""

OUTSIDE_FILE_BYTES_MAX = 1 << 50
PAYLOAD_BYTES_MAX = 64 << 10
"""What a hook may give to a snapshot, as UTF-8."""

FILE_PATH_BYTES_MAX = 400
"""The path of an outside file, as UTF-8. With all folders above it, a key stays below what object storages take."""

FILE_PARTS_MAX = 32
"""The name of such a file and the folders above it."""

FILE_NAME_BYTES_MAX = 255
"""One part of such a path, as UTF-8: what file systems take."""

TEXT_LENGTH_MAX = 1_024
LABEL_LENGTH_MAX = 256
OPTIONS_DEPTH_MAX = 16
OPTIONS_ITEMS_MAX = 10_000
"""All values of one actor's options together, at any depth."""

TIME_MAX_S = 1e11
"""Unix seconds, in the year 5138. Every calendar can show times up to it, in every time zone."""

COUNTER_MAX = 2**63 - 1
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1
"""The integers that msgpack can write."""

_INTENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_count(value: Any, what: str, largest: int = COUNTER_MAX, smallest: int = 0) -> int:
    """Return `value` if it is an integer from `smallest` to `largest`, both included."""
    if type(value) is not int:
        raise BadManifest(f"{what} is {reprlib.repr(value)}, not an integer")
    if value > largest:
        raise LimitExceeded(f"{what} is {value}, above the limit of {largest}", limit=largest)
    if value < smallest:
        raise BadManifest(f"{what} is {value}, below {smallest}")
    return value


def check_length(value: Sized, what: str, largest: int) -> None:
    """Raise LimitExceeded if `value` has more than `largest` items."""
    if len(value) > largest:
        raise LimitExceeded(f"{what}: the length {len(value)} is above the limit of {largest}", limit=largest)


def check_text(value: Any, what: str, largest: int = TEXT_LENGTH_MAX) -> str:
    """Return `value` if it is a string of 1 to `largest` characters that UTF-8 can encode."""
    if not isinstance(value, str) or not value:
        raise BadManifest(f"{what} is {reprlib.repr(value)}, not a string of at least one character")
    check_length(value, what, largest)
    _check_utf8(value, what)
    return value


def check_real(value: Any, what: str) -> float:
    """Return `value` if it is a float that is neither NaN nor infinite."""
    if type(value) is not float or not math.isfinite(value):
        raise BadManifest(f"{what} is {reprlib.repr(value)}, not a finite float")
    return value


def check_time(value: Any, what: str) -> float:
    """Return `value` if it is a float of Unix seconds from 0 to TIME_MAX_S."""
    time_s = check_real(value, what)
    if not 0 <= time_s <= TIME_MAX_S:
        raise BadManifest(f"{what} is {time_s}, not a time from 1970 to 5138")
    return time_s


def check_process(value: Any, what: str) -> str:
    """Return `value` if it names an actor, or a driver as `driver:<name>`."""
    if isinstance(value, str) and is_driver(value):
        _checked(check_name, value.removeprefix(DRIVER_PREFIX), what)
        return value
    return check_actor(value, what)


def check_actor(value: Any, what: str) -> str:
    """Return `value` if it can name an actor."""
    return _checked(check_actor_name, value, what)


def check_system(value: Any) -> str:
    """Return `value` if it can name a system."""
    return _checked(check_name, value, "a system")


def _checked(check: Callable[[Any, str, Collection[str]], str], value: Any, what: str) -> str:
    try:
        return check(value, what, ())
    except ConfigError as error:
        raise BadManifest(f"{reprlib.repr(value)} cannot name {what}") from error


def check_initiator(value: Any) -> str:
    """Return `value` if it can be the initiator in the id of a snapshot."""
    if not isinstance(value, str) or not is_initiator(value):
        raise BadManifest(f"{reprlib.repr(value)} cannot be the initiator of a snapshot")
    return value


def is_file_path(value: str) -> bool:
    """Whether `value` can be the path of an outside file, which is below its folder on every disk and object storage.

    It has 1 to FILE_PATH_BYTES_MAX bytes of UTF-8, with `/` between its 1 to FILE_PARTS_MAX parts. All characters are
    printable, and none is a backslash. No part has more than FILE_NAME_BYTES_MAX bytes, is `.` or `..`, or begins with
    `.rayshot-`, as the temporary files of rayshot do.
    """
    if not value.isprintable() or "\\" in value or len(value.encode()) > FILE_PATH_BYTES_MAX:
        return False
    parts = value.split("/")
    return len(parts) <= FILE_PARTS_MAX and not any(
        part in {"", ".", ".."} or part.startswith(".rayshot-") or len(part.encode()) > FILE_NAME_BYTES_MAX
        for part in parts
    )


def check_file_path(value: Any, what: str) -> str:
    """Return `value` if `is_file_path`."""
    if not isinstance(value, str) or not is_file_path(value):
        raise UnsafePath(f"{what} has the path {reprlib.repr(value)}, which cannot be the path of a file", path=value)
    return value


def check_digest(value: Any, what: str) -> str:
    """Return `value` if it is 64 lower-case hexadecimal digits."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise BadManifest(f"the digest of {what} is {reprlib.repr(value)}, not 64 hexadecimal digits")
    return value


def is_intent(value: Any) -> bool:
    """Whether `value` can be an intent: 1 to 256 letters, digits, `_`, `.` or `-`; the first is a letter or digit."""
    return isinstance(value, str) and _INTENT.fullmatch(value) is not None


def check_options(options: Any, what: str) -> None:
    """Check that `options` is a dict with string keys, and that msgpack returns its values unchanged.

    Allowed are None, bool, int of 64 bits, float, str and bytes, and lists and string-keyed dicts of these. They nest
    at most OPTIONS_DEPTH_MAX deep and have at most OPTIONS_ITEMS_MAX values in all. Tuples are refused, because
    msgpack returns them as lists.
    """
    if type(options) is not dict:
        raise BadManifest(f"{what} are of the type {type(options).__name__}, not dict")
    items = 0
    level: list[tuple[str, Any]] = [(what, options)]
    for _ in range(OPTIONS_DEPTH_MAX):
        children = (child for path, value in level for child in _children(path, value))
        level = list(islice(children, OPTIONS_ITEMS_MAX + 1))
        items += len(level)
        if items > OPTIONS_ITEMS_MAX:
            raise LimitExceeded(f"{what} hold more than {OPTIONS_ITEMS_MAX} values", limit=OPTIONS_ITEMS_MAX)
        if not level:
            return
    raise LimitExceeded(f"{what} are nested more than {OPTIONS_DEPTH_MAX} deep", limit=OPTIONS_DEPTH_MAX)


def _children(path: str, value: Any) -> list[tuple[str, Any]]:
    """The items of a container, each with its path. A scalar has none; it is checked here."""
    if type(value) is dict:
        check_length(value, path, OPTIONS_ITEMS_MAX)
        for key in value:
            if type(key) is not str:
                raise BadManifest(f"{path} has the key {reprlib.repr(key)}, not a string")
            _check_utf8(key, path)
        return [(f"{path}[{reprlib.repr(key)}]", item) for key, item in value.items()]
    if type(value) is list:
        check_length(value, path, OPTIONS_ITEMS_MAX)
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    _check_scalar(path, value)
    return []


def _check_scalar(path: str, value: Any) -> None:
    kind = type(value)
    if kind is str:
        _check_utf8(value, path)
    elif kind is int:
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise BadManifest(f"{path} is an integer that needs more than 64 bits")
    elif kind not in {bool, float, bytes, type(None)}:
        raise BadManifest(f"{path} is a {kind.__name__}; msgpack would not return it unchanged")


def _check_utf8(value: str, what: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadManifest(f"{what} holds a lone surrogate, which UTF-8 cannot encode") from error
