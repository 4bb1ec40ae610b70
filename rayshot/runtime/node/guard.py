"""How a coordinator is replaced that neither works nor dies: the vault of its node has Ray start it again.

No network lies between the two, so a node that is cut off does no harm to a coordinator that works; and of a node that
stands still as a whole, Ray finds out. A coordinator that is being started is not asked: it may wait for its storage,
for any time. If the one that is replaced wakes, it does no harm: its EPOCH is over.
"""

import logging
import threading
import time
from typing import Any

from rayshot.runtime.door import door, notes
from rayshot.runtime.door.failure_detector import FailureDetector
from rayshot.runtime.door.naming import find_coordinator
from rayshot.runtime.door.state import runs_here
from rayshot.runtime.door.survived_errors import survived

log = logging.getLogger("rayshot")
LOOK_S = 2.0
SILENT_S = 30.0
"""An actor has longer: its death takes all others back. Programs wait as long for an answer of the coordinator."""


class Guard:
    """Looks after the coordinator of one system while it is on the node of this process."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._detector = FailureDetector(SILENT_S, self._replace)

    def start(self) -> None:
        """Begin to look, on a thread of its own."""
        threading.Thread(target=self._run, name="rayshot-guard", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with survived("nobody looks after the coordinator of system %r now", self._system, level=logging.INFO):
                self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Ask the coordinator if it is due at `now`, by time.monotonic, and is here. Does not wait for the answer."""
        coordinator = find_coordinator(self._system)
        here = coordinator is not None and runs_here(coordinator)
        self._detector.look({f"the coordinator of {self._system!r}": coordinator} if here else {}, now)

    def _replace(self, coordinator: Any) -> None:
        notes.of_silence(self._system).put("at", str(time.time()).encode())
        door.restart(coordinator)
