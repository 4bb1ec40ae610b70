"""The queue of cuts, and other work, for the storage: a thread does one after the other, while actors record others."""

import logging
import queue
import threading
from collections.abc import Callable

from rayshot.protocol.cut import Cut
from rayshot.runtime.door.survived_errors import survived

log = logging.getLogger("rayshot")
CLOSE_S = 20.0
"""At a shutdown, commits and deletions that have begun get so many seconds to finish."""


class CommitQueue:
    """Calls `commit` for each cut, on its own thread; if that raises, calls `failed` with the error."""

    def __init__(self, commit: Callable[[Cut], None], failed: Callable[[Cut, Exception], None]) -> None:
        self._commit = commit
        self._failed = failed
        self._waiting: queue.SimpleQueue[Cut | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="rayshot-committer", daemon=True)

    def start(self) -> None:
        """Begin with the first cut in the queue."""
        self._thread.start()

    def put(self, cut: Cut) -> None:
        """Add a cut to the end of the queue."""
        self._waiting.put(cut)

    def call(self, work: Callable[[], None]) -> None:
        """Add `work` to the end of the queue; the committing thread calls it. Its errors go only into the log."""
        self._waiting.put(work)

    def close(self) -> None:
        """Wait until the queue is done, for at most CLOSE_S seconds. Put nothing into it any more."""
        self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (next_ := self._waiting.get()) is not None:
            if isinstance(next_, Cut):
                self._write(next_)
            else:
                self._do(next_)
        while not self._waiting.empty():  # the last cut may have failed behind the call of `close`
            if callable(left := self._waiting.get()):
                self._do(left)

    def _do(self, work: Callable[[], None]) -> None:
        with survived("what was to be done between two commits failed, a defect of rayshot"):
            work()

    def _write(self, cut: Cut) -> None:
        try:
            self._commit(cut)
        except Exception as error:  # noqa: BLE001 - a program may wait for this snapshot and must hear of any error
            self._failed(cut, error)
