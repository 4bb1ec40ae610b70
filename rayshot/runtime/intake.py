"""Where reports come in: many actors record at the same moment, so they are worked off together."""

import contextlib
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Record
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.reports import unpack_head
from rayshot.runtime.wire import pack, pack_begin, unpack

log = logging.getLogger("rayshot")
RELAYED_MIN = 4
"""For fewer actors of a node the two calls of Ray that the relay needs save nothing."""
PATIENCE_S = 0.25
"""A vault answers in some milliseconds, and on a busy machine in some tens."""


class Call(NamedTuple):
    """An actor is to record a snapshot that the coordinator begins; see `Host.record`."""

    name: str
    host: Any
    snapshot: SnapshotId
    floor: int = 0
    inputs: frozenset[str] = frozenset()

    def packed(self, relay: str = "") -> bytes:
        """For the host."""
        return pack_begin(self.snapshot, self.floor, self.inputs, relay)


class _Report(NamedTuple):
    head: bytes
    body: Any


class _PassedOn(NamedTuple):
    """A vault's answer, or the error that Ray has in its place, to a call for its relay."""

    key: int
    answer: Any


_Unanswered = tuple[float, Sequence[Call]]
"""Until when a vault has time to answer, by time.monotonic, and whom it calls."""
_NOBODY: _Unanswered = 0.0, ()


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
        self._arrived: queue.SimpleQueue[_Report | _PassedOn] = queue.SimpleQueue()
        self._keys = itertools.count()
        self._unanswered: dict[int, _Unanswered] = {}
        threading.Thread(target=self._take_all, name="rayshot-intake", daemon=True).start()

    def call(self, vault: Any | None, calls: Sequence[Call]) -> None:
        """Tell actors of the node of `vault` to record, over its relay where that saves calls of Ray."""
        if vault is None or len(calls) < RELAYED_MIN:
            for call in calls:
                self.fetch(call)
        else:
            key = next(self._keys)
            self._unanswered[key] = time.monotonic() + PATIENCE_S, calls
            passed_on = vault.call.remote(pack([(call.name, call.packed()) for call in calls]))
            passed_on._on_completed(lambda answer: self._arrived.put(_PassedOn(key, answer)))  # noqa: SLF001 - as below

    def call_late(self, now: float) -> None:
        """Call over Ray whom a vault has not called in PATIENCE_S, as it starts or hangs; twice does no harm."""
        for key, (due, calls) in tuple(self._unanswered.items()):
            if now >= due and self._unanswered.pop(key, None) is not None:
                for call in calls:
                    self.fetch(call)

    def fetch(self, call: Call, relay: str = "") -> None:
        """Tell an actor to record, and where its node's `relay` is; take its report, and `refuse` where that raised."""
        head, body = call.host.record.remote(call.packed(relay))
        head._on_completed(lambda result: self._fetched(call, result, body))  # noqa: SLF001 - as Ray's futures

    def put(self, head: bytes, body: Any) -> None:
        """A report was brought."""
        self._arrived.put(_Report(head, body))

    def put_all(self, reports: bytes) -> None:
        """A relay brought reports, packed one by one and together."""
        for report in unpack(reports):
            self.put(*unpack(report))

    def _fetched(self, call: Call, result: Any, body: Any) -> None:
        if isinstance(result, bytes):  # else its snapshot ended before, or the actor died, which is noticed elsewhere
            self._arrived.put(_Report(result, body))
        elif isinstance(result, ray.exceptions.RayTaskError):
            log.error("%s could not hand over its record of snapshot %s", call.name, call.snapshot, exc_info=result)
            why = call.snapshot, call.name, f"its record was not handed over: {result.cause!r}", AbortReason.DEFECT
            threading.Thread(target=self._refuse, args=why, daemon=True).start()

    def _take_all(self) -> None:
        while True:
            arrived = [self._arrived.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    arrived.append(self._arrived.get_nowait())
            try:
                for one in arrived:
                    if isinstance(one, _PassedOn):
                        self._call_unreached(one)
                self._take([Arrived(*unpack_head(one.head), one.body) for one in arrived if isinstance(one, _Report)])
            except Exception:
                log.exception("records could not be taken, a defect of rayshot: their snapshots will time out")

    def _call_unreached(self, passed_on: _PassedOn) -> None:
        _, calls = self._unanswered.pop(passed_on.key, _NOBODY)  # where the answer came too late
        unreached = {call.name for call in calls}  # maybe, where the vault died
        relay = ""
        if isinstance(passed_on.answer, bytes):
            relay, named = unpack(passed_on.answer)
            unreached.intersection_update(named)
        for call in calls:
            if call.name in unreached:
                self.fetch(call, relay)
