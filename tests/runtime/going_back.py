"""A system that goes back to its snapshots, without Ray: a real driver, and actors as simple as can be.

The coordinator, the hosts and the calls between them are made here. Whatever takes time is an event in `World.events`,
and the test says which event comes next. Only the program may have threads of its own.
"""

import copy
import threading
from collections import deque
from types import SimpleNamespace

import msgpack

import rayshot
from rayshot.errors import SystemStopped
from rayshot.format.codec import CALL, CREATE, END, Frame, split_frame
from rayshot.model.handle import ActorHandle
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.recovering import LetGo
from rayshot.runtime.channel.peers import Peers
from rayshot.runtime.door import door, here
from rayshot.runtime.driver import exit as driver_exit
from rayshot.runtime.driver import following, letting_go, maker, session, succession
from rayshot.runtime.driver import life as driver_life
from rayshot.runtime.opening import ports
from rayshot.runtime.wire.following import Covered, WentBack
from rayshot.runtime.wire.host_identity import Ending, HostIdentity
from rayshot.runtime.wire.packets import Answer, Status, pack, pack_answer, unpack, unpack_packet

PENDING = object()
ASKED = ("news", "fate", "followed", "let_go")
DIED = door.Died


@rayshot.actor
class Thing:
    def __init__(self, number):
        pass

    def take(self, *values):
        pass


class Ref:
    """A reference to the result of a Ray call; `task` is the same for all results of one call."""

    def __init__(self, world, task=None):
        self._world, self._task = world, task or object()
        self.value = PENDING
        self._callbacks = []
        self._lock = threading.Lock()

    def task_id(self):
        return self._task

    def set(self, value):
        assert self.value is PENDING, f"{self.value} and then {value}"
        with self._lock:
            self.value = value
        for callback in self._callbacks:
            self._world.later(callback, value)

    def _on_completed(self, callback):
        with self._lock:
            if self.value is PENDING:
                self._callbacks.append(callback)
                return
        self._world.later(callback, self.value)


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
        self.born = True

    def restored(self, life):
        process = copy.deepcopy(self)
        process.life, process.early = life, {}
        return process


class Host:
    """A Ray actor, also as its own Ray handle. `process` is None while the system goes back.

    A host that goes back in its place carries over the outcomes that its snapshot holds and that nobody has fetched;
    maybe nobody will.
    """

    def __init__(self, world, name, process):
        self._world, self.name, self.process = world, name, process
        self.alive = True
        self.unfetched = {}
        self.fetches = {}
        self.watches = []
        for method in (self.receive, self.result, self.answered, self.hello, self.await_credit, self.watch):
            setattr(self, method.__name__, SimpleNamespace(remote=method))
        self.receive_with = self.probe = SimpleNamespace(remote=None)

    def receive(self, packet):
        ref = Ref(self._world)
        self._world.later(self._take, packet, ref)
        return ref

    def _take(self, packet, ref):
        if not self.alive:
            ref.set(DIED())
            return
        process = self.process
        batch, body = unpack_packet(packet)
        if process is None or batch.incarnation != process.life:
            ref.set(pack_answer(Answer(Status.STOPPED, 0, detail="another life")))
        elif process.has_ended:
            ref.set(pack_answer(Answer(Status.ENDED, 0, detail="it ended")))
        else:
            messages = split_frame(Frame(batch.first, batch.count, bytes(body)))
            process.early.update(enumerate(messages, batch.first))
            while (message := process.early.pop(process.arrived + 1, None)) is not None:
                process.arrived += 1
                process.mailbox.append((process.arrived, message))
                self._world.check_mentions(message)
            process.early = {number: kept for number, kept in process.early.items() if number > process.arrived}
            self._world.taken.append((self.name, batch))
            recorded = tuple(self._world.recorded)
            ref.set(pack_answer(Answer(Status.TAKEN, process.handled, recorded)))

    def result(self, call, *_gates):
        task = object()
        life_and_tags, value = Ref(self._world, task), Ref(self._world, task)
        _, call_id, *_ = unpack(call)
        self._world.later(self._fetch, call_id, life_and_tags, value)
        return life_and_tags, value

    def answered(self, call):
        life_and_tags, _ = self.result.remote(call)
        return life_and_tags

    def _fetch(self, call_id, *refs):
        if not self.alive:
            fail(refs, DIED())
            return
        assert call_id not in self.fetches, f"call {call_id} to {self.name} is fetched twice at a time"
        self.fetches[call_id] = refs
        self.settle()

    def settle(self):
        """Give the outcomes to those who fetch them."""
        process = self.process
        if process is None:
            return
        for outcomes in (process.outcomes, process.carried):
            for call_id in self.fetches.keys() & outcomes:
                life_and_tags, value = self.fetches.pop(call_id)
                life_and_tags.set(pack((process.life, tuple(self._world.recorded))))
                value.set(outcomes.pop(call_id))
        if process.has_ended:
            for call_id in tuple(self.fetches):
                life_and_tags, value = self.fetches.pop(call_id)
                life_and_tags.set(pack((process.life, ())))
                value.set(DIED())

    def handle_next(self):
        """Handle one message."""
        number, message = self.process.mailbox.pop(0)
        self.process.handled = number
        kind, *rest = read(message)
        self._world.history.append((self.name, number, message))
        if kind == CALL:
            self.process.outcomes[rest[0]] = read(rest[1])[1]
        if kind == END:
            self.end()
        self.settle()

    def end(self):
        """The actor ends."""
        self.process.has_ended = True
        self.process.mailbox.clear()
        self._world.ended.add(self.name)

    def hello(self):
        ref = Ref(self._world)
        ref.set(None if self.alive else DIED())
        return ref

    def await_credit(self, _sender, _wanted):
        ref = Ref(self._world)
        self._world.later(lambda: ref.set(self.process.handled if self.process and self.alive else 0))
        return ref

    def watch(self):
        self.watches.append(Ref(self._world))
        if not self.alive:
            fail(self.watches[-1:], DIED())
        return self.watches[-1]

    def die(self):
        """Its process is killed."""
        self.alive = False
        for refs in self.fetches.values():
            fail(refs, DIED())
        self.fetches.clear()
        fail(self.watches, DIED())
        self.watches.clear()


def fail(refs, error):
    for ref in refs:
        ref.set(error)


def read(message):
    """The fields of an encoded message; a handle is an actor's name."""
    return msgpack.unpackb(message, ext_hook=lambda _code, data: data.decode(), strict_map_key=False)


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


class World:
    """See the module. `life` is None between two lives. `hosts` has the present Ray actor of each actor.

    `asked` are the driver's questions whether it may let go of something. `demand` is what it may have let go of, and
    what no durable snapshot holds.
    """

    def __init__(self, monkeypatch, *names, heals=True):
        self.events, self.history, self.ended = [], [], set()
        self.taken, self.recorded, self.polls, self.spawned = [], [], [], []
        self.asked, self.demand = [], None
        self.life, self.running, self.position = 1, True, 0
        self.lock = threading.Lock()  # a thread of the program may be making an actor
        self.hosts = {name: Host(self, name, Process(1)) for name in names}
        self.committed = Snapshot(self, 0)
        self.coordinator = SimpleNamespace(
            _actor_id=b"life",
            **{name: SimpleNamespace(remote=getattr(self, f"on_{name}")) for name in ASKED},
            stay=SimpleNamespace(remote=lambda: Ref(self)),
            watch_driver=SimpleNamespace(remote=lambda *_: None),
        )
        for verb in (get, wait, self.put, self.is_joined):
            monkeypatch.setattr(door, verb.__name__, verb)
        monkeypatch.setattr(session, "new_driver_name", lambda _label: "driver:1")
        monkeypatch.setattr(here, "place", lambda: b"here")
        monkeypatch.setattr(following, "FOLLOW_S", 0.0)  # what waits here waits for itself
        monkeypatch.setattr(Peers, "submit", lambda _peers, task: self.later(task))
        monkeypatch.setattr(Peers, "find", lambda peers, name: self.find(peers._incarnation, name))
        monkeypatch.setattr(Peers, "know", lambda *_: None)
        monkeypatch.setattr(letting_go, "PAUSE_S", 0.0)
        monkeypatch.setattr(session, "RECOVERY_WAIT_S", 0.0)
        monkeypatch.setattr(succession, "RETURN_S", 0.0)
        monkeypatch.setattr(driver_exit, "_sessions", set())  # the process that runs the tests waits for none of these
        monkeypatch.setattr(ports, "_begun", [])
        monkeypatch.setattr(ports, "_attached", {})
        monkeypatch.setattr(ports, "_heard", deque())
        monkeypatch.setattr(session, "find_coordinator", lambda _system: None)
        monkeypatch.setattr(driver_life, "is_there", lambda _identity, name: self.is_there(name))
        monkeypatch.setattr(maker, "spawn_host", self.spawn)
        self.heals = heals
        self.port = ports.begin(self.identity())
        self.session = self.port.session

    def identity(self):
        return HostIdentity("system", self.life, "driver", self.coordinator, "", 60.0, 1 << 30, heals=self.heals)

    def handle(self, name):
        return ActorHandle("system", name, None, self.port)

    def is_joined(self):
        return True

    def put(self, value):
        ref = Ref(self)
        ref.set(value)
        return ref

    def close(self):
        """The system ends: nothing waits for it any more, also where a program has dropped its last handle."""
        self.port.close(SystemStopped("the test has ended", system="system"))

    # Time ------------------------------------------------------------------------------------------------------

    def later(self, call, *arguments):
        self.events.append((call, arguments))

    def happen(self, index=0):
        call, arguments = self.events.pop(index)
        call(*arguments)

    def settle(self, rounds=10_000):
        """Let everything happen that can, in order, with the news."""
        for _ in range(rounds):
            if self.events:
                self.happen()
            elif busy := [host for host in list(self.hosts.values()) if host.process and host.process.mailbox]:
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

    def find(self, life, name):
        host = self.hosts.get(name)
        if host is None and (life, name) in self.spawned and life != self.life:
            host = Host(self, name, None)  # its life is over, so it could not join
            host.die()
        return host

    def spawn(self, _class, identity, _specification, name, *, maker):
        assert maker == self.port.name
        with self.lock:
            self.spawned.append((identity.incarnation, name))
            if identity.incarnation == self.life and self.running:
                assert name not in self.hosts, f"{name} is made twice in life {self.life}"
                self.hosts[name] = Host(self, name, Process(self.life))

    # The coordinator -------------------------------------------------------------------------------------------

    def on_fate(self, name, life):
        if not self.running or life != self.life:
            return self.put(None)
        assert name in self.ended or name not in self.hosts, f"{name} lives"
        return self.put(Ending(f"actor {name!r} ended" if name in self.ended else f"there is no actor {name!r}"))

    def is_there(self, name):
        return None if name not in self.hosts else name not in self.ended

    def on_news(self, name, life, position, followed):
        assert name == "driver:1"
        self.polls.append((life, position, Ref(self)))
        return self.polls[-1][-1]

    def on_followed(self, name, life):
        assert life <= self.life, f"{name} has told again in life {life}"

    def tell_news(self):
        """Answer the driver's long call, if there is news. Returns whether there was."""
        if not self.polls:
            return False
        assert len(self.polls) == 1, "the driver asks for news twice at a time"
        ((life, position, ref),) = self.polls
        news = None
        if self.running and life != self.life:
            news = WentBack(self.identity(), self.epoch, *self.origin.numbers)
        elif self.committed.life == life and self.committed.position > position:
            news = Covered(self.committed.position, self.committed.id, *self.committed.numbers)
        if news is None:
            return False
        self.polls.clear()
        ref.set(news)
        return True

    def on_let_go(self, name, life, sent, received):
        self.asked.append((LetGo(life, name, sent, received), Ref(self)))
        return self.asked[-1][-1]

    def answer_let_go(self, may=True):
        """Answer the driver's first question whether it may let go of something."""
        let_go, ref = self.asked.pop(0)
        may = may and self.running and let_go.life == self.life
        if may:
            self.demand = let_go.and_before(self.demand)
        ref.set(may)

    @property
    def can_go_back(self):
        """Whether the last snapshot holds all that the driver let go of."""
        return self.demand is None or self.demand.is_held(*self.committed.numbers)

    def commit(self, taken=None):
        """A snapshot is taken and durable; or one that was `taken` before is durable, if it is still of use."""
        with self.lock:
            if self.running and (taken is None or taken.life == self.life):
                self.position += 1
                self.committed = taken or Snapshot(self, self.position)
                self.committed.position = self.position
                if self.can_go_back:
                    self.demand = None

    def stop(self):
        """A life is over: no handler runs any more."""
        self.running = False
        for host in self.hosts.values():
            host.unfetched = host.process.outcomes | host.process.carried
            host.process = None

    def begin(self, *lost):
        """The next life begins, with new Ray actors in the place of those that were `lost`."""
        assert self.can_go_back, "what the driver let go of would be lost"
        self.demand = None
        self.life += 1
        self.epoch = self.position = self.position + 1
        self.origin = self.committed
        self.running = True
        self.history[:], self.ended = self.committed.history, set(self.committed.ended)
        for name in tuple(self.hosts):
            if name not in self.committed.processes or name in lost:
                self.hosts[name].die()
            if name not in self.committed.processes:
                del self.hosts[name]
        for name, process in self.committed.processes.items():
            if name not in self.hosts or not self.hosts[name].alive:
                self.hosts[name] = Host(self, name, None)
            host = self.hosts[name]
            host.process = process.restored(self.life)
            there = (process.outcomes | process.carried).keys() & host.unfetched
            host.process.outcomes, host.process.carried = {}, {key: host.unfetched[key] for key in there}
            host.settle()

    def go_back(self, *lost):
        with self.lock:
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


def get(refs, timeout=None):
    if isinstance(refs, list):
        return [get(ref) for ref in refs]
    assert refs.value is not PENDING, "this would wait for ever"
    if isinstance(refs.value, Exception):
        raise refs.value
    return refs.value


def wait(refs, *, timeout, num_returns=1, fetch_local=True):
    return [ref for ref in refs if ref.value is not PENDING], [ref for ref in refs if ref.value is PENDING]
