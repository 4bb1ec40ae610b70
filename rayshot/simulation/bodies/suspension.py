"""How a handler of a simulated actor waits for answers: it parks, and the rest of the world goes on."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Protocol

from rayshot.format.codec import END, REPLY
from rayshot.model.calls import LoopEnded, Question, not_answered
from rayshot.model.cell import Cell
from rayshot.model.handling import LoopState
from rayshot.protocol.events import AlignmentTimedOut, Event
from rayshot.protocol.identity import ALIGNED, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.actor_surroundings import ActorSurroundings
from rayshot.simulation.bodies.virtual_loop import VirtualLoop


class Waiter(Protocol):
    """The actor whose handler waits; see SimulatedActor."""

    world: ActorSurroundings
    cell: Cell
    codec: Any
    mailbox: dict[str, list[Any]]
    received: dict[str, int]
    machine: Participant

    def tell(self, event: Event) -> None:
        """Give the machine an event."""

    def has_own_mail(self) -> bool:
        """Whether messages wait that it sent to itself."""

    def pop_message(self, sender: str) -> Any:
        """Remove the first message of the sender that waits; it counts as handled."""

    @property
    def is_quiet(self) -> bool:
        """Whether it does nothing now."""

    @property
    def gone(self) -> AbstractSet[str]:
        """The actors that have ended."""

    def leave_all(self) -> None:
        """What the handler has sent leaves."""

    def refuse_snapshots(self) -> None:
        """Refuse those that wait for a record."""

    def suspended(self, timeout_s: float | None) -> None:
        """Tell the world that the handler waits."""

    def parked(self) -> AbstractContextManager[None]:
        """While it is parked, nothing is sent."""

    def park(self) -> None:
        """Let the world go on, until the handler is let go on."""

    def at_top(self, *, is_timed: bool) -> None:
        """Tell the world that a method is at the top of a pass of its loop."""

    @property
    def is_ending(self) -> bool:
        """Whether the actor is to end when its handler has ended."""


class SimulatedSuspension:
    """See the module, and `rayshot.runtime.actor.suspension`. `has_time`: the handler went on before its time was up.

    `count` says how often a handler has waited, so that a time that is up late is known.
    """

    def __init__(self, process: Waiter) -> None:
        self.has_time, self.count = True, 0
        self._process = process
        self._waited: tuple[tuple[Question, ...], int] | None = None
        """The questions of which so many must be answered before the handler goes on; None if none waits."""
        self._may_begin: Callable[[], bool] | None = None
        """What a method at the top of its loop waits for."""
        self._unaligned: set[SnapshotId] = set()
        self._awaited: dict[Question, list[asyncio.Future[None]]] = {}
        """What the tasks of an `async def` handler wait for."""

    @property
    def is_on(self) -> bool:
        """Whether a handler waits."""
        return self._waited is not None

    @property
    def is_suspended(self) -> bool:
        """Whether a handler waits, maybe while others run."""
        return self.is_on or (self._process.cell.at_once > 1 and bool(self._waiting()))

    @property
    def waits_for(self) -> list[str]:
        """The actors for which a handler waits, sorted."""
        questions = self._waiting() if self._waited is None else self._waited[0]
        return sorted({question.callee for question in questions if not question.is_answered})

    @property
    def may_end(self) -> bool:
        """Whether what the handler waits for is there, or never comes."""
        if self._waited is None or self._process.is_quiet:
            return False
        self._hand_over()
        questions, count = self._waited
        return sum(question.is_answered for question in questions) >= count

    def answered_questions(self) -> list[Question]:
        """Several handlers run at once: the questions for which some of them wait, and whose answers are here."""
        if self.is_on or self._process.is_quiet or not (waiting := self._waiting()):
            return []
        self._hand_over()
        return [question for question in waiting if question.is_answered]

    def give(self, question: Question) -> None:
        """Who waits for this question, which is answered, goes on when the loop goes on."""
        for future in self._waiting()[question]:
            future.set_result(None)

    def wait(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """Return when so many questions are answered, or the time is up."""
        self._process.leave_all()
        self._process.refuse_snapshots()
        self._hand_over()
        if sum(question.is_answered for question in questions) < count and timeout_s != 0:
            self._park(tuple(questions), count, timeout_s)

    async def answered(self, question: Question) -> None:
        """As `wait`, for one question, in one of the tasks of an `async def` handler."""
        self._process.leave_all()
        self._process.refuse_snapshots()
        self._hand_over()
        if not question.is_answered:
            future = asyncio.get_running_loop().create_future()
            self._awaited.setdefault(question, []).append(future)
            if self._process.cell.at_once > 1:
                self._process.suspended(None)
            await future

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """See CellPort; nothing is a poison here. Raises LoopBegunAnew if the frame is thrown away."""
        process, loop = self._process, self._process.cell.now.loop
        assert loop is not None
        process.cell.now.come_to_top(process.world.begins_loops_anew)
        self._park_at_top(loop, may_begin)
        if self.must_end() and loop.question is not None and not loop.is_last:
            cell = process.cell
            cell.port.channel(loop.question.callee).append(loop.ask_no_more(cell.clock(), cell.port.codec, cell.name))
            process.leave_all()
            self._park_at_top(loop, may_begin)
        if self.must_end() and not loop.is_last:
            raise LoopEnded
        return True

    def _park_at_top(self, loop: LoopState, may_begin: Callable[[], bool]) -> None:
        self._may_begin = may_begin
        with self._process.parked():
            # Here any time may pass at once. Whom a last answer comes from is never so slow that nobody gets it.
            self._process.at_top(is_timed=loop.due is not None and not loop.is_last)
            try:
                self._process.park()
            finally:
                self._may_begin = None

    @property
    def is_at_top(self) -> bool:
        """Whether a method is at the top of its loop, where its actor may record."""
        return self._may_begin is not None

    @property
    def may_pass(self) -> bool:
        """Whether a method that is at the top of its loop goes on, or must end."""
        if self._may_begin is None or self._process.is_quiet or self._process.machine.paused:
            return False
        self.take_answers()
        loop = self._process.cell.now.loop
        assert loop is not None
        return self._may_begin() or (not loop.is_last and self.must_end())

    def take_answers(self) -> None:
        """Handlers are at the tops of their loops: hand over the answers that are here, which are handled so."""
        self.stop_aligning()
        self._hand_over()
        self._pass_over()

    def stop_aligning(self) -> None:
        """What stands before a marker may never be handled: wait for no markers."""
        machine = self._process.machine
        for snapshot in {*machine.open_snapshots} - {*machine.recorded_snapshots} - self._unaligned:
            if snapshot.mode == ALIGNED:
                self._unaligned.add(snapshot)
                self._process.tell(AlignmentTimedOut(snapshot))

    def must_end(self) -> bool:
        """Whether an order to end waits in the mailbox."""
        process = self._process
        fields = [next(process.codec.unpacker(one)) for messages in process.mailbox.values() for one in messages]
        ends = [dropped for kind, dropped, *_ in (of for of in fields if of[0] == END)]
        acts = process.cell.may_still_act or process.has_own_mail()
        return process.is_ending or not all(ends) or (bool(ends) and not acts)

    def idle(self, timeout: float | None) -> bool:
        """The loop has nothing to do: let the world go on until one of the answers is there, or the timer is due.

        Returns False if no task waits for an answer.
        """
        waiting = self._waiting()
        if not waiting:
            return False
        if not self._park(tuple(waiting), 1, timeout):
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop), "handlers of a world run on such loops"
            loop.pass_s(timeout or 0.0)
        for question, futures in waiting.items():
            for future in futures if question.is_answered else ():
                future.set_result(None)
        return True

    def _waiting(self) -> dict[Question, list[asyncio.Future[None]]]:
        """What tasks wait for; some may have been cancelled meanwhile."""
        self._awaited = {
            question: futures
            for question, of in self._awaited.items()
            if (futures := [future for future in of if not future.done()])
        }
        return self._awaited

    def _park(self, questions: tuple[Question, ...], count: int, timeout_s: float | None) -> bool:
        """Let the world go on. Returns False if the time was up."""
        process = self._process
        self.count += 1
        self._waited = questions, count
        with process.parked():
            process.suspended(timeout_s)
            try:
                process.park()
            finally:
                self._waited = None
        return self.has_time

    def _hand_over(self) -> None:
        """Give answers that have arrived to their questions, before their turn.

        No snapshot is open here that could stop one: who waits refuses them all.
        """
        process = self._process
        for call_id, ok, tell in self._answers():
            process.cell.take_answer(call_id, ok, tell, ())
        for question in tuple(process.cell.questions.values()):
            if question.callee in process.gone and not question.is_answered:
                question.outcome = False, not_answered(question.callee)

    def _answers(self) -> Iterator[tuple[int, bool, bytes]]:
        """The answers to questions that wait in the mailbox: id of the call, whether it is a result, and its bytes."""
        process = self._process
        for sender, messages in process.mailbox.items():
            last = process.machine.limits.get(sender, inf)
            for number, message in enumerate(messages, process.received.get(sender, 0) + 1):
                kind, *fields = next(process.codec.unpacker(message))
                if number <= last and kind == REPLY and fields[0] < 0:
                    yield fields[0], fields[1], fields[2]

    def _pass_over(self) -> None:
        """While a method loops, answers that were handed over count as handled when it is their turn."""
        process, cell = self._process, self._process.cell
        kept = {call_id for one in cell.gatherings for call_id in one.missing}
        loop = cell.now.loop if cell.at_once == 1 else None  # of several loops no answer is set apart
        if loop is not None and loop.question is not None:  # it counts as received when its pass is over
            kept.add(loop.question.call_id)
        for sender, messages in process.mailbox.items():
            while messages and process.received.get(sender, 0) < process.machine.limits.get(sender, inf):
                kind, *fields = next(process.codec.unpacker(messages[0]))
                if kind != REPLY or fields[0] >= 0 or fields[0] in kept:
                    break
                process.pop_message(sender)

    def never_answered(self, callee: str) -> list[Question]:
        """The calls to an actor that has ended whose outcomes would be answers of this actor."""
        there = {call_id for call_id, _, _ in self._answers()}
        forwarded = self._process.cell.forwarded.values()
        return [one for one in forwarded if one.callee == callee and one.call_id not in there]
