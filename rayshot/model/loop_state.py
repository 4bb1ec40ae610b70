"""What the state of an actor has of a method that loops."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rayshot.format.codec import Codec
from rayshot.model.calls import EXPIRE, Question

ANSWER_OF = "__rayshot_answer_of__"
"""A method has this attribute if `rayshot.loop` may call it: the actor's method for it, and what reads its answer."""

F = TypeVar("F", bound=Callable[..., Any])


def answers(method: str, read: Callable[[Any], Any]) -> Callable[[F], F]:
    """Mark a method: a loop calls this method of `self.actor` instead, and `read` makes the value of the answer."""

    def mark(function: F) -> F:
        setattr(function, ANSWER_OF, (method, read))
        return function

    return mark


@dataclass(slots=True)
class LoopState:
    """A method that loops was begun by message `number` of `sender`, which is `message`, encoded.

    `children` counts the names that it gave to anonymous actors. `asks` is the method that is called for each pass; ""
    if nothing is called, and in older snapshots. `question` is the call that was made for the next pass; None in a
    pass, and if nothing is called. `due` is when the next pass begins by the clock of the cell, None if it waits for no
    time.
    """

    sender: str
    number: int
    message: bytes
    children: int = 0
    asks: str = ""
    question: Question | None = None
    due: float | None = None

    def drop_question(self, codec: Codec, name: str) -> bytes:
        """The actor `name` does not need any more what it has asked for: returns the message that tells its callee."""
        assert self.question is not None, "nothing is asked"
        call_id, self.question = self.question.call_id, None
        return codec.tell(EXPIRE, (name, call_id))

    def recorded(self, now: float) -> dict[str, Any]:
        """As a state has it; `now` is by the clock of the cell."""
        of = {"sender": self.sender, "number": self.number, "message": self.message, "children": self.children}
        due_in = None if self.due is None else max(0.0, self.due - now)
        return {**of, "asks": self.asks, "question": self.question, "due_in": due_in}

    @classmethod
    def read(cls, recorded: Mapping[str, Any], now: float) -> "LoopState":
        """What `recorded` gave."""
        fields = dict(recorded)
        due_in = fields.pop("due_in")
        return cls(**fields, due=None if due_in is None else now + due_in)
