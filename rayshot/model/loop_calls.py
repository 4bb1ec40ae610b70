"""Which methods of rayshot's own objects `rayshot.loop` may call."""

from collections.abc import Callable
from typing import Any, TypeVar

ANSWER_OF = "__rayshot_answer_of__"
"""A method has this attribute if `rayshot.loop` may call it: the actor's method for it, and what reads its answer."""

F = TypeVar("F", bound=Callable[..., Any])


def answers(method: str, read: Callable[[Any], Any]) -> Callable[[F], F]:
    """Mark a method: a loop calls this method of `self.actor` instead, and `read` makes the value of the answer."""

    def mark(function: F) -> F:
        setattr(function, ANSWER_OF, (method, read))
        return function

    return mark
