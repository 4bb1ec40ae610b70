"""The network of a simulated world: packets and acknowledgements that are delayed, lost, doubled and overtaken."""

from collections import defaultdict, deque

from rayshot.protocol.identity import Channel
from rayshot.simulation.account_process import AccountProcess
from rayshot.simulation.application import Account
from rayshot.simulation.choices import Choices
from rayshot.simulation.driver import SimulatedDriver
from rayshot.simulation.events import EventList
from rayshot.simulation.machines import Machines
from rayshot.simulation.networks import NETWORKS
from rayshot.simulation.packets import Acknowledgement, Packet
from rayshot.simulation.settings import Settings
from rayshot.simulation.truth import Truth


class Network(EventList):
    """Who is there, and what is on its way between them.

    `ended` are the names of processes that the coordinator knows to have ended; `parked` are packets, and
    `connecting` senders, that wait for a receiver to come up. `wires` hold, where the network keeps the order, what is
    on its way on each channel, the oldest first.
    """

    def __init__(self, choices: Choices, settings: Settings, machines: Machines, *, tell: bool = False) -> None:
        super().__init__(choices, settings, tell=tell)
        self.machines = machines
        self.incarnation = 1
        self.ended: set[str] = set()
        self.processes: dict[str, AccountProcess] = {}
        self.drivers: dict[str, SimulatedDriver] = {}
        self.parked: dict[str, list[Packet]] = defaultdict(list)
        self.connecting: dict[str, list[AccountProcess]] = defaultdict(list)
        self.keeps_order = NETWORKS[settings.network].keeps_order
        self.wires: dict[Channel, deque[Packet]] = defaultdict(deque)
        initial = {name: Account(name, 100, known, settings.timers) for name, known in settings.contacts.items()}
        self.truth = Truth(initial)

    def add_drivers(self) -> None:
        """Begin the drivers of this run."""
        for index in range(self.settings.drivers):
            name = f"driver:{index}"
            driver = self.drivers[name] = SimulatedDriver(name, self.machines.driver(name, 1), self.transmit)
            driver.contacts = list(self.settings.contacts)
            self.push("drive", driver, self.settings.activity // 3)

    def is_current(self, process: AccountProcess) -> bool:
        """Whether this process is alive, and of the present life of the system."""
        return process.alive and process.incarnation == self.incarnation

    def transmit(self, packet: Packet) -> None:
        """See Surroundings."""
        if self.keeps_order:
            self.wires[Channel(packet.sender, packet.receiver)].append(packet)
        self.push("deliver", packet)

    def on_deliver(self, packet: Packet) -> None:
        """A packet comes to the end of its way, or gets lost, or is doubled."""
        if self.keeps_order:
            packet = self.wires[Channel(packet.sender, packet.receiver)].popleft()
            self.note(f"the oldest comes first: {packet}")
        driver = self.drivers.get(packet.sender)
        if self.odds(self.settings.lost_one_in) or (driver and not driver.alive and self.choose(3)):
            self.counts["packets lost"] += 1
            self.push("resend", packet.sender, packet.receiver, packet.incarnation, packet.first)
            return
        if self.odds(self.settings.duplicated_one_in):
            self.counts["packets duplicated"] += 1
            self.transmit(packet)
        process = self.processes.get(packet.receiver)
        if process is None or process.incarnation < packet.incarnation:
            if packet.incarnation == self.incarnation:
                self.parked[packet.receiver].append(packet)
        elif process.alive:
            self.counts["batches held back"] += _is_early(packet, process)
            if packet.closing and process.machine.open_snapshots:
                self.counts["channels closed in mid-snapshot"] += 1
            process.arrive(packet)

    def on_resend(self, sender: str, receiver: str, incarnation: int, first: int) -> None:
        """A sender missed an acknowledgement."""
        if driver := self.drivers.get(sender):
            driver.send_again(receiver, first, tagged_anew=self.choose(2) == 0)
            return
        process = self.processes.get(sender)
        if process is not None and process.alive and process.incarnation == incarnation:
            process.send_again(receiver, first)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """See Surroundings."""
        self.push("acknowledge", acknowledgement)

    def on_acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """An acknowledgement comes to the end of its way, or gets lost."""
        sender, receiver, incarnation = acknowledgement.sender, acknowledgement.receiver, acknowledgement.incarnation
        driver, process = self.drivers.get(sender), self.processes.get(sender)
        if self.odds(self.settings.lost_one_in):
            self.counts["acknowledgements lost"] += 1
            flight = driver.flight[receiver] if driver else process.flight[receiver] if process else ()
            for first in flight or (0,):
                self.push("resend", sender, receiver, incarnation, first)
        elif driver:
            if driver.alive:
                driver.acknowledged(acknowledgement)
        elif process is not None and process.alive:
            process.acknowledged(acknowledgement)

    def on_take(self, process: AccountProcess, receiver: str) -> None:
        """The transport takes some of what waits for a receiver."""
        if not process.is_quiet and receiver in process.ready and process.outbox[receiver]:
            process.take(receiver, 1 + self.choose(len(process.outbox[receiver])))

    def on_connect(self, process: AccountProcess, receiver: str) -> None:
        """A process looks for a receiver: it is there, has ended, or is awaited."""
        if not self.is_current(process) or process.ended or receiver in process.ready:
            return
        there = self.processes.get(receiver)
        if receiver in self.ended:
            process.receiver_ended(receiver)
        elif there is not None and self.is_current(there):
            self.counts["channels opened in mid-snapshot"] += bool(process.machine.open_snapshots)
            process.connected(receiver)
        else:
            self.connecting[receiver].append(process)

    def refuse(self, sender: str, receiver: str, incarnation: int) -> None:
        """See Surroundings."""
        self.push("receiver_ended", sender, receiver, incarnation)

    def on_receiver_ended(self, sender: str, receiver: str, incarnation: int) -> None:
        """A sender hears that a receiver has ended."""
        if incarnation != self.incarnation:
            return
        if driver := self.drivers.get(sender):
            if driver.machine.incarnation == incarnation:
                driver.receiver_ended(receiver)
            return
        process = self.processes.get(sender)
        if process is not None and self.is_current(process) and not process.ended:
            process.receiver_ended(receiver)

    def dropped(self, why: str) -> None:
        """See Surroundings."""
        self.counts[f"batches dropped: {why}"] += 1

    def arrived(self, name: str) -> None:
        """A process is there: what waited for it goes on."""
        parked = self.parked.pop(name, ())
        for packet in parked:
            self.push("deliver", packet)
        for packet in reversed(parked) if self.keeps_order else ():
            self.wires[Channel(packet.sender, packet.receiver)].appendleft(packet)
        for waiting in self.connecting.pop(name, ()):
            self.push_once("connect", waiting, name)


def _is_early(packet: Packet, process: AccountProcess) -> bool:
    """Whether a packet overtook one that its receiver still waits for."""
    machine = process.machine
    if packet.incarnation != machine.incarnation or process.ended or not packet.messages:
        return False
    return packet.first > machine.arrived(packet.sender) + 1
