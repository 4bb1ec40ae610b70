"""Who goes first on a busy machine: those who do little and for whom a whole snapshot waits.

An actor's handlers may keep every processor busy. Then each hand-over between two threads waits for its turn behind all
of them, and a snapshot of a few milliseconds takes hundreds. Ray puts a worker's main thread, and with it all threads
that take calls and run handlers, at a nice value of 15, behind other programs; and the interpreter's lock stays with a
thread that waits for a processor. Lowering a nice value takes CAP_SYS_NICE, which root has outside of most containers.
"""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Hashable, Iterator
from pathlib import Path

FIRST = -10
"""For those who run no code of users."""
BESIDE_PROGRAMS = 0
"""For threads of actors: before the handlers of others, but before no other program, as they may compute for long."""


@functools.cache
def _usual() -> int:
    """The nice value of the calling thread, which must be one that Ray calls us on, when it is first asked for here."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def go_first() -> None:
    """Put all threads of this process, and those that they start, before others, where the system allows it."""
    with contextlib.suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            _set_nice(int(thread.name), min(FIRST, _usual()))


def go_beside_programs(thread: int = 0) -> None:
    """Put a thread of this process, by default the calling one, beside other programs, where the system allows it."""
    _set_nice(thread, min(BESIDE_PROGRAMS, _usual()))


def go_with_others() -> None:
    """Let the calling thread wait its turn again: it is going to compute for long."""
    _set_nice(0, _usual())


class Hurry:
    """Puts a thread beside other programs for as long as somebody waits for it, where the system allows it.

    Threads and processes that it starts in the meantime keep that rank. Thread-safe.
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        self._before: int | None = None
        self._waited_for: set[Hashable] = set()
        self._lock = threading.Lock()

    def enter(self) -> None:
        """The calling thread is the one from now on."""
        if sys.platform == "linux":  # elsewhere threads have no nice values of their own
            with self._lock:
                self._thread = threading.get_native_id()
                self._set()

    def leave(self) -> None:
        """The calling thread is about to end."""
        with self._lock:
            self._thread = None

    @contextlib.contextmanager
    def until_done(self, reason: Hashable) -> Iterator[None]:
        """Somebody waits in here, at the longest until `done`."""
        self.begin(reason)
        try:
            yield
        finally:
            self.done(reason)

    def begin(self, reason: Hashable) -> None:
        """Somebody waits until `done`."""
        with self._lock:
            self._waited_for.add(reason)
            self._set()

    def done(self, reason: Hashable) -> None:
        """The thread has done its part for `reason`."""
        with self._lock:
            self._waited_for.discard(reason)
            self._set()

    def _set(self) -> None:
        if self._thread is None:
            return
        if self._waited_for and self._before is None:
            self._before = os.getpriority(os.PRIO_PROCESS, self._thread)  # a handler may have chosen its own
            _set_nice(self._thread, min(BESIDE_PROGRAMS, self._before))
        elif self._before is not None and not self._waited_for:
            _set_nice(self._thread, self._before)
            self._before = None


def _set_nice(thread: int, nice: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, nice)
