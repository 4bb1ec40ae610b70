"""One process's half of the protocol: Chandy and Lamport's rules with numbered markers.

Theory of operation. A channel's messages are numbered, so a marker need not stand between two of them: it says
behind which number its sender recorded, and travels with batches. The participant counts, per channel, what was
transported, was acknowledged and has arrived. The code that drives it counts what was sent and processed, and gives
both counters when it captures the state. With no snapshot open an arriving batch costs one dictionary update.

A process learns of a snapshot by `Begun`, a marker, an acknowledgement, a driver's tag or its own request. For each
snapshot it passes through

    learned    CaptureState was ordered; no message above the cut was processed, because a message above the cut
               arrives only together with the news of its snapshot
    recorded   ReportRecord was ordered, with the messages in mailbox and outbox and those under way to others;
               markers are due on every out-channel
    abandoned  its deadline passed or the capture failed: nothing more is reported. As its end is not known, markers
               stay due; otherwise others would take effects of a recorded state for older ones
    forgotten  ended; a tombstone swallows what still arrives for it

After its record a process records nothing more. A message that arrived before is in the mailbox. A later one comes with
its sender's record: an acknowledgement says which snapshots the receiver had recorded when it got the batch; the sender
releases nothing acknowledged in this way until it has recorded these snapshots too. So each message in flight across
the cut is with one of the two records, or with both (`released < arrived`); then the receiver's counts.

The coordinator tells all processes of its own snapshots, so their markers can wait for the next batches. A snapshot
that a process began may have to spread alone. For it each process, when it records, also sends its markers without
messages, on every channel to a receiver that said hello; if a receiver says hello later, its markers are sent then.

An aligned snapshot (ABS, section 4.2 of Carbone et al. 2015) differs in one thing: a process that learned of it orders
CaptureState only when each of its inputs has brought a marker or is closed, and only behind all messages sent before
these; until then `limits` stops messages behind a marker from being processed. So nothing is in flight on its inputs.
All else is as above, so that it becomes a Chandy-Lamport snapshot wherever alignment ends early.

For a stop-the-world snapshot a process pauses its handlers when it learns of it, reports when all that it sent has
arrived, records when the coordinator says that all processes are quiet, and goes on when all have recorded.

A participant never declares itself complete: it cannot know of a channel whose first batch is still under way. The
collector knows, from all the records together.

The sender fixes the n of a channel. The receiver fixes it, when it records, for a driver's channel and for a sender
whose last batch said that the sender ends.

When the collector says so, a participant forgets a driver that died: it drops the driver's counters but keeps the
name, so that late batches are never taken for the first ones of a new driver. See DriversForgotten.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

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
    AlignmentTimedOut,
    BatchAcknowledged,
    BatchArrived,
    BatchTaken,
    Begun,
    CaptureFailed,
    DeadlinePassed,
    DriverDied,
    DriversForgotten,
    EndRequested,
    Event,
    EverybodyRecorded,
    HandlersPaused,
    Marker,
    ReceiverEnded,
    ReceiverReady,
    Restored,
    SnapshotEnded,
    SnapshotRequested,
    StateCaptured,
)
from rayshot.protocol.identity import ALIGNED, STOP_THE_WORLD, SnapshotId, initiator_of, is_driver
from rayshot.protocol.invariants import check_counters, check_recorders
from rayshot.protocol.out_channel import OutChannel, spreads
from rayshot.protocol.record import Record, last_record
from rayshot.protocol.recorder import Recorder, limits_of
from rayshot.protocol.tombstones import Tombstones


class Participant:
    """The machine of one process. `handle` is its only mutator. The package lists the duties of its driver."""

    def __init__(self, name: str, incarnation: int = 1) -> None:
        self.name = name
        self._initiator = initiator_of(name)
        self.incarnation = incarnation
        self._out: dict[str, OutChannel] = {}
        self._gone: set[str] = set()
        self._arrived: dict[str, int] = {}
        self._held: dict[str, dict[int, int]] = {}
        self._closed_at: dict[str, int] = {}
        self._forgotten: set[str] = set()
        self._recorders: dict[SnapshotId, Recorder] = {}
        self._tombstones = Tombstones()
        self._requested = 0
        self._ended = False

    def arrived(self, sender: str) -> int:
        """The highest number up to which every message of `sender` has arrived."""
        return self._arrived.get(sender, 0)

    def transported(self, receiver: str) -> int:
        """The number of the last message handed to the transport for `receiver`."""
        channel = self._out.get(receiver)
        return channel.transported if channel else 0

    def acknowledged(self, receiver: str) -> int:
        """The number up to which `receiver` has acknowledged messages."""
        channel = self._out.get(receiver)
        return channel.acknowledged if channel else 0

    def released(self, receiver: str) -> int:
        """The number up to which no message to `receiver` is needed: acknowledged, and needed for no record."""
        channel = self._out.get(receiver)
        return channel.released if channel else 0

    def markers_due(self, receiver: str) -> tuple[Marker, ...]:
        """The markers that a batch for `receiver` must carry now."""
        channel = self._out.get(receiver)
        return tuple(channel.due.values()) if channel else ()

    @property
    def recorded_snapshots(self) -> tuple[SnapshotId, ...]:
        """Snapshots that this process has recorded and whose end it does not know; acknowledgements carry them."""
        return tuple(k for k, recorder in self._recorders.items() if recorder.recorded) if self._recorders else ()

    @property
    def open_snapshots(self) -> tuple[SnapshotId, ...]:
        """Snapshots that this process has learned of and whose end it does not know; its answers carry them."""
        return tuple(self._recorders)

    @property
    def limits(self) -> dict[str, int]:
        """The last numbers per sender that may be processed now; later messages wait until this process records."""
        return limits_of(self._recorders.values()) if self._recorders else {}

    @property
    def paused(self) -> bool:
        """Whether no handler may run: a stop-the-world snapshot is open, and not all processes have recorded it."""
        return any(recorder.paused for recorder in self._recorders.values()) if self._recorders else False

    @property
    def ended_peers(self) -> frozenset[str]:
        """The processes that have ended, as far as this process knows."""
        return frozenset(self._gone) | {sender for sender in self._closed_at if not is_driver(sender)}

    def may_end(self, sent: Mapping[str, int]) -> bool:
        """Whether a process that sent these numbers may end: all is acknowledged, and no snapshot still needs it."""
        return all(recorder.abandoned for recorder in self._recorders.values()) and all(
            self.acknowledged(receiver) == n
            for receiver, n in sent.items()
            if receiver != self.name and receiver not in self._gone
        )

    def validate(self) -> None:
        """Assert what holds between any two events, computed again from what is counted here; for tests."""
        check_counters(self._out, self._arrived, self._held, self._closed_at, self._forgotten)
        check_recorders(self.incarnation, self._recorders, self._tombstones, self._out.values())

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        if self._ended and not isinstance(event, Restored):
            return (DropBatch(event.sender, event.first, "ended"),) if isinstance(event, BatchArrived) else ()
        match event:
            case BatchArrived():
                return self._batch_arrived(event)
            case BatchTaken(receiver, count):
                return self._batch_taken(receiver, count)
            case BatchAcknowledged():
                return self._batch_acknowledged(event)
            case Begun(snapshot, floor, inputs, quiet):
                effects = (*self._raise_floor(snapshot, floor), *self._learn(snapshot))
                return (*effects, *(self._capture_now(snapshot) if quiet else self._align(snapshot, inputs)))
            case AlignmentTimedOut(snapshot):
                learned = self._learn(snapshot)  # the news of its begin may be late
                if recorder := self._recorders.get(snapshot):
                    recorder.inputs = frozenset()
                return (*learned, *self._capture_now(snapshot))
            case HandlersPaused(snapshot, sent):
                if (recorder := self._recorders.get(snapshot)) and recorder.paused:
                    recorder.last_sent = sent
                return self._report_quiet(self._out)
            case EverybodyRecorded(snapshot):
                if recorder := self._recorders.get(snapshot):
                    recorder.paused = False
                return ()
            case SnapshotRequested():
                return self._snapshot_requested()
            case StateCaptured():
                return self._state_captured(event)
            case CaptureFailed(snapshot, detail, reason):
                is_new = (recorder := self._recorders.get(snapshot)) is not None and not recorder.abandoned
                return (ReportFailure(snapshot, detail, reason), *self._abandon(snapshot)) if is_new else ()
            case SnapshotEnded(snapshot, floor):
                return (*self._forget(snapshot), *self._raise_floor(snapshot, floor))
            case DeadlinePassed(snapshot):
                return self._abandon(snapshot)
            case ReceiverReady(receiver):
                return self._receiver_ready(receiver)
            case ReceiverEnded(receiver):
                self._out.pop(receiver, None)
                self._gone.add(receiver)
                return (*self._try_to_align(receiver), *self._report_quiet((receiver,)))
            case DriverDied(driver):
                return self._driver_died(driver)
            case DriversForgotten(drivers):
                return self._forget_drivers(drivers)
            case Restored():
                return self._restored(event)
            case EndRequested():
                return self._end_requested(event)
            case _:
                assert_never(event)

    # Sending --------------------------------------------------------------------------------------

    def _channel_to(self, receiver: str) -> OutChannel:
        channel = self._out.get(receiver)
        if channel is None:
            # A channel opened after this process recorded carries nothing from before the cut.
            recorded = (k for k, recorder in self._recorders.items() if recorder.recorded)
            channel = self._out[receiver] = OutChannel(due={k: Marker(k, 0) for k in recorded})
        return channel

    def _receiver_ready(self, receiver: str) -> tuple[Effect, ...]:
        channel = self._channel_to(receiver)
        if channel.ready:
            return ()
        channel.ready = True
        quiet = self._report_quiet((receiver,)) if self._recorders else ()
        return (*quiet, *(self._send_markers(receiver, channel) if any(map(spreads, channel.due)) else ()))

    def _send_markers(self, receiver: str, channel: OutChannel) -> tuple[Effect, ...]:
        return (SendBatch(receiver, channel.transported + 1, 0, tuple(channel.due.values())),)

    def _batch_taken(self, receiver: str, count: int) -> tuple[Effect, ...]:
        channel = self._channel_to(receiver)
        assert channel.ready, f"{receiver} has not said hello to {self.name}"
        first = channel.transported + 1
        channel.transported += count
        return (SendBatch(receiver, first, count, tuple(channel.due.values())),)

    def _batch_acknowledged(self, answer: BatchAcknowledged) -> tuple[Effect, ...]:
        channel = self._out.get(answer.receiver)
        if channel is None or answer.receiver in self._gone:
            return ()
        assert answer.last <= channel.transported, f"{answer.receiver} acknowledged {answer.last}: {channel}"
        effects: list[Effect] = []
        for snapshot in answer.recorded:
            effects += self._learn(snapshot)
            if (recorder := self._recorders.get(snapshot)) and recorder.waits:
                channel.kept_from.setdefault(snapshot, channel.acknowledged)
        channel.acknowledged = max(channel.acknowledged, answer.last)
        for snapshot in answer.markers:
            channel.due.pop(snapshot, None)
        return (*effects, *self._report_quiet((answer.receiver,))) if self._recorders else ()

    # Arriving -------------------------------------------------------------------------------------

    def _batch_arrived(self, batch: BatchArrived) -> tuple[Effect, ...]:
        sender = batch.sender
        if batch.incarnation != self.incarnation:
            return (DropBatch(sender, batch.first, "stale"),)
        if sender in self._forgotten:
            return (DropBatch(sender, batch.first, "dead letter"),)
        arrived = self._arrived.get(sender, 0)
        in_order = batch.first == arrived + 1 and batch.count > 0
        news = batch.markers or batch.tags or batch.closing
        if in_order and not (news or sender in self._held or sender in self._closed_at):
            self._arrived[sender] = arrived + batch.count
            return (DeliverBatch(sender, batch.first, arrived + batch.count),)
        return (*self._hear(batch), *self._accept(batch, arrived))

    def _hear(self, batch: BatchArrived) -> list[Effect]:
        """Learn the news that a batch carries, before any of its messages is delivered."""
        effects: list[Effect] = []
        sender = batch.sender
        for marker in batch.markers:
            effects += self._learn(marker.snapshot)
            if recorder := self._recorders.get(marker.snapshot):
                recorder.ends.setdefault(sender, marker.sent)
                effects += self._try_to_align(sender)
        for tag in batch.tags:
            effects += self._learn(tag)
            if recorder := self._recorders.get(tag):
                # Messages that had arrived already came untagged before: this batch repeats them.
                limit = max(batch.first - 1, self._arrived.get(sender, 0))
                recorder.driver_limits[sender] = min(recorder.driver_limits.get(sender, limit), limit)
        if batch.closing:
            self._closed_at[sender] = batch.first + batch.count - 1
            effects += self._try_to_align(sender)
        return effects

    def _accept(self, batch: BatchArrived, arrived: int) -> list[Effect]:
        """Deliver messages that are next in order, hold early ones, drop those that arrived before."""
        sender, last = batch.sender, batch.first + batch.count - 1
        if batch.count == 0:
            return []
        if last <= arrived:
            return [DropBatch(sender, batch.first, "duplicate")]
        if sender in self._closed_at:
            return [DropBatch(sender, batch.first, "dead letter")]
        if batch.first > arrived + 1:
            held = self._held.setdefault(sender, {})
            if held.get(batch.first, 0) >= batch.count:
                return [DropBatch(sender, batch.first, "duplicate")]
            held[batch.first] = batch.count
            return [HoldBatch(sender, batch.first)]
        effects: list[Effect] = [self._deliver(sender, arrived + 1, last)]
        held = self._held.get(sender, {})
        while held and (first := min(held)) <= self._arrived[sender] + 1:
            last = first + held.pop(first) - 1
            if last > self._arrived[sender]:
                effects.append(self._deliver(sender, self._arrived[sender] + 1, last))
            else:
                effects.append(DropBatch(sender, first, "duplicate"))
        if not held:
            self._held.pop(sender, None)
        return effects

    def _deliver(self, sender: str, first: int, last: int) -> DeliverBatch:
        self._arrived[sender] = last
        return DeliverBatch(sender, first, last)

    def _driver_died(self, driver: str) -> tuple[Effect, ...]:
        self._closed_at[driver] = self._arrived.get(driver, 0)
        return tuple(DropBatch(driver, first, "dead letter") for first in sorted(self._held.pop(driver, {})))

    def _forget_drivers(self, drivers: frozenset[str]) -> tuple[Effect, ...]:
        for driver in drivers & self._closed_at.keys():
            del self._closed_at[driver]
            self._arrived.pop(driver, None)
            self._forgotten.add(driver)
        return ()

    # Recording ------------------------------------------------------------------------------------

    def _snapshot_requested(self) -> tuple[Effect, ...]:
        self._requested += 1
        snapshot = SnapshotId(self.incarnation, self._initiator, self._requested)
        learn = self._learn(snapshot)
        own = (k for k, recorder in self._recorders.items() if not recorder.abandoned)
        floor = min(k.counter for k in own if k.initiator == self._initiator)
        return (AnnounceSnapshot(snapshot, floor), *learn)

    def _learn(self, snapshot: SnapshotId) -> tuple[Effect, ...]:
        if snapshot.incarnation != self.incarnation or snapshot in self._tombstones or snapshot in self._recorders:
            return ()
        self._recorders[snapshot] = Recorder(paused=snapshot.mode == STOP_THE_WORLD)
        if snapshot.mode == STOP_THE_WORLD:
            return (PauseHandlers(snapshot),)
        return (AwaitMarkers(snapshot),) if snapshot.mode == ALIGNED else (CaptureState(snapshot),)

    def _capture_now(self, snapshot: SnapshotId) -> tuple[Effect, ...]:
        return (CaptureState(snapshot),) if (recorder := self._recorders.get(snapshot)) and recorder.waits else ()

    def _report_quiet(self, receivers: Iterable[str]) -> tuple[Effect, ...]:
        """For each snapshot that paused the handlers, report once that everything sent before has arrived.

        `receivers` are the receivers with news: only their channels are looked at.
        """
        return tuple(ReportQuiet(k) for k, r in self._recorders.items() if r.falls_quiet(receivers, self._out))

    def _align(self, snapshot: SnapshotId, inputs: frozenset[str]) -> tuple[Effect, ...]:
        """Set whose markers an aligned snapshot waits for; a source waits for none and records at once."""
        recorder = self._recorders.get(snapshot)
        if recorder is None or snapshot.mode != ALIGNED or recorder.inputs is not None:
            return ()
        recorder.inputs = inputs
        return self._capture_aligned(snapshot, recorder)

    def _try_to_align(self, sender: str) -> tuple[Effect, ...]:
        """Capture aligned snapshots for which the news of `sender` was the last that they waited for."""
        waiting = [(k, r) for k, r in self._recorders.items() if r.inputs and sender in r.inputs]
        return tuple(effect for k, recorder in waiting for effect in self._capture_aligned(k, recorder))

    def _capture_aligned(self, snapshot: SnapshotId, recorder: Recorder) -> tuple[Effect, ...]:
        behind = recorder.aligned_behind(self._closed_at, self._gone)
        return () if behind is None else (CaptureState(snapshot, behind),)

    def _state_captured(self, captured: StateCaptured) -> tuple[Effect, ...]:
        recorder = self._recorders.get(captured.snapshot)
        if recorder is None or recorder.abandoned:
            return ()  # over before it was recorded here
        assert not recorder.recorded, f"{self.name} captured {captured.snapshot} twice"
        recorder.recorded = True
        if own := captured.sent.get(self.name, 0):
            self._arrived[self.name] = own  # a message of a process to itself never leaves it
        record = self._make_record(captured, recorder)
        effects: list[Effect] = [ReportRecord(record)]
        for receiver, channel in self._out.items():
            channel.kept_from.pop(captured.snapshot, None)
            channel.due[captured.snapshot] = Marker(captured.snapshot, record.sent.get(receiver, 0))
            if channel.ready and spreads(captured.snapshot):
                effects += self._send_markers(receiver, channel)
        return tuple(effects)

    def _make_record(self, captured: StateCaptured, recorder: Recorder) -> Record:
        sent = {receiver: n for receiver, n in captured.sent.items() if receiver not in self._gone}
        transported = {self.name: sent[self.name]} if self.name in sent else {}
        released = dict(transported)
        for receiver in sent:
            if receiver != self.name:
                channel = self._channel_to(receiver)
                transported[receiver] = channel.transported
                released[receiver] = channel.kept_from.get(captured.snapshot, channel.acknowledged)
        environment, closed = recorder.fix_channels(self._arrived, self._closed_at)
        counters = sent, transported, released, dict(captured.received)
        return Record(
            captured.snapshot,
            self.name,
            captured.born,
            *counters,
            environment,
            closed=closed,
            aligned=recorder.aligned(captured.received, self._closed_at),
            overlaps=tuple(k for k, other in self._recorders.items() if other.recorded and other is not recorder),
            arrived=recorder.mailbox_ends(self._arrived, captured.received),
            forgotten=len(self._forgotten),
            owed={driver: numbers for driver, numbers in captured.owed.items() if driver in environment},
        )

    # Ending ---------------------------------------------------------------------------------------

    def _abandon(self, snapshot: SnapshotId) -> tuple[Effect, ...]:
        recorder = self._recorders.get(snapshot)
        if recorder is None or recorder.abandoned:
            return ()
        recorder.abandoned, recorder.paused = True, False
        self._release(snapshot)
        return (ForgetSnapshot(snapshot),)

    def _forget(self, snapshot: SnapshotId) -> tuple[Effect, ...]:
        if snapshot.incarnation != self.incarnation:
            return ()
        self._tombstones.add(snapshot)
        recorder = self._recorders.pop(snapshot, None)
        self._release(snapshot)
        for channel in self._out.values():
            channel.due.pop(snapshot, None)
        return () if recorder is None or recorder.abandoned else (ForgetSnapshot(snapshot),)

    def _release(self, snapshot: SnapshotId) -> None:
        for channel in self._out.values():
            channel.kept_from.pop(snapshot, None)

    def _raise_floor(self, snapshot: SnapshotId, floor: int) -> list[Effect]:
        if snapshot.incarnation != self.incarnation:
            return []
        effects: list[Effect] = []
        for other in tuple(self._recorders):
            if other.initiator == snapshot.initiator and other.counter < floor:
                effects += self._forget(other)
        self._tombstones.raise_floor(snapshot.initiator, floor)
        return effects

    def _end_requested(self, event: EndRequested) -> tuple[Effect, ...]:
        assert self.may_end(event.sent), f"{self.name} ends in the middle of a snapshot, or with unsent messages"
        self._ended = True
        closing = [
            SendBatch(receiver, channel.transported + 1, 0, (), closing=True)
            for receiver, channel in self._out.items()
            if channel.transported > 0 and receiver not in self._gone
        ]
        sent = {receiver: n for receiver, n in event.sent.items() if receiver not in self._gone}
        last = last_record(
            SnapshotId(self.incarnation, self._initiator, 0), self.name, sent, event.received, self._closed_at
        )
        return (*closing, ReportEnd(last, tuple(self._recorders)))

    def _restored(self, event: Restored) -> tuple[Effect, ...]:
        forgotten = tuple(ForgetSnapshot(snapshot) for snapshot, r in self._recorders.items() if not r.abandoned)
        self.incarnation = event.incarnation
        self._out = {receiver: OutChannel(n, n) for receiver, n in event.sent.items() if receiver != self.name}
        self._arrived = dict(event.arrived)
        self._recorders.clear()
        self._held.clear()
        self._closed_at = {sender: event.arrived[sender] for sender in sorted(event.ended)}
        self._gone.clear()
        self._forgotten.clear()
        self._tombstones = Tombstones()
        self._requested = 0
        self._ended = False
        return forgotten
