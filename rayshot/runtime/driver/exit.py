"""A program that exits waits first: its messages leave, and its objects stay until the receivers hold them.

If the system goes back to snapshots by itself, nobody could tell again what was told by a program that is gone. So it
waits until a snapshot holds this. What its other threads tell while it ends is no part of this, and all its systems
share one deadline. A program that was told to end has only the time that is left for this. Then it takes part in no
system any more: behind Ray's end a message of a thread would start Ray anew, and a program that is just ending may wait
for that for ever.
"""

import atexit
import logging
import sys
import threading
import time
from collections.abc import Mapping
from weakref import WeakSet

from rayshot.errors import SystemDown
from rayshot.runtime.coordinator.requests import Committed, SnapshotRequest
from rayshot.runtime.door import door
from rayshot.runtime.driver.channel import DriverChannel
from rayshot.runtime.driver.session import DriverSession

log = logging.getLogger("rayshot")
SILENT_S = 1.0
WAIT_S = 30.0
LOOK_S = 0.2
"""The pause before another snapshot is asked for, if one failed; each further pause is twice as long.

It is also the pause between two looks whether somebody else's snapshot holds all.
"""
Told = Mapping[DriverChannel, int]

_sessions: WeakSet[DriverSession] = WeakSet()
_lock = threading.Lock()
"""Covers the set: a thread may attach while the program ends."""
_until: list[float] = []
"""The last time of `end_by`, if any."""


def wait_at_exit(session: DriverSession) -> None:
    """At its exit, let this process wait at most WAIT_S seconds until the messages sent in `session` have arrived."""
    with _lock:
        _sessions.add(session)


def end_by(until: float) -> None:
    """This process was told to end: at its exit it waits no longer than until this time, by time.monotonic."""
    _until[:] = [until]


def _leave() -> None:
    try:
        if door.is_joined():
            _wait()
    finally:
        for session in _known():
            session.leave(
                "it ended: a thread that still tells ends its loop before, or at this error. Nothing was sent"
            )


def _wait() -> None:
    deadline = min([time.monotonic() + WAIT_S, *_until])
    told = {session: session.told() for session in _known()}
    for session, numbers in told.items():
        try:
            _await(session, numbers, deadline)
        except SystemDown:
            continue  # nothing will arrive any more


def _await(session: DriverSession, told: Told, deadline: float) -> None:
    if awaited := session.await_taken(told, min(SILENT_S, _left_s(deadline))):
        print(  # noqa: T201 - a program that ends gives no other sign of life
            f"rayshot: messages to {', '.join(sorted(awaited))} have not arrived: this program waits for them "
            f"before it exits, for at most {_left_s(deadline):.0f} s",
            file=sys.stderr,
        )
        session.await_taken(told, _left_s(deadline))
    if not await_covered(session, told, _left_s(deadline)):
        print(  # noqa: T201 - as above
            "rayshot: no snapshot holds yet what this program told, and it waits no longer: that is lost if the "
            "system goes back to an earlier one",
            file=sys.stderr,
        )


def _known() -> tuple[DriverSession, ...]:
    with _lock:
        return tuple(_sessions)


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def await_covered(session: DriverSession, told: Told, timeout_s: float) -> bool:
    """Wait at most `timeout_s` seconds until a durable snapshot holds all of `told`, if the system may go back.

    It asks for another snapshot only if one failed or cannot hold all. Returns whether it is so. Raises SystemDown.
    """
    now = ask_at = time.monotonic()
    deadline, pause_s = now + timeout_s, LOOK_S
    while not is_covered(session, told) and (now := time.monotonic()) < deadline:
        if now >= ask_at:
            if not session.await_taken(told, deadline - now) and _is_in_snapshot(session, told, deadline):
                return True
            ask_at, pause_s = time.monotonic() + pause_s, 2 * pause_s
        time.sleep(max(0.0, min(LOOK_S, deadline - time.monotonic())))
    return is_covered(session, told)


def is_covered(session: DriverSession, told: Told) -> bool:
    """Whether durable snapshots hold all of `told` that left this program, as far as it knows, if this matters."""
    return not session.machine.retains or not (_uncovered(session, told) or session.life.eviction.outstanding)


def _uncovered(session: DriverSession, told: Told) -> dict[str, int]:
    """The last messages that no durable snapshot is known to hold, by receiver."""
    kept_up_to = session.machine.kept_up_to
    with session.lock:
        lasts = {channel.receiver: kept_up_to(channel.receiver, last) for channel, last in told.items()}
    return {receiver: last for receiver, last in lasts.items() if last}


def _is_in_snapshot(session: DriverSession, told: Told, deadline: float) -> bool:
    """Ask for a snapshot. Returns whether it holds all of `told`, and the system never goes back behind it."""
    life = session.life
    asked = life.identity.coordinator.snapshot.remote(SnapshotRequest(driver=session.name, life=life.incarnation))
    while not door.wait([asked], timeout=LOOK_S)[0]:
        if is_covered(session, told):
            return True
        if time.monotonic() >= deadline:
            return False
    try:
        committed: Committed = door.get(asked)
    except door.CallFailed as error:
        log.debug("%s: no snapshot holds yet what it told: %s", session.name, error)
        return False
    retained = _uncovered(session, told)
    holds = all(committed.sent.get(name, 0) >= last or name in committed.ended for name, last in retained.items())
    return holds and committed.record.advances and not life.eviction.outstanding


atexit.register(_leave)  # runs before Ray's own, which was registered when `ray` was imported
