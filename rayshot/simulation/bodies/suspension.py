"""How a handler of a simulated actor waits for answers: it parks, and the rest of the world goes on."""

import asyncio
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rayshot.errors import ActorExited
from rayshot.format.codec import REPLY
from rayshot.model.calls import Question
from rayshot.model.cell import Cell
from rayshot.simulation.bodies.virtual_loop import VirtualLoop


class Waiter(Protocol):
    """The actor whose handler waits; see SimulatedActor."""

    cell: Cell
    codec: Any
    mailbox: dict[str, list[Any]]

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


class SimulatedSuspension:
    """See the module, and `rayshot.runtime.actor.suspension`. `has_time`: the handler went on before its time was up.

    `count` says how often a handler has waited, so that a time that is up late is known.
    """

    def __init__(self, process: Waiter) -> None:
        self.has_time = True
        self.count = 0
        self._process = process
        self._waited: tuple[tuple[Question, ...], int] | None = None
        """The questions of which so many must be answered before the handler goes on; None if none waits."""
        self._awaited: dict[Question, list[asyncio.Future[None]]] = {}
        """What the tasks of an `async def` handler wait for."""

    @property
    def is_on(self) -> bool:
        """Whether a handler waits."""
        return self._waited is not None

    @property
    def waits_for(self) -> list[str]:
        """The actors for which a handler waits, sorted."""
        questions = () if self._waited is None else self._waited[0]
        return sorted({question.callee for question in questions if not question.is_answered})

    @property
    def may_end(self) -> bool:
        """Whether what the handler waits for is there, or never comes."""
        if self._waited is None or self._process.is_quiet:
            return False
        self._hand_over()
        questions, count = self._waited
        return sum(question.is_answered for question in questions) >= count

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
            await future

    def idle(self, timeout: float | None) -> bool:
        """The loop has nothing to do: let the world go on until one of the answers is there, or the timer is due.

        Returns False if no task waits for an answer.
        """
        waiting = {
            question: futures
            for question, of in self._awaited.items()
            if (futures := [future for future in of if not future.done()])
        }
        self._awaited = waiting
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
                detail = f"actor {question.callee!r} ended and has not answered"
                question.outcome = False, ActorExited(detail, actor=question.callee)

    def _answers(self) -> Iterator[tuple[int, bool, bytes]]:
        """The answers to questions that wait in the mailbox: id of the call, whether it is a result, and its bytes."""
        for messages in self._process.mailbox.values():
            for message in messages:
                kind, *fields = next(self._process.codec.unpacker(message))
                if kind == REPLY and fields[0] < 0:
                    yield fields[0], fields[1], fields[2]

    def never_answered(self, callee: str) -> list[Question]:
        """The calls to an actor that has ended whose outcomes would be answers of this actor."""
        there = {call_id for call_id, _, _ in self._answers()}
        return [one for one in self._process.cell.forwarded if one.callee == callee and one.call_id not in there]
