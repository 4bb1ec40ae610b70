"""The list of pending events, and the source of choices that picks the next.

Code that wants something to happen puts a method and its arguments into the list; only the choices decide what happens.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVarTuple

from rayshot.simulation.choices import Choices
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.story import show

STEPS_MAX = 50_000
PUT_OFF_ONE_IN = 4
Arguments = TypeVarTuple("Arguments")


PendingEvent = tuple[Callable[..., None], tuple[Any, ...], bool]
"""An event that may happen: a method of the world, its arguments, and whether it is listed only once at a time."""


class EventList:
    """One run's events. `counts` says how often each thing happened; `story`, if it is kept, has one line per event.

    `put_off` are pending events of the `slow` methods: each is picked PUT_OFF_ONE_IN times less often than one of the
    `pending` events. `scheduled` are the events of both lists that are listed once. `calm` is true once the faults
    stop; then nothing is slow.
    """

    def __init__(self, choices: Choices, *, story: bool = False) -> None:
        self.choose = choices.choose
        self.slow: frozenset[Callable[..., None]] = frozenset()
        self.counts: Counter[str] = Counter()
        self.story: list[str] | None = [] if story else None
        self.pending: list[PendingEvent] = []
        self.put_off: list[PendingEvent] = []
        self.scheduled: set[PendingEvent] = set()
        self.steps = 0
        self.calm = False

    def push(self, method: Callable[[*Arguments], None], *args: *Arguments) -> None:
        """Add an event that may happen from now on."""
        (self.put_off if method in self.slow else self.pending).append((method, args, False))

    def push_once(self, method: Callable[[*Arguments], None], *args: *Arguments) -> None:
        """As `push`, unless it is in the list already; the arguments can be hashed."""
        event = (method, args, True)
        if event not in self.scheduled:
            self.scheduled.add(event)
            (self.put_off if method in self.slow else self.pending).append(event)

    def happen(self) -> bool:
        """Let one pending event happen; return whether there was one."""
        events = self.pending
        if self.put_off:
            event = self._pick_weighted()
        elif events:
            index = self.choose(len(events))
            event, events[index] = events[index], events[-1]
            events.pop()
        else:
            return False
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise OracleFailure("termination", f"{STEPS_MAX} events and no end")
        method, args, once = event
        if once:
            self.scheduled.discard(event)
        if self.story is not None:
            self.story.append(f"{self.steps:5} {method.__name__.removeprefix('on_')} {', '.join(map(show, args))}")
        method(*args)
        return True

    def take_event(self, index: int) -> PendingEvent:
        """Remove an event; the last one takes its place."""
        events = self.pending
        event, events[index] = events[index], events[-1]
        events.pop()
        if event[2]:
            self.scheduled.discard(event)
        return event

    def take_first(self, wanted: Callable[[Callable[..., None], tuple[Any, ...]], bool]) -> PendingEvent | None:
        """Remove the first event that is `wanted`, without a choice; returns None if there is none."""
        for index, event in enumerate(self.pending):
            method, args, once = event
            if wanted(method, args):
                if once:
                    self.scheduled.discard(event)
                return self.pending.pop(index)
        return None

    def _pick_weighted(self) -> PendingEvent:
        events, weight = self.pending, 1 if self.calm else PUT_OFF_ONE_IN
        index, part = divmod(self.choose(weight * len(events) + len(self.put_off)), weight)
        if index >= len(events):
            index, events = weight * (index - len(events)) + part, self.put_off
        event, events[index] = events[index], events[-1]
        events.pop()
        return event

    def note(self, line: str) -> None:
        """Write a story line that is not an event."""
        if self.story is not None:
            self.story.append(f"      | {line}")

    def odds(self, one_in: int) -> bool:
        """Whether something happens now that happens once in `one_in` times; never when all is calm."""
        return one_in > 0 and not self.calm and self.choose(one_in) == 0
