"""Processes on a table, moved by hand: messages and orders stay where they are until a test delivers them."""

from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    ProcessJoined,
    SnapshotStored,
    SnapshotWanted,
)
from rayshot.protocol.effects import ReportRecord
from rayshot.protocol.events import Begun, SnapshotEnded
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import HandlerSent, SimulatedAccount
from rayshot.simulation.world.coordinator import WorldCoordinator, reported


class Table:
    """`transit` holds packets by channel, `stored` the snapshots that are complete, `trace` what was seen.

    `begins` are the coordinator's orders, as (process, event), and `answers` the acknowledgements that a test holds up
    (`slow_answers`), the oldest first.
    """

    def __init__(self, **balances):
        self.trace = []
        self.transit = {}
        self.stored = []
        self.plans = []
        self.ended = []
        self.begins = []
        self.answers = []
        self.slow_answers = False
        self.coordinator = WorldCoordinator(1, Collector(1), self)
        self.processes = {
            name: AccountProcess(name, Participant(name), self, SimulatedAccount(name, balance, ()))
            for name, balance in balances.items()
        }
        for name in balances:
            self.coordinator.tell(ProcessJoined(name))

    def __getitem__(self, name):
        return self.processes[name]

    # What a test does ------------------------------------------------------------------------------

    def send(self, sender, receiver, *amounts, transport=True):
        """A handler of `sender` sends; its messages go into transit, or stay in the outbox."""
        for amount in amounts:
            self[sender].step(HandlerSent(receiver, amount))
        if receiver not in self[sender].ready and receiver != sender:
            self[sender].connected(receiver)
        if transport and receiver != sender:
            self.transport(sender, receiver)

    def transport(self, sender, receiver, count=None):
        self[sender].take(receiver, count or len(self[sender].outbox[receiver]))

    def deliver(self, sender, receiver, index=0):
        """The packet number `index` in transit on a channel arrives."""
        packet = self.transit[sender, receiver].pop(index)
        self.trace.append(f"arrives   {packet}")
        self[receiver].arrive(packet)

    def deliver_all(self):
        """All packets arrive."""
        while packets := [(channel, p) for channel, waiting in self.transit.items() for p in waiting]:
            self.deliver(*packets[0][0])

    def answer(self, index=0):
        """An acknowledgement that was held up arrives."""
        acknowledgement = self.answers.pop(index)
        self.trace.append(f"answers   {' '.join(str(acknowledgement).split())}")
        self[acknowledgement.sender].acknowledged(acknowledgement)

    def process(self, receiver, sender):
        """`receiver` processes the next message of `sender`."""
        self.trace.append(f"processes {sender} -> {receiver} {self[receiver].received.get(sender, 0) + 1}")
        self[receiver].begin_handler(sender)

    def want_snapshot(self, *only):
        """The coordinator begins one; the news goes to `only` these at once, to others by `learn` or with messages."""
        before = set(self.coordinator.collector.open_snapshots)
        self.coordinator.tell(SnapshotWanted())
        (snapshot,) = set(self.coordinator.collector.open_snapshots) - before
        for name in only:
            self.learn(name, snapshot)
        return snapshot

    def learn(self, name, snapshot):
        """The coordinator's news of `snapshot` arrives at `name`."""
        self[name].tell(Begun(snapshot))

    def learn_all(self):
        """All that the coordinator has to tell of snapshots that began arrives."""
        while self.begins:
            name, event = self.begins.pop(0)
            self[name].tell(event)

    def record(self, name):
        """`name` is between two handlers and records what waits for it."""
        while (snapshot := self[name].next_capture()) is not None:
            self.trace.append(f"records   {name} {snapshot}")
            self[name].capture(snapshot)

    # What processes and the coordinator ask for ------------------------------------------------------

    def transmit(self, packet):
        self.trace.append(f"transit   {packet}")
        self.transit.setdefault((packet.sender, packet.receiver), []).append(packet)

    def acknowledge(self, acknowledgement):
        if self.slow_answers:
            self.answers.append(acknowledgement)
        else:
            self[acknowledgement.sender].acknowledged(acknowledgement)

    def report(self, process, effect, content):
        if isinstance(effect, ReportRecord):
            record = effect.record
            outbox = {receiver: (record.released[receiver], n) for receiver, n in record.sent.items()}
            mailbox = {sender: (record.received.get(sender, 0), n) for sender, n in record.arrived.items()}
            parts = [f"outbox {receiver} {n + 1}..{last}" for receiver, (n, last) in outbox.items() if n < last]
            parts += [f"mailbox {sender} {n + 1}..{last}" for sender, (n, last) in mailbox.items()]
            self.trace.append(f"reports   {process.name} {' '.join(parts)}".rstrip())
        self.coordinator.hear(reported(process.name, effect), content)

    def store(self, coordinator, stored):
        cut = stored.cut
        channels = " ".join(f"{c.channel}: {c.received}..{c.sent}" for c in cut.channels)
        self.trace.append(f"complete  {cut.snapshot} {channels}".rstrip())
        self.stored.append(stored)
        coordinator.tell(SnapshotStored(cut.snapshot))

    def announce(self, coordinator, end, stored):
        self.trace.append(f"ended     {end.snapshot} {end.reason.value if end.reason else 'committed'}")
        self.ended.append(end)
        for process in self.processes.values():
            process.tell(SnapshotEnded(end.snapshot, end.floor))

    def begin(self, coordinator, process, begun):
        self.begins.append((process, begun))

    def plan(self, process, cause):
        return []

    def capture_fails(self):
        return False

    def opened(self, coordinator, snapshot):
        pass

    def wake(self, process):
        pass

    def happened(self, process, step, emitted):
        pass

    def captured(self, process, snapshot):
        pass

    def dropped(self, why):
        self.trace.append(f"dropped   {why}")

    def refuse(self, sender, receiver, incarnation):
        self[sender].receiver_ended(receiver)


def snapshot_id(counter=1, initiator="coordinator", incarnation=1):
    return SnapshotId(incarnation, initiator, counter)
