"""A process's share of snapshots: captures the state, hands it over together with what is in flight.

The coordinator calls `Host.record` for a snapshot that it begins, and the answer is the report: one call for both ways.
Or its call comes over the relay of the node, and the report goes back over it. Reports of snapshots that processes
begin are brought to it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayshot.errors import StateNotSerializable
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Record
from rayshot.protocol.effects import (
    AnnounceSnapshot,
    ForgetSnapshot,
    ReportEnd,
    ReportFailure,
    ReportRecord,
)
from rayshot.protocol.events import CaptureFailed, DeadlinePassed, SnapshotRequested, StateCaptured
from rayshot.protocol.identity import COORDINATOR, SnapshotId, is_guest
from rayshot.runtime.capture import CaptureChild, Captured, Capturer, spool_folder
from rayshot.runtime.failpoints import failpoint
from rayshot.runtime.identity import End, Ending
from rayshot.runtime.recorded_slots import Recorded, hand_over
from rayshot.runtime.relay import RelayEnd
from rayshot.runtime.reports import Body, RecordBody, RecordReport, pack_record, pack_report, pack_run
from rayshot.runtime.wire import pack

if TYPE_CHECKING:  # process.py makes the recording
    from rayshot.runtime.process import ActorProcess

log = logging.getLogger("rayshot")
RecordingEffect = ReportRecord | ReportFailure | ReportEnd | AnnounceSnapshot | ForgetSnapshot
HUNG_SHARE = 0.6
"""A child that was cancelled after this share of its time had hung: its snapshot's time was up."""


class Recording:
    """Everything here is called under the process's lock but what hands reports over, and says that it takes it."""

    def __init__(self, process: "ActorProcess", relay: RelayEnd) -> None:
        self.relay = relay
        self.requested: deque[str] = deque()
        self.end: End | None = None
        self.capturer = Capturer(process.name, spool_folder())
        self._process = process
        self._deadlines: dict[SnapshotId, float] = {}
        self._asked: dict[SnapshotId, Any] = {}
        self._everywhere: set[SnapshotId] = set()
        self._outgoing: list[RecordReport] = []
        self._given: dict[SnapshotId, tuple[bytes, Body] | None] = {}
        self._brought: set[SnapshotId] = set()
        self._carried: set[SnapshotId] = set()
        self._relayed: set[SnapshotId] = set()
        self._spools: dict[SnapshotId, str] = {}
        self.given = threading.Condition(process.lock)
        self._state: Captured | CaptureChild | None = None
        self._children: dict[SnapshotId, CaptureChild] = {}
        self._captured_at = 0.0
        self._token = ""

    def learned(self, snapshot: SnapshotId) -> None:
        """A snapshot is open here from now on, until its deadline at the latest: an abort may get lost."""
        self._deadlines[snapshot] = time.monotonic() + self._process.identity.recorder_timeout_s

    def _goes_on(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot is open here and was not given up: of those given up the end alone is still to come."""
        return snapshot in self._deadlines

    def kept_from(self, sender: str, snapshots: Iterable[SnapshotId]) -> set[SnapshotId]:
        """Which of these must be recorded everywhere before an answer goes to `sender`; asks when that is so.

        A driver sends on what it heard with tags. A plain task or actor also returns it, to somebody without tags.
        """
        if not is_guest(sender):
            return set()
        waiting = {k for k in snapshots if self._goes_on(k) and k not in self._everywhere}
        for snapshot in waiting - self._asked.keys():
            self._asked[snapshot] = ref = self._process.identity.coordinator.await_recorded.remote(
                snapshot, self._process.name
            )
            ref._on_completed(lambda _answer, snapshot=snapshot: self._is_everywhere(snapshot))  # noqa: SLF001
        return waiting

    def _is_everywhere(self, snapshot: SnapshotId) -> None:
        with self._process.lock:
            if self._goes_on(snapshot):
                self._everywhere.add(snapshot)
            self._process.outcomes.release(snapshot)

    def next_deadline(self) -> float | None:
        """When the next recorder is too old, by time.monotonic."""
        return min(self._deadlines.values(), default=None)

    def forget_overdue(self) -> None:
        """Give up snapshots whose end never came."""
        now = time.monotonic()
        for snapshot in [k for k, deadline in self._deadlines.items() if deadline <= now]:
            log.warning("%s: the end of snapshot %s never came; gave it up", self._process.name, snapshot)
            self._process.carry_out(self._process.participant.handle(DeadlinePassed(snapshot)))

    # On the worker ---------------------------------------------------------------------------------------------

    def record_all(self) -> None:
        """Record every snapshot that waits for it. Call between two handlers, without the lock."""
        process = self._process
        with process.lock:
            if process.down is not None:
                return  # who failed to start is told of as ended: no record of its own may say that it is there
            while self.requested:
                self._token = self.requested.popleft()
                process.carry_out(process.participant.handle(SnapshotRequested()))
            while (snapshot := self.next_capture()) is not None:
                del process.captures[snapshot]
                self._record(snapshot)
        self.flush()

    def next_capture(self) -> SnapshotId | None:
        """The oldest snapshot that may be recorded now; who ends processes nothing more, and waits for nothing."""
        process = self._process
        if not process.captures:
            return None
        received = process.mailbox.received()
        for snapshot, behind in process.captures.items():
            if process.ending or all(received.get(sender, 0) >= end for sender, end in behind.items()):
                return snapshot
        return None

    def _record(self, snapshot: SnapshotId) -> None:
        process = self._process
        if snapshot not in process.participant.open_snapshots:
            return
        failpoint("before_record")
        if full := self._too_much_in_flight(in_flight=True):
            self._fail(snapshot, full, AbortReason.TOO_MUCH_IN_FLIGHT)
            return
        self._captured_at = time.perf_counter()
        if process.cell.specification is not None:
            self.capturer.method = process.cell.specification.capture
        try:
            self._state = self.capturer.capture(process.cell) if process.cell.born else None
        except (StateNotSerializable, OSError, MemoryError) as error:  # OSError: no child could be forked
            self._fail(snapshot, str(error))
            return
        except (SystemExit, KeyboardInterrupt) as error:  # code of the state's own ran: it ends no actor
            self._fail(snapshot, f"{process.name}: its state raised {error!r} when it was captured")
            return
        sent = {receiver: channel.sent for receiver, channel in process.channels.items() if channel.sent}
        received = process.mailbox.received()
        if process.tracer is not None:
            process.tracer.recorded(snapshot, sent, received)
        process.carry_out(process.participant.handle(StateCaptured(snapshot, process.cell.born, sent, received)))
        self._state = None
        if snapshot.initiator != COORDINATOR:
            for channel in process.channels.values():
                channel.flush()  # finds a receiver that is not connected, for the markers
        failpoint("after_record")

    def _fail(self, snapshot: SnapshotId, why: str, reason: AbortReason = AbortReason.CAPTURE_FAILED) -> None:
        """There will be no record of this snapshot."""
        self._process.carry_out(self._process.participant.handle(CaptureFailed(snapshot, why, reason)))

    def check_kept(self) -> None:
        """Give up what is to be recorded here if too much is kept for it."""
        process = self._process
        if full := self._too_much_in_flight(in_flight=False):
            done = process.participant.recorded_snapshots
            for snapshot in process.participant.open_snapshots:
                if snapshot not in done:
                    self._fail(snapshot, full, AbortReason.TOO_MUCH_IN_FLIGHT)

    def _too_much_in_flight(self, *, in_flight: bool) -> str:
        """Whether there is more to record than may be: in words, or empty. Without `in_flight`: to keep for records."""
        process, limit = self._process, self._process.identity.channel_state_bytes_max
        channels = process.channels.values()
        if in_flight:
            size = process.mailbox.size_bytes + sum(channel.unreleased_bytes for channel in channels)
        else:
            size = sum(channel.kept_bytes for channel in channels)
        if size <= limit:
            return ""
        return f"{size:,} bytes of messages in flight lie here, max_in_flight_bytes is {limit:,}"

    # Effects ---------------------------------------------------------------------------------------------------

    def carry_out(self, effect: RecordingEffect) -> None:
        """Do what the machine orders."""
        process = self._process
        match effect:
            case ReportRecord(record):
                self._report_record(record)
                self._release()
            case ReportFailure(snapshot, detail, reason):
                process.identity.coordinator.refuse.remote(snapshot, process.name, detail, reason)
                process.hurry.done(snapshot)
            case AnnounceSnapshot(snapshot, floor):
                process.identity.coordinator.announce.remote(snapshot, process.name, floor, self._token)
            case ForgetSnapshot(snapshot):
                self._deadlines.pop(snapshot, None)
                self._asked.pop(snapshot, None)
                self._everywhere.discard(snapshot)
                process.outcomes.release(snapshot)
                self._given.pop(snapshot, None)
                self._brought.discard(snapshot)
                self._carried.discard(snapshot)
                self._relayed.discard(snapshot)
                process.hurry.done(snapshot)
                self.given.notify_all()
                if spool := self._spools.pop(snapshot, None):  # of a snapshot that no vault wrote
                    Path(spool).unlink(missing_ok=True)
                process.captures.pop(snapshot, None)
                process.wake.notify()  # of messages that an aligned snapshot held back
                if child := self._children.get(snapshot):  # it was aborted: there is nobody for whom to go on
                    if child.age_s > HUNG_SHARE * process.identity.recorder_timeout_s:
                        self.capturer.child_failed(TimeoutError())
                    child.cancel()
                self._release()
            case ReportEnd(record, unfinished):
                if process.tracer is not None:
                    process.tracer.ended()
                segment = None if process.tracer is None else process.tracer.segment()
                why, letters = f"actor {record.process!r} ended", process.dead_letters
                letters.add_unhandled(record.process, process.mailbox.unhandled(), why)
                self.end = pack_record(record), unfinished, segment, Ending(why, letters=letters.all())
                process.identity.coordinator.ended.remote(*self.end)

    def never_began(self, name: str, ending: Ending) -> End:
        """The end of an actor whose constructor raised: it never was a part of the system."""
        nothing = SnapshotId(self._process.identity.incarnation, name, 0)
        return pack_record(Record(nothing, name, born=False, ended=True)), (), None, ending

    def _release(self) -> None:
        """Let go of the batches that no record needs any more."""
        for receiver, channel in self._process.channels.items():
            if channel.kept:
                channel.release(self._process.participant.released(receiver))

    def _report_record(self, record: Record) -> None:
        process = self._process
        outbox = {
            receiver: pack_run(process.channels[receiver].unreleased(released + 1), released + 1, record.sent[receiver])
            for receiver, released in record.released.items()
            if released < record.sent[receiver]
        }
        mailbox = {
            sender: pack_run(frames, record.received.get(sender, 0) + 1, record.arrived[sender])
            for sender, frames in process.mailbox.unprocessed(record.arrived).items()
        }
        try:
            beside = self._beside(record)
        except StateNotSerializable as error:
            self._fail(record.snapshot, error.message)
            return
        hold_s = time.perf_counter() - self._captured_at
        specification = process.cell.specification
        packed = None if specification is None else specification.pack()
        trace = None if process.tracer is None else process.tracer.segment()
        state = self._state
        captured = None if isinstance(state, CaptureChild) else state
        report = RecordReport(
            record, hold_s, RecordBody(process.name, packed, captured, outbox, mailbox, trace, *beside)
        )
        if isinstance(state, CaptureChild):
            self._children[record.snapshot] = state
            threading.Thread(target=self._report_from_child, args=(state, report), daemon=True).start()
        else:
            self._outgoing.append(report)

    def _beside(self, record: Record) -> tuple[Recorded, Recorded]:
        """What lies beside the messages of the outboxes, and beside those of the mailbox."""
        process = self._process
        outbox = {
            receiver: slots
            for receiver, released in record.released.items()
            if released < record.sent[receiver] and (slots := process.channels[receiver].unreleased_slots(released + 1))
        }
        mailbox = process.mailbox.unprocessed_slots(record.arrived) if process.mailbox.slots else {}
        return hand_over(outbox), hand_over(mailbox)

    def _report_from_child(self, child: CaptureChild, report: RecordReport) -> None:
        process = self._process
        process.hurry.done(report.record.snapshot)  # the child may take its time
        try:
            captured = child.wait(process.identity.recorder_timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot is lost and must hear of it
            with process.lock:
                del self._children[report.record.snapshot]
                if not child.cancelled:
                    self.capturer.child_failed(error)
                self._fail(report.record.snapshot, str(error))
            return
        with process.lock:
            del self._children[report.record.snapshot]
            self.capturer.learn(captured)
            if self._goes_on(report.record.snapshot):
                self._spools[report.record.snapshot] = str(captured.spool)
                self._outgoing.append(replace(report, body=replace(report.body, state=captured)))
            else:
                Path(str(captured.spool)).unlink(missing_ok=True)
        self.flush()

    def flush(self) -> None:
        """Give or bring what was gathered to the coordinator. Call without the lock."""
        if not self._outgoing:
            return
        process = self._process
        with process.lock:
            reports, self._outgoing = self._outgoing, []
        for report in reports:
            failpoint("before_upload")
            try:
                self._hand_over(report)
            except Exception as error:
                snapshot = report.record.snapshot
                log.exception("%s: the record of snapshot %s was not handed over", process.name, snapshot)
                with process.lock:
                    self._fail(snapshot, f"its record was not handed over: {error!r}")
            failpoint("after_upload_before_ack")

    def _hand_over(self, report: RecordReport) -> None:
        process, snapshot = self._process, report.record.snapshot
        head, body = pack_report(report)
        if not snapshot.by_coordinator or snapshot in self._brought:
            process.identity.coordinator.report.remote(head, body)
            return
        with process.lock:
            if self._goes_on(snapshot):
                self._given[snapshot] = head, body
                self.given.notify_all()
        self._carry_ready(snapshot)

    # Over the relay --------------------------------------------------------------------------------------------

    def carry(self, snapshot: SnapshotId) -> None:
        """The coordinator's call came over the relay, and so the report goes: now, if it is ready. Takes the lock."""
        process = self._process
        with process.lock:
            if self._goes_on(snapshot):
                self._carried.add(snapshot)
            if snapshot in self._children or snapshot in self._given or not self._goes_on(snapshot):
                process.hurry.done(snapshot)  # recorded before the call came, or never
        self._carry_ready(snapshot)

    def _carry_ready(self, snapshot: SnapshotId) -> None:
        """Send a report that is ready over the relay, or bring it over Ray where that does not go. Takes the lock.

        One that was sent stays here until its snapshot ends, as the relay may be lost with it.
        """
        process = self._process
        with process.lock:
            report = self._given.get(snapshot)
            if report is None or snapshot not in self._carried:
                return
            self._carried.remove(snapshot)
            self._relayed.add(snapshot)  # first: if the relay is lost now, it is brought
        if not (isinstance(report[1], bytes) and self.relay.send(pack(report))):
            self._bring_relayed(snapshot)
        process.hurry.done(snapshot)

    def relay_lost(self) -> None:
        """Bring over Ray what was sent over the relay: it may not have come through. Takes the lock."""
        with self._process.lock:
            relayed = tuple(self._relayed)
        for snapshot in relayed:
            self._bring_relayed(snapshot)

    def _bring_relayed(self, snapshot: SnapshotId) -> None:
        with self._process.lock:
            report = self._given.get(snapshot)
            if report is None or snapshot not in self._relayed:
                return  # somebody did it already, or its snapshot has ended
            self._relayed.remove(snapshot)
            self._given[snapshot] = None
        self._process.identity.coordinator.report.remote(*report)

    # On the coordinator's call ---------------------------------------------------------------------------------

    def fetch(self, snapshot: SnapshotId) -> tuple[bytes, Body] | tuple[None, None]:
        """Wait for the report of a snapshot that the coordinator began. None where it ended without one, or has it."""
        process = self._process
        with process.lock:
            if snapshot in self._children:
                process.hurry.done(snapshot)  # recorded before the call came
            while snapshot not in self._given:
                if process.down is not None or not self._goes_on(snapshot):
                    return None, None
                self.given.wait()
            report = self._given[snapshot]
            if snapshot not in self._relayed:
                self._given[snapshot] = None  # it may be large
            return (None, None) if report is None else report

    def bring(self, snapshot: SnapshotId) -> None:
        """The coordinator began this snapshot before it knew of the process, and will not call for the report."""
        self._brought.add(snapshot)
