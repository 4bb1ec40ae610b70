"""Threads of the fake, and what stands there in place of `threading`, `queue` and `time`.

Each thread is a greenlet. One runs at a time, and it runs until it waits. So nothing here needs a lock of its own, and
what runs between two waits is one step: races inside it are not found.
"""

import queue
import time
from collections import deque

from greenlet import greenlet

EPOCH_S = 1_700_000_000.0
"""Unix time where the clock of the schedule is at 0."""


class Present:
    """The cluster that the code under test runs on; see `door`."""

    cluster = None


def schedule():
    return Present.cluster.schedule


class Thread:
    """One of a process. `waits_for` says for what it waits, "" while it does not."""

    def __init__(self, target=None, args=(), kwargs=None, name=None, daemon=True, run=None):
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self.name, self.daemon = name or "a thread", daemon
        self.run = run or schedule().current.run
        self.greenlet = None
        self.ticket = self.answer = None
        self.waits_for = ""
        self.ident = None  # nobody can raise an exception in a thread of the fake
        self._joining = []
        self._is_over = False
        self.locals = {}

    @property
    def is_dead(self):
        return self.run.is_dead

    def start(self):
        self._make()
        schedule().later(self.begin)

    def _make(self):
        self.run.threads[self] = True
        self.greenlet = greenlet(self._go, parent=schedule().greenlet)

    def begin(self):
        """Run now, until it waits."""
        if not self.is_dead:
            if self.greenlet is None:
                self._make()
            schedule().run(self)

    def _go(self):
        Present.cluster.begins_thread(self)
        try:
            self._target(*self._args, **self._kwargs)
        except SystemExit:
            pass
        except Exception as error:  # noqa: BLE001 - the test raises it
            schedule().failures.append(error)
        self._is_over = True
        self.run.threads.pop(self, None)
        wake_all(self._joining)

    def enter(self):
        self.run.enter()

    def join(self, timeout=None):
        if self.is_alive():
            wait_among(self._joining, f"the end of {self.name}", timeout)

    def is_alive(self):
        return self.greenlet is not None and not self._is_over


class MainThread(Thread):
    """That of the test, which acts in one process after the other."""

    def __init__(self, run):
        super().__init__(name="the test", run=run)
        self.greenlet = schedule().greenlet


class Timer(Thread):
    def __init__(self, interval, function, args=(), kwargs=None):
        super().__init__(function, args, kwargs, name=f"a timer of {getattr(function, '__name__', function)}")
        self._interval, self._alarm = interval, None

    def start(self):
        plan = schedule()
        self._alarm = plan.at(plan.now_s + self._interval, self._ring)

    def _ring(self):
        if not self.is_dead:
            super().start()

    def cancel(self):
        if self._alarm is not None:
            self._alarm.cancelled = True


# Waiting for each other ----------------------------------------------------------------------------------------------


def wait_among(waiting, what, timeout=None):
    """Wait until somebody wakes this thread, or all that wait here. Returns False if nobody does so in time."""
    plan = schedule()
    if timeout is not None and timeout <= 0:
        plan.breathe()
        return False
    thread = plan.current
    waiting.append(thread)
    try:
        return plan.park(what, timeout)
    finally:
        if thread in waiting:
            waiting.remove(thread)


def wake_all(waiting):
    """Let all go on."""
    while waiting:
        wake_one(waiting)


def wake_one(waiting):
    """Let the one go on that has waited longest."""
    while waiting:
        thread = waiting.pop(0)
        if thread.ticket is not None:  # otherwise its time is over, and it goes on anyway
            schedule().wake(thread, thread.ticket)
            return


class Lock:
    """`holder` is the thread that has it."""

    def __init__(self):
        self.holder = None
        self._waiting = []

    def acquire(self, blocking=True, timeout=-1):
        while self.holder is not None:
            if not blocking:
                return False
            if not wait_among(self._waiting, f"a lock of {self.holder.name}", None if timeout < 0 else timeout):
                return False
        self.holder = schedule().current
        return True

    def release(self):
        assert self.holder is not None or schedule().closed, "it is not held"
        self.holder = None
        wake_one(self._waiting)

    def locked(self):
        return self.holder is not None

    def __enter__(self):
        if self.holder is None:
            self.holder = schedule().current
        else:
            self.acquire()
        return True

    def __exit__(self, *_):
        self.release()


class RLock(Lock):
    def __init__(self):
        super().__init__()
        self.depth = 0

    def acquire(self, blocking=True, timeout=-1):
        if self.holder is not schedule().current and not super().acquire(blocking, timeout):
            return False
        self.depth += 1
        return True

    def release(self):
        assert self.holder is schedule().current or schedule().closed, "another thread has it"
        self.depth -= 1
        if not self.depth:
            super().release()

    def __enter__(self):
        return self.acquire()


class Condition:
    def __init__(self, lock=None):
        self._lock = lock or RLock()
        self._waiting = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *_):
        self._lock.release()

    def wait(self, timeout=None):
        lock = self._lock
        assert lock.holder is schedule().current or schedule().closed, "who waits has the lock"
        depth = getattr(lock, "depth", None)
        if depth:
            lock.depth = 1
        lock.release()
        try:
            return wait_among(self._waiting, "news", timeout)
        finally:
            if not schedule().closed:
                lock.acquire()
                if depth:
                    lock.depth = depth

    def wait_for(self, predicate, timeout=None):
        plan = schedule()
        until_s = None if timeout is None else plan.now_s + timeout
        while not (result := predicate()):
            left_s = None if until_s is None else until_s - plan.now_s
            if left_s is not None and left_s <= 0:
                break
            self.wait(left_s)
        return result

    def notify(self, n=1):
        for _ in range(n):
            wake_one(self._waiting)

    def notify_all(self):
        wake_all(self._waiting)


class Event:
    def __init__(self):
        self._set, self._waiting = False, []

    def is_set(self):
        return self._set

    def set(self):
        self._set = True
        wake_all(self._waiting)

    def clear(self):
        self._set = False

    def wait(self, timeout=None):
        if not self._set:
            wait_among(self._waiting, "an event", timeout)
        return self._set


class SimpleQueue:
    def __init__(self):
        self._items, self._waiting = deque(), []

    def put(self, item):
        self._items.append(item)
        wake_one(self._waiting)

    def get(self, block=True, timeout=None):
        plan = schedule()
        until_s = None if timeout is None else plan.now_s + timeout
        while not self._items:
            left_s = None if until_s is None else until_s - plan.now_s
            if not block or (left_s is not None and left_s <= 0):
                raise queue.Empty
            wait_among(self._waiting, "an item", left_s)
        return self._pop()

    def _pop(self):
        return self._items.popleft()

    def get_nowait(self):
        return self.get(block=False)

    def empty(self):
        return not self._items

    def qsize(self):
        return len(self._items)


class PriorityQueue(SimpleQueue):
    def _pop(self):
        smallest = min(self._items)
        self._items.remove(smallest)
        return smallest


class Future:
    def __init__(self):
        self._done, self._result, self._error = Event(), None, None

    def done(self):
        return self._done.is_set()

    def set_result(self, result):
        self._result = result
        self._done.set()

    def set_exception(self, error):
        self._error = error
        self._done.set()

    def result(self, timeout=None):
        if not self._done.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._result


class Local:
    """Attributes of each thread."""

    def __getattribute__(self, name):
        own = schedule().current.locals.setdefault(id(self), {})
        if name == "__dict__":
            return own
        try:
            return own[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        schedule().current.locals.setdefault(id(self), {})[name] = value


class StandIn:
    """In place of a module: what is not here is the module's own."""

    def __init__(self, module, **own):
        self.__dict__.update(own)
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)


def _sleep(seconds):
    plan = schedule()
    if seconds <= 0:
        plan.breathe()
    else:
        plan.park("a while", seconds)


def _now_s():
    return schedule().now_s


def stand_in_for(threading):
    return StandIn(
        threading,
        Thread=Thread,
        Timer=Timer,
        Lock=Lock,
        RLock=RLock,
        Condition=Condition,
        Event=Event,
        local=Local,
        get_ident=lambda: id(schedule().current),
        current_thread=lambda: schedule().current,
    )


QUEUE = StandIn(queue, SimpleQueue=SimpleQueue, Queue=SimpleQueue, PriorityQueue=PriorityQueue)
TIME = StandIn(
    time,
    monotonic=_now_s,
    perf_counter=_now_s,
    time=lambda: EPOCH_S + schedule().now_s,
    time_ns=lambda: int((EPOCH_S + schedule().now_s) * 1e9),
    monotonic_ns=lambda: int(schedule().now_s * 1e9),
    sleep=_sleep,
)
