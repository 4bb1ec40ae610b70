"""When an object is ready, on a Ray that does not say it: one thread of this process looks again and again.

It fetches nothing: an object may be large, and on another node.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import ray

log = logging.getLogger("rayshot")
LOOK_S = 0.02
"""Seconds between two looks."""


class Lookout:
    """The objects that are not ready, and who is told. `tell` is called with None, once, without the lock."""

    def __init__(self) -> None:
        self._told: defaultdict[ray.ObjectRef, list[Callable[[Any], None]]] = defaultdict(list)
        self._news = threading.Condition()
        self._looks = False

    def tell_when_ready(self, reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
        """Call `tell` on the thread that looks, when the object is ready or has failed. It must not raise."""
        with self._news:
            self._told[reference].append(tell)
            if not self._looks:
                self._looks = True
                threading.Thread(target=self._look, name="rayshot-ready", daemon=True).start()
            self._news.notify()

    def _look(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._told)
            try:
                ready = self._ready()
            except (ray.exceptions.RayError, RuntimeError, ValueError) as error:
                log.warning("whether objects are ready cannot be seen now: %r", error)
                ready = []
            for tell in ready:
                tell(None)
            time.sleep(LOOK_S)

    def _ready(self) -> list[Callable[[Any], None]]:
        with self._news:
            if not ray.is_initialized():  # this process has left its cluster, and its objects are gone
                self._told.clear()
                return []
            # Without waiting: a thread that waits in Ray must not be there when Ray ends.
            ready, _ = ray.wait(list(self._told), num_returns=len(self._told), timeout=0, fetch_local=False)
            return [tell for reference in ready for tell in self._told.pop(reference)]
