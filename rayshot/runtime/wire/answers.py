"""Answers that a driver waits for, with a limit: a process that is stopped, or cut off, never gives one."""

from typing import Any

import ray

from rayshot.errors import NoAnswer

SILENT_S = 30.0
"""A process that lives answers in milliseconds, on a busy machine in some seconds."""


def get_answer(ref: Any, whom: str, within_s: float = SILENT_S) -> Any:
    """What a call of `whom` came to. Raises what it raised, and NoAnswer when the time is up."""
    try:
        return ray.get(ref, timeout=within_s)
    except ray.exceptions.GetTimeoutError as error:
        raise NoAnswer(
            f"{whom} has not answered for {within_s:g} s: its process may be stopped, or its node cut off. It is not "
            f"known whether it did what it was asked to do. Let it go on, or end that process",
            whom=whom,
            seconds=within_s,
        ) from error


def the_coordinator(system: str) -> str:
    """How messages name it."""
    return f"the coordinator of system {system!r}"
