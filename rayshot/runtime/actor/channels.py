"""All channels of an actor's process: incoming ones end in the mailbox, outgoing ones begin in the outboxes."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, assert_never

from rayshot.errors import ActorExited, SystemDown
from rayshot.format.codec import Codec, Frame, cut_frame
from rayshot.format.slots import Slot
from rayshot.model.cell import Cell
from rayshot.model.current import runs_here
from rayshot.protocol.effects import DeliverBatch, DropBatch, HoldBatch, SendBatch
from rayshot.protocol.events import BatchAcknowledged, BatchArrived, BatchTaken, ReceiverEnded, ReceiverReady
from rayshot.runtime.actor.boarding import Boarding, RidingChannel
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.actor.runner import Runner, TransportEffect
from rayshot.runtime.actor.tracing import Tracing
from rayshot.runtime.channel.attached_references import Slots, values_size
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.peers import Peer, Peers, RayPeer
from rayshot.runtime.channel.transport import SenderChannel
from rayshot.runtime.door import door
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.door.naming import is_coordinator
from rayshot.runtime.wire.host_identity import ActorOffer, Ending
from rayshot.runtime.wire.packets import PacketAnswer, Status
from rayshot.runtime.wire.waiting import SAID_MAX, tell_chain

log = logging.getLogger("rayshot")
CONGESTION_WAIT_S = 0.1
"""An actor with a full outbox waits so many seconds for room, then goes on: a cycle of full actors cannot deadlock."""


ASK_S = 2.0
"""An actor is asked for so many seconds what it does."""
RETURN_S, FIND_AGAIN_S = 15.0, 0.2
"""After the system went back to a snapshot, a receiver may have to be created again. It is looked for again for so many
seconds, with such pauses."""


class ActorChannel(RidingChannel):
    """The channel from an actor to another one: it carries markers, and keeps batches that a record may still need.

    `kept` are the acknowledged batches that a record may need, by first number.
    """

    __slots__ = ("_channels",)  # see DriverChannel

    def __init__(self, channels: "Channels", receiver: str) -> None:
        super().__init__(channels, receiver)
        self._channels = channels
        self.kept: dict[int, InFlight] = {}
        self.kept_bytes = 0
        self._machine = channels.participant
        self._closing: InFlight | None = None

    def flush(self) -> None:
        """See Outbox."""
        if self._may_send() and not self._channels.boarding.takes(self):
            while self._call_is_due() and self.pending and self.held_at != 0 and (credit := self._credit()) > 0:
                self.transmit(self.taken(self.batch_size(credit)))

    def taken(self, count: int) -> InFlight:
        """The next messages, as the machine numbers them, with the markers that are due."""
        (order,) = self._machine.handle(BatchTaken(self.receiver, count))
        assert isinstance(order, SendBatch)
        batch = InFlight(order.first, order.count, b"", order.markers, ())
        batch.body, batch.slots = self.take(count)
        self.in_flight[batch.first] = batch
        self.unprocessed.add(batch.last, batch.size + (values_size(batch.slots) if batch.slots else 0))
        return batch

    def renew(self, batch: InFlight) -> None:
        """See SenderChannel. The batch gets the markers that are due now, which may be others than the first time."""
        batch.markers = self._machine.markers_due(self.receiver)

    def connected(self, peer: Peer) -> None:
        """See SenderChannel."""
        super().connected(peer)
        if self._closing is not None:
            closing, self._closing = self._closing, None
            self.transmit(closing)
        self.say_asked()

    def close(self, batch: InFlight) -> None:
        """Send a last batch, which says that nothing follows. Call under the lock."""
        assert self.lock.locked()
        self.flush()
        if self.peer is not None:
            self.transmit(batch)
        else:
            self._closing = batch

    def send_markers(self, batch: InFlight) -> None:
        """Send a batch without messages at once: markers need neither credit nor room. Call under the lock."""
        assert self.lock.locked()
        if self.down is None and self.ended is None and self.peer is not None:
            self.transmit(batch)
            failpoint("after_marker")

    def say_asked(self) -> None:
        """The receiver must hear now up to where this actor waits for answers: it may be held. Call under the lock."""
        if self.asked > self.asked_said:
            self.send_empty()

    def send_empty(self) -> None:
        """See RidingChannel."""
        self.send_markers(InFlight(self.transported + 1, 0, b"", self._machine.markers_due(self.receiver), ()))

    def end(self, detail: str) -> None:
        """See SenderChannel. No record needs the batches that the receiver had."""
        self.kept.clear()
        self.kept_bytes = 0
        super().end(detail)

    # For records -----------------------------------------------------------------------------------------------

    @property
    def unreleased_bytes(self) -> int:
        """Bytes of the messages that a record would hold: those that wait, are under way, or are kept for records."""
        self.gather()
        in_flight = sum(batch.size for batch in self.in_flight.values())
        return self.pending_bytes + self.kept_bytes + in_flight

    def unreleased(self, first: int) -> list[Frame]:
        """The messages from `first` to the last value of `sent`. Call under the lock, between two handlers."""
        assert self.lock.locked()
        frames = [Frame(batch.first, batch.count, batch.body) for batch in self._out_of_the_outbox()]
        return [*(cut_frame(frame, first, frame.last) for frame in frames), *self.frames()]

    def unreleased_slots(self, first: int) -> Slots:
        """The slots of the messages from `first` to the last value of `sent`. Call as `unreleased`."""
        found = (*(batch.slots for batch in self._out_of_the_outbox()), self.slots)
        return {number: slots for some in found for number, slots in some.items() if number >= first}

    def _out_of_the_outbox(self) -> list[InFlight]:
        return [batch for _, batch in sorted({**self.kept, **self.in_flight}.items())]

    def keep(self, batch: InFlight) -> None:
        """Keep an acknowledged batch that a record may need. Call under the lock."""
        assert self.lock.locked()
        self.kept[batch.first] = batch
        self.kept_bytes += batch.size

    def release(self, last: int) -> None:
        """Drop kept batches up to the message `last`: no record needs them any more. Call under the lock."""
        assert self.lock.locked()
        for first in [first for first, batch in self.kept.items() if batch.last <= last]:
            self.kept_bytes -= self.kept.pop(first).size


class SelfChannel(ActorChannel):
    """The channel from an actor to itself: a message is in the mailbox at once, even if its objects are not ready."""

    delivers_unready = True

    def __init__(self, channels: "Channels") -> None:
        super().__init__(channels, channels.name)

    @property
    def sent(self) -> int:
        """See Outbox. It first puts the messages into the mailbox, as a sending thread may not have done so yet."""
        self.flush()
        return self.transported + len(self.pending)

    def flush(self) -> None:
        """Deliver all messages up to the first open call; deliver nothing before the process is loaded."""
        self.gather()
        count = len(self.pending) if self.held_at is None else self.held_at
        if count and self._channels.loaded:
            first = self.transported + 1
            body, slots = self.take(count)
            if slots:
                self._channels.mailbox.put_slots(self.receiver, slots, first, self.transported)
            self._channels.mailbox.put(self.receiver, Frame(first, count, body))
            self._channels.wake.notify()

    def message_at(self, number: int) -> bytes:
        """See Outbox. The message may already be in the mailbox."""
        return self._channels.mailbox.message(self.receiver, number) or super().message_at(number)

    def released(self) -> None:
        """See Outbox."""
        self._channels.wake.notify()


class Channels:
    """The channels of one actor's process, and the handling of their batches. Implements Sender and Transport.

    Call everything here under the lock, except `channel`, `connect_all`, `has_own_mail` and `settle_calls`, which take
    it. `out` are the outgoing channels, by receiver. `congestion` are the channels above their limit. `unconnected` are
    the channels that look for their receivers later. `loaded`: the process has its state and its counters.

    `learn_offer(receiver, offer)` is called with what a receiver's class offers. `take(packet)` takes a rider, and
    returns the ack of it; the process sets it.
    """

    def __init__(
        self, runner: Runner, cell: Cell, codec: Codec, tracing: Tracing, learn_offer: Callable[[str, ActorOffer], None]
    ) -> None:
        identity = runner.identity
        self.name, self.incarnation = identity.name, identity.incarnation
        self.codec = codec
        self.lock, self.wake = runner.lock, runner.wake
        self.participant = runner.participant
        self.mailbox = Mailbox()
        self.out: dict[str, ActorChannel] = {}
        self.peers = Peers(identity.system, identity.incarnation)
        self.boarding = Boarding(runner.lock)
        self.take: Callable[[bytes], tuple[int, PacketAnswer]]
        self.dead_letters = cell.dead_letters
        self.dead_letters.life = identity.incarnation
        self.congestion: set[SenderChannel] = set()
        self.unconnected: list[SenderChannel] = []
        self.draining = False
        self.constructor_asks = False
        self.loaded = not identity.loading
        self._runner = runner
        self._cell = cell
        self._tracing = tracing
        self._learn_offer = learn_offer
        self._arriving: tuple[str, Frame, Slots | None] | None = None
        self._delivered = False
        self._patient_until = time.monotonic() + RETURN_S if identity.heals and identity.incarnation > 1 else 0.0

    def channel(self, receiver: str) -> ActorChannel:
        """The channel to `receiver`."""
        with self.lock:
            return self.channel_locked(receiver)

    def channel_locked(self, receiver: str) -> ActorChannel:
        """As `channel`, for callers that hold the lock."""
        assert self.lock.locked()
        channel = self.out.get(receiver)
        if channel is None:
            channel = self.out[receiver] = SelfChannel(self) if receiver == self.name else ActorChannel(self, receiver)
            channel.down = self._runner.down
            if self._tracing.tracer is not None:
                channel.trace_sends(self._tracing.hear_sends())
        return channel

    @property
    def sent(self) -> dict[str, int]:
        """For each receiver to which this actor has sent messages, the number of the last one."""
        return {receiver: sent for receiver, channel in self.out.items() if (sent := channel.sent)}

    @property
    def waiting(self) -> int:
        """The number of messages that wait in outboxes."""
        return sum(channel.sent - channel.transported for channel in self.out.values())

    def has_own_mail(self) -> bool:
        """Whether messages wait that this actor sent to itself."""
        with self.lock:
            own = self.out.get(self.name)
            return own is not None and own.sent > self.mailbox.received().get(self.name, 0)

    def limits(self) -> Mapping[str, int]:
        """The number of the last message that may be handled now, per sender; no limit for senders that are missing."""
        limits, own = self.participant.limits, self.out.get(self.name)
        unready = None if own is None else own.holding.first_unready()
        if unready is None:
            return limits
        return {**limits, self.name: min(unready[0] - 1, limits.get(self.name, unready[0]))}

    def settle_calls(self) -> None:
        """The handler has ended: its open calls may leave. Takes the lock."""
        for channel in tuple(self.out.values()):
            if channel.held_at is not None:
                channel.settle()

    def leave_all(self, callees: Iterable[str]) -> None:
        """The running handler waits for these: all that it sent may leave, to them beyond credit. Takes the lock."""
        self.constructor_asks |= self._cell.constructing
        if self.unconnected:
            self.connect_all()
        with self.lock:
            channels = [self.channel_locked(callee) for callee in callees]
            for channel in channels:
                channel.asked = channel.awaited = channel.sent
        self.settle_calls()
        with self.lock:
            for channel in channels:
                channel.exceed_credit()

    def say_asked(self) -> None:
        """Everybody may be held: say where this actor waits for answers, on channels that carry nothing else now."""
        for channel in self.out.values():
            channel.say_asked()

    def answers(self, behind: dict[str, int]) -> Iterator[tuple[str, int, list[Any], tuple[Slot, ...]]]:
        """The answers to questions that have arrived, behind those that were looked at before. See Mailbox."""
        return self.mailbox.answers(behind, self.limits(), self.codec)

    def tell_chain(self, callees: Iterable[str]) -> str:
        """What these actors do, and those for which they wait, in words. It asks them: hold no lock."""
        seen: dict[str, Any] = {}
        to_ask = [*callees]
        while to_ask and len(seen) < SAID_MAX:
            if (name := to_ask.pop(0)) not in seen and (handle := self.peers.find(name)) is not None:
                with suppress(door.CallFailed):
                    seen[name] = door.get(handle.status.remote(), timeout=ASK_S)
                    to_ask.extend(seen[name]["waits_for"])
        return tell_chain(callees, seen)

    def drain(self) -> Mapping[str, int]:
        """From now on send all messages that can leave, whatever the credit. Returns their last number by receiver."""
        self.draining = True
        return {receiver: last for receiver, channel in self.out.items() if (last := channel.last_leaving)}

    def flush(self) -> None:
        """Transport all messages that may be transported, on all channels."""
        for channel in self.out.values():
            channel.flush()

    def release(self) -> None:
        """Drop the kept batches that no record needs any more."""
        for receiver, channel in self.out.items():
            if channel.kept:
                channel.release(self.participant.released(receiver))

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Send nothing any more; each later attempt to send raises the error."""
        self.boarding.shut()
        for channel in self.out.values():
            channel.shut(error)

    # Coming in -------------------------------------------------------------------------------------------------

    def arrived(self, batch: BatchArrived, body: bytes | memoryview, slots: Slots | None) -> bool:
        """A packet arrived. Returns whether its messages are in the mailbox now, and were not there before.

        Call `Recording.flush` after it, without the lock.
        """
        self._arriving, self._delivered = (batch.sender, Frame(batch.first, batch.count, body), slots), False
        self._runner.handle(batch)
        self._arriving = None
        return self._delivered

    def carry_out(self, effect: TransportEffect) -> None:
        """See Transport."""
        match effect:
            case DeliverBatch(sender, first, last):
                self._deliver(sender, first, last)
            case HoldBatch(sender, _):
                assert self._arriving is not None
                _, frame, slots = self._arriving
                self.mailbox.hold(sender, frame)
                if slots:
                    self.mailbox.put_slots(sender, slots, frame.first, frame.last)
            case DropBatch(sender, first, why):
                log.debug("%s dropped a %s batch of %s from %d on", self.name, why, sender, first)
            case SendBatch(receiver, first, count, markers, closing):
                assert count == 0
                batch = InFlight(first, 0, b"", markers, (), closing=closing)
                self.out[receiver].close(batch) if closing else self.out[receiver].send_markers(batch)
            case _:
                assert_never(effect)

    def _deliver(self, sender: str, first: int, last: int) -> None:
        of, frame, slots = self._arriving or ("", None, None)
        if slots and of == sender:
            self.mailbox.put_slots(sender, slots, first, last)
        if frame is not None and of == sender and frame.first <= first and last == frame.last:
            self.mailbox.put(sender, cut_frame(frame, first, last))
            self._delivered = True
        else:
            self.mailbox.release(sender, first, last)
        if self._runner.hear_news is None:
            self.wake.notify_all()
        else:
            self._runner.notify()

    # Going out: Sender -----------------------------------------------------------------------------------------

    def acknowledged(self, channel: ActorChannel, last: int, batch: InFlight, answer: PacketAnswer) -> None:
        """See Sender. A record may still need the batch."""
        markers = tuple(marker.snapshot for marker in batch.markers)
        self._runner.handle(BatchAcknowledged(channel.receiver, last, markers, answer.recorded))
        released = self.participant.released(channel.receiver)
        if batch.count and batch.last > released:
            channel.keep(batch)
            assert self._runner.snapshots is not None
            self._runner.snapshots.check_kept()
        if channel.kept:
            channel.release(released)
        if self._runner.ending:
            self._runner.notify()

    def refused(self, receiver: str, answer: PacketAnswer) -> None:
        """See Sender. If the system stops, the coordinator will tell this process."""
        if answer.status is Status.ENDED:
            self.receiver_ended(receiver, answer.detail)

    def lost(self, receiver: str, error: Exception) -> bool:
        """See Sender. The coordinator watches all actors, and will stop the system if the receiver died."""
        log.debug("%s: a call to %s failed: %s", self.name, receiver, error)
        return not isinstance(error, door.Died)

    def congested(self, channel: SenderChannel) -> None:
        """See Sender. The worker waits after the running handler; another thread waits at once."""
        if runs_here(self._cell):
            self.congestion.add(channel)
            self._runner.interrupted = True
        elif channel.held_at is None:  # otherwise room comes when the handler ends, and it may wait for this thread
            channel.room.wait(CONGESTION_WAIT_S)

    def await_room(self, may_record: Callable[[], object]) -> None:
        """Wait for a moment while channels are full, unless there is something to record. Takes the lock."""
        runner, deadline = self._runner, time.monotonic() + CONGESTION_WAIT_S
        with self.lock:
            while self.congestion and not (runner.down or may_record()):
                channel = self.congestion.pop()
                while channel.full and not (runner.down or may_record()) and time.monotonic() < deadline:
                    if channel.held_at == 0:
                        break  # room comes when an object gets ready, which may take long
                    channel.room.wait(deadline - time.monotonic())
            self.congestion.clear()

    def connect(self, channel: SenderChannel) -> None:
        """See Sender. Messages that are sent before all actors are loaded wait for that, as their numbers come later.

        Messages that a constructor sends wait for its end, as it may fail, or until it waits for an answer.
        """
        if (self._cell.constructing and not self.constructor_asks) or self._runner.loading:
            self.unconnected.append(channel)
            self._runner.interrupted = True
        else:
            self.peers.insist(
                lambda: self._connect(channel),
                lambda: self._runner.down is not None or channel.ended is not None,
            )

    def connect_all(self) -> None:
        """The constructor has succeeded, or all actors are loaded: find the receivers. Takes the lock."""
        with self.lock:  # a thread that the constructor started may be sending
            channels, self.unconnected = self.unconnected, []
        for channel in channels:
            self.connect(channel)

    def _connect(self, channel: SenderChannel) -> None:
        """Raises CallFailed while Ray's control service or the coordinator does not answer."""
        receiver = channel.receiver
        identity = self._runner.identity
        try:
            handle = self._find(receiver)
            fate = door.get(identity.coordinator.fate.remote(receiver, self.incarnation)) if handle is None else None
        except door.Died:
            if is_coordinator(identity.system, identity.coordinator):
                raise
            return  # the coordinator is gone for good, and nobody else knows
        if handle is None:
            if isinstance(fate, Ending):
                with self.lock:
                    self.receiver_ended(receiver, fate.detail)
            return
        try:
            offer = door.get(handle.hello.remote())
        except door.CallFailed as error:
            log.debug("%s: no connection to %s: %s", self.name, receiver, error)
            return  # the receiver died: the system stops or goes back
        with self.lock:
            if offer is not None:
                self._learn_offer(receiver, offer)
            channel.connected(RayPeer(handle))
            self._runner.handle(ReceiverReady(receiver))
            channel.flush()

    def _find(self, receiver: str) -> Any | None:
        """The receiver's Ray handle. After the system went back, who creates it may first have to be told again."""
        coordinator = self._runner.identity.coordinator
        while (handle := self.peers.find(receiver)) is None and time.monotonic() < self._patient_until:
            if self._runner.down is not None or door.get(coordinator.is_there.remote(receiver)) is False:
                break
            time.sleep(FIND_AGAIN_S)
        return handle

    def receiver_ended(self, receiver: str, detail: str) -> None:
        """`receiver` has ended: messages that wait for it, and later ones, become dead letters."""
        self._runner.handle(ReceiverEnded(receiver))
        self.channel_locked(receiver).end(detail)
