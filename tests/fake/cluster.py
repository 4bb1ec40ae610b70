"""A cluster without Ray: nodes, processes with names, notes, and what happens on the way from one to another.

It says what Ray says: see `door`. Tests choose what gets lost, who dies, and when.
"""

import logging
from collections import Counter

from rayshot.runtime.door import door
from tests.fake.globals import globals_now
from tests.fake.process import ALIVE, DEAD, MAKING, RESTARTING, Handle, Process
from tests.fake.reference import Reference, Value, await_values, packed
from tests.fake.schedule import Schedule
from tests.fake.threads import MainThread, Present


class Cluster:
    """See the module. `program` is the process in which the test acts, unless it says otherwise, see `act_as`.

    A fate is "arrives", "lost" or "twice", for an answer "arrives" or "lost". The first one counts where the choices
    have ended. Where `faulty` names methods, calls of others arrive. A process dies that passes one of the
    `failpoints` so many times. `withheld` has lists by the names of methods: answers wait in these until the test calls
    them. Errors of threads and callbacks, and assertions anywhere, are raised where the test waits.
    """

    def __init__(self, choices=(), *, nodes=1, hasty_s=0.0):
        assert Present.cluster is None, "there is one cluster at a time"
        Present.cluster = self
        self.schedule = Schedule(choices, hasty_s=hasty_s)
        self.schedule.who_waits = self._who_waits
        self.nodes = [f"{number:056x}" for number in range(1, nodes + 1)]
        self.dead_nodes, self.draining = set(), {}
        self.processes, self.named, self.values = {}, {}, {}
        self.notes = {}
        self.fates_of_calls = self.fates_of_answers = ("arrives",)
        self.faulty = None
        self.failpoints = {}
        self.withheld = {}
        self.counts = Counter()
        """How often each method was called."""
        self.begins_thread = lambda _thread: None
        """Called on each thread, first of all."""
        self._placed = 0
        self._before = globals_now()
        self.program = self.new_program("the test's program")
        self.schedule.main = self.schedule.current = MainThread(self.program.run)
        self.program.run.enter()

    def close(self):
        """The test is over: what the dead left behind goes away."""
        plan = self.schedule
        plan.closed = True
        logging.disable()  # threads that end say why, and nobody wants to know
        for process in self.processes.values():
            for run in process.runs:
                for thread in list(run.threads):
                    if thread.greenlet and not thread.greenlet.dead:
                        plan.current = thread
                        thread.greenlet.throw()
        logging.disable(logging.NOTSET)
        plan.current = plan.main
        Present.cluster = None
        self._before.install()

    def _who_waits(self):
        waiting = [
            f"{thread.name} for {thread.waits_for}"
            for process in self.processes.values()
            if process.run
            for thread in process.run.threads
            if thread.waits_for
        ]
        full = [
            f"at {process} {text}"
            for process in self.processes.values()
            if process.run
            for text in process.run.full_groups()
        ]
        return "; ".join([*full, *waiting]) or "nobody else waits"

    # Time ------------------------------------------------------------------------------------------------------

    def settle(self):
        """All happens that needs no time."""
        self.schedule.settle()

    def until(self, is_so, within_s=600.0):
        """Let happen what does, until this is so."""
        plan = self.schedule
        until_s = plan.now_s + within_s
        while not is_so():
            assert plan.now_s < until_s, f"it is not so after {within_s:g} s; {self._who_waits()}"
            assert plan.step(until_s), f"nothing can happen, and it is not so; {self._who_waits()}"

    def note_defect(self, error):
        """A process has raised this, and another one hears of it. If it is a mistake, it does not end there."""
        if isinstance(error, AssertionError | AttributeError | LookupError | TypeError):
            self.schedule.failures.append(error)

    def fate_of_call(self, call):
        """What happens to a call on its way."""
        return self._fate(self.fates_of_calls, call)

    def fate_of_answer(self, call):
        """What happens to its answer."""
        return self._fate(self.fates_of_answers, call)

    def _fate(self, fates, call):
        if self.faulty is not None and call.marks.name not in self.faulty:
            return "arrives"
        return fates[self.schedule.choose(len(fates))]

    def bring(self, call, answer):
        """The answer to a call is on its way."""
        withheld = self.withheld.get(call.marks.name)
        self.schedule.later(answer) if withheld is None else withheld.append(answer)

    # Processes -------------------------------------------------------------------------------------------------

    @property
    def here(self):
        """The process that acts now."""
        return self.schedule.current.run

    def node_for(self, _process):
        """The node where a process is started that may be anywhere."""
        living = [node for node in self.nodes if node not in self.dead_nodes]
        self._placed += 1
        return living[self._placed % len(living)]

    def new_program(self, name, node=None):
        """A program: a process that nobody calls."""
        program = Process(self, None, name, is_worker=False, node=node or self.nodes[0])
        self.processes[program.number] = program
        program.start()
        return program

    def act_as(self, program):
        """From now on the test acts as this program."""
        main = self.schedule.main
        main.run = program.run
        main.locals = {}
        main.enter()

    def make(self, kind, groups, name, *args, restarts=False, node=None, get_if_exists=False, **_options):
        """See `door.make`."""
        self.schedule.breathe()
        if (known := self.named.get(name)) is not None:
            if get_if_exists:
                return Handle(known.number)
            raise door.NameUsed(f"there is a process {name}")
        process = self._named_process(kind, groups, name, args, restarts=restarts, node=node)
        self.schedule.later(lambda: self._begin(process))
        return Handle(process.number)

    def _named_process(self, kind, groups, name, args, **settings):
        process = Process(self, kind, name, groups=dict(groups), data=packed((args, {})), **settings)
        self.processes[process.number] = self.named[name] = process
        return process

    def start_now(self, kind, groups, name, *args):
        """A process that is there at once, for tests that leave out how it is made. Its constructor must not wait."""
        process = self._named_process(kind, groups, name, args)
        process.start(now=True)
        assert process.works, f"the constructor of {process} waits"
        return Handle(process.number)

    def _begin(self, process):
        if process.state in (MAKING, RESTARTING) and (process.run is None or process.run.is_dead):
            if process.node in self.dead_nodes:
                return  # it waits for its node
            process.start()

    def process_of(self, handle):
        return self.processes[handle._number]

    def kill(self, handle, *, no_restart=True):
        """See `door.kill`."""
        self.die(self.process_of(handle), restart=not no_restart)

    def die(self, process, *, restart=True, why="it was killed"):
        """A process dies at once. Others hear of it some time."""
        run, comes_back = process.run, process.restarts and restart
        if process.state == DEAD or (comes_back and (run is None or run.is_dead)):
            return  # nothing of it runs
        if run is not None:
            run.is_dead = True
        process.why = why
        self.schedule.later(lambda: self._heard(process, run, comes_back=comes_back))

    def _heard(self, process, run, *, comes_back):
        """Ray hears of a death: the name is free or the process starts again, and calls fail."""
        if process.state == DEAD or process.run is not run:
            return
        if comes_back:
            process.state, process.away_at = RESTARTING, self.schedule.now_s
            self.schedule.later(lambda: self._begin(process))
        else:
            process.state = DEAD
            if self.named.get(process.name) is process:
                del self.named[process.name]
        for call in list(process.calls):
            call.process_died(comes_back=comes_back)
        if run is not None:
            for value in [value for value in self.values.values() if value.owner is run]:
                self.schedule.later(value.owner_died)

    def go_on(self, run):
        """A process goes on that was stopped: it stood still, and was not dead."""
        run.is_stopped = False
        for thread in run.postponed:
            self.schedule.later(lambda thread=thread: None if thread.is_dead else self.schedule.run(thread))
        for call in run.connecting:
            self.schedule.later(call.arrive)
        run.postponed, run.connecting = [], []

    def end_here(self):
        """The process that acts now ends itself."""
        self.die(self.here.process)
        self.schedule.breathe()

    def die_with_node(self, node):
        """A node is gone, with all its processes."""
        self.dead_nodes.add(node)
        for process in list(self.processes.values()):
            if process.run is not None and process.run.node == node:
                self.die(process, why="its node is gone")

    def failpoint(self, name):
        """See `failpoints`."""
        if name in self.failpoints:
            self.failpoints[name] -= 1
            if not self.failpoints[name]:
                self.end_here()

    # Answers and objects ---------------------------------------------------------------------------------------

    def get(self, references, *, timeout=None):
        """See `door.get`."""
        several = references if isinstance(references, list) else [references]
        values = [one.value for one in several]
        await_values(values, len(values), timeout)
        found = []
        for value in values:
            if not value.is_there:
                raise door.TimedOut(f"no answer within {timeout} s")
            result = value.result()
            if isinstance(result, door.CallFailed):
                raise result.as_instanceof_cause() if isinstance(result, door.Raised) else result
            found.append(result)
        return found if several is references else found[0]

    def wait(self, references, *, num_returns=1, timeout=None, fetch_local=True):
        """See `door.wait`."""
        await_values([one.value for one in references], num_returns, timeout)
        ready = [one for one in references if one.value.is_there][:num_returns]
        return ready, [one for one in references if one not in ready]

    def put(self, value):
        """See `door.put`."""
        made = Value(self.here, object())
        made.settle(packed(value))
        return Reference(made, self.here)

    @staticmethod
    def when_answered(reference, tell):
        """See `door.when_answered`."""
        reference.when_there(tell)

    @staticmethod
    def when_there(reference, tell):
        """See `door.when_there`."""
        reference.when_there(lambda result: tell(result if isinstance(result, Exception) else None))

    @staticmethod
    def known_size(references):
        """See `door.known_size`."""
        return sum(len(one.value.data or b"") for one in references)

    # What Ray's control service knows --------------------------------------------------------------------------

    def find(self, name):
        """See `door.find`."""
        self.schedule.breathe()
        if name not in self.named:
            raise ValueError(f"there is no process {name}")
        return Handle(self.named[name].number)

    def names(self):
        """See `door.names`."""
        self.schedule.breathe()
        return list(self.named)

    def write_note(self, key, data):
        """See `door.write_note`."""
        self.schedule.breathe()
        self.notes[key] = data

    def read_note(self, key):
        """See `door.read_note`."""
        self.schedule.breathe()
        return self.notes.get(key)

    def note_keys(self, before):
        """See `door.note_keys`."""
        self.schedule.breathe()
        return [key for key in self.notes if key.startswith(before)]

    def remove_note(self, key):
        """See `door.remove_note`."""
        self.schedule.breathe()
        self.notes.pop(key, None)

    def remove_notes(self, before):
        """See `door.remove_notes`."""
        self.schedule.breathe()
        for key in [key for key in self.notes if key.startswith(before)]:
            del self.notes[key]

    def actor_id(self, handle):
        """See `state.actor_id`."""
        return handle._actor_id.hex()

    def actors_in_the_making(self):
        """See `state.actors_in_the_making`."""
        return {Handle(one.number)._actor_id.hex() for one in self.processes.values() if one.state == MAKING}

    def was_just_away(self, handle, within_s):
        """See `state.was_just_away`."""
        process = self.process_of(handle)
        away_at = process.away_at
        return process.is_away or (away_at is not None and self.schedule.now_s - away_at < within_s)

    def runs_here(self, handle):
        """See `state.runs_here`."""
        process = self.process_of(handle)
        return process.state == ALIVE and process.run.node == self.here.node

    def gone(self, places):
        """See `state.gone`."""
        dead = {run.worker for one in self.processes.values() for run in one.runs if run.is_dead}
        at = {name: place.decode().split("/") for name, place in places.items()}
        return [name for name, (worker, node) in at.items() if worker in dead or node in self.dead_nodes]
