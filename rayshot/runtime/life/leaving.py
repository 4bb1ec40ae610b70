"""A program that exits: what it told leaves first, and what it put stays until its receivers hold it."""

import atexit
import sys
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakSet

import ray

from rayshot.errors import SystemDown

SILENT_S = 1.0
WAIT_S = 30.0


class Port(Protocol):
    """What is asked of a driver's port."""

    def told(self) -> Mapping[Any, int]:
        """All that was told until now."""

    def await_taken(self, told: Any, timeout_s: float) -> list[str]:
        """Wait until it has arrived, for at most so long. Returns whom this waits for. Raises SystemDown."""


_ports: WeakSet[Port] = WeakSet()


def wait_at_exit(port: Port) -> None:
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
