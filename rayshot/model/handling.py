"""What belongs to one handler of an actor, and not to the actor."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rayshot.model.calls import OpenCall
    from rayshot.model.loop_state import LoopState


class Handling:
    """One handler, from the message that begins it to its end.

    `sender` is the sender of the message, and `number` its number on its channel, where it is known without counting;
    `slots` are the values that came beside it. `call` is the id of the call that is handled, 0 if the message is none;
    `is_left_to_later`: it is, or was, to be answered by a later handler. `open_calls` are the calls of the handler that
    have not left. `loop` is there from the top of the first pass of a `rayshot.loop` on; `is_in_loop`: the handler has
    come to its loop in this process; `done_above` is what `Cell.done_so_far` was when it began.
    """

    __slots__ = (
        "call",
        "done_above",
        "is_in_loop",
        "is_left_to_later",
        "loop",
        "number",
        "open_calls",
        "sender",
        "slots",
    )

    def __init__(self) -> None:
        self.sender, self.number = "", 0
        self.slots: Sequence[Any] = ()
        self.call = 0
        self.is_left_to_later = False
        self.open_calls: list[OpenCall] = []
        self.loop: LoopState | None = None
        self.is_in_loop, self.done_above = False, 0
