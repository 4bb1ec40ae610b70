"""Timers of actors: messages that they send to themselves."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from rayshot.errors import ConfigError, MessageNotSerializable, MessageTooLarge

AFTER_S_MAX = 10 * 365.25 * 86400.0
"""A timer is due in so many seconds at most."""
log = logging.getLogger("rayshot")


def is_time(seconds: Any) -> bool:
    """Whether something can be due in so many seconds."""
    try:
        return bool(0.0 <= seconds + 0.0 <= AFTER_S_MAX)  # NaN is not
    except TypeError:  # no number
        return False


class Timer:
    """A message from an actor to itself, due at `due` by the cell's clock."""

    __slots__ = ("args", "due", "method")

    def __init__(self, due: float, method: str, args: tuple[Any, ...]) -> None:
        self.due = due
        self.method = method
        self.args = args


class Tells(Protocol):
    """Encodes tells; see Codec."""

    def tell(self, method: str, args: tuple[Any, ...]) -> bytes:
        """The message of a tell."""


class Timers(list[Timer]):
    """The timers of the actor `name`, by this clock."""

    def __init__(self, name: str, clock: Callable[[], float], codec: Callable[[], Tells]) -> None:
        super().__init__()
        self._name, self._clock, self._codec = name, clock, codec

    def set(self, seconds: float, method: str, args: tuple[Any, ...]) -> None:
        """Set a timer. Raises ConfigError for an impossible time, MessageNotSerializable if `args` cannot be sent."""
        if not is_time(seconds):
            raise ConfigError(f"a timer cannot be due in {seconds!r} seconds: give 0 or more, at most {AFTER_S_MAX:g}")
        self._codec().tell(method, args)
        self.append(Timer(self._clock() + seconds, method, args))

    def next_due(self) -> float | None:
        """When the next timer is due; None if none is set."""
        return min((timer.due for timer in self), default=None)

    def take_due(self) -> list[bytes]:
        """Remove the timers that are due; returns their messages to this actor, in the order they were due."""
        now = self._clock()
        due = sorted((timer for timer in self if timer.due <= now), key=lambda timer: timer.due)
        if due:
            self[:] = [timer for timer in self if timer.due > now]
        messages = []
        for timer in due:
            try:
                messages.append(self._codec().tell(timer.method, timer.args))
            except (MessageNotSerializable, MessageTooLarge):
                log.exception("%s: a timer is lost, its arguments changed since it was set", self._name)
        return messages

    def recorded(self, now: float) -> list[tuple[float, str, tuple[Any, ...]]]:
        """As a state has them: the seconds that remain, method and arguments."""
        return [(max(0.0, timer.due - now), timer.method, timer.args) for timer in self]

    def load(self, recorded: Iterable[tuple[float, str, Iterable[Any]]], now: float) -> None:
        """What `recorded` gave is what there is now."""
        self[:] = [Timer(now + remaining, method, tuple(args)) for remaining, method, args in recorded]
