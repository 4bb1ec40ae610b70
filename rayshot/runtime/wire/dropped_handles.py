"""Anonymous actors end when nobody holds their handles any more, and nobody else can use them.

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
"""A program that ends also drops its handles, just before. So a handle must be dropped for so many seconds to count."""

_exiting = threading.Event()
atexit.register(_exiting.set)


class Dropped:
    """The anonymous actors that one process made. `end(name)` is called for each actor whose last handle is gone.

    It is called on a separate thread, because a handle can go at any moment. It is never called when the interpreter
    exits, because the system outlives its drivers.
    """

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._names: SimpleQueue[str | None] = SimpleQueue()  # None after the last one
        self._mine: set[str] = set()  # nobody else was given these actors; each change of the set is one step
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def handle(self, port: Port, name: str, specification: ActorSpecification, *, held: bool) -> ActorHandle:
        """The handle for the maker of an actor. If it is `held`, nothing else in this process may hold it."""
        hold = self._hold(name) if held else None
        return ActorHandle(port.system, name, frozenset(specification.methods), port, hold=hold)

    def _hold(self, name: str) -> Hold:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rayshot-dropped", daemon=True)
                self._thread.start()
        names = self._names  # `put` of a SimpleQueue is safe wherever an object dies
        self._mine.add(name)
        return Hold(lambda: names.put(name))

    def holds(self, name: str) -> bool:
        """Whether the maker's handle of the actor is held, or was held until just now."""
        return name in self._mine

    def give_out(self, name: str) -> None:
        """This process gets another handle of the actor, so others may have one too: the actor does not end."""
        self._mine.discard(name)

    def close(self) -> None:
        """The system is down: end no more actors."""
        self._names.put(None)

    def _run(self) -> None:
        while (name := self._names.get()) is not None:
            if _exiting.wait(PAUSE_S):
                return
            try:
                self._mine.remove(name)
            except KeyError:  # this process got another handle in the pause
                continue
            self._end(name)
