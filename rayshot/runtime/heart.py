"""The thread that says in the storage that a life of a system runs."""

import logging
import os
import threading

from rayshot.errors import StoreError
from rayshot.store.heartbeat import BEAT_S, Beating
from rayshot.store.locate import open_store

log = logging.getLogger("rayshot")
CLOSE_S = 5.0
"""A storage that does not answer holds the end of a system up no longer."""


class Heart:
    """Beats until it is stopped: while its life takes messages.

    The process that is named is this one's parent, on Ray the node's raylet: where that has ended, so has this one.
    """

    def __init__(self, storage: str, system: str, incarnation: int) -> None:
        self._beating = Beating(open_store(storage), system, incarnation, os.getppid())
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
        while not self._ended.is_set():
            try:
                self._beating.beat()
            except StoreError as error:
                log.warning("the storage does not hear now that this life runs: %s", error)
            self._ended.wait(BEAT_S)
        try:
            self._beating.end()
        except StoreError as error:
            log.warning("for a while the storage says that this life runs: %s", error)
