"""Tracing for a limited time: a system that began without traces is traced from one snapshot to the next."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rayshot.errors import ConfigError
from rayshot.runtime.wire.initiation import some_names

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.members import Members
    from rayshot.runtime.coordinator.requests import Committed

log = logging.getLogger("rayshot")
SWITCH_S = 5.0
"""An actor whose handler takes more seconds than this is not traced."""
LOOK_S = 0.05
SECONDS_MAX: Final = 600.0


def check_window(seconds: object, full: object) -> None:
    """Raise ConfigError if `seconds` is not a possible time for a trace, or `full` is not a bool."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= SECONDS_MAX:
        raise ConfigError(f"seconds={seconds!r}: a system is traced for more than 0 and up to {SECONDS_MAX:g} seconds")
    if type(full) is not bool:
        raise ConfigError(f"full={full!r}: True keeps the bytes of each message in the trace, False does not")


class TraceWindow:
    """The coordinator's trace window: only one at a time, and none if the system is traced `always`.

    `full` says how actors that join now must trace; None if no window is open.
    """

    def __init__(self, members: "Members", *, always: bool) -> None:
        self._members = members
        self._always = always
        self._open = threading.Lock()
        self.full: bool | None = None

    def take(self, traced: tuple[float, bool] | None, take: Callable[[], "Committed"]) -> "Committed":
        """Call `take` and return its result. With `traced` = (seconds, full), call it twice and return the second one.

        All actors are traced between the two calls. Raises ConfigError if the system is already traced, always or for
        another caller; else the errors of `take`.
        """
        if traced is None:
            return take()
        if self._always:
            raise ConfigError("this system is traced all the time: each of its snapshots has traces")
        if not self._open.acquire(blocking=False):
            raise ConfigError("another program traces this system now: try again when it has finished")
        try:
            return self._take(*traced, take)
        finally:
            self._switch(None)
            self._open.release()

    def _take(self, seconds: float, full: bool, take: Callable[[], "Committed"]) -> "Committed":  # noqa: FBT001
        if busy := self._switch(full):
            log.warning("not traced, as their handlers take long: %s", some_names(busy))
        take()
        time.sleep(seconds)
        return take()

    def _switch(self, full: bool | None) -> list[str]:  # noqa: FBT001 - as above
        """Change the tracing of all actors. Returns those that are too busy; they follow when their handlers end."""
        self.full = full
        deadline = time.monotonic() + SWITCH_S
        while (busy := self._members.trace(full)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return busy
