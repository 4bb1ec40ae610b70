"""A program that exits waits first: its messages leave, and its objects stay until the receivers hold them.

If the system goes back to snapshots by itself, nobody could tell again what was told by a program that is gone. So it
waits until a snapshot holds this.
"""

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
    """The part of a driver's port that this module uses."""

    def told(self) -> Mapping[Any, int]:
        """All messages that were sent until now."""

    def await_taken(self, told: Any, timeout_s: float) -> list[str]:
        """Wait at most `timeout_s` until `told` has arrived. Returns the receivers it waits for. Raises SystemDown."""

    def await_covered(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until a snapshot holds what was told, if this matters. Returns whether it is so."""


_ports: WeakSet[Port] = WeakSet()


def wait_at_exit(port: Port) -> None:
    """At its exit, let this process wait at most WAIT_S seconds until the messages sent through `port` have arrived."""
    _ports.add(port)


def _wait() -> None:
    if not ray.is_initialized():
        return
    for port in tuple(_ports):
        try:
            told = port.told()
            if awaited := port.await_taken(told, SILENT_S):
                print(  # noqa: T201 - a program that ends gives no other sign of life
                    f"rayshot: messages to {', '.join(sorted(awaited))} have not arrived: this program waits for them "
                    f"before it exits, for at most {WAIT_S:g} s",
                    file=sys.stderr,
                )
                port.await_taken(told, WAIT_S - SILENT_S)
            if not port.await_covered(WAIT_S):
                print(  # noqa: T201 - as above
                    f"rayshot: no snapshot holds yet what this program told, after {WAIT_S:g} s: it is lost if the "
                    f"system goes back to an earlier one",
                    file=sys.stderr,
                )
        except SystemDown:
            continue  # nothing will arrive any more


atexit.register(_wait)  # runs before Ray's own, which was registered when `ray` was imported
