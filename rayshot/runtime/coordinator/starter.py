"""The program that starts a life, and whether it still lives."""

import time
from collections.abc import Callable
from typing import Any

from rayshot.runtime.door.state import when_owner_dies

UNWATCHED_S = 15.0
"""A program calls `watch` as soon as the coordinator runs. If it has not called after so many seconds, it has died."""


class Starter:
    """A program that says what a life is restored from, or makes its first actors. No other program can finish that.

    Meanwhile the program keeps a call of `Coordinator.stay` open. It owns the reference to the result of this call, and
    gives the reference to `watch`. If the program dies, the reference fails within some seconds, and `on_death` is
    called, on a thread of Ray or one of its own.
    """

    def __init__(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._held: Any = None
        self._due = time.monotonic() + UNWATCHED_S

    def watch(self, held: Any, place: bytes) -> None:
        """Notice the death of the program at `place` that owns `held`, the reference to the result of `stay`."""
        self._held = held  # Ray reports the owner's death only while a process holds the reference
        when_owner_dies(held, place, self._on_death)

    @property
    def is_watched(self) -> bool:
        """Whether the program has called `watch`."""
        return self._held is not None

    def check(self, now: float) -> None:
        """Notice the death of a program that died before it could call `watch`."""
        if not self.is_watched and now > self._due:
            self._on_death()
