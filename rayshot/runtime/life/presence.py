"""How the coordinator sees that a driver lives."""

import time
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door import door, here
from rayshot.runtime.door.naming import is_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity

AGAIN_S = 0.5
"""So many seconds after its coordinator died, a driver announces itself to the new one."""


class Presence:
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
