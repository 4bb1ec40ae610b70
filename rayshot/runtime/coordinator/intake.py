"""Where reports come in: many actors record at the same moment, so they are worked off together."""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Record
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.ray.futures import when_answered
from rayshot.runtime.wire.reports import unpack_head

log = logging.getLogger("rayshot")


class _Report(NamedTuple):
    head: bytes
    body: Any


class Arrived(NamedTuple):
    """A record, the seconds for which its actor was stopped, the bytes of its state, the body or a reference to it."""

    record: Record
    hold_s: float
    state_bytes: int
    body: Any


@dataclass(slots=True)
class Gathered:
    """What came of one snapshot: the bodies of reports by actor, or references to them, and figures.

    `recorded` has for each actor how long it was stopped, and when its report arrived, by time.monotonic.
    """

    bodies: dict[str, Any] = field(default_factory=dict)
    recorded: dict[str, tuple[float, float]] = field(default_factory=dict)
    state_bytes: int = 0

    def add(self, report: Arrived) -> None:
        """A report arrived. What is brought again, as no answer came, does not count again."""
        if report.record.process in self.bodies:
            return
        self.bodies[report.record.process] = report.body
        self.recorded[report.record.process] = report.hold_s, time.monotonic()
        self.state_bytes += report.state_bytes

    def stats(self) -> dict[str, float]:
        """What the manifest says of the recording: seconds, and bytes of all states."""
        holds = [hold_s for hold_s, _ in self.recorded.values()] or [0.0]
        return {
            "hold_max_s": max(holds),
            "hold_mean_s": sum(holds) / len(holds),
            "state_bytes": self.state_bytes,
        }


class Intake:
    """Reports arrive on Ray's threads, which must not wait; a thread of its own gives `take` all there is.

    Of a report only the head is read here. The bodies of those that were fetched stay in Ray's object store.
    """

    def __init__(
        self, take: Callable[[list[Arrived]], None], refuse: Callable[[SnapshotId, str, str, AbortReason], None]
    ) -> None:
        self._take = take
        self._refuse = refuse
        self._arrived: queue.SimpleQueue[_Report] = queue.SimpleQueue()
        threading.Thread(target=self._take_all, name="rayshot-intake", daemon=True).start()

    def fetch(self, name: str, host: Any, snapshot: SnapshotId, begin: bytes) -> None:
        """Tell an actor to record a snapshot, by a packed `begin`; take its report, `refuse` where that raised."""
        head, body = host.record.remote(begin)
        when_answered(head, lambda result: self._fetched(name, snapshot, result, body))

    def put(self, head: bytes, body: Any) -> None:
        """A report was brought."""
        self._arrived.put(_Report(head, body))

    def _fetched(self, name: str, snapshot: SnapshotId, result: Any, body: Any) -> None:
        if isinstance(result, bytes):  # else its snapshot ended before, or the actor died, which is noticed elsewhere
            self._arrived.put(_Report(result, body))
        elif isinstance(result, ray.exceptions.RayTaskError):
            log.error("%s could not hand over its record of snapshot %s", name, snapshot, exc_info=result)
            why = snapshot, name, f"its record was not handed over: {result.cause!r}", AbortReason.DEFECT
            threading.Thread(target=self._refuse, args=why, daemon=True).start()

    def _take_all(self) -> None:
        while True:
            arrived = [self._arrived.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    arrived.append(self._arrived.get_nowait())
            try:
                self._take([Arrived(*unpack_head(one.head), one.body) for one in arrived])
            except Exception:
                log.exception("records could not be taken, a defect of rayshot: their snapshots will time out")
