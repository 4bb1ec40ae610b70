"""The receivers of a process. They are found in the background, because a look-up may block."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from rayshot.runtime.door import door
from rayshot.runtime.door.functions import forget_host, know_host
from rayshot.runtime.door.naming import actor_name
from rayshot.runtime.door.roster import Roster

log = logging.getLogger("rayshot")
AGAIN_S, AGAIN_S_MAX = 1.0, 10.0


class Peer(Protocol):
    """The bound Ray methods of a receiver."""

    receive: Callable[[bytes], Any]
    receive_with: Callable[..., Any]
    """As `receive`, with the objects and values beside the messages; see `attached_references`."""
    probe: Callable[[Any], Any]
    """Does nothing with an object, but fails if the object is not available at the receiver."""
    await_credit: Callable[[str, int], Any]


class RayPeer:
    """The Ray methods of a receiver, bound once."""

    def __init__(self, handle: Any) -> None:
        self.receive: Callable[[bytes], Any] = handle.receive.remote
        self.receive_with: Callable[..., Any] = handle.receive_with.remote
        self.probe: Callable[[Any], Any] = handle.probe.remote
        self.await_credit: Callable[[str, int], Any] = handle.await_credit.remote


class Peers:
    """Runs each task on a new daemon thread: a receiver that never starts must not delay others."""

    def __init__(self, system: str, incarnation: int) -> None:
        self._system = system
        self._incarnation = incarnation
        self._roster = Roster(system, incarnation)
        self._known: dict[str, Any] = {}

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task` now, in the background. It handles its own errors."""
        threading.Thread(target=_run, args=(task,), name="rayshot-peers", daemon=True).start()

    def insist(self, task: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """As `submit`, and if the task raises Ray's errors, again after pauses, unless `is_over()` or Ray was left."""

        def until_done() -> None:
            pause_s = AGAIN_S
            while door.is_joined() and not is_over():  # otherwise a question would start Ray anew
                try:
                    task()
                except door.CallFailed as error:
                    log.warning("Ray does not answer now, and is asked again in %g s: %r", pause_s, error)
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, AGAIN_S_MAX)
                else:
                    return

        self.submit(until_done)

    def know(self, name: str, handle: Any) -> None:
        """Remember a Ray handle, so that it does not have to be looked up."""
        self._known[name] = handle
        know_host(handle)

    def forget(self, name: str) -> None:
        """An actor has ended: forget its handle."""
        handle = self._known.pop(name, None)
        if handle is not None:
            forget_host(handle)

    def find(self, name: str) -> Any | None:
        """The Ray handle of an actor; None if Ray knows no such actor: it ended, died, or never existed."""
        if name not in self._known:
            try:
                being_made = actor_name(self._system, self._incarnation, name)
                self.know(name, door.find(self._roster.find(name) or being_made))
            except ValueError:
                return None
        return self._known[name]


def _run(task: Callable[[], None]) -> None:
    with contextlib.suppress(SystemExit):  # Ray raises it in a thread that waits during a shutdown of Ray
        task()
