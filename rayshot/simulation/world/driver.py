"""One simulated driver: it sends into the system, reads answers, and sends again after a rollback."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, assert_never

from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import (
    DriverEffect,
    DriverEvent,
    FetchAgain,
    ReleaseMessages,
    SendTagged,
    TellOfChange,
)
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.packets import Acknowledgement, Packet


class SimulatedDriver:
    """`log` holds what was sent per receiver, from number `before` + 1; `released` are the last numbers released.

    `flight` holds the packets that were not acknowledged. When a packet is sent again, a choice of the world decides
    whether it keeps its first tags or gets the present ones.
    """

    def __init__(self, name: str, machine: Driver, transmit: Callable[[Packet], None]) -> None:
        self.name = name
        self.machine = machine
        self.transmit = transmit
        self.alive = True
        self.contacts: list[str] = []
        self.log: dict[str, list[Any]] = defaultdict(list)
        self.before: dict[str, int] = {}
        self.taken: dict[str, int] = defaultdict(int)
        self.released: dict[str, int] = defaultdict(int)
        self.flight: dict[str, dict[int, Packet]] = defaultdict(dict)
        self.ended: set[str] = set()
        self.creations: list[str] = []

    def write(self, receiver: str, message: Any) -> None:
        """Put a message into the outbox."""
        self.log[receiver].append(message)

    def sent(self, receiver: str) -> int:
        """The number of the last message written to `receiver`."""
        return self.before.get(receiver, 0) + len(self.log.get(receiver, ()))

    def message(self, receiver: str, number: int) -> Any:
        """A message that was sent."""
        return self.log[receiver][number - self.before.get(receiver, 0) - 1]

    def unsent(self, receiver: str) -> int:
        """How many messages to `receiver` may be transported now and are not."""
        if receiver in self.ended or not self.machine.may_number:
            return 0
        return self.sent(receiver) - self.taken[receiver]

    def waiting(self) -> list[str]:
        """Receivers for which something is not yet transported."""
        return [receiver for receiver in self.log if self.unsent(receiver)]

    def take(self, receiver: str, count: int) -> None:
        """Hand the next messages to the machine, which says when the transport gets them."""
        self.taken[receiver] += count
        self.tell(BatchTaken(receiver, count))

    def send_again(self, receiver: str, first: int, *, tagged_anew: bool) -> None:
        """Send a packet again, because it or its acknowledgement was lost."""
        packet = self.flight[receiver].get(first)
        if packet is not None and self.alive:
            self.transmit(packet._replace(tags=self.machine.tags) if tagged_anew else packet)

    def receiver_ended(self, receiver: str) -> None:
        """Send nothing more there; what was sent is kept, as a rollback may bring the receiver back."""
        self.ended.add(receiver)
        self.flight.pop(receiver, None)
        self.tell(ReceiverEnded(receiver))

    def acknowledged(self, acknowledgement: Acknowledgement) -> None:
        """Note that a receiver has acknowledged messages."""
        if acknowledgement.incarnation != self.machine.incarnation:
            return
        receiver, last = acknowledgement.receiver, acknowledgement.last
        flight = self.flight[receiver]
        for first in [first for first, packet in flight.items() if first + len(packet.messages) - 1 <= last]:
            del flight[first]
        self.tell(BatchAcknowledged(receiver, last))

    def tell(self, event: DriverEvent) -> None:
        """Give the machine an event, and carry out the effects."""
        if not self.alive:
            return
        before = self.machine.incarnation
        effects = self.machine.handle(event)
        self.machine.validate()
        if self.machine.incarnation != before:
            self.flight.clear()
            self.ended.clear()
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: DriverEffect) -> None:
        match effect:
            case SendTagged(receiver, incarnation, first, count, tags):
                if first <= self.released[receiver]:
                    raise OracleFailure("release", f"{self.name} released {first} to {receiver}, which is needed again")
                messages = tuple(self.message(receiver, number) for number in range(first, first + count))
                packet = Packet(self.name, receiver, incarnation, first, messages, tags=tags)
                self.flight[receiver][first] = packet
                self.transmit(packet)
            case ReleaseMessages(receiver, last):
                self.released[receiver] = max(self.released[receiver], last)
            case FetchAgain() | TellOfChange():
                pass  # here outcomes come unasked, and without the bytes that are compared
            case _:
                assert_never(effect)
