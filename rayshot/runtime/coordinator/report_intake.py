"""The intake of reports: many actors record at the same moment, so the coordinator handles their reports together."""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rayshot.errors import NoAnswer
from rayshot.format.entries import Outside
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from rayshot.runtime.door import door
from rayshot.runtime.door.survived_errors import survived
from rayshot.runtime.wire.reports import unpack_head

log = logging.getLogger("rayshot")


class _Report(NamedTuple):
    head: bytes
    body: Any


class Arrived(NamedTuple):
    """A record, the seconds that its actor was stopped, the bytes of its state, and the body or a reference to it.

    `outside` and `settles` are as in RecordReport.
    """

    record: Record
    hold_s: float
    state_bytes: int
    outside: Outside | None
    settles: bool
    body: Any


@dataclass(slots=True)
class Gathered:
    """The reports of one snapshot: their bodies by actor, or references to them, and figures.

    `recorded` has for each actor how many seconds it was stopped, and when its report arrived, by time.monotonic.
    `settling` are the actors that have something to do outside when the snapshot is durable.
    """

    bodies: dict[str, Any] = field(default_factory=dict)
    recorded: dict[str, tuple[float, float]] = field(default_factory=dict)
    state_bytes: int = 0
    outside: dict[str, Outside] = field(default_factory=dict)
    settling: set[str] = field(default_factory=set)

    def add(self, report: Arrived) -> None:
        """Add a report that arrived. A report that is brought again, because no answer came, does not count again."""
        if report.record.process in self.bodies:
            return
        self.bodies[report.record.process] = report.body
        self.recorded[report.record.process] = report.hold_s, time.monotonic()
        self.state_bytes += report.state_bytes
        if report.outside is not None:
            self.outside[report.record.process] = report.outside
        if report.settles:
            self.settling.add(report.record.process)

    def stats(self) -> dict[str, float]:
        """The figures of the recording for the manifest: seconds, and the bytes of all states."""
        holds = [hold_s for hold_s, _ in self.recorded.values()] or [0.0]
        return {
            "hold_max_s": max(holds),
            "hold_mean_s": sum(holds) / len(holds),
            "state_bytes": self.state_bytes,
        }


class ReportIntake:
    """Takes reports from Ray's threads, which must not wait. Its own thread gives `take` all reports that have arrived.

    Only the head of a report is read here. The bodies of fetched reports stay in Ray's object store.
    """

    def __init__(
        self, take: Callable[[list[Arrived]], None], refuse: Callable[[SnapshotId, str, str, AbortReason], None]
    ) -> None:
        self._take = take
        self._refuse = refuse
        self._arrived: queue.SimpleQueue[_Report | None] = queue.SimpleQueue()
        threading.Thread(target=self._take_all, name="rayshot-intake", daemon=True).start()

    def fetch(self, name: str, host: Any, snapshot: SnapshotId, begin: bytes) -> None:
        """Tell an actor with a packed `begin` to record a snapshot, and take its report; call `refuse` if it raises."""
        head, body = host.record.remote(begin)
        door.when_answered(head, lambda result: self._fetched(name, snapshot, result, body))

    def put(self, head: bytes, body: Any) -> None:
        """Add a report that an actor brought."""
        self._arrived.put(_Report(head, body))

    def close(self) -> None:
        """The life is over: take no more reports."""
        self._arrived.put(None)

    def _fetched(self, name: str, snapshot: SnapshotId, result: Any, body: Any) -> None:
        if isinstance(result, bytes):  # otherwise the snapshot ended, or the actor died, which is noticed elsewhere
            self._arrived.put(_Report(result, body))
        elif isinstance(result, door.Raised) and isinstance(result.cause, NoAnswer):
            why = snapshot, name, result.cause.message, AbortReason.CAPTURE_FAILED
            threading.Thread(target=self._refuse, args=why, daemon=True).start()
        elif isinstance(result, door.Raised):
            log.error("%s could not hand over its record of snapshot %s", name, snapshot, exc_info=result)
            why = snapshot, name, f"its record was not handed over: {result.cause!r}", AbortReason.DEFECT
            threading.Thread(target=self._refuse, args=why, daemon=True).start()

    def _take_all(self) -> None:
        while (first := self._arrived.get()) is not None:
            arrived = [first]
            with contextlib.suppress(queue.Empty):
                while (more := self._arrived.get_nowait()) is not None:
                    arrived.append(more)
                self._arrived.put(None)
            with survived("records could not be taken, a defect of rayshot, and their snapshots will time out"):
                self._take([Arrived(*unpack_head(one.head), one.body) for one in arrived])
