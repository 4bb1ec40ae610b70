"""The simulated coordinator: it drives one Collector, keeps the contents of records, and writes to the log."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Protocol, assert_never

from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    AnnounceEnd,
    CaptureRefused,
    CollectorEffect,
    CollectorEvent,
    ProcessEnded,
    ProcessQuiet,
    RecordArrived,
    SendBegin,
    SnapshotAnnounced,
    StoreSnapshot,
)
from rayshot.protocol.cut import Cut
from rayshot.protocol.effects import AnnounceSnapshot, Effect, ReportEnd, ReportFailure, ReportQuiet, ReportRecord
from rayshot.protocol.events import Begun
from rayshot.protocol.identity import STOP_THE_WORLD, Channel, SnapshotId
from rayshot.protocol.record import Record
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.packets import RecordContents, StoredCut


class CoordinatorSurroundings(Protocol):
    """What a coordinator asks of its world."""

    def begin(self, coordinator: "WorldCoordinator", process: str, begun: Begun) -> None:
        """Tell a process to record."""

    def everybody_recorded(self, coordinator: "WorldCoordinator", snapshot: SnapshotId) -> None:
        """Tell all processes that everybody has recorded."""

    def store(self, coordinator: "WorldCoordinator", stored: StoredCut) -> None:
        """Write the snapshot."""

    def announce(self, coordinator: "WorldCoordinator", end: AnnounceEnd, stored: StoredCut | None) -> None:
        """Tell every process that a snapshot ended; `stored` if it was committed."""

    def opened(self, coordinator: "WorldCoordinator", snapshot: SnapshotId) -> None:
        """Note that a snapshot is under way."""


def reported(process: str, effect: Effect, helpers: frozenset[str] | None = None) -> CollectorEvent:
    """What a coordinator hears when the machine of a process orders a report.

    `helpers` are those of a snapshot that the process begins: see SnapshotAnnounced.
    """
    match effect:
        case ReportRecord(record):
            return RecordArrived(record)
        case ReportFailure(snapshot, detail, reason):
            return CaptureRefused(snapshot, process, detail, reason)
        case ReportEnd(record, unfinished):
            return ProcessEnded(record, unfinished)
        case ReportQuiet(snapshot):
            return ProcessQuiet(snapshot, process)
        case AnnounceSnapshot(snapshot, floor):
            return SnapshotAnnounced(snapshot, process, floor, helpers)
        case _:
            raise AssertionError(effect)


@dataclass(eq=False)
class WorldCoordinator:
    """`generation` counts the coordinators of a run; `finding` are processes that a take-over still has to find.

    `highest` is the highest counter that the found ones know, `lost` the snapshots that they gave up; `waiting` holds
    events that arrive before all are found.
    """

    generation: int
    collector: Collector
    world: CoordinatorSurroundings
    alive: bool = True
    finding: set[str] = field(default_factory=set)
    highest: int = 0
    lost: dict[str, tuple[SnapshotId, ...]] = field(default_factory=dict)
    waiting: list[tuple[CollectorEvent, object]] = field(default_factory=list)
    states: dict[SnapshotId, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    outboxes: dict[SnapshotId, dict[Channel, tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(dict))
    mailboxes: dict[SnapshotId, dict[Channel, tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(dict))
    storing: dict[SnapshotId, StoredCut] = field(default_factory=dict)
    known: set[SnapshotId] = field(default_factory=set)
    over: set[SnapshotId] = field(default_factory=set)

    def __str__(self) -> str:
        return f"coordinator {self.generation}"

    def knows(self, snapshot: SnapshotId) -> bool:
        """Whether it began or ended the snapshot, or was told of it by a process that it found."""
        return snapshot in self.known or snapshot in self.over or any(snapshot in lost for lost in self.lost.values())

    def hear(self, event: CollectorEvent, content: Any) -> None:
        """Give the collector what a process reports; the `content` of a record is stored safely before."""
        if isinstance(event, RecordArrived):
            self._keep_record(event.record, content)
        self.tell(event)

    def _keep_record(self, record: Record, recorded: RecordContents) -> None:
        snapshot = record.snapshot
        if record.process not in self.states[snapshot]:
            self.states[snapshot][record.process] = recorded.state
            for receiver, messages in recorded.outboxes.items():
                self.outboxes[snapshot][Channel(record.process, receiver)] = messages
            for sender, messages in recorded.mailbox.items():
                self.mailboxes[snapshot][Channel(sender, record.process)] = messages

    def tell(self, event: CollectorEvent) -> None:
        """Give the collector an event, and carry out the effects."""
        if not self.alive:
            return
        effects = self.collector.handle(event)
        self.collector.validate()
        for snapshot in self.collector.open_snapshots:
            if snapshot not in self.known:
                self.known.add(snapshot)
                self.world.opened(self, snapshot)
        for effect in effects:
            self._carry_out(effect)
        if isinstance(event, RecordArrived) and event.record.snapshot in self.over:
            self._forget(event.record.snapshot)

    def _carry_out(self, effect: CollectorEffect) -> None:
        match effect:
            case SendBegin(process, snapshot, floor, inputs, quiet):
                self.world.begin(self, process, Begun(snapshot, floor, inputs, quiet))
            case StoreSnapshot(cut):
                stored = self._assemble(cut)
                self.storing[cut.snapshot] = stored
                if cut.snapshot.mode == STOP_THE_WORLD:
                    self.world.everybody_recorded(self, cut.snapshot)
                self.world.store(self, stored)
            case AnnounceEnd(snapshot, reason):
                stored_now = self.storing.pop(snapshot, None)
                self.over.add(snapshot)
                self._forget(snapshot)
                self.world.announce(self, effect, stored_now if reason is None else None)
            case _:
                assert_never(effect)

    def _forget(self, snapshot: SnapshotId) -> None:
        for kept in (self.states, self.mailboxes, self.outboxes):
            kept.pop(snapshot, None)

    def _assemble(self, cut: Cut) -> StoredCut:
        """Build a snapshot: for each channel the messages in the receiver's mailbox, then the sender's behind them."""
        snapshot = cut.snapshot
        messages: dict[Channel, tuple[Any, ...]] = {}
        for channel_cut in cut.channels:
            waiting, behind = channel_cut.arrived - channel_cut.received, channel_cut.sent - channel_cut.arrived
            mailbox = self.mailboxes[snapshot].get(channel_cut.channel, ())[:waiting]
            outbox = self.outboxes[snapshot].get(channel_cut.channel, ())
            messages[channel_cut.channel] = (*mailbox, *outbox[len(outbox) - behind :])
        for process in cut.records:
            if process not in self.states[snapshot]:
                raise OracleFailure("membership", f"{snapshot} holds no state of {process}")
        return StoredCut(cut, {process: self.states[snapshot][process] for process in cut.records}, messages)
