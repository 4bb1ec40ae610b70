"""The messages that could be handled next in a world, and the effects of one step."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rayshot.documents import words
from rayshot.format.codec import Frame, RecordedMessage, read_messages
from rayshot.format.pickling import dump_state
from rayshot.inert import reader
from rayshot.inert.likeness import alike
from rayshot.model.cell import Cell
from rayshot.model.timer import Timer
from rayshot.protocol.identity import Channel
from rayshot.snapshots.diff import ABSENT, WHOLE_STATE, ValueChange

TIMER = "timer"
TIMERS, AWAITS = "(timers)", "(awaits)"
"""Names in a view that are not attributes."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that could be handled next: the first one of its channel not yet handled. Arguments are inert.

    `kind` is "tell", "call", "reply", "create", "end", or "timer" for a timer of `receiver` that could fire at `due`
    seconds of virtual time; it has no number yet.
    """

    sender: str
    receiver: str
    number: int
    kind: str
    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    due: float | None = None

    @property
    def channel(self) -> Channel:
        """(sender, receiver)."""
        return Channel(self.sender, self.receiver)

    @property
    def call(self) -> str:
        """The message as a call: `deposit(30)`."""
        return words.call(self.method, self.kind, self.args, self.kwargs or {})

    def __str__(self) -> str:
        if self.kind == TIMER:
            return f"{self.receiver}: timer, due at {self.due:g} s: {self.call}"
        return f"{self.sender} -> {self.receiver} {self.number}: {self.call}"


@dataclass(frozen=True, slots=True)
class Step:
    """The effects of one step: the handled message, what it changed in its actor, and what the actor sent.

    `timers_set` are timers as words; `awaits` are the methods that wait for replies to what was sent. `error` is the
    traceback if the handler raised, else empty. `ends`: the actor ends, by its own wish or by order.
    """

    handled: Pending
    changes: tuple[ValueChange, ...]
    sent: tuple[Pending, ...]
    timers_set: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    error: str = ""
    ends: bool = False

    def __str__(self) -> str:
        lines = [str(self.handled)]
        for change in self.changes:
            old, new = map(words.value, change.shown)
            lines.append(f"    {self.handled.receiver}.{change.name}: {old} -> {new}")
        lines += [f"    sends {message}" for message in self.sent]
        lines += [f"    sets a timer: {timer}" for timer in self.timers_set]
        lines += [f"    awaits a reply: {method}" for method in self.awaits]
        if self.error:
            lines.append(f"    raises {self.error.strip().splitlines()[-1]}")
        if self.ends:
            lines.append("    ends")
        return "\n".join(lines)


def view_of(cell: Cell) -> dict[str, Any]:
    """What a snapshot would hold of an actor now, by attribute; empty before its birth.

    It also has "(awaits)", the continuations of replies by the number of their call, and "(timers)" as words.
    """
    if not cell.born:
        return {}
    pickled = dump_state(cell.state(), cell.name, cell.instance)
    tree = reader.read(pickled.stream, [bytes(buffer) for buffer in pickled.buffers])
    timers = [timer_words(cell, timer) for timer in sorted(cell.timers, key=lambda timer: timer.due)]
    calls = {number: method for number, (method, *_) in tree["calls"].items()}
    state, rest = tree["state"], {AWAITS: calls, TIMERS: timers}
    if isinstance(state, dict) and all(isinstance(name, str) for name in state):
        return {**state, **rest}
    return {WHOLE_STATE: state, **rest}


def read(message: bytes, number: int) -> RecordedMessage:
    """An encoded message, decoded inertly."""
    (recorded,) = read_messages(Frame(number, 1, message))
    return recorded


def message_words(message: bytes) -> str:
    """An encoded message as a call: `deposit(30)`."""
    return words.message(read(message, 1))


def timer_words(cell: Cell, timer: Timer) -> str:
    """A timer as the call that it will make: `ring(3) at 7 s`."""
    return f"{message_words(cell.port.codec.tell(timer.method, timer.args))} at {timer.due:g} s"


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ValueChange, ...]:
    """The differences between two views, attribute by attribute, by name; without timers and calls."""
    found = []
    for name in sorted(name for name in before.keys() | after.keys() if name not in (TIMERS, AWAITS)):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if not alike(old, new):
            found.append(ValueChange(name, old, new))
    return tuple(found)


def timers_set(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The timers of the second view that the first one does not have."""
    return tuple((Counter(after.get(TIMERS, ())) - Counter(before.get(TIMERS, ()))).elements())


def new_awaits(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The methods that wait for replies in the second view but not in the first."""
    known = before.get(AWAITS, {})
    return tuple(method for number, method in after.get(AWAITS, {}).items() if number not in known)
