"""What belongs to one handler of an actor, and not to the actor."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayshot.format.codec import Codec
from rayshot.format.slots import OBJECT, Slot
from rayshot.model.calls import EXPIRE, LoopBegunAnew, Question
from rayshot.model.child_names import ChildNames

LAST_ANSWER_S = 30.0
"""An actor that is to end waits so long for whom its loop has asked: this one may be busy, or loop itself."""


@dataclass(slots=True)
class LoopState:
    """A method that loops was begun by message `number` of `sender`, which is `message`, encoded.

    `children` counts the names that it gave to anonymous actors. `asks` is the method that is called for each pass; ""
    if nothing is called, and in older snapshots. `question` is the call that was made for the next pass; None in a
    pass, and if nothing is called. `due` is when the next pass begins by the clock of the cell, None if it waits for no
    time. `slots` lie beside the message. A state has their values in the message, and `references` by their places.
    `is_last`: the actor is to end, and has told whom it asked. What is under way all the same gets its pass if it comes
    until `due`, and no other one is asked for. The order to end says so again behind a restore.
    """

    sender: str
    number: int
    message: bytes
    children: int = 0
    asks: str = ""
    question: Question | None = None
    due: float | None = None
    slots: Sequence[Slot] = ()
    is_last: bool = False

    def ask_no_more(self, now: float, codec: Codec, name: str) -> bytes:
        """The actor `name` is to end: see `is_last`. Returns the message that tells whom it asked."""
        assert self.question is not None, "nothing is asked"
        self.is_last, self.due = True, now + LAST_ANSWER_S
        return codec.tell(EXPIRE, (name, self.question.call_id))

    def drop_question(self, codec: Codec, name: str) -> bytes:
        """The actor `name` does not need any more what it has asked for: returns the message that tells its callee."""
        assert self.question is not None, "nothing is asked"
        call_id, self.question = self.question.call_id, None
        return codec.tell(EXPIRE, (name, call_id))

    def recorded(self, now: float, codec: Codec) -> dict[str, Any]:
        """As a state has it; `now` is by the clock of the cell."""
        message = codec.filled(self.message, self.slots) if self.slots else self.message
        of = {"sender": self.sender, "number": self.number, "message": message, "children": self.children}
        due_in = None if self.due is None or self.is_last else max(0.0, self.due - now)
        references = {place: slot.reference for place, slot in enumerate(self.slots) if slot.kind == OBJECT}
        beside = {"references": references} if references else {}
        return {**of, "asks": self.asks, "question": self.question, "due_in": due_in, **beside}

    @classmethod
    def read(cls, recorded: Mapping[str, Any], now: float) -> "LoopState":
        """What `recorded` gave."""
        fields = dict(recorded)
        due_in, references = fields.pop("due_in"), fields.pop("references", {})
        slots = tuple(Slot(OBJECT, references.get(place)) for place in range(max(references, default=-1) + 1))
        return cls(**fields, due=None if due_in is None else now + due_in, slots=slots)


class Handling:
    """One handler, from the message that begins it to its end.

    `child_names` are the names for actors that it makes. `sender` is the sender of the message, and `slots` are the
    values that came beside it. `call` is the id of the call that is handled, 0 if the message is none;
    `is_left_to_later`: a later handler answers it, or has; `is_owed`: the answer is owed since a state may have the
    handler. `loop` is what a state has of the handler, where it may have it: at the top of a `rayshot.loop`, and in the
    first wait of a method that waits first. `is_in_loop`: the handler has come to its loop in this process;
    `done_above` is what `Cell.done_so_far` was when it began; `is_anew`: its method was begun anew, and has made no
    pass since.

    Only where several handlers run at once: `number` of the message on its channel, and `message`, encoded, if a state
    may have the handler.
    """

    __slots__ = (
        "call",
        "child_names",
        "done_above",
        "is_anew",
        "is_in_loop",
        "is_left_to_later",
        "is_owed",
        "loop",
        "message",
        "number",
        "sender",
        "slots",
    )

    def __init__(self, child_names: ChildNames, sender: str = "", number: int = 0, slots: Sequence[Any] = ()) -> None:
        self.child_names = child_names
        self.sender, self.number, self.slots = sender, number, slots
        self.message: bytes | None = None
        self.call = 0
        self.is_left_to_later = self.is_owed = False
        self.loop: LoopState | None = None
        self.is_in_loop, self.is_anew, self.done_above = False, False, 0

    def begin_anew(self, loop: LoopState) -> None:
        """This is what a state has of a handler: its method begins from its top again."""
        self.loop, self.message, self.is_anew = loop, loop.message, True
        self.child_names.go_on(loop.sender, loop.number, loop.children)

    def come_to_top(self, throws_frame_away: Callable[[], bool]) -> None:
        """The handler is at the top of a pass. Raises LoopBegunAnew if its frame is thrown away there.

        That of a handler which was begun anew is not, else it would make no pass.
        """
        if not self.is_anew and throws_frame_away():
            raise LoopBegunAnew
        self.is_anew = False

    def end_loop(self) -> None:
        """The method has ended."""
        self.loop, self.is_anew = None, False


class Parking:
    """Of an actor whose handlers run at once: those of which a state has their messages, as they have done nothing yet.

    `methods` are those whose handlers may be so; `handlers` are those that are, in the order in which they came to it.
    `before` are those that the loaded state had, and that were not begun anew yet. `changed` is called when a handler
    is parked, or goes on. `pass_begins(may_begin)` is as `CellPort.await_pass`, for the one of several handlers that
    runs; None where only one runs at a time.
    """

    def __init__(self) -> None:
        self.methods: frozenset[str] = frozenset()
        self.handlers: dict[Handling, None] = {}
        self.before: list[LoopState] = []
        self.changed: Callable[[], None] = lambda: None
        self.pass_begins: Callable[[Callable[[], bool]], Awaitable[None]] | None = None

    def park(self, now: Handling) -> None:
        """From now on a state has this handler, until it goes on."""
        assert now.loop is not None, "a state needs its message"
        self.handlers[now] = None
        self.changed()

    def go_on(self, now: Handling) -> None:
        """This handler goes on; does nothing if it is not parked."""
        if now in self.handlers:
            del self.handlers[now]
            self.changed()

    def recorded(self, now: float, codec: Codec) -> list[dict[str, Any]]:
        """As a state has them; `now` is by the clock of the cell."""
        parked = (*(one.loop for one in self.handlers), *self.before)
        return [one.recorded(now, codec) for one in parked if one is not None]
