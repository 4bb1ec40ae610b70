"""Calls the hooks of an actor's class: see `hooks`. Call on the thread that runs the handlers, without the lock."""

import inspect
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from rayshot.errors import HookFailed, OutsideConflict, OutsideFailed
from rayshot.model.calls import Interruption
from rayshot.model.cell import Cell
from rayshot.model.current import enter
from rayshot.model.hooks import ON_COMMIT, ON_RESTORE, ON_ROLLBACK, ON_SNAPSHOT, has_hook, has_outside, takes_cut
from rayshot.model.outside import ActorCut

log = logging.getLogger("rayshot")


def tell_of_snapshot(cell: Cell, cut: ActorCut) -> Any:
    """Call `on_snapshot`, if the class has it; returns what it gives.

    Raises OutsideFailed, with the names of actor and class; OutsideConflict; what stops the actor meanwhile.
    """
    try:
        return _call(cell, ON_SNAPSHOT, cut)
    except (Interruption, OutsideConflict):
        raise
    except BaseException as error:  # also a KeyboardInterrupt, or the CancelledError of a client
        raise failed_outside(cell, ON_SNAPSHOT, error) from error


def tell_of_commit(cell: Cell, cut: ActorCut) -> Any:
    """Call `on_commit`, if the class has it; returns what it gives, a function or None. Raises what it raises."""
    given = _call(cell, ON_COMMIT, cut)
    if given is not None and not callable(given):
        raise OutsideFailed(
            f"actor {cell.name!r}: {_class_name(cell)}.{ON_COMMIT} returned {type(given).__name__}, and may return a "
            "function or nothing",
            actor=cell.name,
            hook=ON_COMMIT,
        )
    return given


def run_returned(cell: Cell, hook: str, work: Callable[[], Any]) -> Any:
    """Run the function that a hook returned; returns what it gives. Raises what it raises.

    Raises OutsideFailed for a coroutine function: no loop runs beside the handlers.
    """
    given = work()
    if inspect.isawaitable(given) or inspect.isgenerator(given) or inspect.isasyncgen(given):
        if inspect.iscoroutine(given):
            given.close()
        raise OutsideFailed(
            f"actor {cell.name!r}: what {_class_name(cell)}.{hook} returned gives a {type(given).__name__}: return a "
            "plain function, which runs on a thread",
            actor=cell.name,
            hook=hook,
        )
    return given


def tell_of_restore(cell: Cell, back: ActorCut | None) -> None:
    """Call `on_restore`, if the class has it.

    Only a life of the system may touch what is outside. Elsewhere there is no `back`: then it is not called if the
    class has something outside, or the hook takes the cut.

    Raises HookFailed, with the names of actor and class; OutsideConflict.
    """
    user_class = type(cell.instance)
    wants_cut = takes_cut(user_class, ON_RESTORE)
    if back is None and (wants_cut or has_outside(user_class)):
        return
    try:
        _call(cell, ON_RESTORE, *([back] if wants_cut else []))
    except (Interruption, OutsideConflict):
        raise
    except BaseException as error:  # as above
        raise _failed(cell, f"raised {_said(error)} at {_place(error)}") from error


def does_not_end(cell: Cell, seconds: float) -> HookFailed:
    """The error for an `on_restore` that runs for so many seconds."""
    return _failed(cell, f"has not ended after {seconds:g} s")


def failed_outside(cell: Cell, hook: str, error: BaseException) -> OutsideFailed:
    """The error for a hook, or the function that it returned, that raised `error`."""
    if isinstance(error, OutsideFailed):
        return error
    text = f"actor {cell.name!r}: {_class_name(cell)}.{hook} raised {_said(error)} at {_place(error)}"
    return OutsideFailed(text, actor=cell.name, hook=hook)


def _failed(cell: Cell, why: str) -> HookFailed:
    class_name = _class_name(cell)
    text = f"actor {cell.name!r}: {class_name}.{ON_RESTORE} {why}, so the actor cannot go on from the snapshot"
    return HookFailed(text, actor=cell.name, class_name=class_name, hook=ON_RESTORE)


def _class_name(cell: Cell) -> str:
    user_class = type(cell.instance)
    return f"{user_class.__module__}.{user_class.__qualname__}"


def _said(error: BaseException) -> str:
    with suppress(Exception):  # it is the user's code too
        return repr(error)
    return type(error).__name__


def _place(error: BaseException) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{PurePath(place.filename).name}:{place.lineno}"


def tell_of_rollback(cell: Cell) -> None:
    """Call `on_rollback`, if the class has it, on the thread that ran the handlers. An error is logged."""
    try:
        _call(cell, ON_ROLLBACK)
    except Interruption:
        raise
    except BaseException:
        log.exception("%s: %s failed, and the actor goes back all the same", cell.name, ON_ROLLBACK)


def _call(cell: Cell, name: str, *args: Any) -> Any:
    if not cell.born or not has_hook(type(cell.instance), name):
        return None
    before = enter(None)  # no handler runs: `current()` is not known, and a trace has what is sent beside its handlers
    try:
        hook = getattr(cell.instance, name)
        if cell.at_once > 1 and name in (ON_SNAPSHOT, ON_COMMIT):  # the loop of its handlers runs: see `check_given`
            return hook(*args)
        return cell.to_completion(hook)(*args)
    finally:
        enter(before)
