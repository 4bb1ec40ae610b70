"""The thread that writes to the storage that a life runs, and checks there that no later life has taken over."""

import logging
import os
import threading
import time
from collections.abc import Callable

from rayshot.errors import Damaged, Fenced, Incompatible, StoreError
from rayshot.log.heartbeat import BEAT_S, Beating
from rayshot.log.log import Fence
from rayshot.log.records import EpochRecord
from rayshot.places.kinds import open_store

log = logging.getLogger("rayshot")
LOOK_S = 3.0
"""A life that was fenced out goes on for at most so many seconds, plus the time that the storage takes to answer."""
CLOSE_S = 5.0
"""A storage that does not answer delays the end of a system by at most so many seconds."""


class HeartbeatThread:
    """Beats while its life takes messages, until it is stopped. Calls `on_fenced` if another life took over.

    The beat names the parent of this process, in Ray the node's raylet: if the raylet has ended, this process has too.
    """

    def __init__(self, storage: str, system: str, epoch: EpochRecord, on_fenced: Callable[[Fenced], None]) -> None:
        store = open_store(storage)
        self._beating = Beating(store, system, epoch.incarnation, os.getppid())
        self._fence = Fence(store, system, epoch)
        self._on_fenced = on_fenced
        self._failing: set[str] = set()
        self._left = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rayshot-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat, unless the life is already over."""
        self._thread.start()

    def keep_beating(self) -> None:
        """The life is over, and its coordinator begins the next one: look for other lives no more."""
        self._left = True

    def stop(self) -> None:
        """The life is over; returns at once."""
        self._ended.set()

    def close(self) -> None:
        """The life is over; returns when the storage says so, or after CLOSE_S seconds if it does not answer."""
        self._ended.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT_S
                self._say("does not hear now that this life runs", self._beating.beat)
            if not self._left:
                self._say("does not tell now whether this life may go on", self._look)
            self._ended.wait(LOOK_S)
        self._say("says for a while that this life runs", self._beating.end)

    def _look(self) -> None:
        try:
            self._fence.check()
        except Fenced as error:
            if not self._left:
                self._ended.set()
                self._on_fenced(error)

    def _say(self, why: str, act: Callable[[], None]) -> None:
        """Call `act`; the life can go on if it fails. Then log a warning, but only once until `act` works again."""
        try:
            act()
        except (StoreError, Damaged, Incompatible) as error:
            if why not in self._failing:
                log.warning("the storage %s: %s", why, error)
            self._failing.add(why)
        else:
            self._failing.discard(why)
