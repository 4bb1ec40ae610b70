"""What the pickles of a state treat in a way of its own, and what they note of it."""

from asyncio import Barrier
from asyncio.mixins import _LoopBoundMixin
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from rayshot.format.error_links import ErrorLinks
from rayshot.format.references import NotedHandles
from rayshot.format.sentinels import BareObjects, reducer_of
from rayshot.format.shapes import NotedTypes, Shapes
from rayshot.format.shared_arrays import SharedArrays

_WAITING = frozenset({"_waiters", "_getters", "_putters"})
"""Attributes of asyncio's primitives that have the futures of those who wait."""


class SpecialParts:
    """Of a state: its `own` instance, which is pickled as `own_reduced`, `arrays`, `errors`, `handles` and `shapes`."""

    def __init__(self, own: object, own_reduced: Any) -> None:
        self.own = own
        self.arrays = SharedArrays()
        self.errors = ErrorLinks()
        self.handles = NotedHandles()
        self.shapes: Shapes = {}
        self._own_reduced = own_reduced

    def table(self, pickler: Any, given: Mapping[type, Any]) -> NotedTypes:
        """The dispatch table of this pickler, which has the reducers `given`."""
        reducers = {object: BareObjects().reduce, **self.errors.reducers(given), **self.arrays.reducers(pickler)}
        if self.own is not None:
            reducers[type(self.own)] = self._reduce_own
        table = NotedTypes({**given, **reducers}, self._reducer_of)
        self.shapes = table.shapes
        return table

    def _reduce_own(self, found: object) -> Any:
        return self._own_reduced if found is self.own else found.__reduce_ex__(5)

    def _reducer_of(self, kind: type) -> Callable[[Any], Any] | None:
        return self.handles.reducer_of(kind) or self.errors.reducer_of(kind) or reducer_of(kind)


def reduce_without_loop(value: Any) -> Any:
    """How to pickle a lock, an event or a queue of asyncio: without its loop, and without those who wait.

    It takes the loop of the next wait. A barrier counts those who wait there, so nobody is counted. NotImplemented for
    other objects.
    """
    if isinstance(value, Barrier) and value.n_waiting:  # it is 0 unless the barrier fills
        of_barrier: Any = value.__reduce_ex__(5)
        make, args, state, *rest = of_barrier
        return (make, args, {**state, "_count": 0}, *rest)
    if not isinstance(value, _LoopBoundMixin) or vars(value).get("_loop") is None:
        return NotImplemented
    reduced: Any = value.__reduce_ex__(5)
    make, args, state, *rest = reduced
    if not isinstance(state, dict):
        return NotImplemented
    nobody = {key: deque[Any]() for key in _WAITING & state.keys()}
    return (make, args, {**state, "_loop": None, **nobody}, *rest)
