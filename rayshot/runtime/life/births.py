"""The actors that a driver is making, until their constructors have returned."""

import time
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door import door
from rayshot.runtime.life.progress import wait_with_progress
from rayshot.runtime.wire.initiation import some_names

LOOK_S = 0.1
POLL_S = 0.02


class Births:
    """The actors that are being made. The driver gives up an actor that waits for room, so it waits for it only once.

    `find` gives the Ray handle of an actor, or None. Any thread may call.
    """

    def __init__(self, find: Callable[[str], Any | None]) -> None:
        self._find = find
        self._unborn: set[str] = set()
        self.given_up: frozenset[str] = frozenset()
        """The actors that the driver waited for in vain, and has not heard of since."""

    def add(self, name: str) -> None:
        """An actor is being made."""
        self._unborn.add(name)

    def started(self, name: str) -> None:
        """The actor's process runs, so the actor has its place: the driver waits for it again."""
        self.given_up -= {name}

    def forget(self, name: str) -> None:
        """The actor has ended."""
        self._unborn.discard(name)
        self.given_up -= {name}

    @property
    def awaited(self) -> set[str]:
        """All actors that are neither constructed nor given up."""
        return set(self._unborn) - self.given_up

    def wait(self, patience_s: float, is_over: Callable[[], bool]) -> None:
        """Wait until all are constructed or `is_over`. Give up the rest if none gets ready for `patience_s` seconds."""
        before, due = set[str](), 0.0

        def is_done(timeout_s: float) -> bool:
            nonlocal before, due
            until = time.monotonic() + timeout_s
            while (now := time.monotonic()) < until:
                awaited = self.awaited
                if not awaited or is_over():
                    return True
                if awaited != before:
                    before, due = awaited, now + patience_s
                elif now >= due:
                    self.given_up |= awaited
                    return True
                self._look(awaited)
                time.sleep(POLL_S)
            return False

        wait_with_progress(is_done, lambda: f"waiting for {some_names(self.awaited)} to start")

    def _look(self, names: set[str]) -> None:
        hosts = {name: self._find(name) for name in names}
        refs = {name: host.status.remote() for name, host in hosts.items() if host is not None}
        ready, _ = door.wait(list(refs.values()), num_returns=len(refs), timeout=LOOK_S) if refs else ([], [])
        for name in names:
            if name not in refs or (refs[name] in ready and _is_done(refs[name])):
                self._unborn.discard(name)


def _is_done(answer: object) -> bool:
    """Whether a host's status says that its actor is constructed, or never will be."""
    try:
        status = door.get(answer)
    except door.CallFailed:  # it died: the system stops
        return True
    return bool(status["born"] or status["down"])
