"""A program that exits waits first: its messages leave, and its objects stay until the receivers hold them.

If the system goes back to snapshots by itself, nobody could tell again what was told by a program that is gone. So it
waits until a snapshot holds this. What its other threads tell while it ends is no part of this, and all its systems
share one deadline. A program that was told to end has only the time that is left for this. Then it takes part in no
system any more: behind Ray's end a message of a thread would start Ray anew, and a program that is just ending may wait
for that for ever.
"""

import atexit
import sys
import threading
import time
from weakref import WeakSet

from rayshot.errors import SystemDown
from rayshot.runtime.door import door
from rayshot.runtime.life.covering import Told, await_covered
from rayshot.runtime.life.driver import DriverPort

SILENT_S = 1.0
WAIT_S = 30.0

_ports: WeakSet[DriverPort] = WeakSet()
_lock = threading.Lock()
"""Covers the set: a thread may attach while the program ends."""
_until: list[float] = []
"""The last time of `end_by`, if any."""


def wait_at_exit(port: DriverPort) -> None:
    """At its exit, let this process wait at most WAIT_S seconds until the messages sent through `port` have arrived."""
    with _lock:
        _ports.add(port)


def end_by(until: float) -> None:
    """This process was told to end: at its exit it waits no longer than until this time, by time.monotonic."""
    _until[:] = [until]


def _leave() -> None:
    try:
        if door.is_joined():
            _wait()
    finally:
        for port in _known():
            port.session.leave(
                "it ended: a thread that still tells ends its loop before, or at this error. Nothing was sent"
            )


def _wait() -> None:
    deadline = min([time.monotonic() + WAIT_S, *_until])
    told = {port: port.told() for port in _known()}
    for port, numbers in told.items():
        try:
            _await(port, numbers, deadline)
        except SystemDown:
            continue  # nothing will arrive any more


def _await(port: DriverPort, told: Told, deadline: float) -> None:
    if awaited := port.await_taken(told, min(SILENT_S, _left_s(deadline))):
        print(  # noqa: T201 - a program that ends gives no other sign of life
            f"rayshot: messages to {', '.join(sorted(awaited))} have not arrived: this program waits for them "
            f"before it exits, for at most {_left_s(deadline):.0f} s",
            file=sys.stderr,
        )
        port.await_taken(told, _left_s(deadline))
    if not await_covered(port, told, _left_s(deadline)):
        print(  # noqa: T201 - as above
            "rayshot: no snapshot holds yet what this program told, and it waits no longer: that is lost if the "
            "system goes back to an earlier one",
            file=sys.stderr,
        )


def _known() -> tuple[DriverPort, ...]:
    with _lock:
        return tuple(_ports)


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


atexit.register(_leave)  # runs before Ray's own, which was registered when `ray` was imported
