"""How deaths are seen at once: one call stays pending at every process, and fails when the process dies."""

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door import door

log = logging.getLogger("rayshot")
AGAIN_S = 0.2
"""A process whose watch was lost on its way is watched again after so many seconds."""


class DeathWatch:
    """Pending calls by name. `on_death(name, detail)` is called once per watch, on a new thread.

    If a call is lost on its way, the process may still live. Ray then says that it is unavailable, and it is watched
    again until Ray says that it died. Where `restarted`, Ray starts a dead process again by itself: there "unavailable"
    means that it died.

    Ray's thread that brings the news cannot run `on_death`: this may wait for a lock, and the lock's owner may make a
    Ray call that this same thread must answer.
    """

    def __init__(self, on_death: Callable[[str, str], None], *, restarted: bool = False) -> None:
        self._on_death = on_death
        self._restarted = restarted
        self._pending: dict[str, Any] = {}
        self._lock = threading.Lock()

    def add(self, name: str, handle: Any) -> None:
        """Watch the process behind `handle`, and under this name no other one any more."""
        ref = self._pending[name] = handle.watch.remote()
        self._listen(name, handle, ref)

    def drop(self, name: str) -> None:
        """Stop watching: the end of this process is expected."""
        with self._lock:
            self._pending.pop(name, None)

    def drop_all(self) -> list[Any]:
        """Stop watching all: their ends are expected. Returns the pending calls; each is over when its process is."""
        with self._lock:
            pending = list(self._pending.values())
            self._pending.clear()
        return pending

    def _listen(self, name: str, handle: Any, ref: Any) -> None:
        door.when_answered(ref, lambda result: self._ready(name, handle, ref, result))

    def _ready(self, name: str, handle: Any, ref: Any, result: Any) -> None:
        if not isinstance(result, Exception) or self._pending.get(name) is not ref:
            return
        if isinstance(result, door.Unavailable) and not self._restarted:
            log.debug("%s cannot be reached now, and may live: %s", name, in_short(result))
            threading.Thread(target=self._add_again, args=(name, handle, ref), daemon=True).start()
        elif self._take(name, ref):
            threading.Thread(target=self._on_death, args=(name, in_short(result)), daemon=True).start()

    def _add_again(self, name: str, handle: Any, lost: Any) -> None:
        time.sleep(AGAIN_S)
        again = handle.watch.remote()
        with self._lock:
            if self._pending.get(name) is not lost:
                return  # its end is expected by now, or another process is watched
            self._pending[name] = again
        self._listen(name, handle, again)

    def _take(self, name: str, ref: Any) -> bool:
        """Stop watching, if this is still the watch of that name; returns whether it was."""
        with self._lock:
            if self._pending.get(name) is not ref:
                return False
            del self._pending[name]
            return True


def in_short(error: Exception) -> str:
    """Ray's message about a death, without its long advice."""
    if found := re.search(r"The actor (?:is dead|died) because (.*)", str(error)):
        return found[1].partition(". ")[0].rstrip(".")
    return next(iter(str(error).splitlines()), repr(error))
