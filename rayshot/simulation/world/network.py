"""The network of a simulated world: packets and acknowledgements that are delayed, lost, doubled and overtaken."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rayshot.protocol.identity import Channel
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.events import EventList, PendingEvent
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.networks import Traffic
from rayshot.simulation.world.packets import Acknowledgement, Packet
from rayshot.simulation.world.process import Process

P = TypeVar("P", bound=Process)


class Network(EventList, Generic[P]):
    """The processes and drivers, and the packets between them.

    `ended` are the names of processes of which the coordinator knows that they ended. `parked` are packets, and
    `connecting` senders, that wait for a receiver to start. If the network keeps the order, `wires` hold the packets on
    their way on each channel, the oldest first.
    """

    def __init__(
        self,
        choices: Choices,
        traffic: Traffic,
        machines: Machines,
        *,
        story: bool = False,
    ) -> None:
        super().__init__(choices, story=story)
        self.traffic = traffic
        self.machines = machines
        self.incarnation = 1
        self.ended: set[str] = set()
        self.processes: dict[str, P] = {}
        self.drivers: dict[str, SimulatedDriver] = {}
        self.parked: dict[str, list[Packet]] = defaultdict(list)
        self.connecting: dict[str, list[P]] = defaultdict(list)
        self.keeps_order = traffic.keeps_order
        self.wires: dict[Channel, deque[Packet]] = defaultdict(deque)

    def is_current(self, process: P) -> bool:
        """Whether this process is alive, and of the present life of the system."""
        return process.alive and process.incarnation == self.incarnation

    def transmit(self, packet: Packet) -> None:
        """See Surroundings."""
        if self.keeps_order:
            self.wires[Channel(packet.sender, packet.receiver)].append(packet)
        self.push(self.on_deliver, packet)

    def on_deliver(self, packet: Packet) -> None:
        """Deliver a packet, lose it, or deliver it and send it once more."""
        packet = self._next_on(packet)
        driver = self.drivers.get(packet.sender)
        if self.odds(self.traffic.lost_one_in) or (driver and not driver.alive and self.choose(3)):
            self.lost(packet)
            self.push(self.on_resend, packet.sender, packet.receiver, packet.incarnation, packet.first)
            return
        if self.odds(self.traffic.duplicated_one_in):
            self.doubled(packet)
            self.transmit(packet)
        self.deliver(packet)

    def _next_on(self, packet: Packet) -> Packet:
        """The packet that arrives instead of this one: if the order is kept, the oldest one of its channel."""
        if self.keeps_order:
            packet = self.wires[Channel(packet.sender, packet.receiver)].popleft()
            self.note(f"the oldest comes first: {packet}")
        return packet

    def deliver(self, packet: Packet) -> None:
        """Bring a packet to its receiver, or park it if the receiver does not exist yet."""
        process = self.processes.get(packet.receiver)
        if process is None or process.incarnation < packet.incarnation:
            if packet.incarnation == self.incarnation:
                self.parked[packet.receiver].append(packet)
        elif process.alive:
            self.counts["batches held back"] += _is_early(packet, process)
            if packet.closing and process.machine.open_snapshots:
                self.counts["channels closed in mid-snapshot"] += 1
            process.arrive(packet)

    def lost(self, packet: Packet) -> None:
        """Count a packet as lost."""
        del packet
        self.counts["packets lost"] += 1

    def doubled(self, packet: Packet) -> None:
        """Count a packet as doubled."""
        del packet
        self.counts["packets duplicated"] += 1

    def hurry(self, wanted: Callable[[str, str], bool]) -> None:
        """Let all packets with a wanted sender and receiver arrive now, lost ones too."""

        def is_wanted(method: Callable[..., None], args: tuple[Any, ...]) -> bool:
            if method == self.on_deliver:
                return wanted(args[0].sender, args[0].receiver)
            return method == self.on_resend and wanted(args[0], args[1])

        while (event := self.take_first(is_wanted)) is not None:
            self.hurry_one(event)

    def hurry_one(self, event: PendingEvent) -> None:
        """Let an event happen, with no fault."""
        method, args, _ = event
        if method == self.on_deliver:
            self.deliver(self._next_on(args[0]))
        else:
            method(*args)

    def on_resend(self, sender: str, receiver: str, incarnation: int, first: int) -> None:
        """Let a sender that missed an acknowledgement send again."""
        if driver := self.drivers.get(sender):
            driver.send_again(receiver, first, tagged_anew=self.choose(2) == 0)
            return
        process = self.processes.get(sender)
        if process is not None and process.alive and process.incarnation == incarnation:
            process.send_again(receiver, first)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """See Surroundings."""
        self.push(self.on_acknowledge, acknowledgement)

    def on_acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Deliver an acknowledgement, or lose it."""
        sender, receiver, incarnation = acknowledgement.sender, acknowledgement.receiver, acknowledgement.incarnation
        driver, process = self.drivers.get(sender), self.processes.get(sender)
        if self.odds(self.traffic.lost_one_in):
            self.counts["acknowledgements lost"] += 1
            flight = driver.flight[receiver] if driver else process.flight[receiver] if process else ()
            for first in flight or (0,):
                self.push(self.on_resend, sender, receiver, incarnation, first)
        elif driver:
            if driver.alive:
                driver.acknowledged(acknowledgement)
        elif process is not None and process.alive:
            process.acknowledged(acknowledgement)

    def on_take(self, process: P, receiver: str) -> None:
        """Let the transport take some messages that wait for a receiver."""
        if not process.is_quiet and receiver in process.ready and process.outbox[receiver]:
            process.take(receiver, 1 + self.choose(len(process.outbox[receiver])))

    def on_take_driver(self, driver: SimulatedDriver, receiver: str) -> None:
        """Let the transport take some messages that a driver wrote."""
        count = driver.unsent(receiver)
        if driver.alive and count:
            driver.take(receiver, 1 + self.choose(count))
            if driver.unsent(receiver):
                self.push_once(self.on_take_driver, driver, receiver)

    def on_connect(self, process: P, receiver: str) -> None:
        """Let a process look for a receiver: it exists, has ended, or must be waited for."""
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
        self.push(self.on_receiver_ended, sender, receiver, incarnation)

    def on_receiver_ended(self, sender: str, receiver: str, incarnation: int) -> None:
        """Tell a sender that a receiver has ended."""
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
        """Note that a process exists now: packets and senders that waited for it go on."""
        parked = self.parked.pop(name, ())
        for packet in parked:
            self.push(self.on_deliver, packet)
        for packet in reversed(parked) if self.keeps_order else ():
            self.wires[Channel(packet.sender, packet.receiver)].appendleft(packet)
        for waiting in self.connecting.pop(name, ()):
            self.push_once(self.on_connect, waiting, name)


def _is_early(packet: Packet, process: Process) -> bool:
    """Whether a packet overtook one that its receiver still waits for."""
    machine = process.machine
    if packet.incarnation != machine.incarnation or process.ended or not packet.messages:
        return False
    return packet.first > machine.arrived(packet.sender) + 1
