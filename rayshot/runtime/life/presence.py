"""How the coordinator sees that a driver lives."""

import time
from collections.abc import Callable
from typing import Any

import ray

from rayshot.runtime.ray.futures import when_answered

AGAIN_S = 0.5
"""So many seconds after its coordinator died, a driver announces itself to the new one."""


class Presence:
    """Owns a reference that never gets ready while this process and the coordinator's both live; see `DriverWatch`.

    `submit` runs functions that may block. `on_gone` is called with a text when the coordinator is gone for good.
    """

    def __init__(
        self, name: str, coordinator: Any, submit: Callable[[Callable[[], None]], None], on_gone: Callable[[str], None]
    ) -> None:
        self._name = name
        self._coordinator = coordinator
        self._submit = submit
        self._on_gone = on_gone
        self._held: Any = None
        self._announce()

    def _announce(self) -> None:
        self._held = self._coordinator.stay.remote()
        when_answered(self._held, self._ended)
        self._coordinator.watch_driver.remote(self._name, [self._held])

    def _ended(self, error: object) -> None:
        """The coordinator's process is gone."""
        if isinstance(error, ray.exceptions.ActorUnavailableError):  # Ray starts it again
            self._submit(self._announce_again)
        else:
            self._submit(lambda: self._on_gone(str(error)))

    def _announce_again(self) -> None:
        time.sleep(AGAIN_S)
        if ray.is_initialized():  # the program may have left the cluster
            self._announce()
