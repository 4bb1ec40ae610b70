"""Answers that come later: a handler leaves the answer to its call to another handler of its actor."""

from typing import NamedTuple

from rayshot.errors import OutsideHandler
from rayshot.model.cell import Cell
from rayshot.model.current import running_cell


class LaterAnswer(NamedTuple):
    """The answer to call `call_id` of `caller`. It may be part of the state. Use it in handlers of the actor.

    Call id 0: the message was a `tell`, and nobody waits.
    """

    caller: str
    call_id: int

    @property
    def is_of_tell(self) -> bool:
        """Whether the message was no call: nobody waits, and the message must have its effect all the same."""
        return self.call_id == 0

    @property
    def is_awaited(self) -> bool:
        """Whether it was not given yet, and somebody needs it."""
        return _cell().owed.is_awaited(self)

    @property
    def is_open(self) -> bool:
        """Whether it was not given yet, also not as its time was up: what the call asks for is still to be done."""
        return _cell().owed.is_open(self)

    def give(self, value: object) -> None:
        """Answer with a result. Answers nobody if nobody waits."""
        _cell().owed.give(self, value, ok=True)

    def fail(self, error: Exception) -> None:
        """As `give`, but the caller gets an exception."""
        _cell().owed.give(self, error, ok=False)


def answer_later(timeout_s: float | None = None, otherwise: object = None) -> LaterAnswer:
    """Leave the answer to the call that is being handled to another handler, whatever this one returns.

    If none gives it within `timeout_s` seconds, the answer is `otherwise`. If this handler raises after all, that is
    the answer. Raises as `rayshot.current().after`.
    """
    return LaterAnswer(*_cell().owe(timeout_s, otherwise))


def _cell() -> Cell:
    cell = running_cell()
    if cell is None:
        raise OutsideHandler("calls are answered in a handler of their actor, on the handler's own thread")
    return cell
