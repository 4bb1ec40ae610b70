"""A store in this process's memory, for tests and for trying things out."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rayshot.errors import AlreadyExists, KeyNotFound
from rayshot.places.store import Bytes, Data, Entry, buffers, check_key, prove_create_only


@dataclass(frozen=True, slots=True)
class _Object:
    content: bytes
    modified: float


class MemoryStore:
    """A store that ends with the process. `name` appears in its URL; `clock` dates its objects."""

    def __init__(self, name: str = "unnamed", clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self._clock = clock
        self._objects: dict[str, _Object] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """`memory://<name>`: one place for each name in this process."""
        return f"memory://{self.name}"

    def create(self, key: str, data: Data) -> None:
        """See Store.create."""
        content = b"".join(buffers(data))
        with self._lock:
            if check_key(key) in self._objects:
                raise AlreadyExists(f"{self.url}/{key} exists already", key=key)
            self._objects[key] = _Object(content, self._clock())

    def read(self, key: str) -> bytes:
        """See Store.read."""
        with self._lock:
            stored = self._objects.get(check_key(key))
        if stored is None:
            raise KeyNotFound(f"{self.url}/{key} does not exist", key=key)
        return stored.content

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See Store.read_range."""
        return MemoryStore.read(self, key)[start : start + length]

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        """See Store.list."""
        start = f"{check_key(prefix)}/" if prefix else ""
        with self._lock:
            found = sorted(item for item in self._objects.items() if item[0].startswith(start))
        entries: dict[str, Entry] = {}
        for key, stored in found:
            folder, slash, _ = key[len(start) :].partition("/")
            if shallow and slash:
                entries[f"{start}{folder}/"] = Entry(f"{start}{folder}/", 0, 0.0)
            else:
                entries[key] = Entry(key, len(stored.content), stored.modified)
        return iter(sorted((entry for key, entry in entries.items() if key > after), key=lambda entry: entry.key))

    def delete(self, key: str) -> None:
        """See Store.delete."""
        with self._lock:
            self._objects.pop(check_key(key), None)

    def check(self) -> None:
        """See Store.check."""
        prove_create_only(self)

    def adopt(self, folder: str) -> None:
        """See Store.adopt. Nothing but its own verbs writes here."""
        check_key(folder)

    def write(self, key: str, parts: Iterable[Bytes], size: int) -> None:
        """See Store.write."""
        content = b"".join(parts)
        assert len(content) == size, "the parts have another size"
        with self._lock:
            self._objects[check_key(key)] = _Object(content, self._clock())

    def clear(self, folder: str) -> None:
        """See Store.clear."""
        start = f"{check_key(folder)}/"
        with self._lock:
            self._objects = {key: stored for key, stored in self._objects.items() if not key.startswith(start)}


_named: dict[str, MemoryStore] = {}
_named_lock = threading.Lock()


def named_memory_store(name: str) -> MemoryStore:
    """This process's memory store `name`, made at first use."""
    with _named_lock:
        return _named.setdefault(name, MemoryStore(name))
