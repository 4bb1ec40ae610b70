"""Pickles locks, events and queues of asyncio without the event loop that they refer to after a wait.

After unpickling they take the loop of the next wait.
"""

from asyncio.mixins import _LoopBoundMixin
from typing import Any


def reduce_without_loop(value: Any) -> Any:
    """The result of `__reduce_ex__`, without the loop; NotImplemented for other objects."""
    if not isinstance(value, _LoopBoundMixin) or vars(value).get("_loop") is None:
        return NotImplemented
    reduced: Any = value.__reduce_ex__(5)
    make, args, state, *rest = reduced
    return (make, args, {**state, "_loop": None}, *rest) if isinstance(state, dict) else NotImplemented
