"""A program that exits: what it told leaves first, and what it put stays until its receivers hold it."""

import atexit
import sys
from typing import TYPE_CHECKING
from weakref import WeakSet

import ray

from rayshot.errors import SystemDown

if TYPE_CHECKING:  # driver.py imports this module
    from rayshot.runtime.life.driver import DriverPort

SILENT_S = 1.0
WAIT_S = 30.0
_ports: "WeakSet[DriverPort]" = WeakSet()


def wait_at_exit(port: "DriverPort") -> None:
    """Let this process wait at its exit for what was told through `port`, for at most WAIT_S."""
    _ports.add(port)


def _wait() -> None:
    if not ray.is_initialized():
        return
    for port in tuple(_ports):
        try:
            told = port.told()
            if awaited := port.await_taken(told, SILENT_S):
                print(  # noqa: T201 - there is no other sign of life of a program that ends
                    f"rayshot: messages to {', '.join(sorted(awaited))} have not arrived: this program waits for them "
                    f"before it exits, for at most {WAIT_S:g} s",
                    file=sys.stderr,
                )
                port.await_taken(told, WAIT_S - SILENT_S)
        except SystemDown:
            continue  # nothing will arrive any more


atexit.register(_wait)  # runs before Ray's own, which was registered when `ray` was imported
