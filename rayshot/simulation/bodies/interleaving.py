"""Handlers of a simulated actor that run at once, in turns, as its async class has `max_concurrency` of 2 and more.

They are tasks of one loop of their own. Whenever the loop has nothing to do, and now and then between two of its turns,
it stands still and the rest of the world goes on: choices say who goes on, and what begins meanwhile.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from rayshot.format.codec import method_of
from rayshot.model.calls import Interruption, LoopBegunAnew, LoopEnded
from rayshot.model.cell import Cell
from rayshot.model.handling import Handling
from rayshot.model.loop_tasks import handling_here
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.actor_surroundings import ActorSurroundings
from rayshot.simulation.bodies.virtual_loop import VirtualLoop


class Answers(Protocol):
    """What comes to the actor that its handlers wait for; see SimulatedSuspension."""

    def take_answers(self) -> None:
        """Hand over the answers that are here."""

    def must_end(self) -> bool:
        """Whether an order to end waits in the mailbox."""

    def idle(self, timeout: float | None) -> bool:
        """The loop has nothing to do while one handler runs."""


class Interleaved(Protocol):
    """The actor whose handlers run at once; see SimulatedActor."""

    world: ActorSurroundings
    cell: Cell
    codec: Any
    machine: Participant

    @property
    def is_quiet(self) -> bool:
        """Whether it does nothing now."""

    @property
    def is_ending(self) -> bool:
        """Whether it handles no more messages."""

    @property
    def is_due(self) -> bool:
        """Whether something is to be done as soon as no handler runs."""

    def leave_all(self) -> None:
        """What the handlers have sent leaves."""

    def at_top(self, *, is_timed: bool) -> None:
        """Tell the world that a method is at the top of a pass of its loop."""

    def parked(self) -> AbstractContextManager[None]:
        """While the loop stands still, nothing is sent."""

    def park(self) -> None:
        """Let the world go on, until the loop is let go on."""


class Failed(NamedTuple):
    """A handler raised `error`: it handled `message`, of this number."""

    sender: str
    number: int
    message: bytes
    error: BaseException


class SimulatedInterleaving:
    """See the module, and `rayshot.runtime.actor.interleaving`.

    What is done between two handlers is done while the actor is at rest: each handler has ended or is parked, and the
    loop has nothing to do. `is_abandoned`: the world has gone on without them. `failed` are the handlers that have
    raised since somebody looked here.
    """

    def __init__(self, process: Interleaved, answers: Answers) -> None:
        self.failed: list[Failed] = []
        self._answers = answers
        self._process, self._cell = process, process.cell
        self._cell.parking.pass_begins = self._pass_begins
        self._running: dict[asyncio.Task[Any], tuple[Handling, bytes]] = {}
        self._to_begin: list[tuple[Handling, bytes]] = []
        self._tops: dict[Handling, tuple[Callable[[], bool], asyncio.Future[None]]] = {}
        """The handlers at the tops of their loops, and what they wait for."""
        self._woken: asyncio.Future[None] | None = None
        self._is_serving = self._stands_still = self._turns = False
        self._stands_for_s: float | None = 0.0
        """Where it stands still: after so many seconds the loop has something to do, None if never."""
        self.is_abandoned = False

    # What the world may do -------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether handlers run or begin, and the loop stands still, so that choices say who goes on."""
        return self._stands_still or (bool(self._to_begin) and not self._is_serving)

    @property
    def is_at_rest(self) -> bool:
        """Whether what waits for the end of the handlers can be done."""
        is_idle = self._stands_still and self._stands_for_s != 0
        return is_idle and not self._to_begin and len(self._running) == len(self._cell.parking.handlers)

    @property
    def has_room(self) -> bool:
        """Whether one more handler may run; an order to end comes through in any case."""
        run = len(self._running) + len(self._to_begin)
        return run < self._cell.at_once or self._answers.must_end()

    @property
    def may_begin(self) -> bool:
        """Whether the next message may begin: first come the handlers that a snapshot has, and what waits for rest."""
        return self._stands and not self._cell.parking.before and self.has_room

    @property
    def may_turn(self) -> bool:
        """Whether the loop goes on by itself: it was between two turns, or time passes until it has something to do."""
        if not self.is_open or (self._process.machine.paused and self.is_at_rest):
            return False
        return bool(self._to_begin) or self._stands_for_s is not None

    @property
    def _stands(self) -> bool:
        process = self._process
        is_free = self.is_open or not self._is_serving
        return is_free and not (process.is_quiet or process.is_ending or process.is_due or process.machine.paused)

    def passes(self) -> list[Handling | None]:
        """The handlers at the tops of their loops that may go on; None stands for the next one that begins anew."""
        parking = self._cell.parking
        if not self._stands:
            return []
        if parking.before:
            return [None]
        if not parking.handlers:
            return []
        self._answers.take_answers()
        ends = self._answers.must_end()
        return [handling for handling, (may_begin, _) in self._tops.items() if ends or may_begin()]

    def due_passes(self) -> list[float | None]:
        """When the next passes begin that wait for a time."""
        return [None if handling.loop is None else handling.loop.due for handling in self._tops]

    def add(self, sender: str, number: int, message: bytes) -> None:
        """Begin to handle this message when the loop goes on."""
        handling = self._cell.new_handling(sender, number)
        if method_of(next(self._process.codec.unpacker(message))) in self._cell.parking.methods:
            handling.message = message
        self._to_begin.append((handling, message))
        self._wake()

    def go_on(self, handling: Handling | None) -> None:
        """One of `passes` goes on, or begins anew, when the loop goes on."""
        parking = self._cell.parking
        if handling is None:
            loop = parking.before.pop(0)
            handling = self._cell.new_handling(loop.sender, loop.number, loop.slots)
            handling.begin_anew(loop)
            self._to_begin.append((handling, loop.message))
            self._wake()
            return
        _, future = self._tops.pop(handling)
        parking.go_on(handling)
        if not future.done():
            ends = self._answers.must_end()
            future.set_exception(LoopEnded()) if ends else future.set_result(None)

    def turn(self) -> None:
        """The loop goes on by itself."""
        self._turns = True

    # Serving ---------------------------------------------------------------------------------------------------

    def _leave_all(self, _waits: bool) -> None:  # noqa: FBT001 - see ActorLoop.before_wait
        self._process.leave_all()

    def serve(self) -> None:
        """Run handlers until none is left."""
        self._is_serving = True
        try:
            while True:
                try:
                    self._cell.coroutines.serve(self._serve(), self._leave_all)
                except SystemExit:  # of a task that a handler started
                    self._cell.end()
                else:
                    return
        finally:
            self._is_serving = False

    async def _serve(self) -> None:
        while True:
            while self._to_begin:
                self._begin(*self._to_begin.pop(0))
            if not self._running:
                return
            self._woken = asyncio.get_running_loop().create_future()
            await self._woken

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _begin(self, handling: Handling, message: bytes) -> None:
        context = contextvars.copy_context()
        context.run(handling_here.set, handling)
        task = context.run(asyncio.get_running_loop().create_task, self._handle(message))
        self._running[task] = handling, message
        task.add_done_callback(self._done)

    async def _handle(self, message: bytes) -> None:
        handler = self._cell.handle(next(self._process.codec.unpacker(message)))
        if isinstance(handler, Coroutine):
            await handler

    def _done(self, task: asyncio.Task[Any]) -> None:
        handling, message = self._running.pop(task)
        self._cell.parking.go_on(handling)
        self._tops.pop(handling, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if isinstance(error, LoopBegunAnew) and handling.loop is not None:
            self._cell.parking.before.append(handling.loop)
        elif isinstance(error, SystemExit):
            self._cell.end()
        elif error is not None and not isinstance(error, LoopEnded):
            self.failed.append(Failed(handling.sender, handling.number, message, error))
        self._wake()

    def _pass_begins(self, may_begin: Callable[[], bool]) -> Awaitable[None]:
        process, now = self._process, self._cell.now
        assert now.loop is not None, "it loops"
        now.come_to_top(process.world.begins_loops_anew)
        process.leave_all()
        future = asyncio.get_running_loop().create_future()
        self._tops[now] = may_begin, future
        process.at_top(is_timed=now.loop.due is not None)
        return future

    # Standing still --------------------------------------------------------------------------------------------

    def idle(self, timeout: float | None) -> bool:
        """The loop has nothing to do for so long, 0 between two turns: let the world go on.

        Returns False if it does not.
        """
        process = self._process
        if not self._is_serving:  # a constructor or a hook runs, or all is over
            return timeout != 0 and not self.is_abandoned and self._answers.idle(timeout)
        if self.is_abandoned and timeout != 0:
            raise Interruption
        if self.is_abandoned or (timeout == 0 and not (self._running and process.world.others_go_on())):
            return False
        self._stands_still, self._turns, self._stands_for_s = True, False, timeout
        try:
            with process.parked():
                process.park()
        finally:
            self._stands_still = False
        if self._turns and timeout:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop), "handlers of a world run on such loops"
            loop.pass_s(timeout)
        return True

    def abandon(self) -> None:
        """The world goes on without these handlers; what they still do has no effect."""
        self.is_abandoned = True
        for task in self._running:
            task.cancel()
