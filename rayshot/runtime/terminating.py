"""A program that is told to end by SIGTERM, as Kubernetes does a grace period before SIGKILL, and leaves in order."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

import ray

from rayshot.errors import ConfigError, RayshotError

log = logging.getLogger("rayshot")


def leave_on_sigterm(leave: Callable[[], str], within_s: float) -> None:
    """From now on the first SIGTERM runs `leave`, and then does what it did before; others meanwhile do nothing.

    On a thread of its own: the main one may hold any lock at that moment. What `leave` returns goes into the log, and
    why there is no savepoint if it raises. Raises ConfigError on another thread than the main one, or for that time.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError("stop_on_sigterm: only the main thread of a program can take over a signal")
    if not isinstance(within_s, int | float) or not 0 < within_s < float("inf"):
        raise ConfigError(f"within_s={within_s!r}: give a number of seconds above 0, and below the grace period")
    before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    begun, over = threading.Event(), threading.Event()

    def end() -> None:
        try:
            log.warning("SIGTERM: %s", leave())
        except (RayshotError, ray.exceptions.RayError) as error:
            log.warning("SIGTERM: no savepoint, so the last snapshot counts: %s", error)
        finally:
            over.set()
            os.kill(os.getpid(), signal.SIGTERM)

    def told(_number: int, _frame: FrameType | None) -> None:
        if over.is_set():
            signal.signal(signal.SIGTERM, before)
            os.kill(os.getpid(), signal.SIGTERM)
        elif not begun.is_set():
            begun.set()
            threading.Thread(target=end, name="rayshot-leaving", daemon=True).start()

    signal.signal(signal.SIGTERM, told)
