"""Notices: calls with which actors tell the coordinator facts, mostly without waiting for an answer.

When a coordinator dies, Ray starts it again, and calls fail until it runs. So Ray repeats notices until a process of
the coordinator has answered, or the calling process is gone. Notices can arrive in any order, and more than once. Each
says a fact that stays true, so it changes nothing if it arrives twice, or after its actor or snapshot has ended.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rayshot.runtime.door import door
from rayshot.runtime.door.failpoints import failpoint

P = ParamSpec("P")
R = TypeVar("R")


def notice(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method of the coordinator as a notice, whose calls Ray repeats; a test can end the process before it."""
    door.method("control", again=True)(method)  # Ray reads the wrapped method

    @wraps(method)
    def heard(*args: P.args, **kwargs: P.kwargs) -> R:
        failpoint(f"notice_{method.__name__}")
        return method(*args, **kwargs)

    return heard
