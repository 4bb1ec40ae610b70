"""Answers that a driver waits for, with a time limit: a process that is stopped or cut off never answers."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rayshot.errors import NoAnswer, RayshotError, SystemRecovering
from rayshot.runtime.door import door
from rayshot.runtime.door.state import was_just_away

log = logging.getLogger("rayshot")

SILENT_S = 30.0
"""The default limit in seconds. A living process answers in milliseconds, on a busy machine in some seconds."""
FATE_S = 30.0
"""Whoever asks why an actor is dead waits so many seconds at most for the news that explain it."""
CONTROL_SERVICE_S = 5.0

RECOVERY_WAIT_S = 300.0
"""A program waits so many seconds for a system that goes back to a snapshot, then it gets SystemRecovering."""


def get_answer(ref: Any, whom: str, within_s: float | None = SILENT_S) -> Any:
    """The answer of a call to `whom`. Raises the error of the call, and NoAnswer after `within_s` seconds, if given."""
    try:
        return door.get(ref, timeout=within_s)
    except door.TimedOut as error:
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
    except door.Raised as error:
        raise (error.cause if isinstance(error.cause, RayshotError) else error) from None


@contextmanager
def noticing_restart(system: str, coordinator: Any) -> Iterator[None]:
    """Inside, a coordinator is asked. If it does not answer as Ray starts it again, NoAnswer becomes SystemRecovering.

    Ray calls it "restarting" until its constructor returns, and this needs a node and the storage.
    """
    try:
        yield
    except NoAnswer as error:
        if error.evidence.get("whom") != the_coordinator(system) or not _was_away(system, coordinator):
            raise
        silent_s = error.evidence["seconds"]
    else:
        return
    raise SystemRecovering(
        f"{the_coordinator(system)} died, and Ray starts it again. It has not answered for {silent_s:g} s: it may wait "
        "for a node or for the storage. The system goes on by itself then",
        system=system,
    )


def _was_away(system: str, coordinator: Any) -> bool:
    """False if Ray's control service does not answer at once: some questions to it have no time limit."""
    told: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def ask() -> None:
        away = False
        try:
            away = was_just_away(coordinator, SILENT_S)
        except door.CallFailed as error:
            log.info("nobody knows now whether %s is started again: %r", the_coordinator(system), error)
        told.put(away)

    threading.Thread(target=ask, name="rayshot-asking", daemon=True).start()
    try:
        return told.get(timeout=CONTROL_SERVICE_S)
    except queue.Empty:
        return False


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
