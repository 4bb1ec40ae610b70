"""The thread that says in the storage that a life of a system runs, and looks there whether it still may."""

import logging
import os
import threading
import time
from collections.abc import Callable

from rayshot.errors import Damaged, Fenced, Incompatible, StoreError
from rayshot.store.fence import Fence
from rayshot.store.heartbeat import BEAT_S, Beating
from rayshot.store.locate import open_store
from rayshot.store.records import EpochRecord

log = logging.getLogger("rayshot")
LOOK_S = 3.0
"""A life that was fenced out goes on for so long at most, besides what the storage takes to answer."""
CLOSE_S = 5.0
"""A storage that does not answer holds the end of a system up no longer."""


class Heart:
    """Beats until it is stopped: while its life takes messages. Calls `on_fenced` where another life took over.

    The process that is named is this one's parent, on Ray the node's raylet: where that has ended, so has this one.
    """

    def __init__(self, storage: str, system: str, epoch: EpochRecord, on_fenced: Callable[[Fenced], None]) -> None:
        store = open_store(storage)
        self._beating = Beating(store, system, epoch.incarnation, os.getppid())
        self._fence = Fence(store, system, epoch)
        self._on_fenced = on_fenced
        self._failing: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rayshot-heart", daemon=True)

    def start(self) -> None:
        """Begin, unless the life is over already."""
        self._thread.start()

    def stop(self) -> None:
        """The life is over; returns at once."""
        self._ended.set()

    def close(self) -> None:
        """The life is over; returns when the storage says so, or does not answer."""
        self._ended.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT_S
                self._say("does not hear now that this life runs", self._beating.beat)
            self._say("does not tell now whether this life may go on", self._look)
            self._ended.wait(LOOK_S)
        self._say("says for a while that this life runs", self._beating.end)

    def _look(self) -> None:
        try:
            self._fence.check()
        except Fenced as error:
            self._ended.set()
            self._on_fenced(error)

    def _say(self, why: str, act: Callable[[], None]) -> None:
        """Do something that the life can do without. Where it fails, a warning says so, once until it works again."""
        try:
            act()
        except (StoreError, Damaged, Incompatible) as error:
            if why not in self._failing:
                log.warning("the storage %s: %s", why, error)
            self._failing.add(why)
        else:
            self._failing.discard(why)
