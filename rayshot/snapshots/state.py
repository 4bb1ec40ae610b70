"""What is recorded of one actor, read inertly: classes become records of their names, and no code runs.

Besides its state these are the replies that it awaits, the timers that it has set, and its dead letters.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.errors import BadState
from rayshot.format.chunks import digest
from rayshot.format.entries import CapturedState, Proof
from rayshot.inert.jsonable import LONG_MAX
from rayshot.inert.reader import read as read_inertly
from rayshot.snapshots.chunk_reader import ChunkReader

_IN_S_MAX = 2**40


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """The facts about an actor in a snapshot that need no reading of its state.

    `class_name` is "module.Qualname"; `status` is "born" or "unborn" (only messages to
    it exist yet); `state_bytes` counts the pickled state before compression. `proof` says whether the
    state was loaded for trial; None if that is not known.
    """

    name: str
    class_name: str
    status: str
    state_bytes: int
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class RecordedState:
    """The recorded parts of one actor: its own `state`, the `calls` whose replies it awaits, and its `timers`.

    `callees` maps the id of a call to the actor that replies; None if no call is pending, or an older rayshot wrote it.
    `dead_letters` are its last messages without effect; see `read_dead_letters`. `questions` maps ids to calls whose
    replies the state holds, and `owed` callers and ids to calls that the actor has handled and not answered; None if
    there are none.
    """

    state: Any
    calls: Any
    timers: Any
    callees: Any = None
    dead_letters: Any = ()
    questions: Any = None
    owed: Any = None


def read_captured(captured: CapturedState, reader: ChunkReader) -> RecordedState:
    """Read a state; raises BadState, MissingChunk, CorruptChunk, LimitExceeded, StoreError."""
    tree = read_inertly(*reader.read_parts(captured))
    if not isinstance(tree, dict) or "state" not in tree:
        raise BadState("a recorded state does not have the form that an actor writes")
    parts = tree.get("calls"), tree.get("timers"), tree.get("callees"), tree.get("dead_letters", ())
    return RecordedState(tree["state"], *parts, tree.get("questions"), tree.get("owed"))


def state_digest(captured: CapturedState) -> str:
    """A digest of 64 digits, equal for two states of the same spans of the same chunks, so of the same bytes.

    A small actor shares a chunk with others, so its digest may change although only their states changed.
    """
    blobs = (captured.stream, *captured.buffers)
    places = [[(span.chunk, span.offset, span.length) for span in blob.spans] for blob in blobs]
    return digest(repr((captured.codec, places)).encode())


def captured_bytes(captured: CapturedState | None) -> int:
    """Bytes of a state before compression; 0 without a state."""
    if captured is None:
        return 0
    return captured.stream.size + sum(blob.size for blob in captured.buffers)


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


def read_questions(actor: str, questions: Any) -> Iterator[tuple[int, str]]:
    """Of the calls whose replies a RecordedState holds, those without an outcome: id, below 0, and the actor called.

    Raises BadState if they have another form.
    """
    for number, question in {} if questions is None else _items(questions, "kept replies", actor):
        match number, getattr(question, "args", None):
            case int(), (_, str(callee), None):
                yield number, callee
            case int(), (_, str(), _) | ():  # it has an outcome, or is left out as the state is large
                pass
            case _:
                raise _damaged("kept replies", actor)


def read_owed(actor: str, owed: Any) -> Iterator[tuple[str, int, int]]:
    """The calls that an actor has not answered, and somebody needs that: caller, id, number of the message.

    Raises BadState as the others.
    """
    for key, number in {} if owed is None else _items(owed, "owed answers", actor):
        match key, number:
            case (str(), int()), 0:  # nobody needs the answer any more
                pass
            case (str(caller), int(call_id)), int():
                yield caller, call_id, number
            case _:
                raise _damaged("owed answers", actor)


def _items(found: Any, what: str, actor: str) -> Iterable[tuple[Any, Any]]:
    if not isinstance(found, Mapping):
        raise _damaged(what, actor)
    return found.items()


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
