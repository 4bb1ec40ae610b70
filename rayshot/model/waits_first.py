"""`@rayshot.waits_first`: async methods that a snapshot can hold while they wait for what comes first in them."""

import asyncio
import dis
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import cache
from types import CodeType
from typing import Any, Protocol, Self, TypeVar

from rayshot.errors import ConfigError, LoopNotRepeatable
from rayshot.model.handling import Handling, Parking
from rayshot.model.loop_check import Flow, has_loop, reached

_MARK = "__rayshot_waits_first__"
_CHANGES = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SLICE"}) | frozenset(
    {"DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL", "DELETE_DEREF", "IMPORT_NAME"}
)
_CALLS = frozenset({"CALL", "CALL_FUNCTION_EX", "CALL_KW"})
_AWAITS = frozenset({"GET_AWAITABLE"})
_ONLY_READ = frozenset({"all", "any", "bool", "isinstance", "len", "max", "min", "sorted", "sum"})
"""Builtins that may be called before the wait: they change nothing."""
F = TypeVar("F", bound=Callable[..., Any])


def waits_first(method: F) -> F:
    """Mark an `async def` method that sends and changes nothing before its first wait is over.

    For classes with `max_concurrency` of 2 and more, whose methods wait for each other: for an `asyncio.Event`, a
    `Condition`, a lock or a queue in the state. While the method stands at its first `await`, a snapshot can hold the
    actor: it has the message that began the method, and a restore begins the method anew. Further `await`s count as
    the first one if nothing stands between that could change anything, as in

        async with self.lock:
            while not self.items:
                await self.changed.wait()

    Raises ConfigError for what is not an `async def` function, and if something that could change the state stands
    before its first `await`: a call, or setting an attribute or an item. If a message is sent there all the same, the
    handler raises LoopNotRepeatable.
    """
    if not inspect.iscoroutinefunction(method):
        raise ConfigError(f"@rayshot.waits_first is for `async def` methods, not for {method!r}")
    if not first_waits(method.__code__):
        raise ConfigError(
            f"{method.__qualname__} is marked with @rayshot.waits_first, and something that could change the state "
            "stands before its first `await`, or it has none: a restore begins it anew while it waits there. Do it "
            "behind the wait"
        )
    setattr(method, _MARK, True)
    return method


def waits_at_first(method: object) -> bool:
    """Whether a method has the mark."""
    return bool(getattr(method, _MARK, False))


def may_park(user_class: type, method: str) -> bool:
    """Whether a state may have a handler of this method, if several run at once: it waits first, or loops."""
    return waits_at_first(getattr(user_class, method, None)) or has_loop(user_class, method)


@cache
def first_waits(code: CodeType) -> frozenset[int]:
    """Where a coroutine stands in its first waits: the offsets of those instructions.

    Nothing that could change a state may have run before one of them, not even in an earlier turn of a loop.
    """
    flow = Flow(code, raises=False)
    awaited = _awaited_calls(flow)
    before, changing, left = {0}, set[int](), [0]
    while left:
        index = left.pop()
        if _may_change(flow, index, awaited):
            changing.add(index)
        else:
            following = set(flow.after[index]) - before
            before |= following
            left += following
    behind = set[int]().union(*(reached(index, flow.after) for index in changing))
    waits = (index for index in before - behind - changing if flow.instructions[index].opname == "YIELD_VALUE")
    return frozenset(flow.instructions[index].offset for index in waits)


def _awaited_calls(flow: Flow) -> list[dis.Positions]:
    """The places in the source of the calls whose results are awaited."""
    calls = (flow.instructions[index - 1] for index, one in enumerate(flow.instructions) if one.opname in _AWAITS)
    return [call.positions for call in calls if call.opname in _CALLS and call.positions is not None]


def _may_change(flow: Flow, index: int, awaited: list[dis.Positions]) -> bool:
    one = flow.instructions[index]
    if one.opname not in _CALLS:
        return one.opname in _CHANGES
    place = one.positions
    if place is None:
        return True
    if any(_begin(call) <= _begin(place) and _end(place) <= _end(call) for call in awaited):
        return False  # it is awaited, or an argument of what is
    loads = (other for other in flow.instructions[:index] if other.opname == "LOAD_GLOBAL")
    called = {other.argval for other in loads if other.positions and _begin(other.positions) == _begin(place)}
    return not called or not called <= _ONLY_READ


def _begin(place: dis.Positions) -> tuple[int, int]:
    return place.lineno or 0, place.col_offset or 0


def _end(place: dis.Positions) -> tuple[int, int]:
    return place.end_lineno or 0, place.end_col_offset or 0


def locked_in(instance: object) -> list[str]:
    """The attributes of an object that are locks of asyncio, and locked."""
    return [
        name
        for name, one in getattr(instance, "__dict__", {}).items()
        if isinstance(one, asyncio.Lock) and one.locked()
    ]


class Parks(Protocol):
    """Of a cell; see there."""

    parking: Parking

    @property
    def now(self) -> Handling:
        """The handler that runs."""

    def done_so_far(self) -> int:
        """How many messages the actor has sent, and timers it has set."""

    def park(self, now: Handling) -> None:
        """A state has this handler, until it goes on."""

    def loop_ends(self) -> None:
        """A method that loops has returned."""


def watching(cell: Parks, user_class: type, method: str, handler: F) -> F | Callable[..., Awaitable[Any]]:
    """The `async def` handler of a method, where several run at once.

    If a state may have it, it notes what it does before, also if others run between its steps. Raises ConfigError in a
    world that is simulated.
    """
    if cell.parking.pass_begins is None:
        raise ConfigError(
            f"{user_class.__qualname__}.{method}: a simulated world runs one handler of an actor at a time, so leave "
            "max_concurrency out there"
        )
    if not may_park(user_class, method):
        return handler
    first = waits_at_first(handler)
    return lambda *args, **kwargs: _Watched(cell, handler(*args, **kwargs), waits_first=first)


class _Watched(Generator[Any, Any, Any], Awaitable[Any]):
    def __init__(self, cell: Parks, handler: Coroutine[Any, Any, Any], *, waits_first: bool) -> None:
        self._cell, self._handler, self._now = cell, handler, cell.now
        code: CodeType | None = getattr(handler, "cr_code", None)
        self._waits = first_waits(code) if waits_first and self._now.message is not None and code else frozenset()
        self._loops = not waits_first
        self._done = self._now.done_above = cell.done_so_far()

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._step(self._handler.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._handler.throw, *error)

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        cell, now = self._cell, self._now
        may_park = bool(self._waits) or not now.is_in_loop
        if may_park:
            now.done_above += cell.done_so_far() - self._done  # what others did meanwhile
        if self._waits:
            cell.parking.go_on(now)
            now.loop = None
        try:
            waits_for = step(*args)
        except StopIteration:
            if self._loops:
                cell.loop_ends()
            raise
        if may_park:
            self._done = cell.done_so_far()
        if self._waits:
            self._stands()
        return waits_for

    def _stands(self) -> None:
        """The handler waits: a state has it, if that is a first wait."""
        frame = self._handler.cr_frame  # type: ignore[attr-defined]  # it is a coroutine
        if frame.f_lasti not in self._waits:
            self._waits = frozenset()
            return
        if self._done != self._now.done_above:
            self._handler.close()
            raise LoopNotRepeatable(
                f"{frame.f_code.co_qualname}, marked with @rayshot.waits_first, has sent, asked, made or set for later "
                "something before its first wait is over, and a restore, which begins it anew, would do it twice. Do "
                "it behind the wait"
            )
        self._cell.park(self._now)
