"""Answers that a driver waits for, with a time limit: a process that is stopped or cut off never answers."""

import time
from collections.abc import Callable
from typing import Any

import ray

from rayshot.errors import NoAnswer, RayshotError, SystemRecovering

SILENT_S = 30.0
"""The default limit in seconds. A living process answers in milliseconds, on a busy machine in some seconds."""

RECOVERY_WAIT_S = 300.0
"""A program waits so many seconds for a system that goes back to a snapshot, then it gets SystemRecovering."""
UNTIL_ANSWERED = -1
"""A value for Ray's `max_task_retries`: Ray repeats calls that do not reach a process, not calls that raise there."""


def get_answer(ref: Any, whom: str, within_s: float = SILENT_S) -> Any:
    """The answer of a call to `whom`. Raises the error of the call, and NoAnswer after `within_s` seconds."""
    try:
        return ray.get(ref, timeout=within_s)
    except ray.exceptions.GetTimeoutError as error:
        raise NoAnswer(
            f"{whom} has not answered for {within_s:g} s: its process may be stopped, or its node cut off. It is not "
            f"known whether it did what it was asked to do. Let it go on, or end that process",
            whom=whom,
            seconds=within_s,
        ) from error


def get_told(ref: Any, whom: str, within_s: float = SILENT_S) -> Any:
    """As `get_answer`, but errors that rayshot raised there are raised here as they were, and not as Ray's."""
    try:
        return get_answer(ref, whom, within_s)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, RayshotError) else error) from None


def ask_until_settled(ask: Callable[[], Any]) -> Any:
    """What `ask()` returns. While it raises SystemRecovering it is called again, for RECOVERY_WAIT_S seconds."""
    deadline = time.monotonic() + RECOVERY_WAIT_S
    while True:
        try:
            return ask()
        except SystemRecovering:
            if time.monotonic() >= deadline:
                raise


def the_coordinator(system: str) -> str:
    """How error texts name the coordinator."""
    return f"the coordinator of system {system!r}"
