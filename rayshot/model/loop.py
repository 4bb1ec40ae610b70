"""`rayshot.loop`: the passes of a method that never returns, between which a snapshot can hold its actor."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from rayshot.errors import ConfigError, LoopNotRepeatable, OutsideHandler, WaitsForHandler
from rayshot.format.codec import method_of
from rayshot.model.calls import GivenUp, LoopEnded
from rayshot.model.cell import Cell
from rayshot.model.current import running_cell
from rayshot.model.event_loop import others
from rayshot.model.handle import Method
from rayshot.model.handling import LoopState
from rayshot.model.loop_calls import ANSWER_OF
from rayshot.model.loop_check import code_of, loop_heads
from rayshot.model.timer import AFTER_S_MAX, is_time

if TYPE_CHECKING:
    from rayshot.typed import Method as MethodOfHandle
    from rayshot.typed import T
else:
    T = TypeVar("T")

Read = Callable[[Any], Any]


class Loop(Iterator[T], AsyncIterator[T]):
    """See `loop`. `method` is called at the top of each pass, and `read` makes the pass's value of its result."""

    def __init__(self, method: Method | None, read: Read, every_s: float | None) -> None:
        self.method = method
        self.every_s = every_s
        self._read = read
        self._cell: Cell | None = None

    def __iter__(self) -> Self:
        self._begin(sys._getframe(1), is_plain=True)  # noqa: SLF001
        return self

    def __next__(self) -> T:
        cell = self._cell
        assert cell is not None, "a `for` calls __iter__ first"
        loop = self._come_to_top(cell)
        while not cell.port.await_pass(lambda: _may_begin(loop, cell.clock())):
            loop.question = None  # what came is passed over, and the next one is asked for
            self._ask(cell, loop)
        value: T = self._read(_outcome(cell, loop))
        return value

    def __aiter__(self) -> Self:
        self._begin(sys._getframe(1), is_plain=False)  # noqa: SLF001
        return self

    async def __anext__(self) -> T:
        cell = self._cell
        assert cell is not None, "an `async for` calls __aiter__ first"
        if cell.at_once == 1:
            return self.__next__()
        loop = self._come_to_top(cell)
        cell.park(cell.now)
        assert cell.parking.pass_begins is not None, "handlers run at once here"
        await cell.parking.pass_begins(lambda: _may_begin(loop, cell.clock()))
        value: T = self._read(_outcome(cell, loop))
        return value

    def _begin(self, frame: FrameType, *, is_plain: bool) -> None:
        self._cell = cell = running_cell()
        if cell is None:
            raise OutsideHandler("rayshot.loop is for methods of actors, on the thread of their handlers")
        code = frame.f_code
        where = f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        if not loop_heads(code):
            raise LoopNotRepeatable(
                f"{where}: write it as `for item in rayshot.loop(...):`, or with `async for`, and import what it "
                "names at the top of the module"
            )
        if is_plain and cell.at_once > 1:
            raise LoopNotRepeatable(
                f"{where}: other handlers of this actor run between the passes, so write the method as `async def`, "
                "and `async for item in rayshot.loop(...):`"
            )
        if self.method is not None and self.method.receiver == cell.name and cell.at_once == 1:
            raise WaitsForHandler(
                f"{where}: actor {cell.name!r} waits for its own .{self.method.name}, and handles nothing else while "
                "it loops: call the method directly, in the body of `for _ in rayshot.loop():`",
                actor=cell.name,
            )
        message = cell.port.message_now() if cell.now.loop is None else cell.now.loop.message
        if message is None:
            raise LoopNotRepeatable(
                f"{where}: large values or references came beside the message that began it. Give them to another "
                "method, which keeps them in `self`"
            )
        method = method_of(next(cell.port.codec.unpacker(message)))
        if code is not code_of(type(cell.instance), method or ""):
            begun_by = f"calls .{method}" if method else "is an answer"
            raise LoopNotRepeatable(
                f"{where} has a rayshot.loop, and the message that is handled {begun_by}: a restore begins with that. "
                "Put the loop into the method that others call"
            )
        if not cell.now.is_in_loop:  # else a `while` is around it
            self._enter(cell, message, where)

    def _enter(self, cell: Cell, message: bytes, where: str) -> None:
        """The handler comes to its loop for the first time."""
        if cell.done_so_far() != cell.now.done_above:
            raise LoopNotRepeatable(
                f"{where}: above the rayshot.loop something was sent, asked, made or set for later, and a restore, "
                "which begins the method anew, would do it twice. Do it in the constructor, or in the body with a mark "
                "in `self`"
            )
        cell.now.is_in_loop = True
        if cell.now.loop is not None:
            self._take_over(cell, cell.now.loop, where)
        else:
            cell.now.loop = LoopState(cell.now.sender, cell.number_now(), message, slots=cell.now.slots)
            cell.now.child_names.go_on(cell.now.sender, cell.now.loop.number, 0)
            cell.may_be_in_state()

    def _take_over(self, cell: Cell, loop: LoopState, where: str) -> None:
        """A restore has begun the method anew: check that the call of its snapshot is the one of this loop.

        Else its answer would be taken for another one's. Who was asked is told that nobody needs it.
        """
        question = loop.question
        if question is None:
            loop.due = loop.due if self.every_s is not None else None
            return
        asked = question.callee, loop.asks or (self.method and self.method.name)
        if self.method is None or asked != (self.method.receiver, self.method.name):
            cell.port.channel(question.callee).append(loop.drop_question(cell.port.codec, cell.name))
            called = f"{question.callee}.{loop.asks or '?'}"
            calls = "nothing" if self.method is None else f"{self.method.receiver}.{self.method.name}"
            raise LoopNotRepeatable(
                f"{where}: in the snapshot this rayshot.loop has called {called}, and now it calls {calls}. The answer "
                "would be taken for another one, so it is dropped"
            )

    def _come_to_top(self, cell: Cell) -> LoopState:
        """Make the call at the top of a pass, if there is one, and if no restore has brought it."""
        loop = cell.now.loop
        assert loop is not None, "the handler has entered it"
        loop.children = cell.now.child_names.taken
        if _has_other_tasks():
            raise LoopNotRepeatable(
                "a task runs beside rayshot.loop, and no snapshot could hold it: end it in the body, or use "
                "rayshot.current().after(seconds, self.method)"
            )
        self._ask(cell, loop)
        return loop

    def _ask(self, cell: Cell, loop: LoopState) -> None:
        """Make the call for the next pass, or see when it is due, unless a restore takes over what was asked.

        Raises LoopEnded behind the last pass.
        """
        if loop.is_last and loop.question is None:
            raise LoopEnded
        if loop.question is None and loop.due is None:
            if self.method is not None:
                reply = self.method.remote()
                reply.become_question(cell)
                loop.asks, loop.question = self.method.name, reply.question
            elif self.every_s is not None:
                loop.due = cell.clock() + self.every_s


@overload
def loop(call: "MethodOfHandle[[], T]") -> Loop[T]: ...
@overload
def loop(call: Callable[[], T]) -> Loop[T]: ...
@overload
def loop(call: None = None, *, every: float | None = None) -> Loop[None]: ...
def loop(call: Any = None, *, every: float | None = None) -> Loop[Any]:
    """The passes of a method that loops for ever: `for item in rayshot.loop(self.queue.get):`, or `async for`.

    A snapshot holds the actor between two passes, also while it waits for the next one: that is part of the state. A
    restore begins the method anew from its top, and its loop goes on with the pass that was next. So nothing but
    `self` lives from one pass to the next.

    Args:
        call: what is called at the top of each pass: a method of a handle, without arguments, or one of a Queue
            (`get`), a Lock, a Semaphore (`acquire`) or an Event (`wait`). A pass begins when its result is there, and
            gets it. None: passes begin at once, and get None.
        every: seconds from the end of a pass to the next one, with no `call`.

    While the method loops, its actor handles no other messages, as in Ray, and continuations of `then` wait. If the
    actor is ended (`rayshot.kill`, `exit`), the loop ends at the top of a pass, and who called the method gets
    ActorExited. If the answer for that pass is on its way, the pass is made; it is waited for LAST_ANSWER_S at most.

    Raises ConfigError for another `call` or `every`. Where the loop is used: LoopNotRepeatable, which names the line;
    what the call raised; ActorExited if the called actor has ended; WaitsForHandler for a method of the actor itself,
    unless its handlers run at once; OutsideHandler.
    """
    if call is None:
        if every is not None and not is_time(every):
            raise ConfigError(f"rayshot.loop(every={every!r}): give seconds, 0 or more, at most {AFTER_S_MAX:g}")
        return Loop(None, _as_it_is, every)
    if every is not None:
        raise ConfigError("rayshot.loop takes a call or `every`, not both")
    if isinstance(call, Method):
        return Loop(call, _as_it_is, None)
    owner, found = getattr(call, "__self__", None), getattr(call, ANSWER_OF, None)
    if owner is None or found is None:
        raise ConfigError(
            f"rayshot.loop({call!r}): give a method of a handle, or get, acquire or wait of a Queue, Lock, Semaphore "
            "or Event, without calling it"
        )
    if owner.actor is None:
        raise ConfigError(f"rayshot.loop({call!r}): this queue was shut down")
    method, read = found
    return Loop(getattr(owner.actor, method), read, None)


def _as_it_is(value: Any) -> Any:
    return value


def _outcome(cell: Cell, loop: LoopState) -> Any:
    """The pass begins: what its call gave, None if none was made. Raises what the call raised."""
    question, loop.question, loop.due = loop.question, None, None
    if question is None:
        return None
    if not question.is_answered:  # the actor is to end, and has waited long enough
        raise LoopEnded
    ok, value = cell.outcome_of(question)
    if isinstance(value, GivenUp):
        raise LoopEnded
    if not ok:
        raise value
    return value


def _has_other_tasks() -> bool:
    try:
        return bool(others())
    except RuntimeError:  # no loop runs
        return False


def _may_begin(loop: LoopState, now: float) -> bool:
    if loop.question is not None and (loop.question.is_answered or not loop.is_last):
        return loop.question.is_answered
    return loop.due is None or loop.due <= now
