"""Handles of anonymous actors that nobody holds any more: their actors are told to end, if nobody can miss them.

See docs/design/0028-how-an-actor-ends.md.
"""

import atexit
import threading
from collections.abc import Callable
from queue import SimpleQueue
from weakref import WeakValueDictionary

from rayshot.model.handle import Hold

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
        self._names: SimpleQueue[str] = SimpleQueue()
        self._holds: WeakValueDictionary[str, Hold] = WeakValueDictionary()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def hold(self, name: str) -> Hold:
        """What the handle of the actor holds. Call when it is made."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rayshot-dropped", daemon=True)
                self._thread.start()
        names = self._names  # a SimpleQueue may be put to from wherever an object dies
        hold = self._holds[name] = Hold(lambda: names.put(name))
        return hold

    def holds(self, name: str) -> bool:
        """Whether the maker's handle of the actor is held."""
        return name in self._holds

    def give_out(self, name: str) -> None:
        """This process gets another handle of the actor, if it has one that is held: it came from somewhere."""
        if (hold := self._holds.get(name)) is not None:
            hold.give_out()

    def _run(self) -> None:
        while True:
            name = self._names.get()
            if _exiting.wait(PAUSE_S):
                return
            self._end(name)
