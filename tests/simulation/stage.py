"""A world moved by hand for stories: whatever is under way stays there until a command of the story moves it.

Processes and coordinator are those of the simulation, and so drive the real machines. The coordinator hears at once of
what a process reports. An acknowledgement comes at once and is told of nowhere, unless it names snapshots that its
reader has not recorded: it would bring the news of these, so it waits until the reader has it or the story moves it.
"""

from collections import defaultdict

from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    ProcessEnded,
    ProcessJoined,
    SnapshotStored,
)
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import SystemRolledBack
from rayshot.protocol.events import EverybodyRecorded, SnapshotEnded
from rayshot.protocol.identity import Channel
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import Received
from rayshot.simulation.world.coordinator import WorldCoordinator, reported
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.packets import Load
from tests.simulation.narrator import Narrator


class Stage:
    """`transit` holds packets by channel, `answers` acknowledgements by the channel that they go along backwards.

    `orders` are what the coordinator told a process that has not heard it yet; `reports` what it is to hear at the end
    of a command. `recorded` are the snapshots that each process has recorded, `over` those that ended.
    """

    def __init__(self):
        self.narrator = Narrator()
        self.life = 1
        self.processes = {}
        self.drivers = {}
        self.channels = set()
        self.transit = defaultdict(list)
        self.answers = defaultdict(list)
        self.orders = defaultdict(list)
        self.reports = []
        self.recorded = defaultdict(set)
        self.over = set()
        self.stored = {}
        self.coordinator = self._coordinator()

    # Who is there ----------------------------------------------------------------------------------

    def _coordinator(self):
        narrator = self.narrator

        class Speaking(Collector):
            def handle(self, event):
                effects = super().handle(event)
                narrator.tell_of_coordinator(effects)
                return effects

        return WorldCoordinator(self.life, Speaking(self.life), self)

    def machine(self, name):
        """The real machine of a process, which says what it orders."""
        stage = self

        class Speaking(Participant):
            def handle(self, event):
                effects = super().handle(event)
                stage.narrator.tell(name, effects, stage.processes[name].account)
                return effects

        return Speaking(name, self.life)

    def add(self, name, account=None):
        """A process is there, and the coordinator knows it; an account of None is not born yet."""
        self.processes[name] = AccountProcess(name, self.machine(name), self, account)
        self.coordinator.tell(ProcessJoined(name))

    def add_driver(self, name):
        """A program outside the system gets handles."""
        narrator = self.narrator

        class Speaking(Driver):
            def handle(self, event):
                effects = super().handle(event)
                narrator.tell_of_driver(name, effects)
                return effects

        self.drivers[name] = SimulatedDriver(name, Speaking(name), self.transmit)

    def open(self, sender, receiver):
        """The receiver says hello to the sender: what waits for it may go, markers by themselves too."""
        process = self.processes[sender]
        if receiver != sender and receiver not in process.ready and receiver in self.processes:
            self.channels.add(Channel(sender, receiver))
            process.connected(receiver)

    def global_state(self):
        """All states, and what is sent and not received on each channel that ever carried a message."""
        balances = {name: p.account.balance for name, p in self.processes.items() if p.account and not p.ended}
        used = {channel for channel, sent in self.narrator.log.items() if sent} | self.channels
        received = {c: self.processes[c.receiver].received.get(c.sender, 0) for c in sorted(used)}
        return balances, {channel: self.narrator.log[channel][n:] for channel, n in received.items()}

    # What moves ------------------------------------------------------------------------------------

    def arrive(self, sender, receiver, index):
        """A packet in transit comes to the end of its way."""
        self.processes[receiver].arrive(self.transit[sender, receiver].pop(index))

    def record(self, name):
        """A process between two handlers records what it is to record."""
        process = self.processes[name]
        while (snapshot := process.next_capture()) is not None:
            process.capture(snapshot)
            self.settle()

    def settle(self):
        """What follows at once: the coordinator hears, and acknowledgements without news come."""
        while self.reports or (quiet := [c for c, waiting in self.answers.items() if self._goes_at_once(waiting)]):
            if not self.reports:
                self.answer(quiet[0])
                continue
            event, content = self.reports.pop(0)
            self.coordinator.hear(event, content)
            if isinstance(event, ProcessEnded):
                for process in self.processes.values():
                    if not process.ended:
                        process.receiver_ended(event.record.process)

    def answer(self, channel):
        """The oldest acknowledgement on a channel comes to the sender."""
        acknowledgement = self.answers[channel].pop(0)
        if sender := self.processes.get(channel.sender) or self.drivers.get(channel.sender):
            sender.acknowledged(acknowledgement)

    def _goes_at_once(self, waiting):
        if not waiting or waiting[0].sender in self.drivers:
            return bool(waiting)
        return not set(waiting[0].recorded) - self.recorded[waiting[0].sender] - self.over

    def restore(self, stored):
        """All processes are lost; new ones begin a new life where the snapshot has them."""
        self.life += 1
        cut = stored.cut
        self.coordinator = self._coordinator()
        self.processes = dict.fromkeys(cut.records)
        for name in cut.records:
            into = [c for c in cut.channels if c.channel.receiver == name]
            out = [c for c in cut.channels if c.channel.sender == name]
            process = self.processes[name] = AccountProcess(name, self.machine(name), self, stored.states[name].copy())
            process.load(
                Load(
                    self.life,
                    sent={c.channel.receiver: c.sent for c in out},
                    arrived={c.channel.sender: c.sent for c in into},
                    received={c.channel.sender: c.received for c in into},
                    mailbox={c.channel.sender: stored.messages[c.channel] for c in into},
                    ended=frozenset(),
                )
            )
            process.loading = False
        for channel, sent in self.narrator.log.items():
            if channel.sender not in self.drivers:
                del sent[next((c.sent for c in cut.channels if c.channel == channel), 0) :]
        for name in cut.records:
            self.coordinator.tell(ProcessJoined(name))
        for sender, receiver in sorted(self.channels):
            self.processes[sender].connected(receiver)
        for driver in self.drivers.values():
            sent = {c.channel.receiver: c.sent for c in cut.channels if c.channel.sender == driver.name}
            driver.tell(SystemRolledBack(self.life, sent))

    # What processes ask for: see their Surroundings ------------------------------------------------

    def transmit(self, packet):
        self.transit[packet.sender, packet.receiver].append(packet)

    def acknowledge(self, acknowledgement):
        self.answers[Channel(acknowledgement.sender, acknowledgement.receiver)].append(acknowledgement)

    def report(self, process, effect, content):
        self.reports.append((reported(process.name, effect, helpers=frozenset()), content))

    def happened(self, process, step, emitted):
        if emitted is not None:
            receiver, message = emitted
            self.narrator.log[Channel(process.name, receiver)].append(message.amount)
        if isinstance(step, Received):
            channel = Channel(step.sender, process.name)
            number = process.received[step.sender]
            state = self.narrator.state(process.name, process.account.balance)
            message = self.narrator.messages(channel, number, number)
            self.narrator.say(f"{process.name} takes {message} of {step.sender}: state {state}")

    def captured(self, process, snapshot):
        self.recorded[process.name].add(snapshot)

    def plan(self, process, cause):
        return []

    def capture_fails(self):
        return False

    def find(self, process, receiver):
        self.open(process.name, receiver)

    def wake(self, process):
        pass

    def dropped(self, why):
        pass

    def refuse(self, sender, receiver, incarnation):
        if sender in self.processes:
            self.processes[sender].receiver_ended(receiver)

    # What the coordinator asks for: see its Surroundings ---------------------------------------------

    def begin(self, coordinator, process, begun):
        self.orders[process].append(begun)

    def everybody_recorded(self, coordinator, snapshot):
        for process in self.processes.values():
            process.tell(EverybodyRecorded(snapshot))

    def opened(self, coordinator, snapshot):
        pass

    def store(self, coordinator, stored):
        self.narrator.complete(stored, {c for c in self.channels if {*c} <= stored.states.keys()})
        self.stored[self.narrator.snapshot(stored.cut.snapshot)] = stored
        coordinator.tell(SnapshotStored(stored.cut.snapshot))

    def announce(self, coordinator, end, stored):
        self.over.add(end.snapshot)
        for process in self.processes.values():
            process.tell(SnapshotEnded(end.snapshot, end.floor))
        for driver in self.drivers.values():
            driver.tell(SnapshotEnded(end.snapshot, end.floor))
