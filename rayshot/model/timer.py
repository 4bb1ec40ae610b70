"""Timers of actors: messages that they send to themselves."""

from typing import Any

AFTER_S_MAX = 10 * 365.25 * 86400.0
"""A timer is due in so many seconds at most."""


class Timer:
    """A message from an actor to itself, due at `due` by the cell's clock."""

    __slots__ = ("args", "due", "method")

    def __init__(self, due: float, method: str, args: tuple[Any, ...]) -> None:
        self.due = due
        self.method = method
        self.args = args
