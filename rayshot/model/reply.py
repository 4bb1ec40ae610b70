"""`Reply`: what `.remote(...)` returns inside an actor. `get` and `wait`: how a handler waits for replies."""

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any
from weakref import ref

from rayshot.errors import AnswerTimedOut, ConfigError, NotAnObjectRef, OutsideHandler, RayshotError, WaitsForHandler
from rayshot.format.codec import method_of_encoded
from rayshot.format.pickling import is_dumping_state
from rayshot.model.calls import Continuation, Gathering, OpenCall, Question, Unanswered
from rayshot.model.cell import Cell
from rayshot.model.current import running_cell
from rayshot.model.loop_check import has_endless_loop


class Reply(Unanswered):
    """The future result of a call. Wait for it in a handler, or say with `then` what comes next.

    A handler waits with `rayshot.get(reply)`, `await reply` or `ray.get(reply)`, as often as it likes. While it waits,
    its actor handles no other message, and no snapshot can hold the actor: one that is asked for meanwhile is taken as
    soon as no handler waits. A reply that is kept in `self` is part of the state, with its result once that is here: a
    later handler may wait for it, also behind a restore.

    A reply that nobody holds costs no message. `callee` is the actor that was called. `call` is None if a thread that
    runs no handlers made the call: the call was sent at once, without asking for a reply.
    """

    __slots__ = {
        "__weakref__": None,
        "_call": None,
        "_cell": None,
        "callee": None,
        "question": "Internal: the call as a question, once the handler that made it has waited or ended.",
    }

    def __init__(self, cell: Cell | None, call: OpenCall | None, callee: str) -> None:
        self._cell = cell
        """None in a reply that was loaded with a state, until a handler asks for it."""
        self._call = call
        if call is not None:
            call.reply = ref(self)
        self.callee = callee
        self.question: Question | None = None

    def __class_getitem__(cls, _result: object) -> "type[Reply]":
        """`Reply[int]` says to type checkers what the result will be."""
        return cls

    def then(self, method: Callable[..., Any], *context: Any, on_error: Callable[..., Any] | None = None) -> None:
        """Continue with `method(result, *context)` when the reply is here, or with `on_error(exception, *context)`.

        The reply is a message on the reverse channel; the continuation is part of this actor's state, so both
        survive a snapshot. `context` is kept by reference, like any part of the state. Without `on_error` an exception
        becomes a dead letter of this actor. If the receiver has ended and does not handle the call, the call is a dead
        letter and has no reply: neither method is called.

        Args:
            method: a bound method of this actor.
            *context: further arguments.
            on_error: a bound method of this actor.

        Raises OutsideHandler on a thread that runs no handlers, and for a call that such a thread made; ConfigError for
        a second continuation, for one that is given after the handler has waited or ended, and in a `rayshot.loop` that
        nothing ends, where it would never be handled.
        """
        cell, call = self._here(), self._call
        if call is None or call.call_id is not None or call not in cell.open_calls:
            raise ConfigError(
                "a reply has one continuation, named in the handler that made the call, before the handler waits"
            )
        _refuse_in_endless_loop(cell)
        on_error_name = None if on_error is None else cell.own_method(on_error)
        continuation = Continuation(cell.own_method(method), on_error_name, context, self.callee)
        call.call_id = cell.await_reply(continuation)

    def future(self) -> concurrent.futures.Future[Any]:
        """The result as a future: `await asyncio.wrap_future(reply.future())` in an `async def` handler.

        In another handler only its `result(timeout)` and `exception(timeout)` wait, as `get` does. Give it to no
        thread. Errors as `get`.
        """
        self.ask()
        future = _Future(self)
        with suppress(RuntimeError):  # no loop runs
            task = asyncio.get_running_loop().create_task(future.follow())
            future.add_done_callback(lambda _: task.cancel())
        return future

    def get(self, timeout: float | None = None) -> Any:
        """As `rayshot.get(self, timeout=timeout)`."""
        return get(self, timeout=timeout)

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self.wait().__await__()
        return self.result()

    async def wait(self) -> None:
        """Internal: return when the result is here, or what was raised instead; in an `async def` handler."""
        question = self.ask()
        if not question.is_answered:
            await self._here().port.answered(question)

    def ask(self) -> Question:
        """Internal: the call as a question, which leaves now with all that the handler sent before. Errors as `get`."""
        cell = self._here()
        self.become_question(cell)
        assert self.question is not None
        if self.callee != cell.name or cell.at_once > 1:
            return self.question
        if not self.question.is_answered:
            cell.port.await_answers([self.question], 1, 0.0)  # it may be here
        if not self.question.is_answered:
            raise WaitsForHandler(
                f"actor {self.callee!r} waits for its own answer, which comes behind what it handles now: call the "
                "method directly, or name what comes next: reply.then(self.on_result)",
                actor=self.callee,
            )
        return self.question

    def become_question(self, cell: Cell) -> None:
        """Internal: make the call a question, if it is none. Raises ConfigError if it has a continuation."""
        if self.question is None:
            if self._call is None or self._call.call_id is not None:
                raise ConfigError("a reply that has a continuation cannot be waited for")
            cell.ask_for(self._call, self)

    def result(self) -> Any:
        """Internal: what came of the question, which is answered. Raises what the other handler raised."""
        ok, value = self.outcome()
        if ok:
            return value
        raise value

    def outcome(self) -> tuple[bool, Any]:
        """Internal: whether a result came, and the result, or the exception; the question is answered."""
        assert self.question is not None
        ok, value = self._here().outcome_of(self.question)
        return ok, value.anew() if isinstance(value, RayshotError) and not ok else value

    def _here(self) -> Cell:
        """The cell of this actor, on whose thread a handler runs now."""
        cell = running_cell()
        if self._cell is None:
            self._cell = cell
        if cell is None or cell is not self._cell or (self._call is None and self.question is None):
            raise OutsideHandler(
                "the result of a call comes to handlers only: call in a handler, and wait or name what comes next "
                "there. A thread can ask for that with a tell to its own actor, or have the result sent back by one"
            )
        return cell

    def __reduce__(self) -> tuple[Any, ...]:
        if self.question is None or not is_dumping_state():
            raise NotAnObjectRef(_ADVICE)
        return kept_reply, (self.question,)

    @property  # type: ignore[misc]  # it is read-only on purpose
    def __class__(self) -> type[Any]:
        # Ray's functions ask isinstance(reply, ...). Of what `ray.get` takes, only a CompiledDAGRef is asked for its
        # value, by `get(timeout=)`. Others would complain about a type, and the user must learn what to do.
        frame = sys._getframe(1)  # noqa: SLF001
        if not frame.f_globals.get("__name__", "").startswith("ray."):
            return Reply
        if frame.f_code.co_name == "get" and (kind := frame.f_globals.get("CompiledDAGRef")) is not None:
            return kind  # type: ignore[no-any-return]
        raise NotAnObjectRef(_ADVICE)


class SeveralReplies:
    """Several replies with one continuation; see `gather`."""

    def __init__(self, replies: tuple[Reply, ...]) -> None:
        self._replies = replies

    def then(self, method: Callable[..., Any], *context: Any, on_error: Callable[..., Any] | None = None) -> None:
        """Continue with `method(results, *context)` when all replies are here, with a list of results in order.

        If a call raised, `on_error(exception, *context)` gets the first exception in order, once all are here; without
        `on_error` it becomes a dead letter of this actor. If a called actor has ended and does not answer, neither is
        called. The replies and the continuation are part of the state. `context` and errors are as for `Reply.then`.
        """
        cells = {reply._here() for reply in self._replies}  # noqa: SLF001
        cell = cells.pop() if cells else None
        if cell is None:
            raise ConfigError("gather got no replies: give it one at least, or call the method yourself")
        _refuse_in_endless_loop(cell)
        names = cell.own_method(method), None if on_error is None else cell.own_method(on_error)
        if any(reply.question is not None for reply in self._replies):
            raise ConfigError("replies are gathered once, in the handler that made the calls, before it waits")
        for reply in self._replies:
            reply.become_question(cell)
        questions = tuple(reply.question for reply in self._replies if reply.question is not None)
        cell.gatherings.append(Gathering(questions, {one.call_id for one in questions}, *names, context))


def _refuse_in_endless_loop(cell: Cell) -> None:
    """Raise ConfigError if what comes next could never begin: it waits for the end of a loop that has none."""
    loop, cls = cell.now.loop, type(cell.instance)
    if loop is not None and cell.at_once == 1 and has_endless_loop(cls, method := method_of_encoded(loop.message)):
        raise ConfigError(
            f"{cls.__qualname__}.{method} loops without an end, and what comes next is handled behind it, so never: "
            "wait with rayshot.get(reply) or `await reply`, or give an async class max_concurrency"
        )


def gather(replies: Iterable[Reply]) -> SeveralReplies:
    """Continue with all results at once, without waiting: `rayshot.gather(replies).then(self.on_results)`.

    Args:
        replies: what `.remote(...)` returned in this handler, before it waits.
    """
    return SeveralReplies(tuple(replies))


def kept_reply(question: Question) -> Reply:
    """The reply that a state holds, without a cell. Snapshots have this function by name: keep it here."""
    reply = Reply(None, None, question.callee)
    reply.question = question
    return reply


class _Future(concurrent.futures.Future[Any]):
    """The future of a reply, which a handler waits for as for the reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    async def follow(self) -> None:
        """Be done when the reply is here."""
        await self._reply.wait()
        self._settle()

    def _settle(self) -> None:
        if not self.done():
            ok, value = self._reply.outcome()
            self.set_result(value) if ok else self.set_exception(value)

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            _wait_for_all([self._reply], timeout)
            self._settle()

    def result(self, timeout: float | None = None) -> Any:
        """See `get`."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `result`, but an exception is returned."""
        self._wait(timeout)
        return super().exception(0)


def get(replies: Reply | Iterable[Reply], *, timeout: float | None = None) -> Any:
    """Wait in a handler for the outcome of calls; returns the result, or a list of results in order.

    Args:
        replies: what `.remote(...)` returned in this handler, or what an earlier one kept of it: one, or several.
        timeout: how many seconds to wait; None: as long as it takes.

    Raises what a called handler raised, the first in order; ActorExited where a called actor has ended; AnswerTimedOut,
    a TimeoutError, when the time is up; WaitsForHandler for a call to the actor itself; OutsideHandler on a thread that
    runs no handlers; ConfigError for a reply that has a continuation.
    """
    several = [replies] if isinstance(replies, Reply) else list(replies)
    _wait_for_all(several, timeout)
    results = [reply.result() for reply in several]
    return results[0] if isinstance(replies, Reply) else results


def wait(
    replies: Iterable[Reply], *, num_returns: int = 1, timeout: float | None = None
) -> tuple[list[Reply], list[Reply]]:
    """Wait in a handler until `num_returns` of the calls have an outcome, or `timeout` seconds are over.

    Returns at most `num_returns` replies that have one, and the others, both in the given order. Raises as `get`, but
    no error of a called handler and no AnswerTimedOut; ConfigError if there are fewer than `num_returns` replies.
    """
    several = list(replies)
    if not 1 <= num_returns <= len(several):
        raise ConfigError(f"num_returns={num_returns}: there are {len(several)} replies to wait for")
    waiting = {*_wait(several, num_returns, timeout)}
    done = [reply for reply in several if reply not in waiting][:num_returns]
    taken = {*done}
    return done, [reply for reply in several if reply not in taken]


def _wait_for_all(replies: list[Reply], timeout: float | None) -> None:
    waiting = _wait(replies, len(replies), timeout)
    if waiting:
        names = ", ".join(sorted({reply.callee for reply in waiting}))
        raise AnswerTimedOut(f"no answer within {timeout:g} s from {names}")


def _wait(replies: list[Reply], count: int, timeout: float | None) -> list[Reply]:
    """Wait for `count` outcomes; returns the replies that have none."""
    for reply in replies:
        if not isinstance(reply, Reply):
            raise ConfigError(
                f"{reply!r} is not a Reply of a call that this handler made: use ray.get for what Ray returned"
            )
    questions = [reply.ask() for reply in replies]
    if sum(question.is_answered for question in questions) < count:
        replies[0]._here().port.await_answers(questions, count, timeout)  # noqa: SLF001 - the handler's own
    return [reply for reply, question in zip(replies, questions, strict=True) if not question.is_answered]


_ADVICE = (
    "a Reply is not an ObjectRef. In the handler that made the call wait with rayshot.get(reply) or `await reply`, or "
    "with rayshot.wait for several; or name what comes next: reply.then(self.on_result)"
)
