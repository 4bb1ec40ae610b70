"""Processes of the fake: Ray actors with names, and programs. Handles, by which others call them."""

from collections import deque
from itertools import count
from types import SimpleNamespace

from rayshot.runtime.door import door
from tests.fake.call import Call, marks_of
from tests.fake.globals import new_globals
from tests.fake.reference import unpacked
from tests.fake.threads import Present, Thread, schedule

_numbers = count(1)
MAKING, ALIVE, RESTARTING, DEAD = "making", "alive", "restarting", "dead"


class Group:
    """The threads on which some methods run. When all are busy, calls wait in line."""

    def __init__(self, limit):
        self.limit, self.running, self.queue = limit, 0, deque()


class Run:
    """A process from its start to its death. Nothing of it runs behind that, not even a `finally`.

    While it `is_stopped`, as after SIGSTOP, its threads are `postponed`. `callers` have a connection to it, and
    calls of others are `connecting`.
    """

    def __init__(self, process, node, number):
        self.process, self.node, self.number = process, node, number
        self.worker = f"{next(_numbers):056x}"
        self.is_dead = self.is_stopped = False
        self.postponed, self.connecting, self.callers = [], [], set()
        self.instance = None
        self.threads = {}
        self.groups = {name: Group(limit) for name, limit in process.groups.items()}
        self.globals = new_globals()
        self._calling_back, self._callbacks = None, deque()

    def enter(self):
        """What is a global of a process is that of this one from now on."""
        self.globals.install()

    # Threads ---------------------------------------------------------------------------------------------------

    def start(self, work, name, *, now=False):
        thread = Thread(work, name=f"{name} of {self.process}", run=self)
        thread.begin() if now else thread.start()

    def call_back(self, work):
        """Run this some time on the one thread for callbacks. If that waits, all others wait behind it."""
        schedule().later(lambda: self._call_back(work))

    def _call_back(self, work):
        if self.is_dead:
            return
        if self._calling_back is not None:
            self._callbacks.append(work)
            return

        def calling_back():
            try:
                work()
            finally:
                if not schedule().closed:
                    self._calling_back = None
                    if self._callbacks:
                        self.call_back(self._callbacks.popleft())

        self._calling_back = Thread(calling_back, name=f"the callbacks of {self.process}", run=self)
        self._calling_back.begin()

    # Calls -----------------------------------------------------------------------------------------------------

    def take(self, call, attempt):
        """Run a call as soon as its group has a thread."""
        group = self.groups[call.marks.group]
        group.queue.append((call, attempt))
        if group.running < group.limit:
            group.running += 1
            self._take_next(group)

    def _take_next(self, group):
        call, attempt = group.queue.popleft()
        self.start(lambda: self._work(group, call, attempt), f"{call.marks.name}()")

    def _work(self, group, call, attempt):
        call.execute(self.instance, attempt)
        if group.queue:
            self._take_next(group)
        else:
            group.running -= 1

    def full_groups(self):
        """For whoever looks for the reason of a deadlock."""
        return [f"{len(one.queue)} calls wait for {name}" for name, one in self.groups.items() if one.queue]


class Process:
    """A Ray actor, or a program: what lasts if it is started again."""

    def __init__(self, cluster, kind, name, *, groups=None, data=None, restarts=False, node=None, is_worker=True):
        self.cluster, self.kind, self.name = cluster, kind, name
        self.groups, self.data, self.restarts = groups or {}, data, restarts
        self.number = next(_numbers)
        self.node, self.is_worker = node, is_worker
        self.state = MAKING
        self.away_at = None
        self.why = self.failure = None
        self.calls = {}
        """Those that are not answered, in order."""
        self.waiting = []
        """Those that came before it runs."""
        self.run = None
        self.runs = []

    def __repr__(self):
        return self.name

    @property
    def works(self):
        """Whether it takes calls."""
        return self.state == ALIVE and not self.run.is_dead

    @property
    def is_away(self):
        """Whether it died, and is started again."""
        return self.state == RESTARTING

    @property
    def is_gone(self):
        """Whether it is dead for ever, and everybody may know."""
        return self.state == DEAD

    def death(self):
        """The error of a call to it."""
        if self.failure is not None:
            return self.failure()
        error = door.Died()
        error.error_msg = f"The actor is dead because {self.why}"
        return error

    def start(self, *, now=False):
        node = self.node or self.cluster.node_for(self)
        self.run = Run(self, node, len(self.runs))
        self.runs.append(self.run)
        if self.kind is None:
            self.state = ALIVE
        else:
            self.run.start(self._construct, "the constructor", now=now)

    def _construct(self):
        run = self.run
        instance = self.kind.__new__(self.kind)
        try:
            args, kwargs = unpacked(self.data)
            instance.__init__(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - as any constructor; Ray starts it again or not
            self.failure = Call.failure("__init__", error)
            self.cluster.note_defect(error)
            self.cluster.die(self, restart=False)
            return
        if run.is_dead:
            return  # it ended itself
        run.instance, self.state = instance, ALIVE
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call.arrive()


class Handle:
    """A process as others call it."""

    def __init__(self, number):
        self._actor_id = _Id(number.to_bytes(16, "big"))
        self._number = number

    @property
    def process(self):
        return Present.cluster.processes[self._number]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        marks = marks_of(self.process.kind).get(name)
        if marks is None:
            raise AttributeError(name)
        return SimpleNamespace(remote=lambda *args, **kwargs: Call.make(self.process, marks, args, kwargs))

    def __reduce__(self):
        return Handle, (self._number,)

    def __eq__(self, other):
        return isinstance(other, Handle) and other._number == self._number

    def __hash__(self):
        return hash(self._number)

    def __repr__(self):
        return f"Handle({self.process})"


class _Id(bytes):
    """The id of an actor."""
