"""One simulated process: it drives a Participant and keeps the duties that `rayshot.protocol` lists.

A subclass says what runs inside: an account of the bare application (`account_process`) or a user's actor
(`actor_process`). Messages and states are opaque here.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from rayshot.protocol.effects import (
    AnnounceSnapshot,
    AwaitMarkers,
    CaptureState,
    DeliverBatch,
    DropBatch,
    Effect,
    ForgetSnapshot,
    HoldBatch,
    PauseHandlers,
    ReportEnd,
    ReportFailure,
    ReportQuiet,
    ReportRecord,
    SendBatch,
)
from rayshot.protocol.events import (
    BatchAcknowledged,
    BatchArrived,
    BatchTaken,
    CaptureFailed,
    EndRequested,
    Event,
    HandlersPaused,
    ReceiverEnded,
    ReceiverReady,
    Restored,
    StateCaptured,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.protocol.record import Record
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.packets import Acknowledgement, Load, Packet, RecordContents

if TYPE_CHECKING:
    from collections.abc import Mapping


class Surroundings(Protocol):
    """What a process asks of its world."""

    def transmit(self, packet: Packet) -> None:
        """Send a packet."""

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Send an acknowledgement."""

    def report(self, process: "Process", effect: Effect, content: Any) -> None:
        """Tell the coordinator."""

    def refuse(self, sender: str, receiver: str, incarnation: int) -> None:
        """Tell the sender that the receiver has ended."""

    def wake(self, process: "Process") -> None:
        """Note that there is work between two handlers, or something to transport whose receiver must be found."""

    def find(self, process: "Process", receiver: str) -> None:
        """Look up the receiver, and say whether it exists or has ended."""

    def capture_fails(self) -> bool:
        """Whether this capture fails."""

    def captured(self, process: "Process", snapshot: SnapshotId) -> None:
        """Note that the state was captured."""

    def dropped(self, why: str) -> None:
        """Note that a batch was dropped."""


class Process(ABC):
    """See the module. `outbox` holds what was sent and not yet transported.

    `flight` holds, per receiver and first number, what was transported and not released. A subclass says whether its
    account or actor `is_born`, `is_ending` (it handles no more messages) and `is_busy` (a handler is not done yet),
    which messages create it, and what its state is.
    """

    def __init__(self, name: str, machine: Participant, world: Surroundings) -> None:
        self.name = name
        self.machine = machine
        self.world = world
        self.alive = True
        self.loading = False
        self.joining = False
        self.ended = False
        self.generation = 1
        self.start = 1
        self.highest_heard = 0
        self.last_record: ReportEnd | None = None
        self.outbox: dict[str, list[Any]] = defaultdict(list)
        self.flight: dict[str, dict[int, tuple[Any, ...]]] = defaultdict(dict)
        self.closings: set[str] = set()
        self.ready: set[str] = set()
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}
        self.mailbox: dict[str, list[Any]] = defaultdict(list)
        self.early: dict[str, dict[int, Any]] = defaultdict(dict)
        self.pauses: list[SnapshotId] = []
        self.ready_at_pause: dict[SnapshotId, frozenset[str]] = {}
        self.captures: dict[SnapshotId, Mapping[str, int]] = {}
        self._captured: Any = None

    # What runs inside ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_born(self) -> bool:
        """Whether the account or actor has a state."""

    @property
    @abstractmethod
    def is_ending(self) -> bool:
        """Whether it handles no more messages, and waits until it may leave."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a handler has begun and is not done."""

    @abstractmethod
    def is_creation(self, message: Any) -> bool:
        """Whether this message is the constructor's."""

    @abstractmethod
    def state(self) -> Any:
        """A copy of the state; None before birth."""

    # ------------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Whether it must do nothing except take what arrives."""
        return not self.alive or self.loading or self.joining or self.ended

    @property
    def incarnation(self) -> int:
        """The life of the system that this process belongs to."""
        return self.machine.incarnation

    # Working ---------------------------------------------------------------------------------------

    def next_senders(self) -> list[str]:
        """Senders whose next message may be processed now; before birth only the constructor's sender."""
        waiting = [sender for sender, messages in self.mailbox.items() if messages]
        if not waiting or self.machine.paused or self.is_ending:
            return []
        if limits := self.machine.limits:
            waiting = [sender for sender in waiting if self.received.get(sender, 0) < limits.get(sender, math.inf)]
        if not self.is_born:
            return [sender for sender in waiting if self.is_creation(self.mailbox[sender][0])]
        return waiting

    def pop_message(self, sender: str) -> Any:
        """Count the next message of `sender` as processed."""
        self.received[sender] = self.received.get(sender, 0) + 1
        return self.mailbox[sender].pop(0)

    def put(self, receiver: str, message: Any) -> None:
        """Number a message and put it into the outbox, or into the process's own mailbox."""
        self.sent[receiver] = self.sent.get(receiver, 0) + 1
        (self.mailbox if receiver == self.name else self.outbox)[receiver].append(message)

    def next_capture(self) -> SnapshotId | None:
        """The oldest snapshot that can be recorded at the next moment between two handlers."""
        for snapshot, behind in self.captures.items():
            if (
                not behind
                or self.is_ending
                or all(self.received.get(sender, 0) >= end for sender, end in behind.items())
            ):
                return snapshot
        return None

    @property
    def owed(self) -> dict[str, tuple[int, ...]]:
        """By driver, the numbers of the calls that were processed and are not answered."""
        return {}

    def capture(self, snapshot: SnapshotId) -> None:
        """Record a snapshot; call between two handlers."""
        del self.captures[snapshot]
        if self.world.capture_fails():
            self.tell(CaptureFailed(snapshot, "simulated"))
            return
        self.world.captured(self, snapshot)
        self._captured = self.state()
        self.tell(StateCaptured(snapshot, self.is_born, dict(self.sent), dict(self.received), self.owed))
        self._captured = None

    def pause(self) -> None:
        """Say that no handler runs; call between two handlers."""
        snapshot = self.pauses.pop(0)
        self.ready_at_pause[snapshot] = frozenset(self.ready)
        self.tell(HandlersPaused(snapshot, dict(self.sent)))

    def try_to_end(self) -> None:
        """Leave, if the account or actor wants to and the protocol allows it."""
        if not self.is_ending or self.ended or self.captures or self.is_busy:
            return
        sent = {receiver: n for receiver, n in self.sent.items() if receiver != self.name}
        if self.machine.may_end(sent):
            self.ended = True
            self.tell(EndRequested(dict(self.sent), dict(self.received)))

    # Transporting ----------------------------------------------------------------------------------

    def transportable(self) -> list[str]:
        """Receivers with waiting messages that may be sent now."""
        return [receiver for receiver, messages in self.outbox.items() if messages and receiver in self.ready]

    def take(self, receiver: str, count: int) -> None:
        """Hand the next messages to the transport."""
        self.tell(BatchTaken(receiver, count))

    def send_again(self, receiver: str, first: int) -> None:
        """Send again what is not yet acknowledged, with the markers due now: a packet or its answer was lost."""
        messages = self.flight[receiver].get(first, ())
        if first + len(messages) - 1 <= self.machine.acknowledged(receiver):
            messages = ()
        markers = self.machine.markers_due(receiver)
        closing = receiver in self.closings
        if messages or closing or markers:
            first = first if messages else self.machine.transported(receiver) + 1
            packet = Packet(self.name, receiver, self.incarnation, first, messages, markers, closing=closing)
            self.world.transmit(packet)

    def arrive(self, packet: Packet) -> None:
        """Take a packet that arrived."""
        numbered = dict(enumerate(packet.messages, packet.first))
        arrived = BatchArrived(
            packet.sender,
            packet.incarnation,
            packet.first,
            len(packet.messages),
            packet.markers,
            packet.tags,
            packet.closing,
        )
        effects = self.machine.handle(arrived)
        if any(isinstance(effect, HoldBatch) for effect in effects):
            self.early[packet.sender].update(numbered)
        self.carry_out(effects, numbered)
        if packet.incarnation != self.incarnation:
            return
        if self.ended:
            self.refuse(packet)
            return
        markers = tuple(marker.snapshot for marker in packet.markers)
        last, recorded = self.machine.arrived(packet.sender), self.machine.recorded_snapshots
        self.world.acknowledge(
            Acknowledgement(packet.sender, self.name, self.incarnation, last, markers, recorded, packet.closing)
        )

    def refuse(self, packet: Packet) -> None:
        """Refuse a packet that arrived after the end."""
        self.world.refuse(packet.sender, self.name, packet.incarnation)

    def acknowledged(self, acknowledgement: Acknowledgement) -> None:
        """Take a receiver's acknowledgement."""
        receiver, last = acknowledgement.receiver, acknowledgement.last
        if acknowledgement.incarnation != self.incarnation:
            return
        if acknowledgement.closing:
            self.closings.discard(receiver)
        self.tell(BatchAcknowledged(receiver, last, acknowledgement.markers, acknowledgement.recorded))
        self._release(receiver)

    def connected(self, receiver: str) -> None:
        """Note that the receiver said hello."""
        self.ready.add(receiver)
        self.tell(ReceiverReady(receiver))

    def receiver_ended(self, receiver: str) -> None:
        """Note that the receiver ended: messages that wait for it are dead letters now."""
        self.tell(ReceiverEnded(receiver))
        for queue in (self.outbox, self.flight):
            queue.pop(receiver, None)
        self.closings.discard(receiver)
        self.ready.discard(receiver)

    # The machine -----------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Give the machine an event, and carry out the effects."""
        self.carry_out(self.machine.handle(event), {})

    def carry_out(self, effects: tuple[Effect, ...], batch: dict[int, Any]) -> None:
        """Carry out what the machine orders; `batch` are the messages that came with the event."""
        for effect in effects:
            match effect:
                case DeliverBatch(sender, first, last):
                    early = self.early[sender]
                    for number in range(first, last + 1):
                        self.mailbox[sender].append(batch[number] if number in batch else early[number])
                        early.pop(number, None)
                case HoldBatch():
                    pass  # `arrive` put it aside
                case DropBatch(sender, _, why):
                    self.world.dropped(why)
                    self._let_go(sender, everything=why == "dead letter")
                case SendBatch(receiver, first, count, markers, closing):
                    self._send(receiver, first, count, markers, closing=closing)
                case CaptureState(snapshot, behind):
                    self.captures[snapshot] = behind
                case ForgetSnapshot(snapshot):
                    self.forget(snapshot)
                case ReportRecord(record):
                    self.report_record(effect, self._content(record))
                    for receiver in sorted(self.sent.keys() - self.ready - {self.name}):
                        self.world.find(self, receiver)  # the markers go to this receiver too
                    for receiver in tuple(self.flight):
                        self._release(receiver)
                case AwaitMarkers():
                    pass  # no deadline is kept here
                case PauseHandlers(snapshot):
                    self.pauses.append(snapshot)
                case ReportEnd():
                    self.last_record = effect
                    self.world.report(self, effect, None)
                case ReportFailure() | AnnounceSnapshot() | ReportQuiet():
                    self.world.report(self, effect, None)
                case _:
                    assert_never(effect)
        self.machine.validate()
        self.world.wake(self)

    def report_record(self, effect: ReportRecord, content: RecordContents) -> None:
        """Hand a record in."""
        self.world.report(self, effect, content)

    def forget(self, snapshot: SnapshotId) -> None:
        """Let go of what is kept for a snapshot: it has ended here."""
        self.captures.pop(snapshot, None)
        for receiver in tuple(self.flight):
            self._release(receiver)

    def _content(self, record: Record) -> RecordContents:
        """The contents for a record: a copy of the state, and the messages that the record counts."""
        outboxes = {receiver: self._unreleased(receiver, record) for receiver in record.sent if receiver != self.name}
        mailbox = {
            sender: self._in_mailbox(sender, record.received.get(sender, 0) + 1, last)
            for sender, last in record.arrived.items()
        }
        return RecordContents(self._captured, outboxes, mailbox)

    def _send(self, receiver: str, first: int, count: int, markers: Any, *, closing: bool) -> None:
        messages: tuple[Any, ...] = ()
        if count:
            outbox = self.outbox[receiver]
            messages = self.flight[receiver][first] = tuple(outbox[:count])
            del outbox[:count]
        if closing:
            self.closings.add(receiver)
        self.world.transmit(Packet(self.name, receiver, self.incarnation, first, messages, markers, closing=closing))

    def _unreleased(self, receiver: str, record: Record) -> tuple[Any, ...]:
        """The messages released+1 .. sent: those under way, and behind them those in the outbox."""
        in_flight = self.in_flight(receiver)
        wanted = range(record.released[receiver] + 1, record.transported[receiver] + 1)
        if missing := [number for number in wanted if number not in in_flight]:
            raise OracleFailure("released", f"{self.name} has no {missing} for {receiver} any more")
        return (*(in_flight[number] for number in wanted), *self.outbox[receiver])

    def in_flight(self, receiver: str) -> dict[int, Any]:
        """The messages transported to `receiver` and not released, by number."""
        flight = self.flight[receiver].items()
        return {number: message for first, messages in flight for number, message in enumerate(messages, first)}

    def _release(self, receiver: str) -> None:
        released = self.machine.released(receiver)
        flight = self.flight[receiver]
        for first in [first for first, messages in flight.items() if first + len(messages) - 1 <= released]:
            del flight[first]

    def _in_mailbox(self, sender: str, first: int, last: int) -> tuple[Any, ...]:
        taken = self.received.get(sender, 0)
        return tuple(self.mailbox[sender][first - taken - 1 : last - taken])

    def _let_go(self, sender: str, *, everything: bool) -> None:
        arrived = self.machine.arrived(sender)
        early = self.early[sender]
        for number in [number for number in early if everything or number <= arrived]:
            del early[number]

    def load(self, load: Load) -> None:
        """Fill a new process from a snapshot; it stays quiet until it is resumed."""
        self.loading = True
        self.sent, self.received = dict(load.sent), dict(load.received)
        self.mailbox.update({sender: list(messages) for sender, messages in load.mailbox.items()})
        self.tell(Restored(load.incarnation, load.sent, load.arrived, load.ended))
