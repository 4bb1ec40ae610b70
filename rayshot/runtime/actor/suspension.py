"""Handlers that wait for the answers of other actors."""

import asyncio
import logging
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from rayshot.errors import RayshotError, SystemDown
from rayshot.format.codec import END
from rayshot.model.calls import EXPIRE, Answer, Interruption, LoopEnded, Question, no_answer, not_answered
from rayshot.model.cell import Cell
from rayshot.model.configuration import ANEW
from rayshot.model.handling import LoopState
from rayshot.runtime.actor.channels import Channels
from rayshot.runtime.actor.concluding import Concluding
from rayshot.runtime.actor.recording import Recording
from rayshot.runtime.actor.runner import Runner
from rayshot.runtime.actor.tracing import Tracing
from rayshot.runtime.door import door
from rayshot.runtime.wire.actor_errors import as_rays

log = logging.getLogger("rayshot")
LOOK_S = 1.0
"""While a handler waits, its process looks so often whether the actors live that it waits for."""
WARN_S, WARNING_FACTOR = 10.0, 3
"""A wait of so many seconds is warned of, and again each time that it has grown by this factor."""

_NOT_THE_USERS = "rayshot", "ray", "asyncio"


class Watch(Protocol):
    """Who must know what a handler does; see PoisonWatch."""

    def got(self, sender: str, number: int, answer: Answer) -> None:
        """The handler gets this answer."""

    def waits(self) -> None:
        """The handler waits for answers."""

    def goes_on(self) -> None:
        """The handler waits no more."""

    def begins_pass(self, sender: str, number: int, method: str, answer: Answer) -> bool:
        """A pass of a loop begins with this answer to its call of `method`. Returns False if it is passed over."""


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
        concluding: Concluding,
        tracing: Tracing,
        cell: Cell,
        is_there: Callable[[str], bool | None],
        await_between: Callable[[Callable[[], bool | None]], bool | None],
        watch: Watch | None,
    ) -> None:
        self._runner, self._channels, self._recording, self._cell = runner, channels, recording, cell
        self._concluding, self._tracing = concluding, tracing
        self._is_there, self._watch = is_there, watch
        self._looked_at: dict[str, int] = {}
        """Per sender, the number of the last message that was looked at for an answer."""
        self._waits_since, self._waits_at = 0.0, ("", 0)
        """When handlers began to wait or got their last answer, and where the first of them waits. Under the lock."""
        self._ended: set[str] = set()
        """Actors that answer no more, as far as anybody has looked. Under the lock."""
        self._spent: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """While a method loops: per sender, the numbers of answers that were handed over, and their calls."""
        self._of_pass: tuple[str, int, int] | None = None
        """Sender, number and call of the answer with which a pass begins, until that is over."""
        self._numbers: dict[int, tuple[str, int]] = {}
        """Of answers to calls of several loops, by the ids of the calls: sender and number."""
        self._ends: set[tuple[str, int]] = set()
        """Orders to end that were seen in the mailbox: sender and number. A handle that was dropped ends no loop."""
        self._await_between: Callable[[Callable[[], bool | None]], bool | None] = await_between
        self._told: set[int] = set()
        """The calls of which this actor was told that they get no answer."""
        self._look_due = self._warn_at_s = 0.0
        self._is_looking = False
        self._awaited: defaultdict[Question, list[asyncio.Future[None]]] = defaultdict(list)
        """What the tasks of an `async def` handler wait for."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop on which they wait, until it is told that there is something new. Under the lock."""
        self._serves: Callable[[], None] | None = None
        """Several handlers run at once: called on their loop when something is new."""
        self._looks_on: asyncio.AbstractEventLoop | None = None
        """The loop with a timer for the next look."""

    @property
    def waits_s(self) -> float:
        """For how many seconds handlers have waited and got no answer; 0 if none waits. Under the lock."""
        return time.monotonic() - self._waits_since if self._recording.is_suspended else 0.0

    @property
    def waits_at(self) -> str:
        """The file and the line where a handler waits; "" if none waits. Under the lock."""
        if not (self._recording.is_suspended and self._waits_at[0]):
            return ""
        path, line = self._waits_at
        return f"{Path(path).name}:{line}"

    @property
    def may_begin(self) -> int:
        """How many messages, or passes of a loop, could begin if nothing held the actor. Under the lock."""
        loops = self.loops
        messages = 0 if loops and self._cell.at_once == 1 else len(self._channels.mailbox)
        return messages + sum(map(_is_there, loops))

    @property
    def loops(self) -> list[LoopState]:
        """What a state has of the handlers that are between two passes of their loops, or in first waits."""
        handlers = [self._cell.now] if self._cell.at_once == 1 else [*self._cell.parking.handlers]
        return [one.loop for one in handlers if one.loop is not None]

    def handler_ended(self) -> None:
        """Nobody waits any more: not even a task that its handler has left behind."""
        self._awaited.clear()
        with self._runner.lock:
            self._recording.resume_all()
            if not self._serves:
                self._listen(None)

    # A plain handler -------------------------------------------------------------------------------------------

    def wait(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """Return when `count` of the questions are answered, or the time is up. What was sent before leaves first.

        Raises Interruption if the process takes no messages any more.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        self._begin(*questions)
        try:
            with self._runner.lock:
                while True:
                    self._hand_over()
                    now = time.monotonic()
                    if sum(one.is_answered for one in questions) >= count or (until is not None and now >= until):
                        break
                    self._look(now, self._recording.waits_for)
                    self._runner.wake.wait((self._look_due if until is None else min(self._look_due, until)) - now)
        finally:
            self._end(*questions)
        self._goes_on()

    # An `async def` handler ------------------------------------------------------------------------------------

    async def answered(self, question: Question) -> None:
        """As `wait`, for one question, in one of the tasks of the handler."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._begin(question)
        try:
            with self._runner.lock:
                self._hand_over()
                if not question.is_answered:
                    self._listen(loop)
            if not question.is_answered:
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
        self._goes_on()

    def serve(self, news: Callable[[], None] | None) -> None:
        """Several handlers run at once from now on: call `news` on their loop when something is new. None: no more."""
        self._serves = news
        self._watch = None  # it watches one handler at a time

    def listen(self) -> None:
        """Wake the loop that runs when there is something new, once. Under the lock."""
        self._listen(asyncio.get_running_loop())

    def _listen(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Wake this loop when there is something new. Under the lock."""
        self._loop = loop
        self._runner.hear_news = None if loop is None else self._wake_loop

    def _wake_loop(self) -> None:
        """Something has arrived, or the process takes no messages any more. On any thread, under the lock."""
        loop = self._loop
        self._loop = self._runner.hear_news = None
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.wake_tasks)

    def wake_tasks(self) -> None:
        """Something is new, maybe an answer. On the loop."""
        if self._serves is not None:
            self._serves()
        error = None
        with self._runner.lock:
            if not self._recording.is_suspended:
                return  # they wait no more
            self._listen(asyncio.get_running_loop())
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
            with self._runner.lock:
                self._look(time.monotonic(), self._recording.waits_for)
            self._looks_on = loop
            loop.call_later(LOOK_S, self._look_again, loop)

    # Both ------------------------------------------------------------------------------------------------------

    def _begin(self, *questions: Question) -> None:
        callees = [one.callee for one in questions]
        self._cell.ask()
        self._channels.leave_all({*callees})
        if self._serves is not None:
            self._serves()  # what this actor sent to itself may begin now
        if self._tracing.tracer is not None:
            self._tracing.tracer.suspended()
        with self._runner.lock:
            if not self._recording.is_suspended:
                self._channels.mailbox.watch()
                self._waits_since, self._waits_at = time.monotonic(), _place(sys._getframe(2))  # noqa: SLF001
                self._look_due, self._warn_at_s = self._waits_since + LOOK_S, WARN_S
            self._concluding.wait()
            self._recording.suspend(*callees)
            if self._runner.name in callees:  # no packet says so
                self._concluding.asked(self._runner.name, self._channels.out[self._runner.name].sent)
            self._channels.boarding.close()
            if self._runner.held:
                self._channels.say_asked()
        if self._watch is not None:
            self._watch.waits()

    def _goes_on(self) -> None:
        """One that waited does so no more."""
        if self._watch is not None and not self._recording.is_suspended:
            self._watch.goes_on()

    def _end(self, *questions: Question) -> None:
        with self._runner.lock:
            self._recording.resume(*(one.callee for one in questions))
            if not (self._recording.is_suspended or self._serves):
                self._listen(None)

    def _hand_over(self) -> None:
        runner = self._runner
        assert runner.lock.locked()
        if runner.down is not None:
            raise Interruption
        self._channels.mailbox.watch()  # another handler may have begun since
        tracer = self._tracing.tracer
        for sender, number, (kind, *fields), slots in self._channels.answers(self._looked_at):
            if kind == END:
                is_dropped = fields[0]
                self._ends |= set() if is_dropped else {(sender, number)}
                continue
            call_id, ok, tell = fields
            loop = self._cell.now.loop if self._cell.at_once == 1 else None  # of several loops no answer is set apart
            if loop is not None and loop.question is not None and call_id == loop.question.call_id:
                self._of_pass = sender, number, call_id
            elif self._loops and not any(call_id in one.missing for one in self._cell.gatherings):
                self._spent[sender][number] = call_id
                self._forget_spent(sender)
            if self._cell.at_once > 1 and any(
                one.question is not None and one.question.call_id == call_id for one in self.loops
            ):
                self._numbers[call_id] = sender, number
            if self._cell.take_answer(call_id, ok, tell, slots):
                self._waits_since, self._warn_at_s = time.monotonic(), WARN_S
                if self._watch is not None:
                    self._watch.got(sender, number, (ok, tell, slots))
                if tracer is not None and self._of_pass != (sender, number, call_id):
                    tracer.resumed(sender, number)
        for question in self._cell.questions.values() if self._ended else ():
            if question.callee in self._ended and not question.is_answered:
                question.outcome = False, as_rays(not_answered(question.callee))

    def _forget_spent(self, sender: str) -> None:
        """Some answers of this sender may have had their turn since: they wait in the mailbox no more."""
        spent, handled = self._spent[sender], self._channels.mailbox.processed.get(sender, 0)
        if min(spent) <= handled:
            self._spent[sender] = {number: call_id for number, call_id in spent.items() if number > handled}

    @property
    def _loops(self) -> bool:
        """Whether a method may be in a loop."""
        return self._cell.at_once > 1 or self._cell.now.loop is not None

    # A method that loops ---------------------------------------------------------------------------------------

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """See CellPort. Raises Interruption if the process takes no messages any more."""
        loop = self._cell.now.loop
        assert loop is not None
        with self._runner.lock:
            self._channels.mailbox.watch()
            if loop.question is not None:
                channel = self._channels.channel_locked(loop.question.callee)
                channel.awaited = channel.sent
        if self._await_between(lambda: self._may_pass(may_begin)) is None:
            raise Interruption
        with self._runner.lock:
            if self._is_over(loop):
                raise LoopEnded
        if (tracer := self._tracing.tracer) is not None:
            tracer.pass_began(*(("", 0) if self._of_pass is None else self._of_pass[:2]))
        if self._watch is None or self._of_pass is None or loop.question is None or loop.question.answer is None:
            return True
        return self._watch.begins_pass(*self._of_pass[:2], loop.asks, loop.question.answer)

    def come_to_top(self) -> None:
        """A handler is at the top of a pass. Raises LoopBegunAnew if its frame is thrown away there."""
        self._cell.now.come_to_top(lambda: self._runner.identity.loops == ANEW)

    def loop_begins(self) -> None:
        """A method has come to its loop: what waits in the mailbox is looked at anew. Under the lock."""
        self._looked_at.clear()
        self._spent.clear()
        self._of_pass = None
        self._channels.mailbox.watch()

    def pass_ends(self) -> None:
        """Only now the answer counts as received with which it began. Under the lock.

        Until then each snapshot holds it as a message in flight, so that it has its number again behind a restore.
        """
        if self._of_pass is not None:
            sender, number, call_id = self._of_pass
            self._spent[sender][number] = call_id
            self._of_pass = None
            self._pass_over()

    def _pass_over(self) -> None:
        mailbox = self._channels.mailbox
        for sender, spent in self._spent.items():
            if spent and (mailbox.current is None or mailbox.current.sender != sender):
                before = mailbox.processed.get(sender, 0)
                mailbox.pass_over(sender, spent, self._channels.codec)
                if (tracer := self._tracing.tracer) is not None:
                    tracer.passed_over(sender, mailbox.processed.get(sender, 0) - before)

    def must_end(self) -> bool:
        """Whether an order to end waits in the mailbox. Under the lock."""
        processed = self._channels.mailbox.received()
        self._ends = {(sender, number) for sender, number in self._ends if number > processed.get(sender, 0)}
        return bool(self._ends)

    def _is_over(self, loop: LoopState) -> bool:
        """Whether a loop that is at its top ends there. Under the lock.

        If it has asked, the answer may be under way: what nobody gets would be lost.
        """
        if not self.must_end() or (loop.question is not None and loop.is_last):
            return False
        if loop.question is None or self._cell.at_once > 1:
            return True
        told = loop.ask_no_more(self._cell.clock(), self._channels.codec, self._runner.name)
        self._channels.channel_locked(loop.question.callee).put(told)
        return False

    def _may_pass(self, may_begin: Callable[[], bool]) -> bool | None:
        """Whether the next pass begins, or the loop ends; None if it waits. Under the lock."""
        loop = self._cell.now.loop
        assert loop is not None
        if self._runner.loading:
            return None
        self.take_answers()
        return self.passes(loop, may_begin)

    def take_answers(self) -> None:
        """Loops are at their tops: hand over the answers that are here, which are handled so. Under the lock."""
        self._recording.stop_aligning()
        self._hand_over()
        self._pass_over()

    def passes(self, loop: LoopState, may_begin: Callable[[], bool]) -> bool | None:
        """As `_may_pass`, for one of several loops. Under the lock."""
        if self._is_over(loop):
            return True
        if not may_begin():
            if loop.question is not None:
                self._look(time.monotonic(), [loop.question.callee])
            return None
        if self._runner.held:
            if not self._concluding.breathes:
                return None
            self._concluding.begins()
        return True

    def answer_of(self, loop: LoopState) -> tuple[str, int]:
        """The sender and the number of the answer with which the next pass of one of several loops begins."""
        question = loop.question
        return ("", 0) if question is None else self._numbers.pop(question.call_id, (question.callee, 0))

    def end_forwarded(self) -> None:
        """Between two handlers: end the calls whose outcomes are answers of this actor, if none comes, or nobody waits.

        This actor hears of the first by a message to itself; of the second the called actor hears.
        """
        forwarded = self._cell.forwarded
        with self._runner.lock:
            if not forwarded or self._runner.loading or self._runner.down is not None:
                return
            self._look(time.monotonic(), {one.callee for one in forwarded.values()})
            never = [one for one in forwarded.values() if one.callee in self._ended and one.call_id not in self._told]
        codec = self._channels.codec
        with suppress(SystemDown):  # a stop can come at any time
            for question in never:
                self._told.add(question.call_id)
                self._channels.channel(self._runner.name).append(no_answer(codec, question))
            for key, question in forwarded.items():
                if question.call_id not in self._told and not self._cell.owed.is_awaited(key):
                    self._told.add(
                        question.call_id
                    )  # nobody needs what the other one owes: it must take nothing for it
                    expired = codec.tell(EXPIRE, (self._runner.name, question.call_id))
                    self._channels.channel(question.callee).append(expired)

    def _look(self, now: float, callees: Collection[str]) -> None:
        """Look, if it is time, whether these actors live. On a thread: that may take long."""
        assert self._runner.lock.locked()
        if now >= self._look_due:
            self._look_due = now + LOOK_S
            if self._is_looking:
                return
            self._is_looking = True
            warns = self._recording.is_suspended and self.waits_s >= self._warn_at_s
            if warns:
                self._warn_at_s *= WARNING_FACTOR
            args = callees, self.waits_at if warns else None
            threading.Thread(target=self._look_for_ended, args=args, name="rayshot-look", daemon=True).start()

    def _look_for_ended(self, callees: Collection[str], warn_of: str | None) -> None:
        ended = set()
        for callee in callees:
            with suppress(RayshotError, door.CallFailed):  # who has no answer looks again
                if self._is_there(callee) is False:
                    ended.add(callee)
        with self._runner.lock:
            self._is_looking = False
            self._ended |= ended  # all that they sent has arrived before
            if ended:
                self._runner.notify()
        if warn_of is not None and not ended:
            log.warning("%s: a handler waits (%s): %s", self._runner.name, warn_of, self._channels.tell_chain(callees))


def _is_there(loop: LoopState) -> bool:
    """Whether what the next pass waits for is there, or will come by itself."""
    return loop.question is None or loop.question.is_answered


def _place(frame: FrameType | None) -> tuple[str, int]:
    """The file and the line of the innermost code of the user."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
