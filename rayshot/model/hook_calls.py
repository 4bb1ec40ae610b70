"""Calls the hooks of an actor's class: see `hooks`."""

import logging
import traceback
from pathlib import PurePath

from rayshot.errors import HookFailed
from rayshot.model.calls import Interruption
from rayshot.model.cell import Cell
from rayshot.model.current import enter
from rayshot.model.hooks import ON_RESTORE, ON_ROLLBACK

log = logging.getLogger("rayshot")


def tell_of_restore(cell: Cell) -> None:
    """Call `on_restore`, if the class has it. Call on the thread that runs the handlers.

    Raises HookFailed, with the names of actor and class.
    """
    try:
        _call(cell, ON_RESTORE)
    except Interruption:
        raise
    except BaseException as error:  # also a KeyboardInterrupt, or the CancelledError of a client
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise _failed(cell, f"raised {error!r} at {PurePath(place.filename).name}:{place.lineno}") from error


def does_not_end(cell: Cell, seconds: float) -> HookFailed:
    """The error for an `on_restore` that runs for so many seconds."""
    return _failed(cell, f"has not ended after {seconds:g} s")


def _failed(cell: Cell, why: str) -> HookFailed:
    user_class = type(cell.instance)
    class_name = f"{user_class.__module__}.{user_class.__qualname__}"
    text = f"actor {cell.name!r}: {class_name}.{ON_RESTORE} {why}, so the actor cannot go on from the snapshot"
    return HookFailed(text, actor=cell.name, class_name=class_name, hook=ON_RESTORE)


def tell_of_rollback(cell: Cell) -> None:
    """Call `on_rollback`, if the class has it. Call on the thread that ran the handlers. An error is logged."""
    try:
        _call(cell, ON_ROLLBACK)
    except Interruption:
        raise
    except BaseException:
        log.exception("%s: %s failed, and the actor goes back all the same", cell.name, ON_ROLLBACK)


def _call(cell: Cell, name: str) -> None:
    if not cell.born or not hasattr(type(cell.instance), name):
        return
    before = enter(None)  # no handler runs: `current()` is not known, and a trace has what is sent beside its handlers
    try:
        cell.to_completion(getattr(cell.instance, name))()
    finally:
        enter(before)
