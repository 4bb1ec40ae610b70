"""Handlers of an actor that run at once, in turns: those of an async class with `max_concurrency` of 2 and more."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Protocol

from rayshot.format.codec import method_of
from rayshot.model.calls import LoopBegunAnew, LoopEnded
from rayshot.model.event_loop import ActorLoop
from rayshot.model.handling import Handling, LoopState
from rayshot.model.loop_tasks import handling_here
from rayshot.runtime.actor.mailbox import Delivery
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.suspension import Suspension

TURNS_TO_REST_MAX = 1000
"""Before a snapshot the loop turns until it has nothing to do, and no more than so many times.

A parked handler whose wait is over goes on meanwhile; of those at a barrier one goes on behind the other.
"""

Message = tuple[Handling, list[Any]]


class Turns(Protocol):
    """See TurnWatch."""

    @property
    def is_over(self) -> bool:
        """Whether nobody needs to know any more whose turn it is."""

    def take(self, handling: Handling, fields: list[Any], body: bytes, *, is_anew: bool) -> None:
        """A handler will be begun with this message."""

    def begins(self, handling: Handling, fields: list[Any]) -> bool:
        """Whether the handler begins."""

    def pass_begins(self, handling: Handling, sender: str, number: int) -> None:
        """A pass begins with this answer."""

    def turn(self, handling: Handling | None) -> None:
        """The turn of a handler comes, or of none."""

    def ended(self, handling: Handling) -> None:
        """The handler has ended."""


class Handles(Protocol):
    """Of a worker; see there."""

    handling: list[Any] | None
    poison_watch: Any

    def turn(
        self,
        take: Callable[[], Message | None],
        rest: Callable[[float | None], object],
        *,
        is_between: bool,
    ) -> Message | None:
        """Do what waits, and return what `take` gives, or `rest`."""

    def take(self) -> Delivery | None:
        """The messages that may be handled now. Under the lock."""

    def failed(self, sender: str, number: int, message: list[Any], error: BaseException) -> None:
        """The handler of this message has raised."""


class Interleaving:
    """Begins handlers while there is room, on the thread of the actor's handlers, and lets them take turns there.

    What is done between two handlers is done when none runs: each has ended, or is parked. A parked handler is at the
    top of a `rayshot.loop`, or in the first wait of a method that waits first, and part of the state.
    """

    def __init__(self, process: ActorProcess, suspension: Suspension, worker: Handles) -> None:
        self._process, self._suspension, self._worker = process, suspension, worker
        self._runner, self._channels, self._recording = process.runner, process.channels, process.recording
        self._cell = process.cell
        self._cell.parking.pass_begins = self._pass_begins
        self._running: dict[asyncio.Task[Any], tuple[Handling, list[Any]]] = {}
        self._tops: dict[Handling, tuple[Callable[[], bool], asyncio.Future[None]]] = {}
        """The handlers at the tops of their loops, and what they wait for."""
        self._watch: Turns | None = None
        self._messages: Iterator[list[Any]] | None = None
        """What is left of the delivery that is begun."""
        self._woken: asyncio.Future[None] | None = None
        self._is_news = self._is_over = self._rests = False
        self._patience: float | None = None

    def serve(self, delivery: Delivery) -> None:
        """Handle messages from this delivery on. Returns when no handler is left, or the process is down."""
        cell, tracing = self._cell, self._process.tracing
        cell.number_now = lambda: cell.now.number
        cell.parking.changed = self._parks
        if tracing.tracer is not None:
            tracing.switch(None, self._channels.out)  # a trace tells of one handler at a time
        if self._watch is None and self._worker.poison_watch is not None:
            self._watch = self._worker.poison_watch.turns()
            cell.coroutines.tell_turns(self._turn)
        self._begin_delivery(delivery)
        while True:
            try:
                cell.coroutines.serve(self._serve(), self._waits)
            except SystemExit:  # of a task that a handler started
                cell.end()
            else:
                return

    def _begin_delivery(self, delivery: Delivery) -> None:
        if self._channels.mailbox.current is not None:
            self._messages = iter(self._process.codec.unpacker(delivery.frame.body))

    async def _serve(self) -> None:
        runner = self._runner
        self._is_over = False
        self._suspension.serve(self._wake)
        try:
            while not self._is_over and runner.down is None:
                if not self._is_running and (runner.interrupted or self._recording.captures):
                    await self._come_to_rest()
                self._is_news = self._rests = False
                message = self._worker.turn(self._take, self._rest, is_between=not self._is_running)
                if self._watch is not None and self._watch.is_over:
                    self._watch = self._worker.poison_watch = None
                if message is not None:
                    self._begin(*message)
                elif self._rests:
                    await self._news()
        finally:
            if not self._is_over:  # whoever runs now is ended
                self._watch = None
            self._suspension.serve(None)

    async def _come_to_rest(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ActorLoop), "handlers run on the actor's loop"
        for _ in range(TURNS_TO_REST_MAX):
            await asyncio.sleep(0)
            if not loop.is_more_ready:
                return

    @property
    def _is_running(self) -> bool:
        """Whether a handler runs that is not parked."""
        return len(self._running) > len(self._cell.parking.handlers)

    # Waiting ---------------------------------------------------------------------------------------------------

    def _rest(self, patience: float | None) -> None:
        """There is nothing to begin now. Under the lock."""
        self._rests, self._patience = True, patience
        if self._running:
            self._suspension.listen()
        else:
            self._is_over = True

    async def _news(self) -> None:
        if self._is_news or self._is_over:
            return
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = None if self._patience is None else loop.call_later(self._patience, self._wake)
        try:
            await self._woken
        finally:
            self._woken = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        """Something is new. On the loop."""
        self._is_news = True
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _parks(self) -> None:
        """A parked handler has gone on, or another one is parked."""
        self._show()
        with self._runner.lock:
            if self._runner.held and self._is_running and self._runner.down is None:
                self._process.concluding.begins()
        self._wake()

    def _show(self) -> None:
        """Say which message is handled: that of the oldest handler that is not parked."""
        found = (fields for handling, fields in self._running.values() if handling not in self._cell.parking.handlers)
        self._worker.handling = next(found, None)

    def _turn(self, handling: Handling | None) -> None:
        if self._watch is not None and self._runner.down is None:
            self._watch.turn(handling)

    def _waits(self, waits: bool) -> None:  # noqa: FBT001 - see ActorLoop.before_wait
        """No handler can go on now."""
        self._leave_open_calls()
        if waits:
            self._turn(None)

    def _leave_open_calls(self) -> None:
        """No handler can go on now: what they have called leaves."""
        if self._cell.open_calls:
            self._cell.ask()
            self._channels.settle_calls()
            asyncio.get_running_loop().call_soon_threadsafe(self._wake)  # some may be calls of the actor itself

    # Beginning -------------------------------------------------------------------------------------------------

    def _take(self) -> Message | None:
        """The next message that may be handled now. Under the lock."""
        runner, mailbox, cell = self._runner, self._channels.mailbox, self._cell
        if runner.loading or runner.ending:
            return None
        if self._recording.is_due or runner.participant.paused:
            return None
        if cell.parking.handlers:
            self._begin_passes()
        if cell.parking.before:
            return self._begin_anew(cell.parking.before.pop(0))
        if len(self._running) >= cell.at_once and not self._suspension.must_end():
            return None
        if self._messages is not None and runner.held:
            self._messages = None
            mailbox.put_back()
        if self._messages is None:
            if (delivery := self._worker.take()) is None:
                return None
            self._begin_delivery(delivery)
        assert self._messages is not None
        assert mailbox.current is not None
        fields, sender = next(self._messages), mailbox.current.sender
        number = mailbox.position + 1
        handling = cell.new_handling(sender, number, mailbox.slots.pop((sender, number), ()))
        if method_of(fields) in cell.parking.methods:
            handling.message = mailbox.current_message(number)
        if self._watch is not None:
            self._watch.take(handling, fields, mailbox.current_message(number), is_anew=False)
        mailbox.position = number
        if number == mailbox.current.frame.last:
            self._messages = None
            mailbox.finish()
        return handling, fields

    def _begin_anew(self, loop: LoopState) -> Message:
        """A snapshot has a handler: its message is handled again, though it counts as handled."""
        handling = self._cell.new_handling(loop.sender, loop.number, loop.slots)
        handling.begin_anew(loop)
        fields = next(self._process.codec.unpacker(loop.message))
        if self._watch is not None:
            self._watch.take(handling, fields, loop.message, is_anew=True)
        return handling, fields

    def _begin(self, handling: Handling, fields: list[Any]) -> None:
        if self._watch is not None and not self._watch.begins(handling, fields):
            return
        context = contextvars.copy_context()
        context.run(handling_here.set, handling)
        task = context.run(asyncio.get_running_loop().create_task, self._handle(fields))
        self._running[task] = handling, fields
        task.add_done_callback(self._done, context=context)
        if self._worker.handling is None:
            self._worker.handling = fields

    async def _handle(self, fields: list[Any]) -> None:
        handler = self._cell.handle(fields)
        if isinstance(handler, Coroutine):
            await handler

    def _done(self, task: asyncio.Task[Any]) -> None:
        handling, fields = self._running.pop(task)
        self._cell.parking.go_on(handling)
        self._show()
        self._tops.pop(handling, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if isinstance(error, LoopBegunAnew) and handling.loop is not None:
            self._cell.parking.before.append(handling.loop)
        elif error is not None and self._runner.down is None:
            self._worker.failed(handling.sender, handling.number, fields, error)
        if self._watch is not None:
            self._watch.ended(handling)
        self._runner.interrupted = True  # maybe something waits for the end of a handler
        self._suspension.wake_tasks()  # it may have answered another one of this actor

    # Loops -----------------------------------------------------------------------------------------------------

    def _pass_begins(self, may_begin: Callable[[], bool]) -> Awaitable[None]:
        self._suspension.come_to_top()
        self._leave_open_calls()
        future = asyncio.get_running_loop().create_future()
        self._tops[self._cell.now] = may_begin, future
        self._wake()
        return future

    def _begin_passes(self) -> None:
        """Let the handlers go on whose next pass begins. Under the lock."""
        self._suspension.take_answers()
        for handling, (may_begin, future) in tuple(self._tops.items()):
            assert handling.loop is not None
            if not self._suspension.passes(handling.loop, may_begin):
                continue
            if self._watch is not None:
                self._watch.pass_begins(handling, *self._suspension.answer_of(handling.loop))
            del self._tops[handling]
            del self._cell.parking.handlers[handling]
            if not future.done():
                future.set_exception(LoopEnded()) if self._suspension.must_end() else future.set_result(None)
