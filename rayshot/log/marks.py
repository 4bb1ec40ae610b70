"""Marks: small objects beside the log, with which programs tell each other what they do with a system.

A mark says whose it is by its name, when it was written by the store's clock, and what it is about by the fields of its
`Kind`. It never changes: who goes on writes the next one, whose name sorts behind, and then removes the last. So a
listing meanwhile shows one of the two.

| kind | whose name | what it says |
| --- | --- | --- |
| intent | the snapshot's | it is being written, on which base, and for how long at most |
| lease | a reader's | which snapshot it reads |
| heartbeat | a life's | it runs |
| note of an abort | the snapshot's | why it was aborted |
| pin | a life's | under which pin it began; its name says all |
| marks of garbage | a collection's | what it found unreachable |

The clocks of machines differ by minutes, sometimes by hours. So the age of a mark is the difference of two times of the
same store: when it wrote the mark, and when it wrote another object just now.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.errors import BadManifest, KeyNotFound, StoreUnavailable
from rayshot.format import canonical
from rayshot.places.calls import create_once
from rayshot.places.store import Entry, Store

GARBAGE_FOLDER = "gc"
MARK_FORMAT = 1
MARK_BYTES_MAX = 4096
LOOKS_MAX = 20
LIFE_DIGITS = 10
"""Names that begin with a life sort like lives."""
CLOCK_SUFFIX = ".clock"
CLOCK_AGE_MAX_S = 3600.0
"""Older clock objects were left by processes that were killed before they could remove them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of marks: the `word` for it in errors, its folder in that of the system, and the check of each field."""

    word: str
    folder: str
    fields: Mapping[str, Callable[[Any, str], Any]]
    bytes_max: int = MARK_BYTES_MAX

    def encode(self, said: Mapping[str, Any]) -> bytes:
        """The bytes of a mark that says this, with the fields in this order."""
        assert said.keys() == self.fields.keys(), f"a {self.word} with other fields"
        return canonical.pack({"format": MARK_FORMAT, **said})

    def decode(self, data: bytes, key: str) -> dict[str, Any]:
        """What a mark says. Raises BadManifest and LimitExceeded."""
        what = f"the {self.word} {key}"
        tree = canonical.unpack(data, what=what, bytes_max=self.bytes_max)
        if type(tree) is not dict or tree.pop("format", None) != MARK_FORMAT or tree.keys() != self.fields.keys():
            raise BadManifest(
                f"{what} was not written by rayshot, or by a newer one (pip install --upgrade rayshot), or is damaged; "
                "if it is damaged, delete this object"
            )
        return {name: check(tree[name], f"{name} in {what}") for name, check in self.fields.items()}


class Mark(NamedTuple):
    """A mark that was found. `written_at` counts Unix seconds by the store's clock."""

    key: str
    written_at: float
    said: dict[str, Any]


class Marks:
    """The marks of one kind of one system. All methods raise StoreError, those that read also as `Kind.decode`."""

    def __init__(self, store: Store, system: str, kind: Kind) -> None:
        self._store = store
        self._kind = kind
        self.folder = f"{system}/{kind.folder}"

    def write(self, name: str, **said: Any) -> str:
        """Write a mark and return its key. A second call changes nothing. Raises AlreadyExists if it says otherwise."""
        key = f"{self.folder}/{name}"
        create_once(self._store, key, self._kind.encode(said))
        return key

    def remove(self, name: str) -> None:
        """Remove a mark. It is not an error if there is none."""
        self._store.delete(f"{self.folder}/{name}")

    def listed(self) -> list[Entry]:
        """The entries of all marks, in the order of their names."""
        return list(self._store.list(self.folder))

    def read(self, entry: Entry) -> Mark | None:
        """One mark; None if it was removed since it was listed."""
        try:
            data = self._store.read_range(entry.key, 0, self._kind.bytes_max + 1)
        except KeyNotFound:
            return None
        return Mark(entry.key, entry.modified, self._kind.decode(data, entry.key))

    def present(self, newest: int | None = None) -> list[Mark]:
        """The marks at one moment, in the order of their names: all, or so many of the last.

        If one vanishes between the listing and the look, its successor may be missing in the listing: then it looks
        again. Raises StoreUnavailable if that never ends.
        """
        for _ in range(LOOKS_MAX):
            listed = self.listed()
            marks = [self.read(entry) for entry in (listed if newest is None else listed[-newest:])]
            found = [mark for mark in marks if mark is not None]
            if len(found) == len(marks):
                return found
        raise StoreUnavailable(f"{self.folder} changed during each of {LOOKS_MAX} reads; try again")


def store_now(store: Store, system: str) -> float:
    """The store's time in Unix seconds. It writes, lists and removes an object. Raises StoreError."""
    folder = f"{system}/{GARBAGE_FOLDER}"
    key = f"{folder}/{uuid.uuid4().hex}{CLOCK_SUFFIX}"
    try:
        create_once(store, key, b"what time is it?")
        written = next((entry for entry in store.list(folder) if entry.key == key), None)
    finally:
        store.delete(key)
    if written is None:
        raise StoreUnavailable(
            f"{key} was written, but the listing does not show it, so the store's clock cannot be read; try again",
            key=key,
        )
    return written.modified
