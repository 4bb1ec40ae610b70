"""Handles of anonymous actors that nobody holds any more: their actors are told to end, if nobody can miss them.

See docs/design/0028-how-an-actor-ends.md.
"""

import atexit
import threading
from collections.abc import Callable
from queue import SimpleQueue

from rayshot.model.handle import ActorHandle, Hold
from rayshot.model.port import Port
from rayshot.model.specification import ActorSpecification

PAUSE_S = 0.2
"""A program that ends lets go of its handles as well, just before: what is dropped must be older than that."""

_exiting = threading.Event()
atexit.register(_exiting.set)


class Dropped:
    """The anonymous actors that one process made; `end(name)` is called for each of which the last handle is gone.

    On a thread of its own, as a handle may go in the midst of anything. Never when the interpreter exits: the system
    outlives its drivers.
    """

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._names: SimpleQueue[str | None] = SimpleQueue()  # None behind the last one
        self._mine: set[str] = set()  # nobody else was given these by name: each change of it is one step
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def handle(self, port: Port, name: str, specification: ActorSpecification, *, held: bool) -> ActorHandle:
        """The handle that the maker of an actor gets. Where it is `held`, nothing else here may have it."""
        hold = self._hold(name) if held else None
        return ActorHandle(port.system, name, frozenset(specification.methods), port, hold=hold)

    def _hold(self, name: str) -> Hold:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rayshot-dropped", daemon=True)
                self._thread.start()
        names = self._names  # a SimpleQueue may be put to from wherever an object dies
        self._mine.add(name)
        return Hold(lambda: names.put(name))

    def holds(self, name: str) -> bool:
        """Whether the maker's handle of the actor is held, or was until just now."""
        return name in self._mine

    def give_out(self, name: str) -> None:
        """This process gets another handle of the actor: it came from somewhere, and the actor does not end."""
        self._mine.discard(name)

    def close(self) -> None:
        """The system is down: nothing is to be ended any more."""
        self._names.put(None)

    def _run(self) -> None:
        while (name := self._names.get()) is not None:
            if _exiting.wait(PAUSE_S):
                return
            try:
                self._mine.remove(name)
            except KeyError:  # a handle was got again in the pause
                continue
            self._end(name)
