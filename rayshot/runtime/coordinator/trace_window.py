"""Tracing for a while: a system that was begun without traces is traced from one snapshot to the next."""

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
"""An actor whose handler takes longer is not traced."""
LOOK_S = 0.05
SECONDS_MAX: Final = 600.0


def check_window(seconds: object, full: object) -> None:
    """Raise ConfigError for what is not a time that a system can be traced for."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= SECONDS_MAX:
        raise ConfigError(f"seconds={seconds!r}: a system is traced for more than 0 and up to {SECONDS_MAX:g} seconds")
    if type(full) is not bool:
        raise ConfigError(f"full={full!r}: True keeps the bytes of each message in the trace, False does not")


class TraceWindow:
    """The coordinator's: one window at a time, and none where the system is traced `always`.

    `full` is what is asked of actors that join now; None where there is no window.
    """

    def __init__(self, members: "Members", *, always: bool) -> None:
        self._members = members
        self._always = always
        self._open = threading.Lock()
        self.full: bool | None = None

    def take(self, traced: tuple[float, bool] | None, take: Callable[[], "Committed"]) -> "Committed":
        """What `take` returns; with `traced` = (seconds, full) of its second call, and all actors are traced between.

        Raises ConfigError where somebody else traces now; else what `take` raises.
        """
        if traced is None:
            return take()
        if self._always:
            raise ConfigError("this system is traced all the time: each of its snapshots has traces")
        if not self._open.acquire(blocking=False):
            raise ConfigError("somebody traces this system now: try again when that is over")
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
        """Returns the actors that are too busy: they follow when their handlers end."""
        self.full = full
        deadline = time.monotonic() + SWITCH_S
        while (busy := self._members.trace(full)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return busy
