"""The runtime's own processes over a network that tests choose: real hosts, outboxes, mailboxes, workers; no Ray.

Calls are delivered in any order, and twice; answers are lost, late and out of order; what is sent again is so at any
time. A list of numbers says what happens: `Network.run` takes one for each choice, and 0 where the list has ended,
which is always the oldest thing that can happen. So each run comes to rest, and hypothesis makes the list shorter.
"""

import threading
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

from rayshot.format.codec import read_frames, split_frame
from rayshot.format.pickling import load_state
from rayshot.model.current import enter
from rayshot.model.handle import ActorHandle
from rayshot.model.port import swap_port
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.collecting import (
    AnnounceEnd,
    ProcessJoined,
    ProcessQuiet,
    RecordArrived,
    SendBegin,
    SnapshotStored,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.collector import Collector
from rayshot.protocol.events import ReceiverReady
from rayshot.protocol.identity import CHANDY_LAMPORT, STOP_THE_WORLD
from rayshot.runtime.actor.delivery import Delivery
from rayshot.runtime.actor.embodiment import Embodiment
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.packets import pack_begin, pack_packet
from rayshot.runtime.wire.reports import unpack_body, unpack_head
from tests.runtime.one_process import CODEC, identity_of

NAMES = ("alice", "bob", "carol")
HANDLES = {name: ActorHandle("system", name, None, None) for name in NAMES}
STEPS_MAX = 20_000
SNAPSHOTS = 5


class Idle(Exception):
    """A worker has nothing to do."""


class Chatter:
    """Sends numbers, counted on each channel, for as long as it is told to; keeps what came, by sender."""

    def __init__(self):
        self.sent, self.got = {}, {}

    def chat(self, me, others, turns):
        other = others[turns % len(others)]
        for _ in range(1 + turns % 3):
            self.sent[other.name] = self.sent.get(other.name, 0) + 1
            other.hear.tell(me.name, self.sent[other.name])
        if turns:
            me.chat.tell(me, others, turns - 1)

    def hear(self, sender, number, _ballast=b""):
        self.got.setdefault(sender, []).append(number)


class Actor:
    """A real process with its host and its worker; `network` carries its calls."""

    def __init__(self, name, network):
        self.name, self.network = name, network
        self.process = ActorProcess(identity_of(name, coordinator=network.coordinator), Host)
        self.process.channels.connect = self._connect
        self.worker = Worker(self.process)
        self.host = Host.__new__(Host)  # what it makes of Ray stays away
        self.host._embodiment, self.host._changing = Embodiment(self.process, self.worker), threading.Lock()
        self.host._asked_at, self.host._highest_counter, self.host._highest_term = {}, 0, 0
        self.host._processed = lambda sender: self.process.channels.mailbox.processed.get(sender, 0)
        self.idle = False
        self.process.runner.wake.wait = self._rest

    def _rest(self, _patience=None):
        raise Idle

    def _connect(self, channel):
        if self.process.cell.constructing:
            self.process.channels.unconnected.append(channel)
            self.process.runner.interrupted = True
        else:
            self.network.due.append(lambda: self._connected(channel))

    def _connected(self, channel):
        with self.process.runner.lock:
            channel.connected(Peer(self.network, channel.receiver))
            self.process.runner.handle(ReceiverReady(channel.receiver))
            channel.flush()

    def work(self):
        """What the worker does until its next message is handled, or there is none."""
        self.process.runner.interrupted = True  # it may have been at rest in the midst of a stop
        enter(self.process.cell)
        before = swap_port(lambda: self.process)
        try:
            self.worker._handle_all(self.worker._next())
        except Idle:
            self.idle = True
        finally:
            swap_port(before)
            enter(None)

    def validate(self):
        """The counts of bytes are those of what is there, and the machine counts rightly."""
        self.process.runner.participant.validate()
        for channel in self.process.channels.out.values():
            assert channel.pending_bytes == sum(len(getattr(one, "tell", one)) for one in channel.pending)
            assert channel.kept_bytes == sum(batch.size for batch in channel.kept.values())
            assert not channel.kept.keys() & channel.in_flight.keys()


class Peer:
    """The Ray methods of a receiver: each call is due some time, and so is its answer."""

    def __init__(self, network, receiver):
        self._network, self._receiver = network, receiver

    def receive(self, packet):
        return self._call("receive", packet)

    def await_credit(self, sender, _wanted):
        return self._call("_processed", sender)

    def _call(self, method, *args):
        told = []
        self._network.due.append(lambda: self._deliver(method, args, told))
        return SimpleNamespace(_on_completed=told.append)

    def _deliver(self, method, args, told):
        fate = self._network.choose(6)
        answer = ConnectionError("lost on the way")
        if fate != 5:
            actor = self._network.actors[self._receiver]
            answer = getattr(actor.host, method)(*args)
            actor.idle = False
        if fate == 4:
            answer = ConnectionError("the answer was lost")
        (tell,) = told
        self._network.due.append(lambda: tell(answer))


class Coordinator:
    """A real collector; calls to it are due some time, and so are its own."""

    def __init__(self, network):
        self.network = network
        self.collector = Collector(1)
        self.bodies, self.committed, self.waiting = {}, [], []

    def __getattr__(self, method):
        told = getattr(type(self), f"told_{method}")
        return SimpleNamespace(remote=lambda *args: self.network.due.append(lambda: told(self, *args)))

    def told_quiet(self, snapshot, name):
        self.tell(ProcessQuiet(snapshot, name))

    def told_report(self, head, body):
        record, _, _ = unpack_head(head)
        self.bodies.setdefault(record.snapshot, {})[record.process] = unpack_body(body)
        self.tell(RecordArrived(record))

    def tell(self, event):
        """Have the collector hear of it, and do what it orders, each some time."""
        due = self.network.due
        for effect in self.collector.handle(event):
            match effect:
                case SendBegin(name, snapshot, floor, inputs, quiet):
                    due.append(lambda begin=(snapshot, floor, inputs, quiet), name=name: self.begin(name, *begin))
                case StoreSnapshot(cut):
                    check_cut(cut, self.bodies[cut.snapshot])
                    for name in self.network.actors if cut.snapshot.mode == STOP_THE_WORLD else ():
                        due.append(lambda name=name, k=cut.snapshot: self.call(name, "everybody_recorded", k))
                    due.append(lambda k=cut.snapshot: self.tell(SnapshotStored(k)))
                case AnnounceEnd(snapshot, None, floor=floor):
                    self.committed.append(snapshot)
                    for name in self.network.actors:
                        due.append(lambda name=name, k=snapshot, f=floor: self.call(name, "ended", k, f, True))
                case other:
                    raise AssertionError(other)

    def begin(self, name, snapshot, floor, inputs, quiet):
        self.call(name, "begin", snapshot, floor, inputs, quiet)
        if not quiet:
            self.waiting.append((name, snapshot, pack_begin(snapshot, floor, inputs)))

    def call(self, name, method, *args):
        getattr(self.network.actors[name].host, method)(Issuer(1, 0), *args)
        self.network.actors[name].idle = False

    def fetched(self) -> Iterator[tuple]:
        """The calls of `Host.record` that have an answer."""
        for call in self.waiting:
            name, snapshot, _ = call
            share = self.network.actors[name].process.recording.deliveries._shares.get(snapshot)
            if share is not None and share.delivery is Delivery.READY:
                yield call

    def fetch(self, call):
        self.waiting.remove(call)
        name, _, begin = call
        report = self.network.actors[name].host.record(begin)
        self.network.due.append(lambda: self.told_report(*report))


class Network:
    """Three actors that chat, and as many snapshots as are chosen, at most SNAPSHOTS."""

    def __init__(self, choices: Iterable[int], turns=12):
        self._choices = iter(choices)
        self.due = []
        self.coordinator = Coordinator(self)
        self.actors = {name: Actor(name, self) for name in NAMES}
        self.steps = 0
        for name in NAMES:
            self.coordinator.tell(ProcessJoined(name))
        for name, actor in self.actors.items():
            others = [HANDLES[other] for other in NAMES if other != name]
            body = CODEC.create(
                ActorSpecification.of(Chatter, {"capture": "inline"}).pack(), CODEC.tell("__init__", (), {})
            )
            body += CODEC.tell("chat", (HANDLES[name], others, turns))
            actor.host.receive(pack_packet("driver:x", 1, 1, 2, body))

    def choose(self, count):
        """The next number, below `count`."""
        return next(self._choices, 0) % count

    def run(self):
        """Until nothing is left to do."""
        wanted = SNAPSHOTS
        while True:
            if wanted and self.choose(8) == 1:
                wanted -= 1
                self.coordinator.tell(SnapshotWanted(STOP_THE_WORLD if self.choose(4) == 1 else CHANDY_LAMPORT))
            deeds = [actor.work for actor in self.actors.values() if not actor.idle]
            deeds += [lambda call=call: self.coordinator.fetch(call) for call in self.coordinator.fetched()]
            count = len(deeds)
            deeds += self.due
            if not deeds:
                break
            chosen = self.choose(len(deeds))
            if chosen >= count:
                del self.due[chosen - count]
            deeds[chosen]()
            self.steps += 1
            assert self.steps < STEPS_MAX, "it does not come to rest"
            self.coordinator.collector.validate()
            for actor in self.actors.values():
                actor.validate()

    def check_rest(self):
        """All was handled once and in order, each snapshot was committed, and nothing is left of any."""
        assert not self.coordinator.collector.open_snapshots
        for name, actor in self.actors.items():
            for sender in NAMES:
                if sender != name:
                    sent = self.actors[sender].process.cell.instance.sent.get(name, 0)
                    assert actor.process.cell.instance.got.get(sender, []) == list(range(1, sent + 1))
            for channel in actor.process.channels.out.values():
                assert (channel.pending, channel.in_flight, channel.kept) == ([], {}, {})
            assert not actor.process.runner.participant.open_snapshots
            assert not actor.process.recording.deliveries._shares


def check_cut(cut, bodies):
    """What a snapshot holds of a channel, in the receiver's state and in flight, is what its sender had sent."""
    states = {
        name: load_state(body.state.parts[0], body.state.parts[1:])["state"]
        for name, body in bodies.items()
        if body.state is not None
    }
    for one in cut.channels:
        sender, receiver = one.channel
        if sender == receiver or sender not in NAMES:
            continue
        frames = [bodies[receiver].mailbox.get(sender, b"")]
        if one.sent > one.arrived:
            frames.append(bodies[sender].outbox[receiver])
        numbers = list(states.get(receiver, {"got": {}})["got"].get(sender, []))
        expected = one.received + 1
        for frame in (frame for run in frames for frame in read_frames(run)):
            for number, message in enumerate(split_frame(frame), frame.first):
                if number >= expected:
                    assert number == expected, f"{one}: {number} instead of {expected}"
                    _, (_, value), _ = CODEC.decode_tell(message)
                    numbers.append(value)
                    expected += 1
        assert expected == one.sent + 1, f"{one}: up to {expected - 1}"
        assert numbers == list(range(1, states[sender]["sent"].get(receiver, 0) + 1)), one
