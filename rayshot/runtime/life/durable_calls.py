"""Durable calls of a driver that have no results yet: the actors that they went to must not end for want of a handle.

An actor that has ended records no more snapshots, so what it had handled last could not be given as durable.
"""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door import door


class DurableCalls:
    """See the module. `end(name)` ends an actor whose last handle was dropped; it is called on a thread of its own."""

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._open: Counter[str] = Counter()
        self._dropped: set[str] = set()
        self._lock = threading.Lock()  # its holders call nobody

    def made(self, receiver: str, tags: Any) -> None:
        """A durable call was made; `tags` is a reference that is ready when the result is."""
        with self._lock:
            self._open[receiver] += 1
        door.when_there(tags, lambda _: self._answered(receiver))

    def postpone(self, name: str) -> bool:
        """The last handle of an actor was dropped: whether it must live until its durable calls have results."""
        with self._lock:
            must_wait = name in self._open
            if must_wait:
                self._dropped.add(name)
            return must_wait

    def _answered(self, receiver: str) -> None:
        with self._lock:
            self._open[receiver] -= 1
            if self._open[receiver] > 0:
                return
            del self._open[receiver]
            if receiver not in self._dropped:
                return
            self._dropped.remove(receiver)
        threading.Thread(target=self._end, args=(receiver,), name="rayshot-dropped", daemon=True).start()
