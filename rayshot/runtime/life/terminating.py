"""A program that is told to end by SIGTERM, as Kubernetes does a grace period before SIGKILL, and leaves in order."""

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import ray

from rayshot.errors import ConfigError, RayshotError

log = logging.getLogger("rayshot")
_leaving: list[threading.Thread] = []
"""One for each signal that has come, and whoever is told of it next."""


def leave_on_sigterm(leave: Callable[[], str], within_s: float) -> None:
    """From now on the first SIGTERM runs `leave`, and then does what it did before; others meanwhile do nothing.

    On a thread of its own: the main one may hold any lock at that moment. What `leave` returns goes into the log, and
    why there is no savepoint if it raises. A program that ends meanwhile, as its system has stopped, waits for it, so
    that it ends as the signal has it. Raises ConfigError on another thread than the main one, or for that time.
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
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)  # it is there before whoever joins this thread goes on

    def told(_number: int, _frame: FrameType | None) -> None:
        if over.is_set():
            signal.signal(signal.SIGTERM, before)
            os.kill(os.getpid(), signal.SIGTERM)
        elif not begun.is_set():
            begun.set()
            _leaving.append(threading.Thread(target=end, name="rayshot-leaving", daemon=True))
            _leaving[-1].start()

    signal.signal(signal.SIGTERM, told)


def _await_leaving() -> None:
    """At the end of a program that is leaving: what the signal does, it does here."""
    try:
        for thread in _leaving:  # it grows where several systems leave in turn
            thread.join()
    except SystemExit as end:  # Ray's way to end a program, which has no effect on one that ends already
        ray.shutdown()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)


atexit.register(_await_leaving)  # runs before Ray's own, which was registered when `ray` was imported
