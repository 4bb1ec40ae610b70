"""A store in memory that fails on demand.

A *fault* names calls by their number: the n-th call of this store (counted from 1, over all verbs) fails before its
effect, after its effect (the answer is lost), or by a short answer. A test finds the calls by counting: it runs once
without a fault, reads `calls`, and runs again with a fault at each n.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rayshot.errors import StoreError, StoreUnavailable
from rayshot.places.memory import MemoryStore
from rayshot.places.store import Bytes, Data, Entry


class FaultEffect(Enum):
    """How a call fails."""

    BEFORE = "nothing happens, and the error is raised"
    AFTER = "it happens, and the error is raised"
    SHORT = "a read returns half of the bytes, without an error; other verbs as BEFORE"


def _unavailable() -> StoreError:
    return StoreUnavailable("the store was told to fail here")


@dataclass(frozen=True, slots=True)
class Fault:
    """Calls number `first` to `first + count - 1` fail in the manner of `effect`, with `error()`."""

    first: int
    effect: FaultEffect = FaultEffect.BEFORE
    count: int = 1
    error: Callable[[], StoreError] = field(default=_unavailable)


class FaultyStore(MemoryStore):
    """`fault`: assign one, or None. `journal`: verb and key of each call so far."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fault: Fault | None = None
        self.journal: list[tuple[str, str]] = []

    @property
    def calls(self) -> int:
        return len(self.journal)

    def create(self, key: str, data: Data) -> None:
        self._act("create", key, lambda: super(FaultyStore, self).create(key, data))

    def read(self, key: str) -> bytes:
        return self._act("read", key, lambda: super(FaultyStore, self).read(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._act("read_range", key, lambda: super(FaultyStore, self).read_range(key, start, length))

    def list(self, prefix: str = "", **options: Any) -> Iterator[Entry]:
        return self._act("list", prefix, lambda: super(FaultyStore, self).list(prefix, **options))

    def delete(self, key: str) -> None:
        self._act("delete", key, lambda: super(FaultyStore, self).delete(key))

    def adopt(self, folder: str) -> None:
        self._act("adopt", folder, lambda: super(FaultyStore, self).adopt(folder))

    def write(self, key: str, parts: Iterable[Bytes], size: int) -> None:
        self._act("write", key, lambda: super(FaultyStore, self).write(key, parts, size))

    def clear(self, folder: str) -> None:
        self._act("clear", folder, lambda: super(FaultyStore, self).clear(folder))

    def put_raw(self, key: str, content: bytes) -> None:
        """Set an object's bytes behind the store's back, as damage or an attacker would."""
        MemoryStore.delete(self, key)
        MemoryStore.create(self, key, content)

    def _act(self, verb: str, key: str, act: Callable[[], Any]) -> Any:
        self.journal.append((verb, key))
        call, fault = len(self.journal), self.fault
        if fault is None or not fault.first <= call < fault.first + fault.count:
            return act()
        short = fault.effect is FaultEffect.SHORT and "read" in verb
        if fault.effect is not FaultEffect.AFTER and not short:
            raise fault.error()
        found = act()
        if short:
            return found[: len(found) // 2]
        raise fault.error()
