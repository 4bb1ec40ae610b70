"""The runtime's own processes over a network that tests choose, on the fake: real hosts, with all that is in them.

Calls come in any order; messages and their answers are lost and late, and so is what is sent again. The coordinator has
a real collector, and nothing else of its own.
"""

from contextlib import contextmanager

from rayshot.format.codec import read_frames, split_frame
from rayshot.format.pickling import load_state
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    AnnounceEnd,
    ProcessJoined,
    ProcessQuiet,
    RecordArrived,
    SendBegin,
    SnapshotStored,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.identity import CHANDY_LAMPORT, STOP_THE_WORLD
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import GROUPS
from rayshot.runtime.coordinator.actor_notices import notice
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import actor_name, coordinator_name
from rayshot.runtime.wire.host_identity import Joined
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.packets import pack_begin, pack_packet
from rayshot.runtime.wire.reports import unpack_body, unpack_head
from tests.fake.door import fake
from tests.fake.threads import Event, Present
from tests.runtime.one_process import CODEC, identity_of

NAMES = ("alice", "bob", "carol")
HANDLES = {name: ActorHandle("system", name, None, None) for name in NAMES}
STEPS_MAX = 100_000
SNAPSHOTS = 5
ISSUER = Issuer(1, 0)


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

    def wait(self):
        Present.cluster.world.goes_on.wait()


class Coordinator:
    """A real collector. It gives its orders without waiting for anything."""

    def __init__(self):
        self.collector = Collector(1)
        self.bodies, self.committed, self.hosts = {}, [], {}

    @notice
    def join(self, identity, _node, own, _ray_name):
        self.hosts[identity.name] = own
        effects = self.collector.handle(ProcessJoined(identity.name))
        return Joined(
            0, [(e.snapshot, e.floor, e.inputs, e.quiet) for e in effects if isinstance(e, SendBegin)], [], None
        )

    @notice
    def quiet(self, snapshot, name):
        self.tell(ProcessQuiet(snapshot, name))

    @notice
    def report(self, head, body):
        self.take(head, body)

    @notice
    def refuse(self, snapshot, name, detail, _reason):
        raise AssertionError(f"{name} refuses {snapshot}: {detail}")

    @door.method("control")
    def snapshot(self, mode):
        self.tell(SnapshotWanted(mode))

    def take(self, head, body):
        record, *_ = unpack_head(head)
        self.bodies.setdefault(record.snapshot, {})[record.process] = unpack_body(body)
        self.tell(RecordArrived(record))

    def fetched(self, name, head, body):
        assert not isinstance(head, Exception), f"{name} gives no record: {head}"
        if head is not None:
            self.take(head, door.get(body))

    def tell(self, event):
        """Have the collector hear of it, and do what it orders."""
        for effect in self.collector.handle(event):
            match effect:
                case SendBegin(name, snapshot, floor, inputs, quiet):
                    if quiet:
                        self.hosts[name].begin.remote(ISSUER, snapshot, floor, inputs, quiet)
                    else:
                        head, body = self.hosts[name].record.remote(pack_begin(snapshot, floor, inputs))
                        door.when_answered(head, lambda head, name=name, body=body: self.fetched(name, head, body))
                case StoreSnapshot(cut):
                    check_cut(cut, self.bodies[cut.snapshot])
                    if cut.snapshot.mode == STOP_THE_WORLD:
                        self.tell_all("everybody_recorded", cut.snapshot)
                    self.tell(SnapshotStored(cut.snapshot))
                case AnnounceEnd(snapshot, None, floor=floor):
                    self.committed.append(snapshot)
                    self.tell_all("ended", snapshot, floor, True)
                case other:
                    raise AssertionError(other)

    def tell_all(self, method, *args):
        for host in self.hosts.values():
            getattr(host, method).remote(ISSUER, *args)


@contextmanager
def network(choices=(), **settings):
    with fake(choices, hasty_s=1.0) as cluster:
        yield Network(cluster, **settings)


class Network:
    """Three actors that chat, and as many snapshots as are chosen, at most SNAPSHOTS."""

    def __init__(self, cluster, turns=12):
        self.cluster, self.turns = cluster, turns
        cluster.world = self
        self.goes_on = Event()
        cluster.faulty = ("receive", "await_credit")
        cluster.fates_of_calls = (*["arrives"] * 5, "lost")
        cluster.fates_of_answers = (*["arrives"] * 5, "lost")
        self.handle = door.make(Coordinator, {"control": 4}, coordinator_name("system"))
        for name in NAMES:
            self.make(name)
        cluster.until(lambda: len(self.hosts) == len(NAMES))
        for name in NAMES:
            others = [HANDLES[other] for other in NAMES if other != name]
            self.create(name, CODEC.tell("chat", (HANDLES[name], others, turns)))

    def make(self, name):
        """Make the process of an actor."""
        identity = identity_of(name, coordinator=self.handle, snapshot_timeout_s=1e9)
        door.make(Host, GROUPS, actor_name("system", 1, name), identity)

    def create(self, name, *tells):
        """A driver creates it, and tells it something."""
        specification = ActorSpecification.of(Chatter, {"capture": "inline"}).pack()
        body = b"".join((CODEC.create(specification, CODEC.tell("__init__", (), {})), *tells))
        self.send(name, pack_packet("driver:x", 1, 1, 1 + len(tells), body))

    def send(self, name, packet):
        """Until it has arrived."""
        answer = door.find(actor_name("system", 1, name)).receive.remote(packet)
        door.when_answered(answer, lambda said: self.send(name, packet) if isinstance(said, Exception) else None)

    def instance(self, process):
        run = self.cluster.named[process].run
        return None if run is None else run.instance

    @property
    def coordinator(self):
        return self.instance(coordinator_name("system"))

    @property
    def hosts(self):
        """The hosts that have joined, by name."""
        joined = self.coordinator.hosts if self.coordinator else ()
        found = {name: self.instance(actor_name("system", 1, name)) for name in joined}
        return {name: host for name, host in found.items() if host is not None}

    def run(self, until=lambda: False):
        """Until nothing is left to do."""
        plan, wanted, steps = self.cluster.schedule, SNAPSHOTS, 0
        while not until() and plan.step():
            if wanted and plan.choose(8) == 1:
                wanted -= 1
                self.handle.snapshot.remote(STOP_THE_WORLD if plan.choose(4) == 1 else CHANDY_LAMPORT)
            steps += 1
            assert steps < STEPS_MAX, "it does not come to rest"
            if self.coordinator:
                self.coordinator.collector.validate()
            for host in self.hosts.values():
                validate(host._process)

    def check_rest(self):
        """All was handled once and in order, each snapshot was committed, and nothing is left of any."""
        assert not self.coordinator.collector.open_snapshots
        hosts = self.hosts
        assert hosts.keys() >= {*NAMES}
        for name, host in hosts.items():
            process = host._process
            for sender in NAMES:
                if sender != name:
                    sent = hosts[sender]._process.cell.instance.sent.get(name, 0)
                    assert process.cell.instance.got.get(sender, []) == list(range(1, sent + 1))
            for channel in process.channels.out.values():
                assert (channel.pending, channel.in_flight, channel.kept) == ([], {}, {})
            assert not process.runner.participant.open_snapshots
            assert not process.recording.deliveries._shares


def validate(process):
    """The counts of bytes are those of what is there, and the machine counts rightly."""
    if process.runner.lock.locked():
        return  # a thread is amid a change
    process.runner.participant.validate()
    for channel in process.channels.out.values():
        assert channel.pending_bytes == sum(len(getattr(one, "tell", one)) for one in channel.pending)
        assert channel.kept_bytes == sum(batch.size for batch in channel.kept.values())
        assert not channel.kept.keys() & channel.in_flight.keys()


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
