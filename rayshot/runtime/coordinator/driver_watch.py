"""What a coordinator does to notice that drivers die: the half of it that is told of them."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ray

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.clock import TICK_S
from rayshot.runtime.coordinator.inquiry import Inquiry
from rayshot.runtime.coordinator.notices import UNTIL_ANSWERED
from rayshot.runtime.ray.futures import when_answered

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.birth import Birth
    from rayshot.runtime.coordinator.members import Members
    from rayshot.runtime.coordinator.under_way import UnderWay

log = logging.getLogger("rayshot")
GUESTS_WAIT_S = 5.0
"""So long a plain task's call waits until every actor has recorded a snapshot; then the snapshot is given up."""


class DriverWatch(Inquiry):
    """The base of the coordinator's class.

    Each driver keeps a call of `stay` open, owns the reference to its result, and gives it to `watch_driver`: the
    reference fails when the driver's process dies. The actors are told, close its channels, and forget its counters
    when a snapshot holds the last ones.
    """

    _lock: threading.RLock
    _birth: "Birth"
    _members: "Members"
    _open: "dict[SnapshotId, UnderWay]"
    refuse: Callable[[SnapshotId, str, str, AbortReason], None]

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
        when_answered(reference, lambda value: self._driver_lost(name, value))

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def watch_starter(self, held: list[Any]) -> None:
        """See `Birth.watch`; a reference by itself would arrive as its value."""
        self._birth.watch(*held)

    def _driver_lost(self, name: str, value: object) -> None:
        if isinstance(value, ray.exceptions.OwnerDiedError) and self._drivers.pop(name, None) is not None:
            threading.Thread(target=self._tell_of_death, args=(name,), daemon=True).start()  # see Watches

    def _tell_of_death(self, name: str) -> None:
        log.info("%s is gone: its channels are closed", name)
        with self._lock:
            self._members.tell_all("driver_died", name)

    @ray.method(concurrency_group="wait")
    def await_recorded(self, snapshot: SnapshotId, name: str) -> None:
        """Wait until every actor has recorded a snapshot, as the actor `name` has an answer for a plain task.

        One that takes too long is given up: an actor may be waiting for that task, and could not record before.
        """
        deadline, was_open = time.monotonic() + GUESTS_WAIT_S, False
        while time.monotonic() < deadline:
            with self._lock:
                under_way = self._open.get(snapshot)
            if (was_open and under_way is None) or (under_way is not None and under_way.recorded_s is not None):
                return
            was_open = under_way is not None  # the news of one that an actor began may still be on its way
            time.sleep(TICK_S)
        why = (
            f"not every actor recorded it within {GUESTS_WAIT_S:g} s, and a plain task waits for an answer of {name!r}"
            ": let handlers return sooner, or let the program or an actor call it: docs/porting.md#processes"
        )
        self.refuse(snapshot, name, why, AbortReason.TIMEOUT)
