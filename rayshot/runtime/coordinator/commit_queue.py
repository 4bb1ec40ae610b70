"""What waits to be written to the storage, cuts above all: one after the other, while others are recorded."""

import logging
import queue
import threading
from collections.abc import Callable

from rayshot.protocol.cut import Cut

log = logging.getLogger("rayshot")
CLOSE_S = 20.0
"""What is being committed or deleted when a system is shut down has so long to come to its end."""


class CommitQueue:
    """Calls `commit` for each cut, on a thread of its own, and `failed` with what that raised."""

    def __init__(self, commit: Callable[[Cut], None], failed: Callable[[Cut, Exception], None]) -> None:
        self._commit = commit
        self._failed = failed
        self._waiting: queue.SimpleQueue[Cut | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="rayshot-committer", daemon=True)

    def start(self) -> None:
        """Begin with what waits."""
        self._thread.start()

    def put(self, cut: Cut) -> None:
        """This one is next when all before it are done."""
        self._waiting.put(cut)

    def call(self, work: Callable[[], None]) -> None:
        """Call this on the thread that commits, when all before it is done. Nobody hears of what it raises."""
        self._waiting.put(work)

    def close(self) -> None:
        """Wait until all that waits is done, but not for ever; nothing is put any more."""
        self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (next_ := self._waiting.get()) is not None:
            if isinstance(next_, Cut):
                self._write(next_)
                continue
            try:
                next_()
            except Exception:
                log.exception("what was to be done between two commits failed, a defect of rayshot")

    def _write(self, cut: Cut) -> None:
        try:
            self._commit(cut)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits for this snapshot must hear of it
            self._failed(cut, error)
