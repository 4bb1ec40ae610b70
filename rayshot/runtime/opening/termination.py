"""How a program ends in order after SIGTERM. Kubernetes sends SIGTERM first, and SIGKILL after a grace period."""

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from rayshot.errors import ConfigError, NoAnswer, RayshotError
from rayshot.runtime.door import door
from rayshot.runtime.driver.exit import end_by

log = logging.getLogger("rayshot")
_leaving: list[threading.Thread] = []
"""One thread for each system that is leaving: several systems leave in turn, as each hands the signal to the next."""


def leave_on_sigterm(leave: Callable[[], str], within_s: float) -> None:
    """From now on the first SIGTERM runs `leave`, then has the effect it had before. Others meanwhile do nothing.

    `leave` runs on a new thread: the main thread may hold any lock at that moment. The log gets the text that `leave`
    returns, or the error that says why no savepoint is known. If the program ends meanwhile, because its system has
    stopped, it waits for `leave` and then ends as after the signal. `within_s` seconds behind the signal it waits for
    nothing more. Raises ConfigError if the caller is not the main thread, or `within_s` is not a number of seconds
    above 0.
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
        except (NoAnswer, door.CallFailed) as error:
            log.warning("SIGTERM: it is open whether there is a savepoint; if not, the last snapshot counts: %s", error)
        except RayshotError as error:
            log.warning("SIGTERM: no savepoint, so the last snapshot counts: %s", error)
        finally:
            over.set()
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)  # the signal arrives before a thread that joins this one goes on

    def told(_number: int, _frame: FrameType | None) -> None:
        if over.is_set():
            signal.signal(signal.SIGTERM, before)
            os.kill(os.getpid(), signal.SIGTERM)
        elif not begun.is_set():
            begun.set()
            end_by(time.monotonic() + within_s)
            _leaving.append(threading.Thread(target=end, name="rayshot-leaving", daemon=True))
            _leaving[-1].start()

    signal.signal(signal.SIGTERM, told)


def _await_leaving() -> None:
    """At the end of a program after SIGTERM: wait for `leave`, so that the signal has its effect here."""
    try:
        for thread in _leaving:  # it grows where several systems leave in turn
            thread.join()
    except SystemExit as end:  # Ray ends a program so, but it has no effect while a program already ends
        door.leave()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)


atexit.register(_await_leaving)  # runs before that of `leaving`, and before Ray's own
