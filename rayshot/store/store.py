"""What every place for bytes must be able to do: six verbs, of which `create` carries all the guarantees.

A store holds objects under keys. A key is a relative path with `/` between its parts. Objects are written
once and never changed; that an object is there in whole, or not at all, is the store's duty, and so is that
only one of any number of writers of the same key wins. Everything else (order, commit, fencing) is built
above, from that alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rayshot.errors import UnsafePath

KEY_LENGTH_MAX = 1024
PROBE_PREFIX = "check-"
"""What a store is tried out with is called so, and lies directly in its root."""
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in a listing.

    `key` is whole, counted from the store's root, and ends in `/` where it stands for a folder of a shallow
    listing (then `size` and `modified` are 0). `size` is in bytes, `modified` in seconds since 1970 by the
    store's clock.
    """

    key: str
    size: int
    modified: float


Bytes = bytes | bytearray | memoryview
"""One contiguous buffer of bytes."""

Data = Bytes | Sequence[Bytes]
"""What an object is made of: one buffer, or several that are written one behind the other, unjoined."""


class Store(Protocol):
    """A place for write-once objects. Safe to use from many threads.

    Besides the errors named below every verb raises UnsafePath for a key that could lead out of the store,
    and StoreUnavailable when the place does not answer or refuses.
    """

    @property
    def url(self) -> str:
        """The address that `open_store` takes to open the same place; holds no secret."""

    def create(self, key: str, data: Data) -> None:
        """Write a new object, durably and whole; of several creators of one key exactly one succeeds.

        Raises:
            AlreadyExists: the key is taken; nothing was written. The writer may have been this call, when an
                answer was lost on the way: read the key back before believing that another one won.
            StoreFull: no room; nothing was written. Evidence: `path`, `bytes`.
            StoreUnavailable: whether the object was written is not known.
        """

    def read(self, key: str) -> bytes:
        """Return the whole object; raises KeyNotFound."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start` on: fewer where the object ends, none behind its end.

        Raises KeyNotFound.
        """

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        """Yield the objects beneath the folder `prefix` in the order of their keys; nothing if there is none.

        Args:
            prefix: a folder without a `/` at its end; empty means the whole store.
            after: only keys that sort behind this one.
            shallow: only what lies directly in the folder; folders in it are yielded once, their keys ending
                in `/`.
        """

    def delete(self, key: str) -> None:
        """Remove the object; that it is not there is no error."""

    def check(self) -> None:
        """Make the place ready for writing and prove that it keeps the promises above; raises ConfigError."""


def is_key(key: str) -> bool:
    """Whether `key` stays inside every kind of store."""
    return len(key) <= KEY_LENGTH_MAX and all(_PART.fullmatch(part) for part in key.split("/"))


def check_key(key: str) -> str:
    """Return `key` if it stays inside every kind of store, else raise UnsafePath."""
    if not is_key(key):
        raise UnsafePath(
            f"the key {key[:200]!r} could lead out of the storage folder, so rayshot does not open it", key=key
        )
    return key


def buffers(data: Data) -> list[memoryview]:
    """View `data` as flat byte buffers, none of them copied."""
    several = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    return [memoryview(one).cast("B") for one in several]


def size_bytes(data: Data) -> int:
    """Count the bytes of `data`."""
    return sum(view.nbytes for view in buffers(data))
