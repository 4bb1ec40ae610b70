"""Calls that an actor made: before it is known whether it wants the reply, and while it waits for one."""

from dataclasses import dataclass
from typing import Any


class OpenCall:
    """A call in the outbox of which it is not yet known whether anybody wants its reply.

    It is settled when the handler that made it ends: until then nothing behind it is transported.
    """

    __slots__ = ("call_id", "tell")

    def __init__(self, tell: bytes) -> None:
        self.tell = tell
        self.call_id: int | None = None


@dataclass(slots=True)
class Continuation:
    """What waits for a reply: names of methods of this actor, and what they get besides the result.

    `callee` is whose reply it is; None where an older rayshot recorded it.
    """

    method: str
    on_error: str | None
    context: tuple[Any, ...]
    callee: str | None
