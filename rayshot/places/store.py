"""The verbs of every store. All guarantees rest on `create`.

A store holds objects under keys. A key is a relative path with `/` between its parts. Objects are written once and
never change. The store guarantees that an object exists as a whole or not at all, and that only one of many writers of
the same key wins. Everything else (order, commit, fencing) is built on these two guarantees.

Below `outside/<snapshot>/<actor>/` are files of users, which other programs may write and name. The last three verbs
are for those.
"""

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rayshot.errors import AlreadyExists, ConfigError, StoreError, UnsafePath
from rayshot.format.bounds import is_file_path

KEY_LENGTH_MAX = 1024
PROBE_PREFIX = "check-"
"""Objects that try out a store have names with this prefix, directly in its root."""
_PROBE_FIRST, _PROBE_SECOND = b"first", b"second"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
OUTSIDE = "outside"
"""A folder of this name has folders of snapshots, these of actors, and these the files of users."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in a listing.

    `key` is relative to the store's root. In a shallow listing, the key of a folder ends in `/`, and its `size` and
    `modified` are 0. `size` is in bytes, `modified` in seconds since 1970 by the store's clock.
    """

    key: str
    size: int
    modified: float


Bytes = bytes | bytearray | memoryview
"""One contiguous buffer of bytes."""

Data = Bytes | Sequence[Bytes]
"""The bytes of an object: one buffer, or several that are written one behind the other."""


class Store(Protocol):
    """A place for write-once objects. Many threads can use it.

    Besides the errors below, every verb raises UnsafePath for a key that could lead out of the store, and
    StoreUnavailable if the place does not answer or refuses.
    """

    @property
    def url(self) -> str:
        """The address that `open_store` takes to open the same place; holds no secret."""

    def create(self, key: str, data: Data) -> None:
        """Write a new object, durably and as a whole. Of several creators of one key exactly one succeeds.

        Raises:
            AlreadyExists: the key is taken; nothing was written. If an answer was lost, this call may have written it
                itself: read the object before you conclude that another writer won.
            StoreFull: the store is full; nothing was written. Evidence: `path`, `bytes`.
            StoreUnavailable: the object may or may not be written.
        """

    def read(self, key: str) -> bytes:
        """Return the whole object; raises KeyNotFound."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start` on: fewer at the end of the object, none behind it.

        Raises KeyNotFound.
        """

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        """Yield the objects in the folder `prefix`, at any depth, ordered by key; nothing if it does not exist.

        Args:
            prefix: a folder without a `/` at its end; empty means the whole store.
            after: only keys that sort behind this one.
            shallow: only objects directly in the folder; each folder in it is yielded once, with a key that ends in
                `/`.
        """

    def delete(self, key: str) -> None:
        """Remove the object. It is not an error if the object does not exist."""

    def check(self) -> None:
        """Make the place ready for writing, and prove that it keeps the guarantees above. Raises ConfigError."""

    def adopt(self, folder: str) -> None:
        """Make durable what other programs wrote into `folder`, at any depth; nothing if it does not exist.

        Raises UnsafePath for what is not a regular file, such as a link or a socket, or cannot have a key.
        """

    def write(self, key: str, parts: Iterable[Bytes], size: int) -> None:
        """Write an object of `size` bytes, larger than memory too: durably, as a whole, in place of what was there.

        Several writers of one key must write the same bytes. If `parts` raises, nothing is written.
        Raises StoreFull and StoreUnavailable.
        """

    def clear(self, folder: str) -> None:
        """Remove all that is in `folder`, whatever it is, and the folder. It is not an error if there is none."""


def is_key(key: str) -> bool:
    """Whether `key` stays inside every kind of store."""
    parts = key.split("/")
    ours = _ours(parts)
    return (
        len(key) <= KEY_LENGTH_MAX
        and all(_PART.fullmatch(part) for part in parts[:ours])
        and (ours == len(parts) or is_file_path("/".join(parts[ours:])))
    )


def is_user_file(key: str) -> bool:
    """Whether `key` is that of a file of a user, or of a folder above it."""
    parts = key.split("/")
    return _ours(parts) < len(parts)


def _ours(parts: Sequence[str]) -> int:
    """How many parts of a key rayshot has named."""
    return parts.index(OUTSIDE) + 3 if OUTSIDE in parts[:-3] else len(parts)


def check_key(key: str) -> str:
    """Return `key` if it stays inside every kind of store, else raise UnsafePath."""
    if not is_key(key):
        raise UnsafePath(
            f"the key {key[:200]!r} could lead out of the storage folder, so rayshot does not open it", key=key
        )
    return key


def buffers(data: Data) -> list[memoryview]:
    """View `data` as flat byte buffers, without a copy."""
    several = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    return [memoryview(one).cast("B") for one in several]


def size_bytes(data: Data) -> int:
    """Count the bytes of `data`."""
    return sum(view.nbytes for view in buffers(data))


def prove_create_only(store: Store) -> None:
    """Raise ConfigError unless the store refuses a second `create` of a key and keeps the first bytes."""
    key = f"{PROBE_PREFIX}{uuid.uuid4().hex}"
    try:
        with suppress(AlreadyExists):  # an answer may have been lost on the way; the bytes are compared below
            store.create(key, _PROBE_FIRST)
        kept = _keeps_the_first(store, key)
        store.delete(key)
    except StoreError as error:
        with suppress(StoreError):  # the place itself failed, so this may fail too; that is nothing new
            store.delete(key)
        raise ConfigError(f"{store.url} cannot be written: {error}", url=store.url) from error
    if not kept:
        raise ConfigError(
            f"{store.url} overwrites objects that exist, so two coordinators could commit over each other; use "
            "another storage, or read about allow_unfenced: rayshot help storage",
            url=store.url,
        )


def prove_readable(store: Store) -> None:
    """Raise ConfigError unless the store exists and the given credentials can list it."""
    try:
        next(store.list(shallow=True), None)
    except StoreError as error:
        raise ConfigError(f"{store.url} cannot be read: {error}", url=store.url) from error


def _keeps_the_first(store: Store, key: str) -> bool:
    try:
        store.create(key, _PROBE_SECOND)
    except AlreadyExists:
        return store.read(key) == _PROBE_FIRST
    return False
