"""Calls that an actor made: before it says whether it wants the reply, and while it waits for one."""

from dataclasses import dataclass
from typing import Any

from rayshot.errors import MessageNotSerializable, RayshotError
from rayshot.format.codec import Codec


class OpenCall:
    """A call in the outbox; it is not yet known whether anybody wants its reply.

    This is settled when the handler that made the call ends. Until then no message behind it is transported.
    """

    __slots__ = ("call_id", "tell")

    def __init__(self, tell: bytes) -> None:
        self.tell = tell
        self.call_id: int | None = None


@dataclass(slots=True)
class Continuation:
    """The handlers that continue after a reply: names of methods of this actor, and their arguments after the result.

    `callee` is the actor that was called; None if an older rayshot recorded the call.
    """

    method: str
    on_error: str | None
    context: tuple[Any, ...]
    callee: str | None


def sendable(error: Exception) -> RayshotError:
    """The error itself if it is ours, else a MessageNotSerializable with its text. Any process can unpickle it."""
    if isinstance(error, RayshotError):
        return error
    return MessageNotSerializable(f"the result of the call cannot be sent: {error!r}")


def encode_reply(codec: Codec, call_id: int, value: object, *, ok: bool) -> bytes:
    """The message with the outcome of a call; with the error if the outcome cannot be encoded."""
    try:
        return codec.reply(call_id, value, ok=ok)
    except Exception as error:  # noqa: BLE001 - encoding runs code of the value's class; its error is the answer
        return codec.reply(call_id, sendable(error), ok=False)
