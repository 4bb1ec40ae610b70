"""How a coordinator notices that drivers die."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ray

from rayshot.errors import SnapshotAborted
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.clock import TICK_S
from rayshot.runtime.coordinator.inquiry import Inquiry
from rayshot.runtime.ray.futures import when_answered
from rayshot.runtime.wire.answers import UNTIL_ANSWERED
from rayshot.runtime.wire.initiation import some_names

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.life import Life

log = logging.getLogger("rayshot")
FOLLOW_S, KNOWN_S = 30.0, 3.0
"""Seconds for drivers to tell again; seconds until all drivers have announced themselves to a new coordinator."""
GUESTS_WAIT_S = 5.0
"""A plain task's call waits so many seconds until every actor has recorded a snapshot; then the snapshot is aborted."""


class DriverWatch(Inquiry):
    """A base of the coordinator's class.

    Each driver keeps a call of `stay` open, owns the reference to its result, and gives the reference to
    `watch_driver`: it fails when the driver's process dies. Then the coordinator tells the actors. They close the
    driver's channels, and forget its counters when a snapshot holds the last ones.
    """

    _life: "Life"
    refuse: Callable[[SnapshotId, str, str, AbortReason], None]

    def __init__(self) -> None:
        self._drivers: dict[str, Any] = {}
        self.dead_drivers: frozenset[str] = frozenset()
        """They stay dead in all lives that the system goes back to."""
        self._followed: dict[str, int] = {}
        self._began = time.monotonic()

    @ray.method(concurrency_group="stay")
    def stay(self) -> None:
        """Stay pending while this process lives. One call waits on a thread, all others wait in the queue behind it."""
        threading.Event().wait()

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def watch_driver(self, name: str, held: list[Any]) -> None:
        """Notice the death of the driver that owns the reference in `held`; outside a list Ray would send its value."""
        (reference,) = held
        self._drivers[name] = reference  # Ray reports the owner's death only while a process holds the reference
        when_answered(reference, lambda value: self._driver_lost(name, value))

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def watch_starter(self, held: list[Any]) -> None:
        """See `Birth.watch`. The reference is in a list, because otherwise Ray would send its value."""
        self._life.birth.watch(*held)

    @ray.method(concurrency_group="news", max_task_retries=UNTIL_ANSWERED)
    def followed(self, driver: str, incarnation: int) -> None:
        """What this driver had to tell again in that life has arrived."""
        self._followed[driver] = max(incarnation, self._followed.get(driver, 0))

    def await_followers(self, life: "Life") -> None:
        """Wait until all living drivers have told again what this life needs: who stops the system would lose the rest.

        Raises SnapshotAborted after FOLLOW_S seconds.
        """
        deadline = time.monotonic() + FOLLOW_S
        while True:
            behind = [driver for driver in self._drivers if self._followed.get(driver, 0) < life.incarnation]
            if not behind and time.monotonic() >= self._began + KNOWN_S:
                return
            if time.monotonic() >= deadline:
                raise SnapshotAborted(
                    f"{some_names(behind)} has not yet told again what it told before the system went back, and a stop "
                    f"would lose it: the system goes on. Try again, or take a savepoint and shut it down",
                    reason=AbortReason.TIMEOUT.value,
                    missing=tuple(behind),
                )
            time.sleep(TICK_S)

    def _driver_lost(self, name: str, value: object) -> None:
        if isinstance(value, ray.exceptions.OwnerDiedError) and self._drivers.pop(name, None) is not None:
            threading.Thread(target=self._tell_of_death, args=(name,), daemon=True).start()  # see Watches

    def _tell_of_death(self, name: str) -> None:
        log.info("%s is gone: its channels are closed", name)
        self.dead_drivers |= {name}
        self._followed.pop(name, None)
        self._life.driver_died(name)

    @ray.method(concurrency_group="wait")
    def await_recorded(self, snapshot: SnapshotId, name: str) -> None:
        """Wait until every actor has recorded a snapshot: the actor `name` has an answer for a plain task.

        A snapshot that takes longer than GUESTS_WAIT_S is aborted: an actor may be waiting for that task, and so could
        not record.
        """
        deadline, was_open = time.monotonic() + GUESTS_WAIT_S, False
        while time.monotonic() < deadline:
            with self._life.lock:
                under_way = self._life.runner.under_way.get(snapshot)
            if (was_open and under_way is None) or (under_way is not None and under_way.recorded_s is not None):
                return
            was_open = under_way is not None  # if an actor began the snapshot, its announcement may not be here yet
            time.sleep(TICK_S)
        why = (
            f"not every actor recorded it within {GUESTS_WAIT_S:g} s, and a plain task waits for an answer of {name!r}"
            ": let handlers return sooner, or let the program or an actor call it: docs/porting.md#processes"
        )
        self.refuse(snapshot, name, why, AbortReason.TIMEOUT)
