"""What an actor has recorded beside its state: replies that it awaits, timers that it has set, and dead letters."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rayshot.errors import BadState
from rayshot.format.jsonable import LONG_MAX

_IN_S_MAX = 2**40


class PendingCall(NamedTuple):
    """A call whose reply an actor awaits.

    `number` is the caller's number for the call; request and reply have it too. `method` gets the reply and `context`;
    `on_error` gets an exception. `callee` is the actor that replies, None in snapshots of an older rayshot.
    """

    number: int
    method: str
    on_error: str | None
    context: tuple[Any, ...]
    callee: str | None


class SetTimer(NamedTuple):
    """A timer: `in_s` seconds after the record, `method` gets `args`."""

    in_s: float
    method: str
    args: tuple[Any, ...]


class RecordedLetter(NamedTuple):
    """A message without effect: `model.DeadLetter`, as a snapshot holds it."""

    receiver: str
    sender: str
    number: int
    method: str
    error: str
    life: int

    @property
    def reason(self) -> str:
        """The last line of the error, which names it."""
        return self.error.rstrip().rpartition("\n")[2]


def read_calls(actor: str, calls: Any, callees: Any) -> Iterator[PendingCall]:
    """The calls of a RecordedState, perhaps redacted. Raises BadState if they have another form."""
    match calls, {} if callees is None else callees:
        case dict(), dict() as known:
            for number, call in calls.items():
                match number, call, known.get(number):
                    case int(), (str(method), str() | None as on_error, tuple(context)), str() | None as callee if (
                        0 < number <= LONG_MAX
                    ):
                        yield PendingCall(number, method, on_error, context, callee)
                    case _:
                        raise _damaged("pending calls", actor)
        case _:
            raise _damaged("pending calls", actor)


def read_timers(actor: str, timers: Any) -> Iterator[SetTimer]:
    """The timers of a RecordedState, perhaps redacted. Raises BadState if they have another form."""
    match timers:
        case list():
            for timer in timers:
                match timer:
                    case (float() | int() as in_s, str(method), tuple(args)) if 0 <= in_s <= _IN_S_MAX:
                        yield SetTimer(float(in_s), method, args)
                    case _:
                        raise _damaged("timers", actor)
        case _:
            raise _damaged("timers", actor)


def read_dead_letters(actor: str, letters: Any) -> Iterator[RecordedLetter]:
    """The dead letters of a RecordedState, the oldest first. Raises BadState if they have another form."""
    match letters:
        case tuple():
            for letter in letters:
                match letter:
                    case (str(), str(), int() as number, str(), str(), int() as life) if (
                        0 <= number <= LONG_MAX and 0 <= life <= LONG_MAX
                    ):
                        yield RecordedLetter(*letter)
                    case _:
                        raise _damaged("dead letters", actor)
        case _:
            raise _damaged("dead letters", actor)


def _damaged(what: str, actor: str) -> BadState:
    return BadState(f"the {what} of {actor!r} do not have the form that an actor records", actor=actor)
