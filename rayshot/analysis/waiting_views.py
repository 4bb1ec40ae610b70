"""Tables of what actors have beside their states: replies that they await, timers, and dead letters."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rayshot.analysis import values
from rayshot.analysis.view import EVERY, Column, View, actors, state_bytes
from rayshot.format.entries import ActorEntry
from rayshot.inert.redaction import shown_calls, shown_timers
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import RecordedLetter, read_calls, read_dead_letters, read_timers


@dataclass(frozen=True)
class _Row:
    """Arguments that an actor will give to one of its own methods later."""

    actor: str
    method: str
    arguments: tuple[Any, ...]

    @cached_property
    def json(self) -> tuple[str, bool]:
        """The arguments in JSON, and whether they were cut."""
        return values.in_json(self.arguments)


@dataclass(frozen=True)
class CallRow(_Row):
    """One call whose reply an actor awaits."""

    call_id: int
    callee: str | None


@dataclass(frozen=True)
class TimerRow(_Row):
    """One timer that is set."""

    in_s: float


@dataclass(frozen=True)
class LetterRow:
    """One message without effect; `place` counts those of the actor, the oldest has 0."""

    actor: str
    place: int
    letter: RecordedLetter


def _call_rows(snapshot: Snapshot, actor: ActorEntry) -> Iterator[CallRow]:
    if actor.state is None:
        return
    recorded = snapshot.recorded(actor.name)
    for call in read_calls(actor.name, shown_calls(recorded.calls), recorded.callees):
        yield CallRow(actor.name, call.method, call.context, call.number, call.callee)


def _timer_rows(snapshot: Snapshot, actor: ActorEntry) -> Iterator[TimerRow]:
    if actor.state is None:
        return
    for timer in read_timers(actor.name, shown_timers(snapshot.recorded(actor.name).timers)):
        yield TimerRow(actor.name, timer.method, timer.args, timer.in_s)


def _letter_rows(snapshot: Snapshot, actor: ActorEntry) -> Iterator[LetterRow]:
    if actor.state is None:
        return
    recorded = snapshot.recorded(actor.name).dead_letters
    for place, letter in enumerate(read_dead_letters(actor.name, recorded)):
        yield LetterRow(actor.name, place, letter)


_CALL_COLUMNS = (
    Column("actor", "string", "the actor that awaits a reply", lambda _, row: row.actor),
    Column("call_id", "bigint", "the call's number, which its reply has too", lambda _, row: row.call_id),
    Column(
        "callee",
        "string",
        "the actor that owes the reply; null if an older rayshot wrote the state",
        lambda _, row: None if row.callee is None else values.sound_text(row.callee),
    ),
    Column("method", "string", "the method that the reply will call", lambda _, row: values.sound_text(row.method)),
    Column(
        "context", "string", "the arguments besides the result, as a JSON array", lambda _, row: row.json[0], json=True
    ),
    Column("truncated", "boolean", "whether a cell of the row leaves anything out", lambda _, row: row.json[1]),
)

_TIMER_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.actor),
    Column("method", "string", "the method that it will call", lambda _, row: values.sound_text(row.method)),
    Column("in_s", "double", "seconds left when the state was recorded", lambda _, row: row.in_s),
    Column("args", "string", "as a JSON array", lambda _, row: row.json[0], json=True),
    Column("truncated", "boolean", "whether a cell of the row leaves anything out", lambda _, row: row.json[1]),
)

_LETTER_COLUMNS = (
    Column(
        "actor",
        "string",
        "the actor that keeps it: its receiver, or its sender if nobody took it",
        lambda _, row: row.actor,
    ),
    Column("place", "bigint", "its place among those of the actor, the oldest has 0", lambda _, row: row.place),
    Column(
        "came_in_life",
        "bigint",
        "the life of the system in which it came; null if that is not known",
        lambda _, row: row.letter.life or None,
    ),
    Column(
        "sender",
        "string",
        "an actor, or a driver as driver:ID",
        lambda _, row: values.sound_text(row.letter.sender),
    ),
    Column("receiver", "string", "an actor", lambda _, row: values.sound_text(row.letter.receiver)),
    Column(
        "number",
        "bigint",
        "its number on the channel; null if it never got one",
        lambda _, row: row.letter.number or None,
    ),
    Column("method", "string", "the method that it should call", lambda _, row: values.sound_text(row.letter.method)),
    Column("reason", "string", "the last line of `error`", lambda _, row: values.sound_text(row.letter.reason)),
    Column(
        "error",
        "string",
        "why it had no effect, with the traceback",
        lambda _, row: values.sound_text(row.letter.error),
    ),
)


WAITING_VIEWS = tuple(
    View(
        name,
        about,
        (*EVERY, *columns),
        rows,
        actors,
        weigh=state_bytes,
        options=("actor",),
    )
    for name, about, columns, rows in (
        ("calls", "one row for each call whose reply an actor awaits", _CALL_COLUMNS, _call_rows),
        ("timers", "one row for each timer that an actor has set", _TIMER_COLUMNS, _timer_rows),
        ("dead_letters", "one row for each of the last messages without effect", _LETTER_COLUMNS, _letter_rows),
    )
)
