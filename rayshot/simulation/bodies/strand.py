"""A handler that may wait in its middle, while the rest of the world goes on in the same thread."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rayshot.errors import ConfigError
from rayshot.model.calls import Interruption
from rayshot.model.current import enter, running_cell
from rayshot.model.port import port_finder, swap_port

try:
    import greenlet
except ImportError:  # most actors wait for nobody
    greenlet = None


class _Free(threading.local):
    """The greenlets of this thread that run nothing: to make one costs more than a short handler."""

    def __init__(self) -> None:
        self.greenlets: list[Any] = []


_free = _Free()


class Strand:
    """Runs a function until it ends, or until it parks."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.has_ended = False
        self._function = function
        self._own: Any = None
        self._around: tuple[Any, Any, Any] = None, None, None
        """What there is around it when it does not run."""

    def run(self) -> None:
        """Run it in this greenlet."""
        try:
            self._function()
        finally:
            self.has_ended = True

    def go_on(self) -> None:
        """Let it run, until it parks or ends. Raises what it raised."""
        if greenlet is None:
            self.run()
        else:
            self._around = _surroundings()
            if self._own is None:
                self._own = _free.greenlets.pop() if _free.greenlets else greenlet.greenlet(_serve)
            self._own.parent = greenlet.getcurrent()
            self._own.switch(self)
            if self.has_ended:
                _free.greenlets.append(self._own)
                self._own = None

    def park(self) -> None:
        """Called inside: let the world go on, until somebody lets this go on. Raises ConfigError without greenlets."""
        if self._own is None:
            raise ConfigError(
                "in a simulated world a handler waits for another actor only with the package greenlet: "
                "pip install 'rayshot[simulation]'"
            )
        own = _surroundings()
        _surround(self._around)
        try:
            self._own.parent.switch()
        finally:
            _surround(own)

    def end(self) -> None:
        """The world goes on without it: it gets an Interruption where it is parked."""
        if self._own is not None:
            around, own = _surroundings(), self._own
            self._own = None
            own.parent = greenlet.getcurrent()
            with suppress(Interruption):
                own.throw(Interruption)
            _surround(around)


def _serve(strand: Strand) -> None:
    """The body of a greenlet: run one strand after the other."""
    while True:
        strand.run()
        del strand  # it holds its world
        strand = greenlet.getcurrent().parent.switch()


def _surroundings() -> tuple[Any, Any, Any]:
    """Whose handlers run in this thread, what finds the port, and the event loop that runs."""
    return running_cell(), port_finder(), asyncio._get_running_loop()  # noqa: SLF001 - made for code that makes loops


def _surround(around: tuple[Any, Any, Any]) -> None:
    cell, port, loop = around
    enter(cell)
    swap_port(port)
    asyncio._set_running_loop(loop)  # noqa: SLF001
