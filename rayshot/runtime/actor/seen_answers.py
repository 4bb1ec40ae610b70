"""Answers that drivers have seen: in a later life the same call may be answered in another way, and somebody must know.

Only what is cheap to compare is compared: plain values, short tuples and lists of them, and the kinds of errors.
"""

import hashlib
from itertools import islice
from typing import Any

from rayshot.format.codec import FLAT
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import pack

SEEN_MAX = 4096
"""An actor remembers so many of its last answers."""
ITEMS_MAX = 64
"""A sequence with more items is not compared."""
DIGEST_BYTES = 16

_Key = tuple[str, int]


class SeenAnswers:
    """Digests of the answers that one actor gave. Call everything under the process's lock."""

    def __init__(self) -> None:
        self._now: dict[_Key, bytes] = {}
        self._before: dict[_Key, bytes] = {}

    def go_on_from(self, before: "SeenAnswers") -> None:
        """A later life begins, after a rollback: calls may be answered again."""
        known = {**before._before, **before._now}  # noqa: SLF001 - of its own class
        self._before = dict(islice(known.items(), max(0, len(known) - SEEN_MAX), None))

    def note(self, key: _Key, value: Any) -> None:
        """A driver got this answer of a call; `key` is the driver and the call's number."""
        if (found := digest(value)) is not None:
            self._now[key] = found
            if len(self._now) > SEEN_MAX:
                del self._now[next(iter(self._now))]

    def differs(self, key: _Key, value: Any) -> bool:
        """Whether an earlier life gave another answer to the same call. It says so once."""
        before = self._before.pop(key, None)
        if before is None:
            return False
        found = digest(value)
        return found is not None and found != before


def digest(value: Any) -> bytes | None:
    """A few bytes that differ if two values differ; None for a value that is not compared."""
    if isinstance(value, door.Raised):
        return f"raised {type(value.cause).__qualname__}".encode()
    if type(value) not in FLAT and not _is_short(value):
        return None
    try:
        packed = pack(value)
    except (OverflowError, UnicodeEncodeError):  # an integer of more than 64 bits; a text that is not valid Unicode
        return None
    return packed if len(packed) <= DIGEST_BYTES else hashlib.blake2b(packed, digest_size=DIGEST_BYTES).digest()


def _is_short(value: Any) -> bool:
    return type(value) in (tuple, list) and len(value) <= ITEMS_MAX and FLAT.issuperset(map(type, value))
