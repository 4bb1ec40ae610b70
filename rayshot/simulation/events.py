"""The list of pending events, and the source of choices that picks the next.

Each event is the name of a method and its arguments. Whoever wants something to happen puts it into the list; nothing
else decides anything.
"""

from collections import Counter
from typing import Any

from rayshot.simulation.choices import Choices
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.settings import Settings
from rayshot.simulation.story import show

STEPS_MAX = 50_000
PUT_OFF_ONE_IN = 4
ONCE = frozenset({"work", "fire", "end", "take", "connect", "take_driver"})


class EventList:
    """One run's events. `counts` says what happened how often; `story`, if it is kept, has one line per event.

    `calm` is true from when the faults stop.
    """

    def __init__(self, choices: Choices, settings: Settings, *, tell: bool = False) -> None:
        self.choose = choices.choose
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.story: list[str] | None = [] if tell else None
        self.pending: list[tuple[str, tuple[Any, ...]]] = []
        self.scheduled: set[tuple[Any, ...]] = set()
        self.steps = 0
        self.calm = False

    def push(self, kind: str, *args: Any) -> None:
        """Something may happen from now on."""
        self.pending.append((kind, args))

    def push_once(self, kind: str, *args: Any) -> None:
        """As `push`, unless it is in the list already."""
        key = (kind, *args)
        if key not in self.scheduled:
            self.scheduled.add(key)
            self.pending.append((kind, args))

    def happen(self) -> None:
        """Let one pending event happen."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise OracleFailure("termination", f"{STEPS_MAX} events and no end")
        index = self.choose(len(self.pending))
        kind, args = self.pending[index]
        if not self.calm and kind in self.settings.slow and self.choose(PUT_OFF_ONE_IN):
            return
        last = self.pending.pop()
        if index < len(self.pending):
            self.pending[index] = last
        if kind in ONCE:
            self.scheduled.discard((kind, *args))
        if self.story is not None:
            self.story.append(f"{self.steps:5} {kind} {', '.join(map(show, args))}")
        getattr(self, f"on_{kind}")(*args)

    def note(self, line: str) -> None:
        """Write a line of the story that is no event."""
        if self.story is not None:
            self.story.append(f"      | {line}")

    def odds(self, one_in: int) -> bool:
        """Whether something that happens once in so many times happens now; never when all is calm."""
        return one_in > 0 and not self.calm and self.choose(one_in) == 0
