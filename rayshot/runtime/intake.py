"""Where reports come in: many actors record at the same moment, so they are worked off together."""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Record
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.reports import unpack_head
from rayshot.runtime.wire import pack_begin

log = logging.getLogger("rayshot")


class Arrived(NamedTuple):
    """A record, the seconds for which its actor was stopped, the bytes of its state, the body or a reference to it."""

    record: Record
    hold_s: float
    state_bytes: int
    body: Any


@dataclass(slots=True)
class Gathered:
    """What came of one snapshot: the bodies of reports by actor, or references to them, and figures."""

    bodies: dict[str, Any] = field(default_factory=dict)
    hold_s: list[float] = field(default_factory=list)
    state_bytes: int = 0

    def add(self, report: Arrived) -> None:
        """A report arrived. What is brought again, as no answer came, does not count again."""
        if report.record.process in self.bodies:
            return
        self.bodies[report.record.process] = report.body
        self.hold_s.append(report.hold_s)
        self.state_bytes += report.state_bytes

    def stats(self) -> dict[str, float]:
        """What the manifest says of the recording: seconds, and bytes of all states."""
        holds = self.hold_s or [0.0]
        return {
            "hold_max_s": max(holds),
            "hold_mean_s": sum(holds) / len(holds),
            "state_bytes": self.state_bytes,
        }


class Intake:
    """Reports arrive on Ray's threads, which must not wait; a thread of its own gives `take` all there is.

    The bodies stay where they are, in Ray's object store: of a report that was fetched only the head is read.
    """

    def __init__(
        self, take: Callable[[list[Arrived]], None], refuse: Callable[[SnapshotId, str, str, AbortReason], None]
    ) -> None:
        self._take = take
        self._refuse = refuse
        self._heads: queue.SimpleQueue[tuple[bytes, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._take_all, name="rayshot-intake", daemon=True).start()

    def fetch(self, name: str, host: Any, snapshot: SnapshotId, floor: int, inputs: frozenset[str]) -> None:
        """Tell the host of the actor `name` to record, and take its report; `refuse` where that raised."""
        head, body = host.record.remote(pack_begin(snapshot, floor, inputs))
        head._on_completed(lambda result: self._fetched(name, snapshot, result, body))  # noqa: SLF001 - as Ray's futures

    def put(self, head: bytes, body: Any) -> None:
        """A report was brought."""
        self._heads.put((head, body))

    def _fetched(self, name: str, snapshot: SnapshotId, result: Any, body: Any) -> None:
        if isinstance(result, bytes):  # else its snapshot ended before, or the actor died, which is noticed elsewhere
            self._heads.put((result, body))
        elif isinstance(result, ray.exceptions.RayTaskError):
            log.error("%s could not hand over its record of snapshot %s", name, snapshot, exc_info=result)
            why = snapshot, name, f"its record was not handed over: {result.cause!r}", AbortReason.DEFECT
            threading.Thread(target=self._refuse, args=why, daemon=True).start()

    def _take_all(self) -> None:
        while True:
            reports = [self._heads.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    reports.append(self._heads.get_nowait())
            try:
                self._take([Arrived(*unpack_head(head), body) for head, body in reports])
            except Exception:
                log.exception("records could not be taken, a defect of rayshot: their snapshots will time out")
