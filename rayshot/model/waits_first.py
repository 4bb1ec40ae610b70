"""`@rayshot.waits_first`: async methods that a snapshot can hold while they wait for what comes first in them."""

import asyncio
import dis
import gc
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from functools import cache
from types import CodeType, CoroutineType, MethodType
from typing import Any, Protocol, Self, TypeVar

from rayshot.errors import ConfigError, LoopNotRepeatable, MigrationFailed
from rayshot.format.classes_by_value import attribute_of
from rayshot.model.event_loop import others
from rayshot.model.handling import Handling, Parking
from rayshot.model.loop_check import Flow, has_loop, reached
from rayshot.model.loop_tasks import LOCKS, WAITS_OF_ASYNCIO

log = logging.getLogger("rayshot")
_MARK = "__rayshot_waits_first__"
_CHANGES = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SLICE"}) | frozenset(
    {"DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL", "DELETE_DEREF", "IMPORT_NAME", "BEFORE_WITH"}
)
_CALLS = frozenset({"CALL", "CALL_FUNCTION_EX", "CALL_KW"})
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_OF_CALLS = frozenset({"PRECALL", "KW_NAMES", "PUSH_NULL", "EXTENDED_ARG"})
_AWAITS = frozenset({"GET_AWAITABLE"})
_FROM_YIELD = int(sys.version_info >= (3, 13))
"""A frame that waits stands at its YIELD_VALUE; since Python 3.13 at the RESUME behind it."""
_ENTERS, _LEAVES = 1, 2
"""What is awaited is the entry, or the exit, of an `async with`."""
_ONLY_READ = frozenset({"all", "any", "bool", "isinstance", "len", "max", "min", "sorted", "sum", "super"})
"""Builtins that may be called before the wait: they change nothing."""
_ONLY_ASK = frozenset({"empty", "full", "is_set", "locked", "monotonic", "qsize", "time", "timeout", "timeout_at"})
"""Methods, and functions of modules, that may too."""
_WAITS = frozenset({"sleep", "wait", "wait_for"})
"""What has changed nothing when it is over: another wait behind it is a first one too."""
_TAKE = frozenset({"acquire", "get", "join", "put"})
"""What may have changed something when it is over, also inside of another wait: `wait_for(queue.get(), 5)`."""
_BEGIN_WAITS = _WAITS | _TAKE | {"create_task", "ensure_future", "shield"}
"""What may be called in the arguments of what is awaited: it is a wait itself."""
_WAITS_FOR_CONDITION = asyncio.Condition.wait.__code__
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
    before its first `await`: a call, or setting an attribute or an item; it names the lines. If a message is sent there
    all the same, the handler raises LoopNotRepeatable.
    """
    if not (inspect.isfunction(method) and inspect.iscoroutinefunction(method)):
        raise ConfigError(f"@rayshot.waits_first is for `async def` methods, not for {method!r}")
    if not first_waits(method.__code__):
        raise ConfigError(
            f"{method.__qualname__} is marked with @rayshot.waits_first, and something that could change the state "
            f"stands before its first `await`{_lines_of_changes(method.__code__)}, or it has none: a restore begins it "
            "anew while it waits there. Do it behind the wait"
        )
    setattr(method, _MARK, True)
    return method


def waits_at_first(method: object) -> bool:
    """Whether a method has the mark."""
    return bool(getattr(method, _MARK, False))


def may_park(user_class: type, method: str) -> bool:
    """Whether a state may have a handler of this method, if several run at once: it waits first, or loops."""
    return waits_at_first(attribute_of(user_class, method)) or has_loop(user_class, method)


@cache
def first_waits(code: CodeType) -> frozenset[int]:
    """Where a coroutine stands in its first waits: the offsets of those instructions.

    Nothing that could change a state may have run before one of them, not even in an earlier turn of a loop.
    """
    flow = Flow(code, raises=False)
    before, changing = _until_changes(flow)
    ways = _ways_behind(code)
    behind = set[int]().union(*(reached(index, ways) for index in changing))
    return _places(flow, (one for one in before - behind - changing if flow.instructions[one].opname == "YIELD_VALUE"))


def _until_changes(flow: Flow) -> tuple[set[int], set[int]]:
    """The instructions that may run before something may have changed, and those of them that may change it."""
    ends = frozenset(_ends_of_changing_waits(flow))
    awaited = _awaited_calls(flow)
    before, changing, left = {0}, set[int](), [0]
    while left:
        index = left.pop()
        if index in ends or _may_change(flow, index, awaited):
            changing.add(index)
        else:
            following = set(flow.after[index]) - before
            before |= following
            left += following
    return before, changing


def _lines_of_changes(code: CodeType) -> str:
    flow = Flow(code, raises=False)
    places = (flow.instructions[index].positions for index in _until_changes(flow)[1])
    lines = sorted({place.lineno for place in places if place is not None and place.lineno is not None})
    return f" ({code.co_filename}:{', '.join(map(str, lines))})" if lines else ""


@cache
def _entries(code: CodeType) -> frozenset[int]:
    """Where a coroutine stands while it enters an `async with`."""
    flow = Flow(code, raises=False)
    enters = (at for at, one in enumerate(flow.instructions) if one.opname in _AWAITS and one.arg == _ENTERS)
    return _places(flow, (index + 3 for index in enters))


def _places(flow: Flow, yields: Iterable[int]) -> frozenset[int]:
    """What `f_lasti` is where a coroutine waits, by the instructions with which it yields."""
    return frozenset(flow.instructions[index + _FROM_YIELD].offset for index in yields)


def _ways_behind(code: CodeType) -> list[list[int]]:
    """What may follow each instruction, also if it raises: an `async with` of a lock ends no exception."""
    flow = Flow(code)
    for index, one in enumerate(flow.instructions):
        if one.opname == "WITH_EXCEPT_START":
            jumps = (at for at in range(index, len(flow.after)) if flow.instructions[at].opname.startswith("POP_JUMP"))
            jump = next(jumps)
            flow.after[jump].remove(flow.at[flow.instructions[jump].argval])
    return flow.after


def _ends_of_changing_waits(flow: Flow) -> Iterator[int]:
    """Where an `await` is over that may have changed something, such as taken an item from a queue."""
    for index, one in enumerate(flow.instructions):
        if one.opname == "SEND":
            begins = index - 2
            of, call = flow.instructions[begins], flow.instructions[begins - 1]
            is_with = of.opname in _AWAITS and of.arg in (_ENTERS, _LEAVES)
            waits = of.opname in _AWAITS and call.opname in _CALLS and _only_waits(flow, begins - 1)
            if not (is_with or waits):
                yield flow.at[one.argval]


def _only_waits(flow: Flow, index: int) -> bool:
    """Whether the call there, which is awaited, is a wait, and what is called in its arguments takes nothing."""
    place = flow.instructions[index].positions
    if place is None or _called(flow, index)[-1] not in _WAITS:
        return False
    calls = ((at, one.positions) for at, one in enumerate(flow.instructions[:index]) if one.opname in _CALLS)
    inside = (at for at, of in calls if of is not None and _is_inside(of, place))
    return not any(_called(flow, at)[-1] in _TAKE for at in inside)


def _awaited_calls(flow: Flow) -> dict[int, dis.Positions]:
    """The calls whose results are awaited, and their places in the source."""
    calls = (index - 1 for index, one in enumerate(flow.instructions) if one.opname in _AWAITS)
    places = {index: flow.instructions[index].positions for index in calls if flow.instructions[index].opname in _CALLS}
    return {index: place for index, place in places.items() if place is not None}


def _may_change(flow: Flow, index: int, awaited: dict[int, dis.Positions]) -> bool:
    one = flow.instructions[index]
    if one.opname not in _CALLS:
        return one.opname in _CHANGES or (one.opname == "BINARY_OP" and one.argrepr.endswith("="))  # `items += [1]`
    place = one.positions
    if place is None:
        return True
    if index in awaited:
        return False
    called = _called(flow, index)
    if any(_is_inside(place, call) for call in awaited.values()):
        return called[-1] not in (_ONLY_READ if len(called) == 1 else frozenset()) | _ONLY_ASK | _BEGIN_WAITS
    return called[-1] not in (_ONLY_READ if len(called) == 1 else _ONLY_ASK)


def _called(flow: Flow, index: int) -> tuple[str, ...]:
    """The names of what is called, such as ("self", "event", "wait"); the first is "" where that is no name."""
    place, names = flow.instructions[index].positions, list[str]()
    assert place is not None, "code from a source has places"
    for one in reversed(flow.instructions[:index]):
        if one.positions is None or _begin(one.positions) != _begin(place) or one.opname in _OF_CALLS:
            continue
        if one.opname in _ATTRIBUTES:
            names.insert(0, one.argval)
        else:
            return (one.argval if one.opname in _NAMES else "", *names)
    return ("", *names)


def _begin(place: dis.Positions) -> tuple[int, int]:
    return place.lineno or 0, place.col_offset or 0


def _end(place: dis.Positions) -> tuple[int, int]:
    return place.end_lineno or 0, place.end_col_offset or 0


def _is_inside(place: dis.Positions, other: dis.Positions) -> bool:
    return _begin(other) <= _begin(place) and _end(place) <= _end(other)


def locked_in(instance: object) -> list[str]:
    """The attributes of an object that are locks of asyncio, and locked."""
    return [
        name
        for name, one in getattr(instance, "__dict__", {}).items()
        if isinstance(one, asyncio.Lock) and one.locked()
    ]


def check_places(parked: int, at_once: int, actor: str) -> None:
    """A recorded state has so many handlers that wait, and `at_once` may run. Raises MigrationFailed if none may wait.

    Of a state that leaves no place for another handler it warns only: an order to end begins one all the same, so that
    a snapshot may have more of them than there are places.
    """
    if not parked or parked < at_once:
        return
    said = (
        f"actor {actor!r}: in its state {parked} handlers wait, and max_concurrency={at_once} has no place for another"
    )
    if at_once == 1:
        raise MigrationFailed(f"{said}: keep it at {parked + 1} or more until they have ended", actor=actor)
    log.warning("%s: if one of them waits for another one, all wait for ever", said)


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

    If a state may have it, it notes what it does before, also if others run between its steps.
    """
    if not may_park(user_class, method):
        return handler
    first = waits_at_first(handler)
    return lambda *args, **kwargs: _Watched(cell, handler(*args, **kwargs), waits_first=first)


class _Watched(Generator[Any, Any, Any], Awaitable[Any]):
    def __init__(self, cell: Parks, handler: Coroutine[Any, Any, Any], *, waits_first: bool) -> None:
        self._cell, self._handler, self._now = cell, handler, cell.now
        code: CodeType | None = getattr(handler, "cr_code", None)
        self._waits = first_waits(code) if waits_first and self._now.message is not None and code else frozenset()
        self._loops, self._has_waited = not waits_first, False
        self._done = self._now.done_above = cell.done_so_far()

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._step(self._handler.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._handler.throw, *error)

    def close(self) -> None:
        self._handler.close()

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
        is_first = self._handler.cr_frame.f_lasti in self._waits  # type: ignore[attr-defined]  # it is a coroutine
        has_changed_nothing = is_first and _has_changed_nothing(self._handler)
        if (has_changed_nothing or (is_first and not self._has_waited)) and self._done != self._now.done_above:
            self._refuse(
                "has sent, asked, made or set for later something before its first wait is over, and a restore, which "
                "begins it anew, would do it twice. Do it behind the wait"
            )
        if not has_changed_nothing or _keeps_lock(self._handler):
            self._waits = frozenset()
            return
        if any(isinstance(one, asyncio.Semaphore) for one in _entered(self._handler)):
            self._refuse(
                "waits inside the `async with` of a semaphore: a snapshot would have the place as taken, and a "
                "restore, which begins it anew, would take another one. Wait before it"
            )
        self._has_waited = True
        self._cell.park(self._now)

    def _refuse(self, what: str) -> None:
        name = self._handler.cr_code.co_qualname  # type: ignore[attr-defined]  # as above
        self._handler.close()
        raise LoopNotRepeatable(f"{name}, marked with @rayshot.waits_first, {what}")


def _has_changed_nothing(handler: Coroutine[Any, Any, Any]) -> bool:
    """Whether what a handler awaits is in its first wait too, through all coroutines, and so are its tasks."""
    code: CodeType | None = None
    waiting: Any = handler
    while isinstance(waiting, CoroutineType):
        code, frame = waiting.cr_code, waiting.cr_frame
        assert frame is not None, "it waits"
        if code.co_filename not in WAITS_OF_ASYNCIO and frame.f_lasti not in first_waits(code):
            return False
        waiting = waiting.cr_await
    if code is None or code.co_filename in LOCKS:
        return True
    return all(getattr(task.get_coro(), "cr_code", code).co_filename in WAITS_OF_ASYNCIO for task in others())


def _keeps_lock(handler: Coroutine[Any, Any, Any]) -> bool:
    """Whether a handler waits inside `async with` of a lock, and does not let it go: begun anew, it would wait for it.

    Who waits for a condition of the lock lets it go.
    """
    let_go: list[object] = []
    waiting: Any = handler
    while isinstance(waiting, CoroutineType):
        frame: Any = waiting.cr_frame
        if waiting.cr_code is _WAITS_FOR_CONDITION:
            let_go.append(frame.f_locals["self"]._lock)  # noqa: SLF001 - there is no other name of it
        waiting = waiting.cr_await
    entered = (getattr(one, "_lock", one) for one in _entered(handler))
    return any(isinstance(one, asyncio.Lock) and one.locked() and one not in let_go for one in entered)


def _entered(handler: Coroutine[Any, Any, Any]) -> Iterator[object]:
    """What the coroutines in which a handler waits have entered with `async with`: they keep how to leave it."""
    waiting: Any = handler
    while isinstance(waiting, CoroutineType):
        held = (one for one in gc.get_referents(waiting) if isinstance(one, MethodType))
        entered = [one.__self__ for one in held if one.__name__ == "__aexit__"]
        frame: Any = waiting.cr_frame
        yield from entered[:-1] if frame.f_lasti in _entries(waiting.cr_code) else entered
        waiting = waiting.cr_await
