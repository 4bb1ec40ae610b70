"""One simulated actor's machine, and what it counts: mailbox, outboxes, what is under way, and its records.

A snapshot is recorded as soon as the process has learned of it: no handler runs when a machine is told something.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol, assert_never

from rayshot.format.codec import Codec, Frame, creation_of
from rayshot.format.pickling import dump_state
from rayshot.model.cell import Cell
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.event_loop import ActorLoop
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.cut import Record
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
    EndRequested,
    Event,
    HandlersPaused,
    ReceiverEnded,
    ReceiverReady,
    StateCaptured,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.actor_packet import ActorPacket, RecordContent

if TYPE_CHECKING:
    from rayshot.format.pickled import PickledState


class Surroundings(Protocol):
    """What an actor's process asks of its world."""

    system: str

    def clock(self) -> float:
        """Virtual time in seconds."""

    def event_loop(self) -> ActorLoop:
        """Where coroutines run."""

    def note(self, line: str) -> None:
        """Write a line of the story."""

    def wake(self, process: "ActorMachine") -> None:
        """There may be something to handle."""

    def has_to_send(self, process: "ActorMachine", receiver: str) -> None:
        """Something waits to be transported."""

    def transmit(self, packet: ActorPacket) -> None:
        """Send a packet."""

    def acknowledge(self, sender: str, answer: BatchAcknowledged) -> None:
        """Tell the sender of a packet that it arrived."""

    def is_there(self, name: str) -> bool | None:
        """Whether an actor is there; None where nobody of that name ever was, False where it has ended."""

    def refuse(self, sender: str, receiver: str) -> None:
        """Tell the sender that the receiver has ended."""

    def report(self, process: "ActorMachine", effect: Effect, content: RecordContent | None) -> None:
        """Tell the coordinator."""

    def failed_to_start(self, names: Sequence[str]) -> None:
        """The constructor of the last one raised: it never was an actor of the system, nor were those that it made."""

    def spawn(self, specification: ActorSpecification, name: str | None) -> str:
        """Let a process come up for a new actor; returns its name."""

    def answer(self, process: "ActorMachine", driver: str, call_id: int, value: object, *, ok: bool) -> None:
        """Answer a driver's call."""

    def lose(self, letter: DeadLetter, message: bytes | None) -> None:
        """A message has no effect."""


class ActorMachine:
    """See the module. `mailbox` and `outbox` hold encoded messages by the other end of the channel.

    `under_way` holds, per receiver and number, what was transported and not released. `ending`: no handler runs any
    more, and the process leaves as soon as the protocol lets it.
    """

    cell: Cell
    codec: Codec

    def __init__(self, name: str, incarnation: int, world: Surroundings) -> None:
        self.name = name
        self.world = world
        self.machine = Participant(name, incarnation)
        self.mailbox: dict[str, deque[bytes]] = {}
        self.outbox: dict[str, deque[bytes]] = {}
        self.under_way: dict[str, dict[int, bytes]] = {}
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}
        self.ending = False
        self.ended = False
        self._early: dict[str, dict[int, bytes]] = {}
        self._captures: dict[SnapshotId, Mapping[str, int]] = {}
        self._pauses: list[SnapshotId] = []
        self._captured: PickledState | None = None
        self._ready: set[str] = set()
        self._gone: set[str] = set()

    def next_senders(self) -> list[str]:
        """Senders whose next message may be processed now; before birth only the creator's."""
        if self.ended or self.ending or self.machine.paused:
            return []
        limits = self.machine.limits
        waiting = [
            sender
            for sender, messages in self.mailbox.items()
            if messages and self.received.get(sender, 0) < limits.get(sender, math.inf)
        ]
        if self.cell.born or not waiting:
            return waiting
        return [sender for sender in waiting if self._is_creation(sender)]

    def _is_creation(self, sender: str) -> bool:
        first = Frame(self.received.get(sender, 0) + 1, 1, self.mailbox[sender][0])
        return creation_of(first) is not None

    # Transport -------------------------------------------------------------------------------------------------

    def put(self, receiver: str, message: bytes) -> None:
        """Number a message of this process and put it into the outbox; one to itself is in the mailbox at once."""
        if receiver in self._gone:
            self._lose(receiver, self.name, 0, message, f"actor {receiver!r} ended")
            return
        self.sent[receiver] = self.sent.get(receiver, 0) + 1
        if receiver == self.name:
            self.mailbox.setdefault(receiver, deque()).append(message)
        else:
            self.outbox.setdefault(receiver, deque()).append(message)
            self._find(receiver)

    def transportable(self, receiver: str) -> int:
        """How many messages may be transported to `receiver`."""
        return len(self.outbox.get(receiver, ())) if receiver in self._ready and not self.ended else 0

    def transport(self, receiver: str, count: int) -> None:
        """Hand the next messages to the network."""
        self.tell(BatchTaken(receiver, count))

    def arrive(self, packet: ActorPacket) -> None:
        """A packet comes to the end of its way."""
        batch = packet.batch
        if self.ended:
            self._refuse(packet)
            return
        effects = self.machine.handle(batch)
        if len(effects) != 1 or type(effects[0]) is not DeliverBatch:
            self._early.setdefault(batch.sender, {}).update(enumerate(packet.messages, batch.first))
            self.carry_out(effects)
            self._forget_early(batch.sender)
        elif packet.messages:
            self.mailbox.setdefault(batch.sender, deque()).extend(packet.messages)
        self.settle()
        self._acknowledge(batch)

    def _acknowledge(self, batch: BatchArrived) -> None:
        if self.ended:  # since it settled
            return
        markers = tuple(marker.snapshot for marker in batch.markers)
        arrived = self.machine.arrived(batch.sender)
        answer = BatchAcknowledged(self.name, arrived, markers, self.machine.recorded_snapshots)
        self.world.acknowledge(batch.sender, answer)

    def _refuse(self, packet: ActorPacket) -> None:
        sender = packet.batch.sender
        for number, message in enumerate(packet.messages, packet.batch.first):
            self._lose(self.name, sender, number, message, f"actor {self.name!r} ended")
        self.world.refuse(sender, self.name)

    def _forget_early(self, sender: str) -> None:
        arrived = self.machine.arrived(sender)
        early = self._early[sender]
        for number in [number for number in early if number <= arrived]:
            del early[number]

    def receiver_ended(self, receiver: str) -> None:
        """What waits for `receiver`, and what will, are dead letters."""
        if self.ended or receiver in self._gone:
            return
        self._gone.add(receiver)
        self._ready.discard(receiver)
        self.under_way.pop(receiver, None)
        for message in self.outbox.pop(receiver, ()):
            self._lose(receiver, self.name, 0, message, f"actor {receiver!r} ended")
        self.tell(ReceiverEnded(receiver))
        self.settle()

    def acknowledged(self, answer: BatchAcknowledged) -> None:
        """A receiver has something of what was sent."""
        self.tell(answer)
        self._release(answer.receiver)
        self.settle()

    def _find(self, receiver: str) -> None:
        if receiver not in self._ready:
            there = self.world.is_there(receiver)
            if there is False:
                self.receiver_ended(receiver)
                return
            if there is None:
                return  # whoever sent this handle knows of an actor that this world does not
            self._ready.add(receiver)
            self.tell(ReceiverReady(receiver))
        self.world.has_to_send(self, receiver)

    # The machine -----------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Give the machine a fact and do what follows."""
        effects = self.machine.handle(event)
        if effects:
            self.carry_out(effects)

    def settle(self) -> None:
        """Do what waits for the end of a handler: record, pause, end. Call after whatever may have brought it."""
        while (snapshot := self._next_capture()) is not None:
            self._capture(snapshot)
        while self._pauses:
            self.tell(HandlersPaused(self._pauses.pop(0), dict(self.sent)))
        if self.ending and not self.ended:
            self._try_to_end()
        self.world.wake(self)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Do what the machine orders."""
        for effect in effects:
            match effect:
                case DeliverBatch(sender, first, last):
                    early = self._early[sender]
                    mailbox = self.mailbox.setdefault(sender, deque())
                    mailbox.extend(early.pop(number) for number in range(first, last + 1))
                case SendBatch(receiver, first, count, markers, closing):
                    queue = self.outbox.get(receiver, deque())
                    messages = tuple(queue.popleft() for _ in range(count))
                    self.under_way.setdefault(receiver, {}).update(enumerate(messages, first))
                    batch = BatchArrived(self.name, self.machine.incarnation, first, count, markers, (), closing)
                    self.world.transmit(ActorPacket(receiver, batch, messages))
                case CaptureState(snapshot, behind):
                    self._captures[snapshot] = behind
                case PauseHandlers(snapshot):
                    self._pauses.append(snapshot)
                case ReportRecord(record):
                    self.world.report(self, effect, self._content(record))
                    for receiver in sorted(self.sent.keys() - self._ready - {self.name}):
                        self._find(receiver)  # the markers go to it too
                    self._release_all()
                case ForgetSnapshot(snapshot):
                    self._captures.pop(snapshot, None)
                    self._release_all()
                case ReportEnd() | ReportFailure() | AnnounceSnapshot() | ReportQuiet():
                    self.world.report(self, effect, None)
                case HoldBatch() | DropBatch() | AwaitMarkers():
                    pass  # what is early lies in `_early` already; nothing is lost, doubled or kept by time here
                case _:
                    assert_never(effect)

    def _next_capture(self) -> SnapshotId | None:
        for snapshot, behind in self._captures.items():
            if self.ending or all(self.received.get(sender, 0) >= end for sender, end in behind.items()):
                return snapshot
        return None

    def _capture(self, snapshot: SnapshotId) -> None:
        del self._captures[snapshot]
        self.world.note(f"{self.name} records {snapshot}")
        if self.cell.born:
            captured = dump_state(self.cell.state(), self.name, self.cell.instance)
            copies = tuple(memoryview(bytes(buffer)) for buffer in captured.buffers)  # they are views of what lives
            self._captured = captured._replace(buffers=copies)
        self.tell(StateCaptured(snapshot, self.cell.born, dict(self.sent), dict(self.received)))
        self._captured = None

    def _content(self, record: Record) -> RecordContent:
        outboxes = {receiver: self._unreleased(receiver, record) for receiver in record.sent if receiver != self.name}
        mailboxes = {
            sender: tuple(islice(self.mailbox.get(sender, ()), last - record.received.get(sender, 0)))
            for sender, last in record.arrived.items()
        }
        return RecordContent(self.cell.specification, self._captured, outboxes, mailboxes)

    def _unreleased(self, receiver: str, record: Record) -> tuple[bytes, ...]:
        under_way = self.under_way.get(receiver, {})
        wanted = range(record.released[receiver] + 1, record.transported[receiver] + 1)
        return (*(under_way[number] for number in wanted), *self.outbox.get(receiver, ()))

    def _release_all(self) -> None:
        for receiver in self.under_way:
            self._release(receiver)

    def _release(self, receiver: str) -> None:
        under_way = self.under_way.get(receiver)
        if under_way:
            released = self.machine.released(receiver)
            for number in [number for number in under_way if number <= released]:
                del under_way[number]

    # Ending ----------------------------------------------------------------------------------------------------

    def _try_to_end(self) -> None:
        sent = {receiver: n for receiver, n in self.sent.items() if receiver != self.name}
        if self._captures or not self.machine.may_end(sent):
            return
        self.tell(EndRequested(dict(self.sent), dict(self.received)))
        self.world.note(f"{self.name} ends")
        self.leave()

    def leave(self) -> None:
        """Process nothing any more: what waits here are dead letters."""
        self.ended = True
        self.cell.timers.clear()
        for sender, messages in self.mailbox.items():
            for number, message in enumerate(messages, self.received.get(sender, 0) + 1):
                self._lose(self.name, sender, number, message, f"actor {self.name!r} ended")
        self.mailbox.clear()

    def _lose(self, receiver: str, sender: str, number: int, message: bytes, detail: str) -> None:
        head = next(self.codec.unpacker(message))[0]
        letter = DeadLetter(receiver, sender, number, head if isinstance(head, str) else "", detail)
        self.world.lose(letter, message)
