"""The clock of a coordinator: it checks every TICK_S for work that is due."""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("rayshot")
TICK_S = 0.02


def start_clock(system: str, tick: Callable[[float], None]) -> None:
    """Start a thread that calls `tick` with the monotonic time every TICK_S, for ever."""

    def run() -> None:
        while True:
            time.sleep(TICK_S)
            try:
                tick(time.monotonic())
            except Exception:
                log.exception("the clock of system %r failed once, a defect of rayshot", system)

    threading.Thread(target=run, name="rayshot-clock", daemon=True).start()
