"""The warning that a class with async handlers gets, once, when it is decorated."""

import inspect
import warnings
import weakref

from rayshot.errors import HandlersTakeTurns
from rayshot.model.methods import methods_of

_NAMED_MAX = 3
_told: weakref.WeakSet[type] = weakref.WeakSet()


def warn_of_turns(user_class: type, stacklevel: int) -> None:
    """Warn if handlers of the class are `async def`: in Ray they interleave, here they do not."""
    if user_class in _told:
        return
    names = [name for name in methods_of(user_class) if inspect.iscoroutinefunction(getattr(user_class, name))]
    if names:
        _told.add(user_class)
        listed = ", ".join(names[:_NAMED_MAX]) + (", ..." if len(names) > _NAMED_MAX else "")
        warnings.warn(
            f"{user_class.__qualname__} has async handlers ({listed}). They take turns: each runs to its end, with all "
            "that it awaits, before the next one of the same actor begins. One that waits for what another handler of "
            "its actor brings, an event or an item of a queue, gets an error: docs/porting.md#async",
            HandlersTakeTurns,
            stacklevel,
        )
