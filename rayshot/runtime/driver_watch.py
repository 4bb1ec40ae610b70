"""What a coordinator does to notice that drivers die: the half of it that is told of them."""

import logging
import threading
from typing import TYPE_CHECKING, Any

import ray

from rayshot.runtime.notices import UNTIL_ANSWERED

if TYPE_CHECKING:
    from rayshot.runtime.members import Members

log = logging.getLogger("rayshot")


class DriverWatch:
    """The base of the coordinator's class.

    Each driver keeps a call of `stay` open, owns the reference to its result, and gives it to `watch_driver`: the
    reference fails when the driver's process dies. The actors are told, close its channels, and forget its counters
    when a snapshot holds the last ones.
    """

    _lock: threading.RLock
    _members: "Members"

    def __init__(self) -> None:
        self._drivers: dict[str, Any] = {}

    @ray.method(concurrency_group="stay")
    def stay(self) -> None:
        """Stay pending as long as this process lives. One thread waits, and all other calls in the queue behind it."""
        threading.Event().wait()

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def watch_driver(self, name: str, held: list[Any]) -> None:
        """Notice the death of who owns the reference in this list; by itself it would arrive as its value."""
        (reference,) = held
        self._drivers[name] = reference  # it tells of its owner as long as somebody has it
        reference._on_completed(lambda value: self._driver_lost(name, value))  # noqa: SLF001 - as `Birth.watch`

    def _driver_lost(self, name: str, value: object) -> None:
        if isinstance(value, ray.exceptions.OwnerDiedError) and self._drivers.pop(name, None) is not None:
            threading.Thread(target=self._tell_of_death, args=(name,), daemon=True).start()  # see Watches

    def _tell_of_death(self, name: str) -> None:
        log.info("%s is gone: its channels are closed", name)
        with self._lock:
            self._members.tell_all("driver_died", name)
