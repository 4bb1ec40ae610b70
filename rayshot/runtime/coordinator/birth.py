"""The state of a life that is starting, and whether the program that starts it still lives."""

import threading
import time
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door import door
from rayshot.runtime.wire.states import BEGINNING, LOADING, RECOVERING, RUNNING

UNWATCHED_S = 15.0
"""A program calls `watch` as soon as the coordinator runs. If it has not called after so many seconds, it has died."""


class Birth:
    """A life that a program starts: the program restores it (loading), or makes its first actors (beginning).

    Meanwhile the program keeps a call of `DriverWatch.stay` open. It owns the reference to the result of this call, and
    gives the reference to `watch`. If the program dies, the reference fails within some seconds. No other program can
    finish the start, so `on_death` is then called, on a thread of Ray.

    A life that is `going_back` to a snapshot is started by its coordinator, and needs no program.
    """

    def __init__(
        self, on_death: Callable[[str], object], *, loading: bool, beginning: bool, going_back: bool = False
    ) -> None:
        self.loading = loading or going_back
        self.beginning = beginning
        self._going_back = going_back
        self._on_death = on_death
        self._over = threading.Event()
        self._held: Any = None
        self._due = time.monotonic() + UNWATCHED_S

    @property
    def state(self) -> str:
        """See `states`."""
        if self.loading:
            return RECOVERING if self._going_back else LOADING
        return BEGINNING if self.beginning else RUNNING

    def watch(self, held: Any) -> None:
        """Notice the death of the program that owns `held`, the reference to the result of `stay`."""
        self._held = held  # Ray reports the owner's death only while a process holds the reference
        door.when_answered(held, self._completed)

    @property
    def is_watched(self) -> bool:
        """Whether the program has called `watch`."""
        return self._held is not None

    def check(self, now: float) -> None:
        """Notice the death of a program that died before it could call `watch`."""
        if not (self._over.is_set() or self.is_watched) and self.state in (LOADING, BEGINNING) and now > self._due:
            self._died()

    def end(self) -> None:
        """The life runs now, or it will never run."""
        self.loading = self.beginning = False
        self._over.set()
        self._held = None

    def _completed(self, value: object) -> None:
        if isinstance(value, door.OwnerDied) and not self._over.is_set():
            self._died()

    def _died(self) -> None:
        self._on_death(f"the program that was starting it died while it was {self.state}")
