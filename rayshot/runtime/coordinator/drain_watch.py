"""Drained nodes, which Ray will remove soon: the coordinator commits a snapshot before they go."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from rayshot.errors import RayshotError
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.door.state import draining_nodes

log = logging.getLogger("rayshot")
LOOK_S = 1.0
"""Seconds between two looks. A drained node may have only a minute or two left; a look takes a millisecond."""


class DrainWatch:
    """Looks for drained nodes, on its own thread.

    `nodes` returns the nodes of the system's actors. `take` takes a snapshot and returns when it is durable. If it
    fails, the next look takes another snapshot, until the node is gone or no longer drained.
    """

    def __init__(self, nodes: Callable[[], Iterable[str]], take: Callable[[], SnapshotId]) -> None:
        self._nodes = nodes
        self._take = take
        self._done: set[str] = set()

    def start(self) -> None:
        """Start the thread that looks."""
        threading.Thread(target=self._run, name="rayshot-drain", daemon=True).start()

    def look(self, draining: Mapping[str, int]) -> None:
        """Take a snapshot if actors are on a drained node for which none was taken yet.

        `draining` has the deadlines of drained nodes by node id, in Unix ms.
        """
        self._done &= draining.keys()
        ours = sorted(draining.keys() & set(self._nodes()) - self._done)
        if not ours:
            return
        which = ", ".join(f"node {node[:12]}{_until(draining[node])}" for node in ours)
        try:
            snapshot = self._take()
        except (RayshotError, door.CallFailed) as error:  # CallFailed: the vault that is asked for keys may die
            log.warning("%s is drained, and no snapshot was committed yet: %s", which, error)
        else:
            self._done.update(ours)
            log.warning("%s is drained: snapshot %s is committed, to go back to when the node is gone", which, snapshot)

    def _run(self) -> None:
        failing = False
        while True:
            time.sleep(LOOK_S)
            try:
                draining = draining_nodes()
            except door.CallFailed as error:
                if not failing:
                    log.warning("nobody can say now which nodes are drained: %s", error)
                failing = True
            else:
                failing = False
                self.look(draining)


def _until(deadline_ms: int) -> str:
    return time.strftime(" until %H:%M:%S", time.localtime(deadline_ms / 1000)) if deadline_ms > 0 else ""
