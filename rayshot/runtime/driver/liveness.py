"""How the coordinator sees that a driver lives, and what a driver does whose coordinator is gone for good."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rayshot.runtime.channel.transport import SenderChannel
from rayshot.runtime.door import door, here
from rayshot.runtime.door.naming import is_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity

AGAIN_S = 0.5
"""So many seconds after its coordinator died, a driver announces itself to the new one."""
LOOK_S, LOOK_S_MAX = 0.2, 5.0
"""The first and the longest pause, in seconds, between two checks whether a system without a coordinator is over."""


class Liveness:
    """Owns a reference that never gets ready while this process and the coordinator's both live; see `DriverWatch`.

    `name` is the driver's, `identity` that of its life. `insist` runs a function that may block, until it
    raises no error of Ray's. `on_gone` is called with a text when the coordinator is gone for good.
    """

    def __init__(
        self,
        name: str,
        identity: HostIdentity,
        insist: Callable[[Callable[[], None]], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._name = name
        self._system, self._coordinator = identity.system, identity.coordinator
        self._insist = insist
        self._on_gone = on_gone
        self._held: Any = None
        self._over = False
        self._announce()

    def end(self) -> None:
        """Tell the coordinator to count this driver as dead, and announce it no more."""
        self._over = True
        if door.is_joined():  # otherwise to ask would start Ray
            self._coordinator.give_up_driver.remote(self._name)

    def _announce(self) -> None:
        self._held = self._coordinator.stay.remote()
        door.when_answered(self._held, self._ended)
        self._coordinator.watch_driver.remote(self._name, [self._held], here.place())

    def _ended(self, error: object) -> None:
        """The coordinator's process is gone, or its connection was lost."""
        self._insist(lambda: self._announce_again(str(error)))

    def _announce_again(self, detail: str) -> None:
        if not is_coordinator(self._system, self._coordinator):
            self._on_gone(detail)
            return
        time.sleep(AGAIN_S)
        if door.is_joined() and not self._over:  # the program may have left the cluster
            self._announce()


class Orphan(Protocol):
    """A driver whose coordinator is gone for good."""

    lock: threading.Lock
    down: Any

    @property
    def channels(self) -> Mapping[str, SenderChannel]:
        """Its channels, by receiver."""

    @property
    def has_later_life(self) -> bool:
        """Whether a later life of the system has begun."""

    def find(self, name: str) -> Any | None:
        """The Ray handle of an actor; None if there is none."""

    def close_without(self, detail: str) -> None:
        """Refuse everything from now on."""


def outlast_coordinator(driver: Orphan, detail: str) -> None:
    """Go on while actors answer and no later life has begun, then close."""
    pause_s = LOOK_S
    while driver.down is None and door.is_joined():
        if driver.has_later_life or not _reaches_actors(driver):
            driver.close_without(detail)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LOOK_S_MAX)


def _reaches_actors(driver: Orphan) -> bool:
    """Whether any actor that this driver sent to answers or is just slow. True if this driver sent to none."""
    with driver.lock:
        names = [name for name, channel in driver.channels.items() if channel.peer is not None]
    hosts = [host for host in map(driver.find, names) if host is not None]
    for ref in [host.receivers.remote() for host in hosts]:
        try:
            door.get(ref, timeout=LOOK_S_MAX)
        except door.TimedOut:
            return True
        except door.CallFailed:
            continue
        return True
    return not hosts
