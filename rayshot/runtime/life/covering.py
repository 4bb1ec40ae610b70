"""A program that ends waits until a durable snapshot holds what it told. It asks for one snapshot, not for more."""

import logging
import time
from collections.abc import Mapping

from rayshot.runtime.coordinator.requests import Committed, Order
from rayshot.runtime.door import door
from rayshot.runtime.life.driver import DriverPort
from rayshot.runtime.life.driver_channel import DriverChannel

log = logging.getLogger("rayshot")
LOOK_S = 0.2
"""The pause before another snapshot is asked for, if one failed; each further pause is twice as long.

It is also the pause between two looks whether somebody else's snapshot holds all.
"""
Told = Mapping[DriverChannel, int]


def await_covered(port: DriverPort, told: Told, timeout_s: float) -> bool:
    """Wait at most `timeout_s` seconds until a durable snapshot holds all of `told`, if the system may go back.

    It asks for another snapshot only if one failed or cannot hold all. Returns whether it is so. Raises SystemDown.
    """
    now = ask_at = time.monotonic()
    deadline, pause_s = now + timeout_s, LOOK_S
    while not is_covered(port, told) and (now := time.monotonic()) < deadline:
        if now >= ask_at:
            if not port.await_taken(told, deadline - now) and _is_in_snapshot(port, told, deadline):
                return True
            ask_at, pause_s = time.monotonic() + pause_s, 2 * pause_s
        time.sleep(max(0.0, min(LOOK_S, deadline - time.monotonic())))
    return is_covered(port, told)


def is_covered(port: DriverPort, told: Told) -> bool:
    """Whether durable snapshots hold all of `told` that left this program, as far as it knows, if this matters."""
    return not port.session.machine.keeps or not (_uncovered(port, told) or port.life.letting_go.owes)


def _uncovered(port: DriverPort, told: Told) -> dict[str, int]:
    """The last messages that no durable snapshot is known to hold, by receiver."""
    kept_up_to = port.session.machine.kept_up_to
    with port.session.lock:
        lasts = {channel.receiver: kept_up_to(channel.receiver, last) for channel, last in told.items()}
    return {receiver: last for receiver, last in lasts.items() if last}


def _is_in_snapshot(port: DriverPort, told: Told, deadline: float) -> bool:
    """Ask for a snapshot. Returns whether it holds all of `told`, and the system never goes back behind it."""
    life = port.life
    asked = life.identity.coordinator.snapshot.remote(Order(driver=port.name, life=life.incarnation))
    while not door.wait([asked], timeout=LOOK_S)[0]:
        if is_covered(port, told):
            return True
        if time.monotonic() >= deadline:
            return False
    try:
        committed: Committed = door.get(asked)
    except door.CallFailed as error:
        log.debug("%s: no snapshot holds yet what it told: %s", port.name, error)
        return False
    kept = _uncovered(port, told)
    holds = all(committed.sent.get(name, 0) >= last or name in committed.ended for name, last in kept.items())
    return holds and committed.record.advances and not life.letting_go.owes
