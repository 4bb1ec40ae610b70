"""A process's share of snapshots: it captures the state, and makes a report of the state and the messages in flight."""

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from rayshot.errors import OutsideConflict, OutsideFailed, StateNotSerializable
from rayshot.format.entries import Outside
from rayshot.model.cell import Cell
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.effects import (
    AnnounceSnapshot,
    AwaitMarkers,
    CaptureState,
    ForgetSnapshot,
    PauseHandlers,
    ReportEnd,
    ReportFailure,
    ReportQuiet,
    ReportRecord,
)
from rayshot.protocol.events import (
    AlignmentTimedOut,
    CaptureFailed,
    DeadlinePassed,
    HandlersPaused,
    SnapshotRequested,
    StateCaptured,
)
from rayshot.protocol.identity import ALIGNED, SnapshotId
from rayshot.protocol.out_channel import spreads
from rayshot.protocol.record import Record
from rayshot.runtime.actor.channels import Channels
from rayshot.runtime.actor.concluding import Concluding
from rayshot.runtime.actor.delivery import Deliveries
from rayshot.runtime.actor.outcomes import Outcomes
from rayshot.runtime.actor.outside import OutsideError, OutsideWork
from rayshot.runtime.actor.runner import Runner, SnapshotEffect
from rayshot.runtime.actor.tracing import Tracing
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.node.capture import CaptureChild, Capturer, spill_folder
from rayshot.runtime.node.recorded_slots import hand_over
from rayshot.runtime.wire.host_identity import End, Ending
from rayshot.runtime.wire.reports import Captured, RecordBody, Recorded, RecordReport, pack_record, pack_run

log = logging.getLogger("rayshot")


Behind = Mapping[str, int]
"""By sender, the number of the last message that must be handled before the record."""


class Recording:
    """What an actor must record, and how. Implements Snapshots.

    Call everything under the lock, except `record_all`, which takes it. `requested` are the tokens of snapshots that
    this process must begin. `captures` are the snapshots that it must record, each after the given messages. `pauses`
    are the snapshots for which it must stand still. `end` is the last record of a process that ended.
    """

    def __init__(
        self,
        runner: Runner,
        channels: Channels,
        cell: Cell,
        outcomes: Outcomes,
        tracing: Tracing,
        concluding: Concluding,
        outside: OutsideWork,
    ) -> None:
        self.requested: deque[str] = deque()
        self.captures: dict[SnapshotId, Behind] = {}
        self.pauses: list[SnapshotId] = []
        self.end: End | None = None
        self.capturer = Capturer(runner.name, spill_folder())
        self.deliveries = Deliveries(runner, outcomes, self.capturer)
        self._outcomes = outcomes
        self._runner = runner
        self._channels = channels
        self._cell = cell
        self._tracing = tracing
        self._concluding = concluding
        self._outside = outside
        self._coordinator = runner.identity.coordinator
        self._state: Captured | CaptureChild | None = None
        self._captured_at = 0.0
        self._token = ""
        self._suspended: Counter[str] = Counter()
        """The actors for which handlers wait, and in how many places."""

    def forget_overdue(self) -> None:
        """Give up snapshots whose end did not come before their deadline."""
        for snapshot in self.deliveries.overdue():
            log.warning("%s: the end of snapshot %s never came; gave it up", self._runner.name, snapshot)
            self._runner.handle(DeadlinePassed(snapshot))

    # On the worker ---------------------------------------------------------------------------------------------

    def record_all(self) -> None:
        """Record all snapshots that wait for it, and tell the class of a commit. Between handlers, without the lock."""
        runner = self._runner
        while True:
            with runner.lock:
                if runner.down is not None:
                    return  # an actor that failed to start counts as ended, so it must not send a record that it exists
                while self.requested:
                    self._token = self.requested.popleft()
                    runner.handle(SnapshotRequested())
                while (snapshot := self.next_capture()) is not None and not self._outside.lacks(snapshot):
                    del self.captures[snapshot]
                    self._record(snapshot)
            self.deliveries.flush()
            if snapshot is None:
                break
            self._tell_of(snapshot)
        if self._outside.is_due:
            self._outside.tell_of_commit()

    def _tell_of(self, snapshot: SnapshotId) -> None:
        """Call `on_snapshot`. It may send, so the snapshot may have ended when it returns."""
        try:
            self._outside.tell_of_snapshot(snapshot)
        except (OutsideFailed, OutsideConflict) as error:
            with self._runner.lock:
                self.captures.pop(snapshot, None)
                if snapshot in self._runner.participant.open_snapshots:
                    self._failed_outside(snapshot, error)

    def _failed_outside(self, snapshot: SnapshotId, error: OutsideError) -> None:
        """`on_snapshot` or its function raised this."""
        if isinstance(error, OutsideConflict):
            self._outside.conflict(error)
        self._fail(snapshot, error.message, AbortReason.OUTSIDE_FAILED)

    def next_capture(self) -> SnapshotId | None:
        """The oldest snapshot that can be recorded now.

        An actor that is ending handles no more messages, so it does not wait for any.
        """
        runner = self._runner
        if not self.captures:
            return None
        received = self._channels.mailbox.received()
        for snapshot, behind in self.captures.items():
            if runner.ending or all(received.get(sender, 0) >= end for sender, end in behind.items()):
                return snapshot
        return None

    def _record(self, snapshot: SnapshotId) -> None:
        runner = self._runner
        if snapshot not in runner.participant.open_snapshots:
            return
        failpoint("before_record")
        if full := self._too_much_in_flight(in_flight=True):
            self._fail(snapshot, full, AbortReason.TOO_MUCH_IN_FLIGHT)
            return
        self._captured_at = time.perf_counter()
        if self._cell.specification is not None:
            self.capturer.method = self._cell.specification.capture
        try:
            self._state = self.capturer.capture(self._cell) if self._cell.born else None
        except (StateNotSerializable, OSError, MemoryError) as error:  # OSError: no child could be forked
            self._fail(snapshot, str(error))
            return
        except (SystemExit, KeyboardInterrupt) as error:  # code of the state's classes ran: it must not end the actor
            self._fail(snapshot, f"{runner.name}: its state raised {error!r} when it was captured")
            return
        sent = self._channels.sent
        received = self._channels.mailbox.received()
        if self._tracing.tracer is not None:
            self._tracing.tracer.recorded(snapshot, sent, received)
        self._outcomes.recorded(snapshot, received)
        runner.handle(StateCaptured(snapshot, self._cell.born, sent, received, self._cell.owed.to_drivers))
        self._state = None
        self._concluding.recorded(snapshot)
        if spreads(snapshot):
            self._channels.flush()  # finds receivers that are not connected, for the markers
        failpoint("after_record")

    @property
    def is_due(self) -> bool:
        """Whether something is to be done here as soon as no handler runs."""
        return bool(self.requested or self.pauses or self._outside.is_due or self.next_capture() is not None)

    @property
    def needs_messages(self) -> bool:
        """Whether a snapshot may wait for messages to be handled: then they cannot wait for its commit."""
        return self._runner.held or bool(self._unrecorded)

    def _interrupt(self) -> None:
        self._runner.interrupted = True
        self._runner.notify()

    def _fail(self, snapshot: SnapshotId, why: str, reason: AbortReason = AbortReason.CAPTURE_FAILED) -> None:
        """This process will not record this snapshot."""
        self._runner.handle(CaptureFailed(snapshot, why, reason))

    def check_kept(self) -> None:
        """If too many bytes are kept for records, give up the snapshots that are not yet recorded here."""
        if full := self._too_much_in_flight(in_flight=False):
            for snapshot in self._unrecorded:
                self._fail(snapshot, full, AbortReason.TOO_MUCH_IN_FLIGHT)

    @property
    def _unrecorded(self) -> list[SnapshotId]:
        recorded = self._runner.participant.recorded_snapshots
        return [snapshot for snapshot in self._runner.participant.open_snapshots if snapshot not in recorded]

    def _too_much_in_flight(self, *, in_flight: bool) -> str:
        """A text that says that a record would be too large, or an empty string.

        With `in_flight` it counts all messages that a record would hold; without, only the bytes kept for records.
        """
        limit = self._runner.identity.channel_state_bytes_max
        channels = self._channels.out.values()
        if in_flight:
            size = self._channels.mailbox.size_bytes + sum(channel.unreleased_bytes for channel in channels)
        else:
            size = sum(channel.kept_bytes for channel in channels)
        if size <= limit:
            return ""
        return f"{size:,} bytes of messages in flight are here, max_in_flight_bytes is {limit:,}"

    def confirm_pauses(self) -> None:
        """No handler runs: confirm this for the snapshots that asked for a pause. Call between two handlers."""
        while self.pauses:
            self._runner.handle(HandlersPaused(self.pauses.pop(), self._channels.drain()))
            self._channels.flush()

    def stop_aligning(self) -> None:
        """If the actor is held, or may loop, what stands before a marker may never be handled: wait for no markers."""
        if self._runner.held or self._cell.at_once > 1 or self._cell.now.loop is not None:
            for snapshot in self._unrecorded:
                if snapshot.mode == ALIGNED:
                    self._runner.handle(AlignmentTimedOut(snapshot))

    # Waiting handlers ------------------------------------------------------------------------------------------

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The actors for whose answers a handler waits, sorted."""
        return tuple(sorted(self._suspended))

    def suspend(self, *callees: str) -> None:
        """A handler waits for these actors from now on: it is half done. Refuse snapshots that are to be recorded.

        An answer may come behind the marker of its sender, and is not handed over before this process has recorded.
        """
        self._suspended.update(callees)
        for snapshot in self._unrecorded:
            self._refuse_suspended(snapshot)

    def resume(self, *callees: str) -> None:
        """This wait for these actors is over."""
        for callee in callees:
            self._suspended[callee] -= 1
            if not self._suspended[callee]:
                del self._suspended[callee]

    def resume_all(self) -> None:
        """The handler has ended: it waits for nobody."""
        self._suspended.clear()

    @property
    def is_suspended(self) -> bool:
        """Whether a handler waits."""
        return bool(self._suspended)

    def _refuse_suspended(self, snapshot: SnapshotId) -> None:
        self._concluding.refuse()
        self._fail(snapshot, f"a handler waits for the answer of {', '.join(self.waits_for)}", AbortReason.SUSPENDED)

    # Effects ---------------------------------------------------------------------------------------------------

    def carry_out(self, effect: SnapshotEffect) -> None:
        """See Snapshots."""
        runner = self._runner
        match effect:
            case AwaitMarkers(snapshot) | PauseHandlers(snapshot) | CaptureState(snapshot) if self._suspended:
                self._refuse_suspended(snapshot)
            case AwaitMarkers(snapshot):
                self.deliveries.learned(snapshot)
                self.stop_aligning()
            case PauseHandlers(snapshot):
                self.deliveries.learned(snapshot)
                self.pauses.append(snapshot)
                self._interrupt()
            case CaptureState(snapshot, behind):
                self.deliveries.learned(snapshot)
                self.captures[snapshot] = {} if self._runner.held else behind
                self._interrupt()
            case ReportQuiet(snapshot):
                self._coordinator.quiet.remote(snapshot, runner.name)
            case ReportRecord(record):
                self._report_record(record)
                self._channels.release()
            case ReportFailure(snapshot, detail, reason):
                self._coordinator.refuse.remote(snapshot, runner.name, detail, reason)
            case AnnounceSnapshot(snapshot, floor):
                self._coordinator.announce.remote(snapshot, runner.name, floor, self._token)
            case ForgetSnapshot(snapshot):
                self.captures.pop(snapshot, None)
                self.pauses = [one for one in self.pauses if one != snapshot]
                self.deliveries.forget(snapshot)
                self._outside.forget(snapshot)
                self._channels.release()
                runner.notify()  # an aligned snapshot may have held messages back
            case ReportEnd(record, unfinished):
                if self._tracing.tracer is not None:
                    self._tracing.tracer.ended()
                segment = None if self._tracing.tracer is None else self._tracing.tracer.segment()
                why, letters = f"actor {record.process!r} ended", self._channels.dead_letters
                letters.add_unhandled(record.process, self._channels.mailbox.unhandled(), why)
                self.end = pack_record(record), unfinished, segment, Ending(why, letters=letters.all())
                self._coordinator.ended.remote(*self.end)

    def never_began(self, name: str, ending: Ending) -> End:
        """The end of an actor whose constructor raised: it was never part of the system."""
        nothing = SnapshotId(self._runner.identity.incarnation, name, 0)
        return pack_record(Record(nothing, name, born=False, ended=True)), (), None, ending

    def _report_record(self, record: Record) -> None:
        outbox = {
            receiver: pack_run(
                self._channels.out[receiver].unreleased(released + 1), released + 1, record.sent[receiver]
            )
            for receiver, released in record.released.items()
            if released < record.sent[receiver]
        }
        mailbox = {
            sender: pack_run(frames, record.received.get(sender, 0) + 1, record.arrived[sender])
            for sender, frames in self._channels.mailbox.unprocessed(record.arrived).items()
        }
        try:
            attached = self._attached(record)
        except StateNotSerializable as error:
            if isinstance(self._state, CaptureChild):
                self._state.discard()
            self._fail(record.snapshot, error.message)
            return
        hold_s = time.perf_counter() - self._captured_at
        specification = self._cell.specification
        packed = None if specification is None else specification.pack()
        trace = None if self._tracing.tracer is None else self._tracing.tracer.segment()
        state = self._state
        captured = None if isinstance(state, CaptureChild) else state
        report = RecordReport(
            record, hold_s, RecordBody(self._runner.name, packed, captured, outbox, mailbox, trace, *attached)
        )
        if self._outside.is_there:
            self._outside.seal(record.snapshot, partial(self._sealed, state, report))
        else:
            self._put(state, report)

    def _put(self, state: Captured | CaptureChild | None, report: RecordReport) -> None:
        if isinstance(state, CaptureChild):
            self.deliveries.put_when_pickled(state, report)
        else:
            self.deliveries.put(report)

    def _sealed(
        self, state: Captured | CaptureChild | None, report: RecordReport, outcome: Outside | OutsideError
    ) -> None:
        """What is outside is fixed, or this failed: the report is complete. Takes the lock."""
        snapshot = report.record.snapshot
        with self._runner.lock:
            is_open = snapshot in self._runner.participant.open_snapshots
            if is_open and isinstance(outcome, Outside):
                self._put(state, replace(report, outside=outcome, settles=self._outside.settles))
            else:
                if isinstance(state, CaptureChild):
                    state.discard()
                if is_open and not isinstance(outcome, Outside):
                    self._failed_outside(snapshot, outcome)
        self.deliveries.flush()

    def _attached(self, record: Record) -> tuple[Recorded, Recorded]:
        """The objects beside the messages of the outboxes, and those beside the messages of the mailbox."""
        out = self._channels.out
        outbox = {
            receiver: slots
            for receiver, released in record.released.items()
            if released < record.sent[receiver] and (slots := out[receiver].unreleased_slots(released + 1))
        }
        mailbox = self._channels.mailbox.unprocessed_slots(record.arrived) if self._channels.mailbox.slots else {}
        return hand_over(outbox), hand_over(mailbox)
