"""How reports of snapshots get from an actor to the coordinator."""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any

from rayshot.errors import NoAnswer
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.events import CaptureFailed
from rayshot.protocol.identity import SnapshotId, is_guest
from rayshot.runtime.actor.outcomes import Outcomes
from rayshot.runtime.actor.runner import Runner
from rayshot.runtime.door import door
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.node.capture import CaptureChild, Capturer
from rayshot.runtime.wire.reports import Body, RecordReport, pack_report

log = logging.getLogger("rayshot")
HUNG_SHARE = 0.6
"""A child that is cancelled after more than this share of its time counts as hung: its snapshot's time was up."""


class ReportDelivery(Enum):
    """How far the report of this process has come."""

    PENDING = auto()
    """The snapshot is not recorded yet, or a child process still pickles the state."""
    READY = auto()
    """The report waits here for the coordinator's call."""
    SENT = auto()


@dataclass(slots=True)
class Share:
    """This process's share of a snapshot that is open here. It is removed when the snapshot has ended.

    `deadline` is by time.monotonic. If `brought` is set, this process brings the report, and the coordinator does not
    call for it. A `child` process pickles the state into the file `spill`. An answer to a plain task or actor waits
    until the snapshot is recorded `everywhere`; `asked` is the call that asks the coordinator for this.
    """

    deadline: float
    delivery: ReportDelivery = ReportDelivery.PENDING
    report: tuple[bytes, Body] | None = None
    brought: bool = False
    child: CaptureChild | None = None
    spill: str | None = None
    asked: Any = None
    everywhere: bool = False


class Deliveries:
    """The reports of all snapshots that are open here.

    The coordinator calls `Host.record` for a snapshot that it begins; the answer is the report, see `fetch`. This
    process brings it the reports of other snapshots. Call everything under the lock, except `fetch` and `flush`, which
    take it.
    """

    def __init__(self, runner: Runner, outcomes: Outcomes, capturer: Capturer) -> None:
        self.changed = threading.Condition(runner.lock)
        """A report is ready, a snapshot has ended, or the process is down."""
        self._runner = runner
        self._outcomes = outcomes
        self._capturer = capturer
        self._coordinator = runner.identity.coordinator
        self._shares: dict[SnapshotId, Share] = {}
        self._outgoing: list[RecordReport] = []

    def learned(self, snapshot: SnapshotId) -> None:
        """A snapshot is open here from now on. Its deadline ends it at the latest, because an abort may get lost."""
        deadline = time.monotonic() + self._runner.identity.recorder_timeout_s
        self._shares.setdefault(snapshot, Share(deadline)).deadline = deadline

    def bring(self, snapshot: SnapshotId) -> None:
        """The coordinator began this snapshot before it knew this process: bring the report, as it will not call."""
        if share := self._shares.get(snapshot):
            share.brought = True

    def kept_from(self, sender: str, snapshots: Iterable[SnapshotId]) -> set[SnapshotId]:
        """The `snapshots` that must be recorded everywhere before an answer goes to `sender`; asks the coordinator.

        A driver tags the messages that it sends after an answer. But a plain task or actor also returns what it heard
        to its caller, without tags.
        """
        if not is_guest(sender):
            return set()
        waiting = {k for k in snapshots if (share := self._shares.get(k)) and not share.everywhere}
        for snapshot in waiting:
            share = self._shares[snapshot]
            if share.asked is None:
                share.asked = self._coordinator.await_recorded.remote(snapshot, self._runner.name)
                door.when_answered(share.asked, lambda _answer, snapshot=snapshot: self._is_everywhere(snapshot))  # type: ignore[misc]
        return waiting

    def _is_everywhere(self, snapshot: SnapshotId) -> None:
        with self._runner.lock:
            if share := self._shares.get(snapshot):
                share.everywhere = True
            self._outcomes.release(snapshot)

    def next_deadline(self) -> float | None:
        """The next deadline of a snapshot, by time.monotonic; None if no snapshot is open."""
        return min((share.deadline for share in self._shares.values()), default=None)

    def overdue(self) -> list[SnapshotId]:
        """The snapshots whose end did not come before their deadline."""
        now = time.monotonic()
        return [snapshot for snapshot, share in self._shares.items() if share.deadline <= now]

    def forget(self, snapshot: SnapshotId) -> None:
        """A snapshot has ended, or was given up: remove everything of it."""
        self._outcomes.release(snapshot)
        if share := self._shares.pop(snapshot, None):
            self.changed.notify_all()
            if share.spill is not None:  # no vault wrote this snapshot
                Path(share.spill).unlink(missing_ok=True)
            if share.child is not None:  # it was aborted: nobody waits for this state any more
                if share.child.age_s > HUNG_SHARE * self._runner.identity.recorder_timeout_s:
                    self._capturer.child_failed(TimeoutError())
                share.child.cancel()

    def put(self, report: RecordReport) -> None:
        """A report is complete. Call `flush` after it, without the lock."""
        self._outgoing.append(report)

    def put_when_pickled(self, child: CaptureChild, report: RecordReport) -> None:
        """A report is complete except its state, which a child still pickles."""
        self._shares[report.record.snapshot].child = child
        threading.Thread(target=self._await_child, args=(child, report), daemon=True).start()

    def _await_child(self, child: CaptureChild, report: RecordReport) -> None:
        runner, snapshot = self._runner, report.record.snapshot
        try:
            captured = child.wait(runner.identity.recorder_timeout_s)
        except Exception as error:  # noqa: BLE001 - after any error the snapshot is lost, and must be aborted
            with runner.lock:
                if share := self._shares.get(snapshot):
                    share.child = None
                if not child.cancelled:
                    self._capturer.child_failed(error)
                runner.handle(CaptureFailed(snapshot, str(error), AbortReason.CAPTURE_FAILED))
            return
        with runner.lock:
            self._capturer.learn(captured)
            if share := self._shares.get(snapshot):
                share.child, share.spill = None, captured.spill
                self._outgoing.append(replace(report, body=replace(report.body, state=captured)))
            else:
                Path(str(captured.spill)).unlink(missing_ok=True)
        self.flush()

    def flush(self) -> None:
        """Bring the complete reports to the coordinator, or let it fetch them. Call without the lock."""
        if not self._outgoing:
            return
        runner = self._runner
        with runner.lock:
            reports, self._outgoing = self._outgoing, []
        for report in reports:
            failpoint("before_upload")
            try:
                self._hand_over(report)
            except Exception as error:
                snapshot = report.record.snapshot
                log.exception("%s: the record of snapshot %s was not handed over", runner.name, snapshot)
                with runner.lock:
                    why = f"its record was not handed over: {error!r}"
                    runner.handle(CaptureFailed(snapshot, why, AbortReason.CAPTURE_FAILED))
            failpoint("after_upload_before_ack")

    def _hand_over(self, report: RecordReport) -> None:
        runner, snapshot = self._runner, report.record.snapshot
        head, body = pack_report(report)
        with runner.lock:
            share = self._shares.get(snapshot)
            if share is None:
                return
            if share.brought or not snapshot.by_coordinator:
                share.delivery = ReportDelivery.SENT
            else:
                share.delivery, share.report = ReportDelivery.READY, (head, body)
                self.changed.notify_all()
                return
        self._coordinator.report.remote(head, body)

    def fetch(self, snapshot: SnapshotId) -> tuple[bytes, Body] | tuple[None, None]:
        """Wait for the report of a snapshot that the coordinator began.

        Returns (None, None) if the snapshot ended without a report, this process brings the report, or it is down.
        Raises NoAnswer if an earlier call took the report, as Ray has repeated the call. Takes the lock.
        """
        runner = self._runner
        with runner.lock:
            while share := self._shares.get(snapshot):
                if share.delivery is ReportDelivery.SENT and not share.brought:
                    raise NoAnswer("its record was lost on its way to the coordinator; take another snapshot")
                if share.delivery is not ReportDelivery.PENDING:
                    report, share.report, share.delivery = share.report, None, ReportDelivery.SENT  # it may be large
                    return (None, None) if report is None else report
                if runner.down is not None:
                    break
                self.changed.wait()
        return None, None
