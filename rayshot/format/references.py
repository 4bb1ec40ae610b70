"""References to objects, and handles of plain Ray actors. The runtime defines them; the format does not import Ray."""

import operator
from collections.abc import Callable
from typing import Any


class References:
    """The runtime's definition. Without it, nothing is a reference."""

    kind: type | None = None
    get: Callable[[Any], Any]
    put: Callable[[Any], Any]


class PlainHandles:
    """The runtime's definition. Without it, they are pickled as Ray does."""

    reduce: Callable[[Any], Any] = operator.methodcaller("__reduce_ex__", 5)
    stand_in: Callable[[Any, tuple[Any, ...]], Any] = staticmethod(lambda _called, _arguments: None)


references = References()
plain_handles = PlainHandles()


def provide_references(kind: type, get: Callable[[Any], Any], put: Callable[[Any], Any]) -> None:
    """Define references: `get(reference)` waits for its value, `put(value)` makes a new one."""
    references.kind, references.get, references.put = kind, get, put


def provide_plain_handles(reduce: Callable[[Any], Any], stand_in: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    """Define handles of plain actors: `reduce(handle)` says what stands for one, as `__reduce__` would.

    `stand_in(called, arguments)` is what stands for a handle that Ray's own pickle makes by this call, and that Ray
    cannot make here; None for other calls.
    """
    plain_handles.reduce, plain_handles.stand_in = reduce, stand_in


def reducer_of_handles(kind: type) -> Callable[[Any], Any] | None:
    """How objects of a class are pickled, if they are Ray's handles of actors; else None."""
    return _reduce_handle if (kind.__module__, kind.__qualname__) == ("ray.actor", "ActorHandle") else None


def _reduce_handle(handle: Any) -> Any:
    return plain_handles.reduce(handle)  # as it is now: tables of reducers are kept


class NotedHandles:
    """The handles of plain actors that are `found` in one state."""

    def __init__(self) -> None:
        self.found: list[object] = []

    def reducer_of(self, kind: type) -> Callable[[Any], Any] | None:
        """As `reducer_of_handles`, for a dispatch table of this state."""
        return None if reducer_of_handles(kind) is None else self._reduce

    def _reduce(self, handle: object) -> Any:
        self.found.append(handle)
        return plain_handles.reduce(handle)
