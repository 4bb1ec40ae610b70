"""How far the start of a life is, and whether the program that starts it still lives."""

import threading
import time
from collections.abc import Callable
from typing import Any

import ray

from rayshot.runtime.ray.futures import when_answered
from rayshot.runtime.wire.states import BEGINNING, LOADING, RUNNING

UNWATCHED_S = 15.0
"""A program says who it is as soon as the coordinator is there; one that has not by then has died before."""


class Birth:
    """A life that a program starts: it restores it (loading), or makes its first actors (beginning).

    The program keeps a call of `DriverWatch.stay` open meanwhile. It owns the reference to that call's result, and
    gives it to `watch`: the reference fails when the program dies, within some seconds. Nobody else can finish the
    start, so `on_death` is called then, on a thread of Ray.
    """

    def __init__(self, on_death: Callable[[str], object], *, loading: bool, beginning: bool) -> None:
        self.loading = loading
        self.beginning = beginning
        self._on_death = on_death
        self._over = threading.Event()
        self._held: Any = None
        self._due = time.monotonic() + UNWATCHED_S

    @property
    def state(self) -> str:
        """See `states`."""
        return LOADING if self.loading else BEGINNING if self.beginning else RUNNING

    def watch(self, held: Any) -> None:
        """Notice the death of the owner of this reference to what `stay` answers."""
        self._held = held  # it tells of its owner as long as somebody has it
        when_answered(held, self._completed)

    @property
    def is_watched(self) -> bool:
        """Whether the program has said who it is."""
        return self._held is not None

    def check(self, now: float) -> None:
        """Notice a program that died before it could say who it is."""
        if not (self._over.is_set() or self.is_watched) and self.state != RUNNING and now > self._due:
            self._died()

    def end(self) -> None:
        """The life runs, or never will."""
        self.loading = self.beginning = False
        self._over.set()
        self._held = None

    def _completed(self, value: object) -> None:
        if isinstance(value, ray.exceptions.OwnerDiedError) and not self._over.is_set():
            self._died()

    def _died(self) -> None:
        self._on_death(f"the program that was starting it died while it was {self.state}")
