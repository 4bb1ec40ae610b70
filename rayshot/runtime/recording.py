"""A process's share of snapshots: captures the state, hands it over together with what is in flight.

The coordinator calls `Host.record` for a snapshot that it begins, and the answer is the report: one call for both ways.
Reports of snapshots that processes begin are brought to it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
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
from rayshot.runtime.reports import Body, RecordBody, RecordReport, pack_record, pack_report, pack_run

if TYPE_CHECKING:  # process.py makes the recording
    from rayshot.runtime.process import ActorProcess

log = logging.getLogger("rayshot")
RecordingEffect = ReportRecord | ReportFailure | ReportEnd | AnnounceSnapshot | ForgetSnapshot
HUNG_SHARE = 0.6
"""A child that was cancelled after this share of its time had hung: its snapshot's time was up."""


class Delivery(Enum):
    """How far the report of this process has come."""

    PENDING = auto()
    """It is not recorded yet, or a child still pickles the state."""
    READY = auto()
    """It waits here for the coordinator's call."""
    SENT = auto()


@dataclass(slots=True)
class Share:
    """This process's share of a snapshot that is open here; nothing of it is left when the snapshot has ended.

    `deadline` is by time.monotonic. The coordinator does not call for the report where it is to be `brought`. A `child`
    pickles the state into the file `spool`. A driver's answer waits until the snapshot is recorded `everywhere`, which
    the coordinator was `asked` for.
    """

    deadline: float
    delivery: Delivery = Delivery.PENDING
    report: tuple[bytes, Body] | None = None
    brought: bool = False
    child: CaptureChild | None = None
    spool: str | None = None
    asked: Any = None
    everywhere: bool = False


class Recording:
    """Everything here is called under the process's lock but what hands reports over, and says that it takes it."""

    def __init__(self, process: "ActorProcess") -> None:
        self.requested: deque[str] = deque()
        self.end: End | None = None
        self.capturer = Capturer(process.name, spool_folder())
        self._process = process
        self.changed = threading.Condition(process.lock)
        """A report is ready, a snapshot has ended, or the process is down."""
        self._shares: dict[SnapshotId, Share] = {}
        self._outgoing: list[RecordReport] = []
        self._state: Captured | CaptureChild | None = None
        self._captured_at = 0.0
        self._token = ""

    def learned(self, snapshot: SnapshotId) -> None:
        """A snapshot is open here from now on, until its deadline at the latest: an abort may get lost."""
        deadline = time.monotonic() + self._process.identity.recorder_timeout_s
        self._shares.setdefault(snapshot, Share(deadline)).deadline = deadline

    def bring(self, snapshot: SnapshotId) -> None:
        """The coordinator began this snapshot before it knew of the process, and will not call for the report."""
        if share := self._shares.get(snapshot):
            share.brought = True

    def kept_from(self, sender: str, snapshots: Iterable[SnapshotId]) -> set[SnapshotId]:
        """Which of these must be recorded everywhere before an answer goes to `sender`; asks when that is so.

        A driver sends on what it heard with tags. A plain task or actor also returns it, to somebody without tags.
        """
        if not is_guest(sender):
            return set()
        waiting = {k for k in snapshots if (share := self._shares.get(k)) and not share.everywhere}
        for snapshot in waiting:
            share = self._shares[snapshot]
            if share.asked is None:
                share.asked = self._process.identity.coordinator.await_recorded.remote(snapshot, self._process.name)
                share.asked._on_completed(lambda _answer, snapshot=snapshot: self._is_everywhere(snapshot))  # noqa: SLF001
        return waiting

    def _is_everywhere(self, snapshot: SnapshotId) -> None:
        with self._process.lock:
            if share := self._shares.get(snapshot):
                share.everywhere = True
            self._process.outcomes.release(snapshot)

    def next_deadline(self) -> float | None:
        """When the next snapshot is given up, by time.monotonic."""
        return min((share.deadline for share in self._shares.values()), default=None)

    def forget_overdue(self) -> None:
        """Give up snapshots whose end never came."""
        now = time.monotonic()
        for snapshot in [k for k, share in self._shares.items() if share.deadline <= now]:
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
        """The oldest snapshot that can be recorded now.

        An actor that is ending handles no more messages, so it does not wait for any.
        """
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
            case AnnounceSnapshot(snapshot, floor):
                process.identity.coordinator.announce.remote(snapshot, process.name, floor, self._token)
            case ForgetSnapshot(snapshot):
                self._forget(snapshot)
                self._release()
            case ReportEnd(record, unfinished):
                if process.tracer is not None:
                    process.tracer.ended()
                segment = None if process.tracer is None else process.tracer.segment()
                why, letters = f"actor {record.process!r} ended", process.dead_letters
                letters.add_unhandled(record.process, process.mailbox.unhandled(), why)
                self.end = pack_record(record), unfinished, segment, Ending(why, letters=letters.all())
                process.identity.coordinator.ended.remote(*self.end)

    def _forget(self, snapshot: SnapshotId) -> None:
        process = self._process
        process.captures.pop(snapshot, None)
        process.outcomes.release(snapshot)
        process.wake.notify()  # of messages that an aligned snapshot held back
        if share := self._shares.pop(snapshot, None):
            self.changed.notify_all()
            if share.spool is not None:  # of a snapshot that no vault wrote
                Path(share.spool).unlink(missing_ok=True)
            if share.child is not None:  # it was aborted: nobody waits for this state any more
                if share.child.age_s > HUNG_SHARE * process.identity.recorder_timeout_s:
                    self.capturer.child_failed(TimeoutError())
                share.child.cancel()

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
            self._shares[record.snapshot].child = state
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
        process, snapshot = self._process, report.record.snapshot
        try:
            captured = child.wait(process.identity.recorder_timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot is lost and must hear of it
            with process.lock:
                if share := self._shares.get(snapshot):
                    share.child = None
                if not child.cancelled:
                    self.capturer.child_failed(error)
                self._fail(snapshot, str(error))
            return
        with process.lock:
            self.capturer.learn(captured)
            if share := self._shares.get(snapshot):
                share.child, share.spool = None, captured.spool
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
        with process.lock:
            share = self._shares.get(snapshot)
            if share is None:
                return
            if share.brought or not snapshot.by_coordinator:
                share.delivery = Delivery.SENT
            else:
                share.delivery, share.report = Delivery.READY, (head, body)
                self.changed.notify_all()
                return
        process.identity.coordinator.report.remote(head, body)

    # On the coordinator's call ---------------------------------------------------------------------------------

    def fetch(self, snapshot: SnapshotId) -> tuple[bytes, Body] | tuple[None, None]:
        """Wait for the report of a snapshot that the coordinator began. None where it ended without one, or has it."""
        process = self._process
        with process.lock:
            while share := self._shares.get(snapshot):
                if share.delivery is not Delivery.PENDING:
                    report, share.report, share.delivery = share.report, None, Delivery.SENT  # it may be large
                    return (None, None) if report is None else report
                if process.down is not None:
                    break
                self.changed.wait()
        return None, None
