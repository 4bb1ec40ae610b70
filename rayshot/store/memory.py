"""A store in this process's memory, which fails on demand: for tests and for trying things out.

A *fault* names calls by their number: the n-th call of this store (counted from 1, over all verbs) fails before its
effect, after its effect (the answer is lost), or by a short answer. A test finds the calls by counting: it runs once
without a fault, reads `calls`, and runs again with a fault at each n.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from rayshot.errors import AlreadyExists, KeyNotFound, StoreError, StoreUnavailable
from rayshot.store.store import Data, Entry, buffers, check_key, prove_create_only


class FaultEffect(Enum):
    """How a call fails."""

    BEFORE = "nothing happens, and the error is raised"
    AFTER = "it happens, and the error is raised"
    SHORT = "a read returns half of the bytes, without an error; other verbs as BEFORE"


def _unavailable() -> StoreError:
    return StoreUnavailable("the memory store was told to fail here")


@dataclass(frozen=True, slots=True)
class Fault:
    """Calls number `first` to `first + count - 1` fail in the manner of `effect`, with `error()`."""

    first: int
    effect: FaultEffect = FaultEffect.BEFORE
    count: int = 1
    error: Callable[[], StoreError] = field(default=_unavailable)

    def strikes(self, call: int) -> bool:
        """Whether call `number` fails."""
        return self.first <= call < self.first + self.count


@dataclass(frozen=True, slots=True)
class _Object:
    content: bytes
    modified: float


class MemoryStore:
    """A store that ends with the process. `name` appears in its URL; `clock` dates its objects.

    Public for tests: `fault` (assign one, or None), `calls` (how many verbs were called), `journal` (verb and
    key of each call) and `put_raw`.
    """

    def __init__(self, name: str = "unnamed", clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self.fault: Fault | None = None
        self.journal: list[tuple[str, str]] = []
        self._clock = clock
        self._objects: dict[str, _Object] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """`memory://<name>`: one place for each name in this process."""
        return f"memory://{self.name}"

    @property
    def calls(self) -> int:
        """How many verbs were called so far."""
        return len(self.journal)

    def create(self, key: str, data: Data) -> None:
        """See Store.create."""
        fault = self._enter("create", key)
        content = b"".join(buffers(data))
        with self._lock:
            if key in self._objects:
                raise AlreadyExists(f"{self.url}/{key} exists already", key=key)
            self._objects[key] = _Object(content, self._clock())
        _answer(fault)

    def read(self, key: str) -> bytes:
        """See Store.read."""
        fault = self._enter("read", key)
        return _shortened(fault, self._content(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See Store.read_range."""
        fault = self._enter("read_range", key)
        return _shortened(fault, self._content(key)[start : start + length])

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        """See Store.list."""
        fault = self._enter("list", prefix, may_be_empty=True)
        start = f"{prefix}/" if prefix else ""
        with self._lock:
            found = sorted(item for item in self._objects.items() if item[0].startswith(start))
        entries: dict[str, Entry] = {}
        for key, stored in found:
            folder, slash, _ = key[len(start) :].partition("/")
            if shallow and slash:
                entries[f"{start}{folder}/"] = Entry(f"{start}{folder}/", 0, 0.0)
            else:
                entries[key] = Entry(key, len(stored.content), stored.modified)
        _answer(fault)
        return iter(sorted((entry for key, entry in entries.items() if key > after), key=lambda entry: entry.key))

    def delete(self, key: str) -> None:
        """See Store.delete."""
        fault = self._enter("delete", key)
        with self._lock:
            self._objects.pop(key, None)
        _answer(fault)

    def check(self) -> None:
        """See Store.check."""
        prove_create_only(self)

    def put_raw(self, key: str, content: bytes) -> None:
        """Set an object's bytes behind the store's back, as damage or an attacker would."""
        with self._lock:
            self._objects[key] = _Object(content, self._clock())

    def _content(self, key: str) -> bytes:
        with self._lock:
            stored = self._objects.get(key)
        if stored is None:
            raise KeyNotFound(f"{self.url}/{key} does not exist", key=key)
        return stored.content

    def _enter(self, verb: str, key: str, *, may_be_empty: bool = False) -> Fault | None:
        """Count the call. Raise if it fails before its effect; return the fault if it fails later."""
        if key or not may_be_empty:
            check_key(key)
        with self._lock:
            self.journal.append((verb, key))
            call = len(self.journal)
        fault = self.fault
        if fault is None or not fault.strikes(call):
            return None
        if fault.effect is FaultEffect.BEFORE or (fault.effect is FaultEffect.SHORT and "read" not in verb):
            raise fault.error()
        return fault


def _answer(fault: Fault | None) -> None:
    """Lose the answer of a call that had its effect."""
    if fault is not None:
        raise fault.error()


def _shortened(fault: Fault | None, content: bytes) -> bytes:
    if fault is not None and fault.effect is FaultEffect.SHORT:
        return content[: len(content) // 2]
    _answer(fault)
    return content


_named: dict[str, MemoryStore] = {}
_named_lock = threading.Lock()


def named_memory_store(name: str) -> MemoryStore:
    """This process's memory store `name`, made at first use."""
    with _named_lock:
        return _named.setdefault(name, MemoryStore(name))
