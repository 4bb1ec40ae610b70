"""Locks, events and queues of asyncio, once somebody waited for them, refer to the loop; in a pickle they do not.

They take the loop of whoever waits next.
"""

from asyncio.mixins import _LoopBoundMixin
from typing import Any


def reduce_without_loop(value: Any) -> Any:
    """What `__reduce_ex__` gives, without the loop; NotImplemented for anything that refers to none in this way."""
    if not isinstance(value, _LoopBoundMixin) or vars(value).get("_loop") is None:
        return NotImplemented
    reduced: Any = value.__reduce_ex__(5)
    make, args, state, *rest = reduced
    return (make, args, {**state, "_loop": None}, *rest) if isinstance(state, dict) else NotImplemented
