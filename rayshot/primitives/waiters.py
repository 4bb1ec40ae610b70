"""Calls that wait in the state of an actor. Snapshots have the class here by name: keep it here."""

from collections import deque
from typing import Any

from rayshot.model.later_answer import LaterAnswer, answer_later
from rayshot.model.timer import AFTER_S_MAX


def seconds_of(timeout: float | None) -> float | None:
    """How long a call with this time-out waits; None: as long as it takes, as for more than AFTER_S_MAX.

    Raises ValueError for one below 0 or NaN, TypeError for what is no number.
    """
    if timeout is None:
        return None
    if not timeout >= 0:  # as NaN is not
        raise ValueError(f"timeout is {timeout}, not at least 0")
    return None if timeout > AFTER_S_MAX else timeout


class Waiters:
    """Calls that are answered later, the first first, each with a value beside it.

    `brings`: such a call brings something, so it has its effect though nobody needs its answer any more. Another one
    only takes something, and takes nothing then.
    """

    def __init__(self, *, brings: bool = False) -> None:
        self._brings = brings
        self._waiting: deque[tuple[LaterAnswer, Any]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, timeout_s: float | None, otherwise: object, value: object = None) -> None:
        """The call that is being handled waits from now on; see `answer_later`. A `tell` only if it brings anything."""
        if timeout_s is not None:  # who polls leaves one behind each time
            self._waiting = deque(one for one in self._waiting if self._waits(one[0]))
        later = answer_later(timeout_s, otherwise)
        if self._brings or not later.is_of_tell:
            self._waiting.append((later, value))

    def take(self) -> tuple[LaterAnswer, Any] | None:
        """Remove the first that still waits; returns it with its value, or None."""
        while self._waiting:
            later, value = self._waiting.popleft()
            if self._waits(later):
                return later, value
            later.give(None)  # to nobody: it is over
        return None

    def _waits(self, later: LaterAnswer) -> bool:
        return (later.is_of_tell or later.is_open) if self._brings else later.is_awaited
