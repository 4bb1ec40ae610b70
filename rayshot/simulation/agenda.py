"""What could happen next in a world of actors, and the one place where something of it is picked."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rayshot.simulation.choices import Choices

ONCE = frozenset({"handle", "take", "take_from_driver"})
"""Kinds of events that say that there is something to do, and not what: one of each is enough."""


class Event(NamedTuple):
    """The name of what may happen, and of what or whom."""

    kind: str
    args: tuple[Any, ...]


class Agenda:
    """The events that may happen, in no order: `choices` pick."""

    def __init__(self, choices: Choices) -> None:
        self.choose = choices.choose
        self.events: list[Event] = []
        self._scheduled: set[Event] = set()

    def push(self, kind: str, *args: Any) -> None:
        """Something may happen from now on."""
        event = Event(kind, args)
        if kind in ONCE:
            if event in self._scheduled:
                return
            self._scheduled.add(event)
        self.events.append(event)

    def take(self, index: int) -> Event:
        """Remove an event: the last one comes to its place."""
        event, last = self.events[index], self.events.pop()
        if index < len(self.events):
            self.events[index] = last
        if event.kind in ONCE:
            self._scheduled.discard(event)
        return event

    def take_first(self, wanted: Callable[[Event], bool]) -> Event | None:
        """Remove the first event that is `wanted`, without a choice; None where there is none."""
        index = next((index for index, event in enumerate(self.events) if wanted(event)), None)
        if index is None:
            return None
        event = self.events.pop(index)
        self._scheduled.discard(event)
        return event

    def clear(self) -> None:
        """Nothing of all this happens any more."""
        self.events.clear()
        self._scheduled.clear()
