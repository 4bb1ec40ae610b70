"""What actors tell the coordinator, nearly always with nobody waiting for an answer.

A coordinator that dies is started anew, and calls fail until it is up again. So Ray repeats these until one of its
lives has answered, or the process that called is gone. They arrive in any order then, and more than once: what they say
is a fact that stays true, and hearing it twice, or after what it is about has ended, changes nothing.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import ray

from rayshot.runtime.ray.failpoints import failpoint

UNTIL_ANSWERED = -1
"""As `max_task_retries` of Ray: only what does not reach a process is repeated, not what raises there."""
P = ParamSpec("P")
R = TypeVar("R")


def notice(method: Callable[P, R]) -> Callable[P, R]:
    """Make a method of the coordinator one that repeated calls may reach; a test can end the process before it."""
    ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)(method)  # Ray looks at what is wrapped

    @wraps(method)
    def heard(*args: P.args, **kwargs: P.kwargs) -> R:
        failpoint(f"notice_{method.__name__}")
        return method(*args, **kwargs)

    return heard
