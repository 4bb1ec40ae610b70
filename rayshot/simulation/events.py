"""The list of pending events, and the source of choices that picks the next.

Each event is the name of a method and its arguments. Code that wants something to happen puts it into the list; only
the choices decide what happens.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from rayshot.simulation.choices import Choices
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.story import show

STEPS_MAX = 50_000
PUT_OFF_ONE_IN = 4
Pending = tuple[str, tuple[Any, ...]]
"""The name of an event that may happen, and its arguments."""
ONCE = frozenset({"work", "handle", "fire", "end", "take", "connect", "take_driver"})


class EventList:
    """One run's events. `counts` says how often each thing happened; `story`, if it is kept, has one line per event.

    `put_off` are pending events of the slow kinds: each is picked PUT_OFF_ONE_IN times less often than one of the
    `pending` events. `scheduled` are the events of both lists that may be listed only once (ONCE). `calm` is true once
    the faults stop; then nothing is slow.
    """

    def __init__(self, choices: Choices, slow: frozenset[str] = frozenset(), *, story: bool = False) -> None:
        self.choose = choices.choose
        self.slow = slow
        self.counts: Counter[str] = Counter()
        self.story: list[str] | None = [] if story else None
        self.pending: list[Pending] = []
        self.put_off: list[Pending] = []
        self.scheduled: set[Pending] = set()
        self.steps = 0
        self.calm = False

    def push(self, kind: str, *args: Any) -> None:
        """Add an event that may happen from now on."""
        (self.put_off if kind in self.slow else self.pending).append((kind, args))

    def push_once(self, kind: str, *args: Any) -> None:
        """As `push`, unless it is in the list already; `kind` is one of ONCE."""
        event = (kind, args)
        if event not in self.scheduled:
            self.scheduled.add(event)
            (self.put_off if kind in self.slow else self.pending).append(event)

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
        kind, args = event
        if kind in ONCE:
            self.scheduled.discard(event)
        if self.story is not None:
            self.story.append(f"{self.steps:5} {kind} {', '.join(map(show, args))}")
        getattr(self, "on_" + kind)(*args)
        return True

    def take_event(self, index: int) -> Pending:
        """Remove an event; the last one takes its place."""
        events = self.pending
        event, events[index] = events[index], events[-1]
        events.pop()
        if event[0] in ONCE:
            self.scheduled.discard(event)
        return event

    def take_first(self, wanted: Callable[[str, tuple[Any, ...]], bool]) -> Pending | None:
        """Remove the first event that is `wanted`, without a choice; returns None if there is none."""
        for index, event in enumerate(self.pending):
            if wanted(*event):
                if event[0] in ONCE:
                    self.scheduled.discard(event)
                return self.pending.pop(index)
        return None

    def _pick_weighted(self) -> Pending:
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
