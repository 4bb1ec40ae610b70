"""How a program hears of each time that its system went back to a snapshot by itself."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door import door
from rayshot.runtime.wire.recovery_report import RecoveryReport

log = logging.getLogger("rayshot")
AGAIN_S = 1.0


class RecoverySubscription:
    """A function that a program wants to be called with each report; see `System.on_recovery`.

    It is called on a thread of its own, with the reports of lives above `life`, in their order. `coordinator` is a Ray
    handle.
    """

    def __init__(self, callback: Callable[[RecoveryReport], object], coordinator: Any, life: int) -> None:
        self._callback, self._coordinator, self._told = callback, coordinator, life
        self._lives: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._over = False
        threading.Thread(target=self._run, name="rayshot-recoveries", daemon=True).start()

    def cancel(self) -> None:
        """Call the function no more. A call that runs goes on to its end. You may call this twice."""
        self._over = True
        self._lives.put(None)

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled."""
        return self._over

    def runs(self, life: int) -> None:
        """The system went back, and this life runs."""
        self._lives.put(life)

    def end(self) -> None:
        """The system is over: no further life follows."""
        self._lives.put(None)

    def _run(self) -> None:
        while not self._over and (life := self._lives.get()) is not None:
            for report in self._fetch(life):
                if not self._over and report.life > self._told:
                    self._told = report.life
                    self._tell(report)

    def _fetch(self, life: int) -> tuple[RecoveryReport, ...]:
        while not self._over and life > self._told:
            try:
                found: tuple[RecoveryReport, ...] = door.get(self._coordinator.recoveries.remote(self._told, life))
            except door.Died as error:
                log.debug("no report of life %d: %s", life, error)
                return ()
            except door.CallFailed as error:
                log.debug("no report of life %d yet: %s", life, error)
                time.sleep(AGAIN_S)
            else:
                return found
        return ()

    def _tell(self, report: RecoveryReport) -> None:
        try:
            self._callback(report)
        except BaseException:  # a SystemExit, too, must not end the news
            log.exception("a function that hears of recoveries failed, for life %d", report.life)


class RecoveryNews:
    """The subscriptions of one driver. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[RecoverySubscription] = []

    def add(self, subscription: RecoverySubscription) -> None:
        """Tell this one too."""
        with self._lock:
            self._subscriptions = [*(other for other in self._subscriptions if not other.is_over), subscription]

    def runs(self, life: int) -> None:
        """The system went back, and this life runs."""
        with self._lock:
            for subscription in self._subscriptions:
                subscription.runs(life)

    def close(self) -> None:
        """The system is over."""
        with self._lock:
            for subscription in self._subscriptions:
                subscription.end()
            self._subscriptions.clear()
