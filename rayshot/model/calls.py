"""Calls that an actor made: before it says whether it wants the reply, and while it waits for one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rayshot.errors import ActorExited, MessageNotSerializable, RayshotError
from rayshot.format.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from weakref import ref


EXPIRE = "__expire__"
"""In place of a method: nobody needs the answer of a call any more that was left to be answered later."""
Answer = tuple[bool, bytes, "Sequence[Any]"]
"""An answer as it comes: whether it is a result, its bytes, and the values that came beside them."""


class OpenCall:
    """A call in the outbox; it is not yet known whether anybody wants its reply.

    This is settled when the handler that made the call ends, or waits. Until then no message behind it is transported.
    `reply` is the Reply that the handler got, while it lives.
    """

    __slots__ = ("call_id", "reply", "tell")

    def __init__(self, tell: bytes) -> None:
        self.tell = tell
        self.call_id: int | None = None
        self.reply: ref[Any] | None = None


@dataclass(slots=True)
class Continuation:
    """The handlers that continue after a reply: names of methods of this actor, and their arguments after the result.

    `callee` is the actor that was called; None if an older rayshot recorded the call.
    """

    method: str
    on_error: str | None
    context: tuple[Any, ...]
    callee: str | None


class Unanswered:
    """What a call gives: its result comes later. A base of Reply, for who must not import that."""

    __slots__ = ()

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result in a handler."""
        raise NotImplementedError


@dataclass(slots=True)
class Gathering:
    """Handlers that continue when several questions are answered, as in Continuation.

    `missing` are the ids of those whose answers have not had their turn.
    """

    questions: "tuple[Question, ...]"
    missing: set[int]
    method: str
    on_error: str | None
    context: tuple[Any, ...]


class Question:
    """A call of a handler whose Reply is held: by the handler, which may wait for it, or by the state.

    Its id is below 0, so that everybody knows it for a question. `answer` is the message once it is here. `outcome` is
    whether it is a result, and the result or the exception.
    """

    __slots__ = ("__weakref__", "answer", "call_id", "callee", "outcome")

    def __init__(self, call_id: int, callee: str, outcome: tuple[bool, Any] | None = None) -> None:
        assert call_id < 0, f"{call_id} is the id of a call with a continuation"
        self.call_id = call_id
        self.callee = callee
        """The actor that was asked."""
        self.answer: Answer | None = None
        self.outcome = outcome

    @property
    def is_answered(self) -> bool:
        """Whether its outcome is known."""
        return self.answer is not None or self.outcome is not None

    def __reduce__(self) -> tuple[Any, ...]:
        return Question, (self.call_id, self.callee, self.outcome)


class Interruption(BaseException):
    """Ends a handler or a hook that would go on while its system goes back to a snapshot.

    It is raised in the thread that runs the handlers. Only this thread's own loop catches it.
    """


class LoopBegunAnew(Interruption):
    """Ends the frame of a method with `rayshot.loop` at the top of a pass: its message is handled again."""


class GivenUp(Exception):
    """The answer to a call whose caller has said that it needs none, if there was none yet."""


class LoopEnded(BaseException):
    """Ends a method with `rayshot.loop` at the top of a pass: its actor is to end. Who runs handlers catches it."""


def sendable(error: Exception) -> RayshotError:
    """The error itself if it is ours, else a MessageNotSerializable with its text. Any process can unpickle it."""
    if isinstance(error, RayshotError):
        return error
    return MessageNotSerializable(f"the result of the call cannot be sent: {error!r}")


def not_answered(actor: str) -> ActorExited:
    """The outcome of a call to an actor that has ended, and answers no more."""
    return ActorExited(f"actor {actor!r} ended and has not answered", actor=actor)


def no_answer(codec: Codec, question: Question) -> bytes:
    """The message to itself by which an actor learns that whom it asked has ended, and answers no more."""
    return codec.reply(question.call_id, not_answered(question.callee), ok=False)


def encode_reply(codec: Codec, call_id: int, value: object, *, ok: bool) -> bytes:
    """The message with the outcome of a call; with the error if the outcome cannot be encoded."""
    try:
        return codec.reply(call_id, value, ok=ok)
    except Exception as error:  # noqa: BLE001 - encoding runs code of the value's class; its error is the answer
        return codec.reply(call_id, sendable(error), ok=False)
