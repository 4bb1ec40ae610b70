"""`rayshot.current()`: what a handler can learn about its actor, and do with it."""

import threading
from collections.abc import Callable
from typing import TypeVarTuple

from rayshot.errors import OutsideHandler
from rayshot.model.cell import Cell

Ts = TypeVarTuple("Ts")
_running = threading.local()
_ELSEWHERE = "rayshot.current() is known only inside a handler, on the handler's own thread"


class Current:
    """The actor around the running handler. Its actions raise OutsideHandler on any other thread."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    @property
    def name(self) -> str:
        """This actor's name."""
        return self._cell.name

    @property
    def sender(self) -> str:
        """The name of the sender of the message that is being handled: an actor, or `driver:<id>`."""
        return self._cell.now.sender

    @property
    def system(self) -> str:
        """The system's name."""
        return self._cell.port.system

    def after(self, seconds: float, method: Callable[[*Ts], object], *args: *Ts) -> None:
        """Send `method(*args)` to this actor in `seconds`, at least 0. The timer is part of the state.

        `args` are kept by reference until the timer fires, and copied then, as with any message.

        Raises ConfigError for an impossible time or for what is not a method of this actor, MessageNotSerializable for
        `args` that cannot be sent.
        """
        self._own().after(seconds, method, args)

    def snapshot(self) -> None:
        """Begin a snapshot of the whole system when this handler has ended; this actor records first."""
        self._own().port.request_snapshot()

    def exit(self) -> None:
        """End this actor when this handler has ended; messages sent to it afterwards become dead letters."""
        self._own().end()

    def _own(self) -> Cell:
        if not runs_here(self._cell):
            raise OutsideHandler(_ELSEWHERE)
        return self._cell


def current() -> Current:
    """The actor around the handler that runs on this thread. Raises OutsideHandler on any other thread."""
    cell = running_cell()
    if cell is None:
        raise OutsideHandler(_ELSEWHERE)
    return Current(cell)


def running_cell() -> Cell | None:
    """The cell whose handlers run on this thread; None on other threads."""
    return getattr(_running, "cell", None)


def runs_here(cell: Cell) -> bool:
    """Whether this thread is the one that runs handlers of `cell`."""
    return running_cell() is cell


def enter(cell: Cell | None) -> Cell | None:
    """Say that this thread runs handlers of `cell` from now on; None: of no cell. Returns the cell before."""
    before = running_cell()
    _running.cell = cell
    return before
