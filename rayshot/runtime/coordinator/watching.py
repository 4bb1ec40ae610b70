"""How deaths are seen at once: one call stays pending at every process, and fails when the process dies."""

import re
import threading
from collections.abc import Callable
from typing import Any

from rayshot.runtime.ray.futures import when_answered


class Watches:
    """Pending calls by name. `on_death(name, detail)` is called once per name, on a new thread.

    Ray's thread that brings the news cannot run it: `on_death` may wait for a lock, and the lock's owner may make a Ray
    call that this same thread must answer.
    """

    def __init__(self, on_death: Callable[[str, str], None]) -> None:
        self._on_death = on_death
        self._pending: dict[str, Any] = {}

    def add(self, name: str, handle: Any) -> None:
        """Watch the process behind `handle`."""
        ref = self._pending[name] = handle.watch.remote()
        when_answered(ref, lambda result: self._ready(name, result))

    def drop(self, name: str) -> None:
        """Stop watching: the end of this process is expected."""
        self._pending.pop(name, None)

    def drop_all(self) -> list[Any]:
        """Stop watching all: their ends are expected. Returns the pending calls; each is over when its process is."""
        pending = list(self._pending.values())
        self._pending.clear()
        return pending

    def _ready(self, name: str, result: Any) -> None:
        if isinstance(result, Exception) and self._pending.pop(name, None) is not None:
            threading.Thread(target=self._on_death, args=(name, in_short(result)), daemon=True).start()


def in_short(error: Exception) -> str:
    """Ray's message about a death, without its long advice."""
    if found := re.search(r"The actor (?:is dead|died) because (.*)", str(error)):
        return found[1].partition(". ")[0].rstrip(".")
    return next(iter(str(error).splitlines()), repr(error))
