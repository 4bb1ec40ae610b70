"""Handlers that wait for the answers of other actors."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from rayshot.model.calls import Question
from rayshot.model.cell import Cell
from rayshot.model.hook_calls import Interruption
from rayshot.runtime.actor.channels import Channels
from rayshot.runtime.actor.recording import Recording
from rayshot.runtime.actor.runner import Runner
from rayshot.runtime.wire.actor_errors import ActorExited

LOOK_S = 1.0
"""A handler that waits looks so often whether the actors live that it waits for."""


class Suspension:
    """Hands answers over to the handler that waits for them, before their turn in the mailbox.

    While it waits, its actor refuses to record snapshots. When the turn of an answer that was handed over comes,
    nothing is done: a snapshot may hold it as a message in flight. Call everything on the handlers' thread, without the
    lock.
    """

    def __init__(
        self,
        runner: Runner,
        channels: Channels,
        recording: Recording,
        cell: Cell,
        is_there: Callable[[str], bool | None],
    ) -> None:
        self._runner, self._channels, self._recording, self._cell = runner, channels, recording, cell
        self._is_there = is_there
        self._looked_at: dict[str, int] = {}
        """Per sender, the number of the last message that was looked at for an answer."""
        self._awaited: defaultdict[Question, list[asyncio.Future[None]]] = defaultdict(list)
        """What the tasks of an `async def` handler wait for."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop on which they wait, until it is told that there is something new."""
        self._looks_on: asyncio.AbstractEventLoop | None = None
        """The loop with a timer for the next look."""
        runner.hear_news = self._wake_loop

    # A plain handler -------------------------------------------------------------------------------------------

    def wait(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """Return when `count` of the questions are answered, or the time is up. What was sent before leaves first.

        Raises Interruption if the process takes no messages any more.
        """
        now = time.monotonic()
        until, look_at = None if timeout_s is None else now + timeout_s, now + LOOK_S
        self._begin(*questions)
        try:
            while True:
                with self._runner.lock:
                    self._hand_over()
                    now = time.monotonic()
                    if sum(one.is_answered for one in questions) >= count or (until is not None and now >= until):
                        return
                    due = look_at if until is None else min(look_at, until)
                    if now < due:
                        self._runner.wake.wait(due - now)
                        continue
                self._look_for_the_ended()
                look_at = time.monotonic() + LOOK_S
        finally:
            self._end(*questions)

    # An `async def` handler ------------------------------------------------------------------------------------

    async def answered(self, question: Question) -> None:
        """As `wait`, for one question, in one of the tasks of the handler."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._begin(question)
        try:
            with self._runner.lock:
                self._hand_over()
                if question.is_answered:
                    return
                self._loop = loop
            self._awaited[question].append(future)
            if self._looks_on is not loop:
                self._looks_on = loop
                loop.call_later(LOOK_S, self._look_again, loop)
            await future
        finally:
            if future in self._awaited.get(question, ()):  # it was cancelled
                self._awaited[question].remove(future)
                if not self._awaited[question]:
                    del self._awaited[question]
            self._end(question)

    def _wake_loop(self) -> None:
        """Something has arrived, or the process takes no messages any more. On any thread, under the lock."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake_tasks)
            self._loop = None

    def _wake_tasks(self) -> None:
        error = None
        with self._runner.lock:
            if not self._recording.waits_for:
                return  # they wait no more
            self._loop = asyncio.get_running_loop()
            try:
                self._hand_over()
            except Interruption as interruption:
                error = interruption
        for question in [one for one in self._awaited if error is not None or one.is_answered]:
            for future in self._awaited.pop(question):
                if not future.done():
                    future.set_result(None) if error is None else future.set_exception(error)

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks_on = None
        if self._awaited:
            self._look_for_the_ended()
            self._wake_tasks()
            self._looks_on = loop
            loop.call_later(LOOK_S, self._look_again, loop)

    # Both ------------------------------------------------------------------------------------------------------

    def _begin(self, *questions: Question) -> None:
        self._cell.ask()
        self._channels.leave_all()
        with self._runner.lock:
            if not self._recording.waits_for:
                self._channels.mailbox.watch()
            self._recording.suspend(*(one.callee for one in questions))

    def _end(self, *questions: Question) -> None:
        with self._runner.lock:
            self._recording.resume(*(one.callee for one in questions))
            if not self._recording.waits_for:
                self._channels.mailbox.unwatch()
                self._loop = None

    def _hand_over(self) -> None:
        runner = self._runner
        assert runner.lock.locked()
        if runner.down is not None:
            raise Interruption
        for slots, (_, call_id, ok, tell) in self._channels.answers(self._looked_at):
            if (question := self._cell.questions.get(call_id)) is not None:
                question.answer = ok, tell, slots

    def _look_for_the_ended(self) -> None:
        """Actors that have ended answer no more. All that they sent has arrived before."""
        waiting = [one for one in self._cell.questions.values() if not one.is_answered]
        ended = {callee for callee in {one.callee for one in waiting} if self._is_there(callee) is False}
        if ended:
            with self._runner.lock:
                self._hand_over()
            for question in waiting:
                if question.callee in ended and not question.is_answered:
                    detail = f"actor {question.callee!r} ended and has not answered"
                    question.outcome = False, ActorExited(detail, actor=question.callee)
