"""Who goes first on a busy machine: those who do little and for whom a whole snapshot waits.

An actor's handlers may keep every processor busy. Then each hand-over between two threads waits for its turn behind all
of them, and a snapshot of a few milliseconds takes hundreds. Ray starts the threads of its workers at a nice value of
15, behind every other program; the interpreter's lock stays with a thread that waits for its turn.
"""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Hashable, Iterator
from pathlib import Path

FIRST = -10
"""A nice value. Lowering it takes CAP_SYS_NICE, which root has outside of most containers."""
LIKE_OTHERS = 0
"""For threads that run handlers, which may be long: before other handlers, but before no other program."""


@functools.cache
def usual() -> int:
    """The nice value that Ray gave to this process, as it was before any of its threads was put first."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def go_first() -> None:
    """Put all threads of this process, and those that they start, before others, where the system allows it."""
    with contextlib.suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            thread_goes_first(int(thread.name))


def thread_goes_first(thread: int = 0) -> None:
    """Put one thread of this process, the calling one by default, before others, where the system allows it."""
    usual()
    _set_nice(thread, FIRST)


def go_with_others() -> None:
    """Let the calling thread wait its turn again: it is going to compute for long."""
    _set_nice(0, usual())


class Hurry:
    """Puts a thread before its like for as long as somebody waits for it, where the system allows it.

    What the thread starts in the meantime keeps that rank. Thread-safe.
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        self._waited_for: set[Hashable] = set()
        self._lock = threading.Lock()

    def enter(self) -> None:
        """The calling thread is the one from now on."""
        with self._lock:
            self._thread = threading.get_native_id()
            self._set(hurried=bool(self._waited_for))

    @contextlib.contextmanager
    def until_done(self, reason: Hashable) -> Iterator[None]:
        """Somebody waits in here, at the longest until `done`."""
        with self._lock:
            self._waited_for.add(reason)
            self._set(hurried=True)
        try:
            yield
        finally:
            self.done(reason)

    def done(self, reason: Hashable) -> None:
        """The thread has done its part for `reason`."""
        with self._lock:
            if reason in self._waited_for:
                self._waited_for.remove(reason)
                self._set(hurried=bool(self._waited_for))

    def _set(self, *, hurried: bool) -> None:
        if self._thread is not None and usual() > LIKE_OTHERS:
            _set_nice(self._thread, LIKE_OTHERS if hurried else usual())


def _set_nice(thread: int, nice: int) -> None:
    if sys.platform == "linux":  # elsewhere threads have no nice value of their own
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, nice)
