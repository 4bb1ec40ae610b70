"""The clock of a coordinator: it checks every TICK_S for work that is due."""

import logging
import threading
import time
from collections.abc import Callable

from rayshot.runtime.door.survived_errors import survived

log = logging.getLogger("rayshot")
TICK_S = 0.02


def start_clock(system: str, tick: Callable[[float], None]) -> None:
    """Start a thread that calls `tick` with the monotonic time every TICK_S, for ever."""

    def run() -> None:
        while True:
            time.sleep(TICK_S)
            with survived("the clock of system %r failed once, a defect of rayshot", system):
                tick(time.monotonic())

    threading.Thread(target=run, name="rayshot-clock", daemon=True).start()
