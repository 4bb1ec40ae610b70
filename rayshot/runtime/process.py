"""An actor's process: its lock, its machine, its mailbox and its channels - everything but the threads.

Implements what a Cell asks of its world (CellPort) and what an outbox asks of its process (Sender).
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import ray

from rayshot.errors import ActorExited, SystemDown
from rayshot.format.codec import FLAT, Codec, Frame, cut_frame
from rayshot.format.pickling import carry
from rayshot.model.cell import Cell
from rayshot.model.current import runs_here
from rayshot.model.handle import ActorHandle, with_class
from rayshot.model.reply import OpenCall, Reply
from rayshot.model.specification import ActorSpecification
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
    HandlersPaused,
    ReceiverEnded,
    ReceiverReady,
)
from rayshot.protocol.identity import SnapshotId, is_driver
from rayshot.protocol.participant import Participant
from rayshot.runtime.beside import Slots, size_of
from rayshot.runtime.connector import Connector, RayPeer
from rayshot.runtime.dead_drivers import DeadDrivers
from rayshot.runtime.dead_letters import DeadLetters
from rayshot.runtime.dropping import Dropped
from rayshot.runtime.identity import Ending, HostIdentity
from rayshot.runtime.mailbox import Mailbox
from rayshot.runtime.naming import new_name
from rayshot.runtime.outbox import OutChannel
from rayshot.runtime.outcomes import Outcome, Outcomes, failure, sendable
from rayshot.runtime.recording import Recording
from rayshot.runtime.references import know_references
from rayshot.runtime.sender import InFlight
from rayshot.runtime.shared_memory import note_buffers
from rayshot.runtime.spawning import is_there, name_taken, spawn_host
from rayshot.runtime.tracing import Tracer
from rayshot.runtime.wire import Answer, Status, pack_packet

log = logging.getLogger("rayshot")
CONGESTION_WAIT_S = 0.1
"""An actor with a full outbox waits this long for room, then goes on: no cycle of full actors can deadlock."""


class SelfChannel(OutChannel):
    """The channel from an actor to itself: what is sent is in the mailbox at once, ready or not."""

    delivers_unready = True

    def __init__(self, process: "ActorProcess") -> None:
        super().__init__(process, process.name, process.lock)
        self._process = process

    @property
    def sent(self) -> int:
        """See OutChannel. It is in the mailbox then: a thread may not have come to that yet."""
        self.flush()
        return self.transported + len(self.pending)

    def flush(self) -> None:
        """Deliver all but what stands behind an open call; nothing before the process is loaded."""
        self.gather()
        count = len(self.pending) if self.held_at is None else self.held_at
        if count and self._process.loaded:
            body = b"".join(self.pending[:count])  # type: ignore[arg-type]
            del self.pending[:count]
            self.pending_bytes -= len(body)
            if self.slots:
                slots = self._take_slots(self.transported + count)
                self.pending_bytes -= size_of(slots)
                self._process.mailbox.put_slots(self.receiver, slots, 1, self.transported + count)
            self._process.mailbox.put(self.receiver, Frame(self.transported + 1, count, body))
            self.transported += count
            if self.held_at is not None:
                self.held_at = 0
            self._process.wake.notify()

    def message_at(self, number: int) -> bytes:
        """See OutChannel. It may lie in the mailbox."""
        return self._process.mailbox.message(self.receiver, number) or super().message_at(number)

    def released(self) -> None:
        """See OutChannel."""
        self._process.wake.notify()


class ActorProcess:
    """One actor's process.

    `lock` covers the machine, the mailbox, the outbox and what is kept for snapshots. `interrupted` tells the worker
    that there is something to do between two handlers: `captures`, `pauses`, open calls, a full outbox, the end. What
    is `at_rest` is called between two batches, under the lock.
    Of one that a restore makes `loaded` says that it has its state and counters, and `loading` that others may not yet.
    """

    def __init__(self, identity: HostIdentity) -> None:
        know_references()
        note_buffers()
        self.identity = identity
        self.name = identity.name
        self.system = identity.system
        self.lock = threading.Lock()
        self.wake = threading.Condition(self.lock)
        self.participant = Participant(identity.name, identity.incarnation)
        self.mailbox = Mailbox()
        self.codec = Codec(ActorHandle, self._name_of, self.handle_of)
        self.cell = Cell(identity.name, self, time.monotonic)
        self.is_there: Callable[[str], bool | None] = lambda name: is_there(identity, name)
        self.connector = Connector(identity.system, identity.incarnation)
        self.dead_letters = DeadLetters()
        self.recording = Recording(self)
        self.tracer = Tracer(identity.name, full=identity.trace == "full") if identity.trace else None
        self.cell.told = None if self.tracer is None else self.tracer.calls
        self.trace_ended_at = -1
        self.at_rest: list[Callable[[], None]] = []
        self.channels: dict[str, OutChannel] = {}
        self.captures: dict[SnapshotId, Mapping[str, int]] = {}
        self.pauses: list[SnapshotId] = []
        self.draining = False
        self.unconnected: list[OutChannel] = []
        self.children: list[str] = []
        self.congestion: set[OutChannel] = set()
        self.outcomes = Outcomes(self.lock)
        self.dead_drivers = DeadDrivers(self)
        self.interrupted = False
        self.ending = False
        self.leaving = False
        self.loading = identity.loading
        self.loaded = not identity.loading
        self.down: SystemDown | ActorExited | None = None
        self._handles: dict[str, ActorHandle] = {}
        self._dropped = Dropped(self._end_dropped)

    # Port: what user code reaches ------------------------------------------------------------------------------

    def _name_of(self, handle: ActorHandle) -> str:
        handle.give_out()
        return handle.name_in(self.system)

    def handle_of(self, name: str) -> ActorHandle:
        """This process's handle of the actor `name`."""
        handle = self._handles.get(name)
        if handle is None:
            self._dropped.give_out(name)
            handle = self._handles[name] = ActorHandle(self.system, name, None, self)
        return handle

    def own_handle(self) -> ActorHandle:
        """The actor's own handle, for its code."""
        self.cell.shared = True
        return with_class(self.handle_of(self.name), type(self.cell.instance))

    def channel(self, receiver: str) -> OutChannel:
        """The channel to `receiver`."""
        with self.lock:
            return self.channel_locked(receiver)

    def channel_locked(self, receiver: str) -> OutChannel:
        """As `channel`, for those who hold the lock."""
        channel = self.channels.get(receiver)
        if channel is None:
            channel = self.channels[receiver] = self._new_channel(receiver)
            channel.down = self.down
        return channel

    def _new_channel(self, receiver: str) -> OutChannel:
        channel = SelfChannel(self) if receiver == self.name else OutChannel(self, receiver, self.lock)
        if self.tracer is not None:
            channel.trace_sends(self.tracer.hearing_of_sends(self.cell))
        return channel

    def call(self, receiver: str, tell: bytes) -> Reply:
        """Send a call; whether a reply is wanted is known when the handler ends. Threads of the user's get none."""
        channel = self.channel(receiver)
        if not runs_here(self.cell):
            channel.append(tell)
            return Reply(self.cell, None, receiver)
        call = OpenCall(tell)
        channel.append_open(call)
        self.cell.open_calls.append(call)
        self.interrupted = True
        return Reply(self.cell, call, receiver)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it its constructor's call."""
        with self.lock:
            if name in self.participant.ended_peers:
                raise name_taken(name, self.system)
        anonymous, name = name is None, name or new_name(specification.class_name)
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        host = spawn_host(self.identity, specification, name)
        self.connector.know(name, host)
        if self.cell.constructing:
            self.children.append(name)
        self.channel(name).append(message)
        held = anonymous and not self.identity.trace  # a trace has what handlers send, and nothing is dropped by one
        handle = self._dropped.handle(self, name, specification, held=held)
        if not held:
            self._handles[name] = handle
        return handle

    def _end_dropped(self, name: str) -> None:
        with contextlib.suppress(ActorExited, SystemDown):
            self.channel(name).append(self.codec.end(dropped=True))

    def has_own_mail(self) -> bool:
        """Whether messages wait that this actor sent to itself."""
        with self.lock:
            own = self.channels.get(self.name)
            return own is not None and own.sent > self.mailbox.received().get(self.name, 0)

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """Send the outcome of a call back: over the channel to an actor, to the waiting call of a driver."""
        if isinstance(value, Exception) and not ok:
            carry(value)
        if not is_driver(sender):
            self.channel(sender).append(self._encode_reply(call_id, value, ok=ok))
            return
        copied, ok, size = self._copy(value, ok=ok)
        result = copied if ok else failure(copied, self.name)
        with self.lock:
            outcome = Outcome(result, self.participant.open_snapshots, size=size)
            self.outcomes.settle(sender, call_id, outcome, self.recording.kept_from(sender, outcome.tags))

    def request_snapshot(self, token: str = "") -> None:
        """Begin a snapshot when the running handler has ended; with the `token` of whoever asked the coordinator."""
        self.recording.requested.append(token)
        self.interrupted = True

    def request_end(self) -> None:
        """End when the running handler has ended."""
        self.ending = True
        self.interrupted = True

    def _encode_reply(self, call_id: int, value: object, *, ok: bool) -> bytes:
        try:
            return self.codec.reply(call_id, value, ok=ok)
        except Exception as error:  # noqa: BLE001 - encoding runs code of the value's class; its error is the answer
            return self.codec.reply(call_id, sendable(error), ok=False)

    def _copy(self, value: Any, *, ok: bool) -> tuple[Any, bool, int]:
        """Copy a result on the handler's own thread: the next handler may change what it was made of. And its bytes."""
        if type(value) in FLAT or not ok:
            return value, ok, len(value) if isinstance(value, str | bytes) else 0
        try:
            copied, size = self.codec.copied(value)
        except Exception as error:  # noqa: BLE001 - encoding runs code of the value's class; its error is the answer
            return sendable(error), False, 0
        return copied, True, size

    # Sender: what the outbox asks ------------------------------------------------------------------------------

    def taken(self, receiver: str, count: int) -> InFlight:
        """The next `count` messages are taken from the outbox."""
        (batch,) = self.participant.handle(BatchTaken(receiver, count))
        assert isinstance(batch, SendBatch)
        return InFlight(batch.first, batch.count, b"", batch.markers, ())

    def renewed(self, receiver: str, batch: InFlight) -> None:
        """A batch is sent again, with the markers that are due now."""
        batch.markers = self.participant.markers_due(receiver)

    def packed(self, batch: InFlight) -> bytes:
        """The batch as a packet."""
        return pack_packet(
            self.name,
            self.identity.incarnation,
            batch.first,
            batch.count,
            batch.body,
            markers=batch.markers,
            closing=batch.closing,
        )

    def acknowledged(self, receiver: str, last: int, batch: InFlight, answer: Answer) -> int:
        """The receiver has a batch."""
        markers = tuple(marker.snapshot for marker in batch.markers)
        self.carry_out(self.participant.handle(BatchAcknowledged(receiver, last, markers, answer.recorded)))
        if self.ending:
            self.wake.notify()
        return self.participant.released(receiver)

    def refused(self, receiver: str, answer: Answer) -> None:
        """The receiver takes nothing. When the system stops, this process will hear of it from the coordinator."""
        if answer.status is Status.ENDED:
            self.receiver_ended(receiver, answer.detail)

    def lost(self, receiver: str, error: Exception) -> bool:
        """A call failed. The coordinator watches all actors and will stop the system if the receiver died."""
        log.debug("%s: a call to %s failed: %s", self.name, receiver, error)
        return not isinstance(error, ray.exceptions.ActorDiedError)

    def congested(self, channel: OutChannel) -> None:
        """An outbox is above its limit: the worker pauses after the running handler, another thread at once."""
        if runs_here(self.cell):
            self.congestion.add(channel)
            self.interrupted = True
        elif channel.held_at is None:  # else room comes when the handler ends, which may wait for this thread
            channel.room.wait(CONGESTION_WAIT_S)

    def kept(self) -> None:
        """See Sender."""
        self.recording.check_kept()

    def connect(self, channel: OutChannel) -> None:
        """Find the receiver in the background. What is sent before all are loaded waits for that: its numbers follow.

        And what a constructor sends waits for its end, as it may fail.
        """
        if self.cell.constructing or self.loading:
            self.unconnected.append(channel)
            self.interrupted = True
        else:
            self.connector.submit(lambda: self._connect(channel))

    def connect_all(self) -> None:
        """The constructor has ended well, or all are loaded: find the receivers."""
        with self.lock:  # a thread that the constructor started may be sending
            channels, self.unconnected = self.unconnected, []
        for channel in channels:
            self.connect(channel)

    def _connect(self, channel: OutChannel) -> None:
        receiver = channel.receiver
        handle = self.connector.find(receiver)
        try:
            if handle is None:
                fate = ray.get(self.identity.coordinator.fate.remote(receiver))
                if isinstance(fate, Ending):
                    with self.lock:
                        self.receiver_ended(receiver, fate.detail)
                return
            offer = ray.get(handle.hello.remote())
        except ray.exceptions.RayError as error:
            log.debug("%s: no connection to %s: %s", self.name, receiver, error)
            return  # it died, or the coordinator did: the system stops
        with self.lock:
            if offer is not None and not self._dropped.holds(receiver):
                self.handle_of(receiver)._methods = offer.methods  # noqa: SLF001 - known from now on
            channel.connected(RayPeer(handle))
            self.carry_out(self.participant.handle(ReceiverReady(receiver)))
            channel.flush()

    def receiver_ended(self, receiver: str, detail: str) -> None:
        """What waits for `receiver`, and what will, are dead letters. Call under the lock."""
        self.carry_out(self.participant.handle(ReceiverEnded(receiver)))
        self.channel_locked(receiver).end(detail)

    def undeliverable(self, channel: OutChannel, messages: Sequence[bytes], detail: str) -> None:
        """These messages are dead letters."""
        self.dead_letters.add_undeliverable(channel.receiver, self.name, messages, detail)

    def limits(self) -> Mapping[str, int]:
        """Up to where messages may be handled now, per sender. Call under the lock."""
        limits, own = self.participant.limits, self.channels.get(self.name)
        unready = None if own is None else own.holding.first_unready()
        if unready is None:
            return limits
        return {**limits, self.name: min(unready[0] - 1, limits.get(self.name, unready[0]))}

    def confirm_pauses(self) -> None:
        """No handler runs: say so of the snapshots that asked for it. Call under the lock, between two handlers."""
        while self.pauses:
            sent = {receiver: last for receiver, channel in self.channels.items() if (last := channel.last_leaving)}
            self.draining = True
            self.carry_out(self.participant.handle(HandlersPaused(self.pauses.pop(), sent)))
            for channel in self.channels.values():
                channel.flush()

    # Ending ----------------------------------------------------------------------------------------------------

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Take and send nothing any more; whoever waits for an answer gets the error. Call under the lock."""
        if self.down is not None:
            return
        self.down = error
        self.interrupted = True
        for channel in self.channels.values():
            channel.shut(error)
        self.outcomes.shut(error)
        self.wake.notify_all()
        self.recording.changed.notify_all()

    def wait_for_ends(self) -> None:
        """The end of this actor waits, maybe for a snapshot whose end was not said yet: the coordinator must say it."""
        if not self.leaving:
            self.leaving = True
            self.identity.coordinator.leaving.remote(self.name)

    def fail(self, detail: str) -> None:
        """This actor is a failure: the whole system stops."""
        self.identity.coordinator.failed.remote(self.name, detail)

    def failed_to_start(self, error: BaseException) -> None:
        """The constructor raised: the actor is not part of the system."""
        detail = f"the constructor of actor {self.name!r} raised {error!r}"
        ended, never_began = self.identity.coordinator.ended, self.recording.never_began
        for child in self.children:
            ended.remote(*never_began(child, Ending(f"{detail}, which had made {child!r}")))
        ending = Ending(detail, carry(error))
        with self.lock:
            self.recording.end = never_began(self.name, ending)
            ended.remote(*self.recording.end)
            self.shut(ending.error(self.name))

    # Effects ---------------------------------------------------------------------------------------------------

    def arrived(self, batch: BatchArrived, body: bytes | memoryview, slots: Slots | None = None) -> None:
        """A packet arrived. Call under the lock, and `recording.flush` after it."""
        frame = Frame(batch.first, batch.count, body)
        self.carry_out(self.participant.handle(batch), batch.sender, frame, slots)

    def carry_out(
        self, effects: Sequence[Effect], sender: str = "", frame: Frame | None = None, slots: Slots | None = None
    ) -> None:
        """Do what the machine orders. Call under the lock; what `recording` gathers is sent by its `flush`."""
        for effect in effects:
            match effect:
                case DeliverBatch(of, first, last):
                    if slots and of == sender:
                        self.mailbox.put_slots(of, slots, first, last)
                    self._deliver(of, first, last, frame if of == sender else None)
                case HoldBatch(of, _):
                    assert frame is not None
                    self.mailbox.hold(of, frame)
                    if slots:
                        self.mailbox.put_slots(of, slots, frame.first, frame.last)
                case DropBatch(of, first, why):
                    log.debug("%s dropped a %s batch of %s from %d on", self.name, why, of, first)
                case SendBatch(receiver, first, count, markers, closing):
                    assert count == 0
                    batch = InFlight(first, 0, b"", markers, (), closing=closing)
                    channel = self.channels[receiver]
                    channel.close(batch) if closing else channel.send_markers(batch)
                case AwaitMarkers(snapshot):
                    self.recording.learned(snapshot)
                case PauseHandlers(snapshot):
                    self.recording.learned(snapshot)
                    self.pauses.append(snapshot)
                    self.interrupted = True
                    self.wake.notify()
                case ReportQuiet(snapshot):
                    self.identity.coordinator.quiet.remote(snapshot, self.name)
                case CaptureState(snapshot, behind):
                    self.captures[snapshot] = behind
                    self.interrupted = True
                    self.recording.learned(snapshot)
                    self.wake.notify()
                case ReportRecord() | ReportFailure() | AnnounceSnapshot() | ForgetSnapshot() | ReportEnd():
                    self.recording.carry_out(effect)
                case _:
                    assert_never(effect)

    def _deliver(self, sender: str, first: int, last: int, frame: Frame | None) -> None:
        if frame is not None and frame.first <= first and last == frame.last:
            self.mailbox.put(sender, cut_frame(frame, first, last))
        else:
            self.mailbox.release(sender, first, last)
        self.wake.notify()
