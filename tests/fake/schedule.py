"""What can happen next on the fake, and who says what does: one list of events, one clock, one thread at a time.

A number says which event comes next: 0 is the oldest. Where the numbers have ended it is always 0, so each run comes to
rest, and hypothesis can make the list shorter. Time passes where nothing else can happen. Where the schedule is hasty,
some seconds may also pass before.
"""

import asyncio
import heapq
import random
from collections.abc import Iterable

from greenlet import GreenletExit, getcurrent

BEGAN_S = 1000.0
"""What the clock says at first, by time.monotonic."""
PATIENCE_S = 3600.0
"""The test waits for nothing longer than this."""
STEPS_MAX = 2_000_000


class Stuck(AssertionError):
    """Nothing can happen, and somebody waits."""


class Choices:
    """Numbers that say what happens: those of a list, those that chance says, or none."""

    def __init__(self, numbers: Iterable[int] = ()):
        self._numbers = iter(numbers)

    @classmethod
    def of_seed(cls, seed):
        chance = random.Random(seed)
        return cls(iter(lambda: chance.randrange(1 << 30), None))

    def __call__(self, count):
        return next(self._numbers, 0) % count if count > 1 else 0

    def end(self):
        """From now on the oldest event comes first."""
        self._numbers = iter(())


class Alarm:
    """Something that happens at a time, unless it was `cancelled`."""

    __slots__ = ("act", "cancelled")

    def __init__(self, act):
        self.act, self.cancelled = act, False


class Schedule:
    """See the module. `current` is the thread that runs; the test's own is `main`, and also says what happens next."""

    def __init__(self, choices=(), *, hasty_s=0.0):
        self.choose = choices if isinstance(choices, Choices) else Choices(choices)
        self.hasty_s = hasty_s
        self.now_s = BEGAN_S
        self.events, self._alarms, self._count = [], [], 0
        self.greenlet = getcurrent()
        self.main = self.current = None  # threads, when there is a process for the test
        self.failures = []
        self.closed = False

    def later(self, act):
        """This can happen from now on."""
        self.events.append(act)

    def at(self, due_s, act):
        """This happens when the clock says so; returns its alarm."""
        alarm = Alarm(act)
        self._count += 1
        heapq.heappush(self._alarms, (due_s, self._count, alarm))
        return alarm

    def _next_alarm(self):
        while self._alarms and self._alarms[0][-1].cancelled:
            heapq.heappop(self._alarms)
        return self._alarms[0] if self._alarms else None

    def step(self, until_s=None):
        """One event happens, or time passes until the next one, at most until `until_s`. Returns whether one did."""
        count = len(self.events)
        alarm = self._next_alarm()
        if count and alarm is not None and alarm[0] > self.now_s + self.hasty_s:
            alarm = None
        may_pass = alarm is not None and (until_s is None or alarm[0] <= until_s)
        if not count and not may_pass:
            return False
        self.happen(self.choose(count + may_pass))
        return True

    def happen(self, chosen=0):
        """The event at this place of the list happens; behind its end, the next one by the clock."""
        if chosen < len(self.events):
            act = self.events.pop(chosen)
        else:
            due_s, _, ringing = heapq.heappop(self._alarms)
            self.now_s, act = max(self.now_s, due_s), ringing.act
        act()
        self._count += 1
        assert self._count < STEPS_MAX, "it does not come to rest"
        if self.failures:
            raise self.failures.pop(0)

    def settle(self):
        """All happens that can without any time."""
        while self.events:
            self.step(self.now_s)

    def pass_s(self, seconds):
        """So much time passes, with all that happens meanwhile."""
        until_s = self.now_s + seconds
        while self.step(until_s):
            pass
        self.now_s = max(self.now_s, until_s)

    # Waiting ---------------------------------------------------------------------------------------------------

    def park(self, what, timeout_s=None):
        """The running thread waits until somebody wakes it. Returns False if nobody does so in time.

        `what` says for what, if it waits for ever.
        """
        thread = self.current
        self._stop_if_dead(thread)
        ticket = thread.ticket = object()
        thread.waits_for, thread.answer = what, None
        alarm = None
        if timeout_s is not None:
            alarm = self.at(self.now_s + max(0.0, timeout_s), lambda: self.wake(thread, ticket, answer=False))
        if thread is self.main:
            self._let_run(lambda: self._run_until(lambda: thread.answer is not None, what))
        else:
            self._let_run(self.greenlet.switch)
        if self.closed:
            raise GreenletExit
        if alarm is not None:
            alarm.cancelled = True
        thread.waits_for = ""
        return thread.answer

    @staticmethod
    def _let_run(others):
        """`others` do something. Their processes have event loops too, in the same thread of the system."""
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            others()
        finally:
            asyncio._set_running_loop(loop)

    def _stop_if_dead(self, thread):
        """No `finally` of a process that died runs before the test is over."""
        assert self.closed or not (thread is self.main and thread.is_dead), "the test acts in a process that died"
        while thread.is_dead and not self.closed:
            self.greenlet.switch()
        if self.closed:
            raise GreenletExit

    def _run_until(self, is_done, what):
        until_s = self.now_s + PATIENCE_S
        while not is_done():
            if not self.step(until_s):
                raise Stuck(f"nothing can happen, and the test waits for {what}; {self.who_waits()}")

    def who_waits(self):
        """For whoever looks for the reason of a deadlock."""
        return "nobody else is known to wait"

    def wake(self, thread, ticket, *, answer=True):
        """A thread that still waits with this ticket goes on some time."""
        if thread.ticket is ticket and ticket is not None:
            thread.ticket = None
            self.later(lambda: self._resume(thread, answer))

    def _resume(self, thread, answer):
        thread.answer = answer
        if thread is not self.main and not thread.is_dead:
            self.run(thread)

    def run(self, thread):
        """Let a thread run until it waits. One of a process that is stopped runs when that goes on."""
        if thread.run.is_stopped:
            thread.run.postponed.append(thread)
            return
        before, self.current = self.current, thread
        thread.enter()
        try:
            thread.greenlet.switch()
        finally:
            self.current = before
            before.enter()

    def breathe(self):
        """The running thread stops for a moment, and others may run. That of the test says itself what happens."""
        thread = self.current
        if thread is not self.main:
            self._stop_if_dead(thread)
            thread.ticket = ticket = object()
            self.wake(thread, ticket)
            self._let_run(self.greenlet.switch)
            if self.closed:
                raise GreenletExit
