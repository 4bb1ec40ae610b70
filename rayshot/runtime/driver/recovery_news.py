"""How a program hears of each time that its system went back to a snapshot by itself."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from rayshot.runtime.door import door
from rayshot.runtime.driver.callback import Callback
from rayshot.runtime.wire.recovery_report import RecoveryReport

log = logging.getLogger("rayshot")
AGAIN_S = 1.0


class RecoverySubscription(Callback[RecoveryReport]):
    """A function that a program wants to be called with each report; see `System.on_recovery`.

    It `hear`s of each life that runs, and is called with the reports of lives above `life`, in their order.
    `coordinator` is a Ray handle.
    """

    def __init__(self, callback: Callable[[RecoveryReport], object], coordinator: Any, life: int) -> None:
        self._coordinator, self._told = coordinator, life
        super().__init__(callback, "rayshot-recoveries")

    def _news_of(self, of: int) -> Iterator[RecoveryReport]:
        for report in self._fetch(of):
            if report.life > self._told:
                self._told = report.life
                yield report

    def _fetch(self, life: int) -> tuple[RecoveryReport, ...]:
        while not self.is_over and life > self._told:
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
