"""A system that goes back to its snapshots, on the fake: a real driver, and others as simple as can be.

The test says when an actor handles a message, when a snapshot is durable, when the system goes back, and when the
driver hears of it. The rest are events of the fake.
"""

import copy
from contextlib import contextmanager

import msgpack
import pytest

import rayshot
from rayshot.errors import SystemStopped
from rayshot.format.codec import CALL, CREATE, END, Frame, split_frame
from rayshot.model.handle import ActorHandle
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.recovery_events import Evicted
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import actor_name, coordinator_name
from rayshot.runtime.door.roster import Roster
from rayshot.runtime.driver import eviction, maker, session, succession
from rayshot.runtime.opening import ports
from rayshot.runtime.wire.host_identity import Ending, HostIdentity
from rayshot.runtime.wire.notifications import Covered, WentBack
from rayshot.runtime.wire.packets import PacketAnswer, Status, pack, pack_answer, unpack, unpack_packet
from tests.fake.door import fake
from tests.fake.schedule import Choices
from tests.fake.threads import Condition, Event, Present

PENDING = object()
DIED = door.Died
GROUPS = {"calls": 64, "control": 1, "watch": 1}


@rayshot.actor
class Thing:
    def __init__(self, number):
        pass

    def take(self, *values):
        pass


class Process:
    """What an actor is in one life. `history` has what it handled; messages of the driver up to `arrived` came."""

    def __init__(self, life):
        self.life = life
        self.arrived = 0
        self.early = {}
        self.mailbox = []
        self.handled = 0
        self.outcomes, self.carried = {}, {}
        self.has_ended = False

    def restored(self, life):
        process = copy.deepcopy(self)
        process.life, process.early = life, {}
        return process


class Host:
    """`process` is None while the system goes back, and where the actor is of no use.

    A host that goes back in its place carries over the outcomes that its snapshot holds and that nobody has fetched;
    maybe nobody will. While it `holds`, it gives no outcomes; who fetches one gets an error if one is `lost`.
    """

    holds, lost = False, None

    def __init__(self, name, life):
        self.world = Present.cluster.world
        self.name, self.process = name, None
        self.unfetched, self.fetches = {}, []
        self.changed = Condition()
        self.world.joins(self, life)

    @property
    def alive(self):
        return not self.run.is_dead

    @door.method("control")
    def receive(self, packet):
        process, world = self.process, self.world
        batch, _, body = unpack_packet(packet)
        if process is None or batch.incarnation != process.life:
            return pack_answer(PacketAnswer(Status.STOPPED, 0, detail="another life"))
        if process.has_ended:
            return pack_answer(PacketAnswer(Status.ENDED, 0, detail="it ended"))
        process.early.update(enumerate(split_frame(Frame(batch.first, batch.count, bytes(body))), batch.first))
        while (message := process.early.pop(process.arrived + 1, None)) is not None:
            process.arrived += 1
            process.mailbox.append((process.arrived, message))
            world.check_mentions(message)
        process.early = {number: kept for number, kept in process.early.items() if number > process.arrived}
        world.taken.append((self.name, batch))
        return pack_answer(PacketAnswer(Status.TAKEN, process.handled, tuple(world.recorded)))

    receive_with = probe = receive

    @door.method("calls", results=2)
    def result(self, call, *_gates):
        return self._outcome(call)

    @door.method("calls")
    def answered(self, call):
        return self._outcome(call)[0]

    def _outcome(self, call):
        _, call_id, *_ = unpack(call)
        assert call_id not in self.fetches, f"call {call_id} to {self.name} is fetched twice at a time"
        self.fetches.append(call_id)
        with self.changed:
            while True:
                process = None if self.holds else self.process
                if self.lost is not None:
                    self.fetches.remove(call_id)
                    lost, self.lost = self.lost, None
                    raise lost
                for outcomes in () if process is None else (process.outcomes, process.carried):
                    if call_id in outcomes:
                        self.fetches.remove(call_id)
                        return pack((process.life, tuple(self.world.recorded), False, b"")), outcomes.pop(call_id)
                if process is not None and process.has_ended:
                    self.fetches.remove(call_id)
                    return pack((process.life, (), False, b"")), DIED()
                self.changed.wait()

    def settle(self):
        """There may be outcomes for those who fetch them."""
        with self.changed:
            self.changed.notify_all()

    def handle_next(self):
        """Handle one message."""
        number, message = self.process.mailbox.pop(0)
        self.process.handled = number
        kind, *rest = read(message)
        self.world.history.append((self.name, number, message))
        if kind == CALL:
            self.process.outcomes[rest[0]] = read(rest[1])[1]
        if kind == END:
            self.end()
        self.settle()

    def end(self):
        """The actor ends."""
        self.process.has_ended = True
        self.process.mailbox.clear()
        self.world.ended.add(self.name)

    @door.method("control", again=True)
    def hello(self):
        return None

    @door.method("control")
    def await_credit(self, _sender, _wanted):
        return self.process.handled if self.process else 0

    @door.method("watch")
    def watch(self):
        Event().wait()


class Coordinator:
    """Says what the test wants to be said."""

    def __init__(self):
        self.world = Present.cluster.world

    @door.method("control")
    def fate(self, name, life):
        world = self.world
        if not world.running or life != world.life:
            return None
        assert name in world.ended or name not in world.hosts, f"{name} lives"
        return Ending(f"actor {name!r} ended" if name in world.ended else f"there is no actor {name!r}")

    @door.method("control")
    def is_there(self, name):
        return None if name not in self.world.hosts else name not in self.world.ended

    @door.method("calls")
    def news(self, name, life, position, _followed):
        return self._asked(self.world.polls, (life, position))

    @door.method("calls")
    def evict(self, name, life, sent, received, owed):
        return self._asked(self.world.asked, Evicted(life, name, sent, received, owed=owed))

    @staticmethod
    def _asked(questions, question):
        told = Event()
        questions.append((question, told))
        told.wait()
        if isinstance(told.answer, Exception):
            raise told.answer
        return told.answer

    @door.method("control")
    def followed(self, name, life):
        assert life <= self.world.life, f"{name} has told again in life {life}"

    @door.method("control")
    def watch_driver(self, *_):
        pass

    @door.method("watch")
    def stay(self):
        Event().wait()


def answer(question, value):
    """Answer one that waits."""
    _, told = question
    told.answer = value
    told.set()


def read(message):
    """The fields of an encoded message; a handle is an actor's name."""
    return msgpack.unpackb(message, ext_hook=lambda _code, data: data.decode(), strict_map_key=False)


def outcome(reference):
    """The outcome of a call, or its error; PENDING if it is not there."""
    return reference.value.result() if reference.value.is_there else PENDING


class Snapshot:
    """A snapshot, at `position` in the log if it is durable. It is taken in one moment."""

    def __init__(self, world, position):
        self.position, self.life = position, world.life
        self.id = SnapshotId(world.life, COORDINATOR, position)
        self.processes = {name: copy.deepcopy(host.process) for name, host in world.hosts.items()}
        self.history, self.ended = list(world.history), frozenset(world.ended)

    @property
    def numbers(self):
        """Up to which numbers the driver's messages arrived, up to which they are processed, and who has ended."""
        living = {name: process for name, process in self.processes.items() if name not in self.ended}
        sent = {name: process.arrived for name, process in living.items()}
        return sent, {name: process.handled for name, process in living.items()}, self.ended


@contextmanager
def going_back(*names, choices=(), heals=True):
    """A system with these actors."""
    with fake(choices) as cluster, pytest.MonkeyPatch.context() as patch:
        for module, pause in ((eviction, "PAUSE_S"), (session, "RECOVERY_WAIT_S"), (succession, "RETURN_S")):
            patch.setattr(module, pause, 0.0)  # what waits here waits for itself
        world = World(cluster, patch, *names, heals=heals)
        yield world
        world.close()


class World:
    """See the module. `hosts` has the present host of each actor.

    `asked` are the driver's questions whether it may evict of something. `demand` is what it may have evicted, and
    what no durable snapshot holds.
    """

    def __init__(self, cluster, patch, *names, heals):
        self.cluster, self.events = cluster, cluster.schedule.events
        cluster.world = self
        self.history, self.ended = [], set()
        self.taken, self.recorded, self.polls, self.spawned = [], [], [], []
        self.asked, self.demand = [], None
        self.life, self.running, self.position = 1, True, 0
        self.hosts = {}
        self.handles_of_hosts = {}
        self.heals = heals
        self.coordinator = door.make(Coordinator, GROUPS, coordinator_name("system"))
        patch.setattr(maker, "spawn_host", self.spawn)
        for name in names:
            self.make(name)
        cluster.settle()
        self.committed = Snapshot(self, 0)
        self.port = ports.begin(self.identity())
        self.session = self.port.session
        cluster.settle()

    def identity(self):
        return HostIdentity("system", self.life, "driver", self.coordinator, "", 60.0, 1 << 30, heals=self.heals)

    def handle(self, name):
        return ActorHandle("system", name, None, self.port)

    def close(self):
        """The system ends: nothing waits for it any more, also where a program has dropped its last handle."""
        self.port.close(SystemStopped("the test has ended", system="system"))

    # What happens ----------------------------------------------------------------------------------------------

    def happen(self, index=0):
        self.cluster.schedule.happen(index)

    def settle(self, rounds=10_000):
        """Let everything happen that can, in order, with the news."""
        self.cluster.schedule.choose = Choices()
        for _ in range(rounds):
            if self.events:
                self.happen()
            elif busy := [host for host in self.hosts.values() if host.process and host.process.mailbox]:
                busy[0].handle_next()
            elif not self.tell_news():
                return
        raise AssertionError("it does not come to rest")

    def check_mentions(self, message):
        """An actor that a message mentions has taken its creation, if the driver makes it."""
        kind, *rest = read(message)
        for name in rest[1:] if kind == "take" else ():
            made = {of for _, of in self.spawned}
            host = self.hosts.get(name)
            assert name not in made or (host is not None and host.process.arrived), f"{name} is mentioned and not there"

    # Hosts -----------------------------------------------------------------------------------------------------

    def make(self, name, life=None):
        """Make the process of an actor."""
        life = life or self.life
        return door.make(Host, GROUPS, actor_name("system", life, name), name, life)

    def spawn(self, _class, identity, _specification, name, *, maker):
        assert maker == self.port.name
        self.spawned.append((identity.incarnation, name))
        return self.make(name, identity.incarnation)

    def joins(self, host, life):
        """A host was made; in another life it is of no use."""
        host.run = self.cluster.here
        if life == self.life and self.running:
            assert host.name not in self.hosts, f"{host.name} is made twice in life {life}"
            self.hosts[host.name], host.process = host, Process(life)
        else:
            self.cluster.die(host.run.process)

    # The coordinator -------------------------------------------------------------------------------------------

    def tell_news(self):
        """Answer the driver's long call, if there is news. Returns whether there was."""
        if not self.polls:
            return False
        assert len(self.polls) == 1, "the driver asks for news twice at a time"
        (((life, position), _),) = self.polls
        news = None
        if self.running and life != self.life:
            news = WentBack(self.identity(), self.epoch, *self.origin.numbers)
        elif self.committed.life == life and self.committed.position > position:
            news = Covered(self.committed.position, self.committed.id, *self.committed.numbers)
        if news is None:
            return False
        answer(self.polls.pop(), news)
        return True

    def answer_eviction(self, may=True):
        """Answer the driver's first question whether it may evict of something."""
        question = self.asked.pop(0)
        may = may and self.running and question[0].life == self.life
        if may:
            self.demand = question[0].and_before(self.demand)
        answer(question, may)

    @property
    def can_roll_back(self):
        """Whether the last snapshot holds all that the driver evicted."""
        return self.demand is None or self.demand.is_held(*self.committed.numbers)

    def commit(self, taken=None):
        """A snapshot is taken and durable; or one that was `taken` before is durable, if it is still of use."""
        if self.running and (taken is None or taken.life == self.life):
            self.position += 1
            self.committed = taken or Snapshot(self, self.position)
            self.committed.position = self.position
            if self.can_roll_back:
                self.demand = None

    def stop(self):
        """A life is over: no handler runs any more."""
        self.running = False
        for host in self.hosts.values():
            host.unfetched = host.process.outcomes | host.process.carried
            host.process = None

    def begin(self, *lost):
        """The next life begins, with new processes in the place of those that were `lost`."""
        assert self.can_roll_back, "what the driver evicted would be lost"
        self.demand = None
        self.life += 1
        self.epoch = self.position = self.position + 1
        self.origin = self.committed
        self.running = True
        self.history[:], self.ended = self.committed.history, set(self.committed.ended)
        for name, host in list(self.hosts.items()):
            if name not in self.committed.processes or name in lost:
                self.cluster.die(host.run.process)
                del self.hosts[name]
        roster = Roster("system", self.life)
        for name, process in self.committed.processes.items():
            if name not in self.hosts:
                self.bring_back(name)
            host = self.hosts[name]
            self.cluster.notes[roster._before + name] = host.run.process.name.encode()
            host.process = process.restored(self.life)
            there = (process.outcomes | process.carried).keys() & host.unfetched
            host.process.outcomes, host.process.carried = {}, {key: host.unfetched[key] for key in there}
            host.settle()

    def bring_back(self, name):
        """Make a process in the place of one that was lost. It is there at once: a life begins when all are loaded."""
        self.cluster.start_now(Host, GROUPS, actor_name("system", self.life, name), name, self.life)

    def roll_back(self, *lost):
        self.stop()
        self.begin(*lost)

    def handled(self, name):
        """The messages that an actor has handled in the life that survives, in order."""
        return [read(message) for actor, _, message in self.history if actor == name]

    def contents(self, name):
        """What these messages carry."""
        return [content(message) for message in self.handled(name)]


def content(message):
    """What a message carries: a number that no other message has; the order to end."""
    kind, *rest = message
    if kind == END:
        return "end"
    return read(rest[-1])[1] if kind in (CALL, CREATE) else rest[0] if kind == "take" else message
