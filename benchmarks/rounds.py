"""One snapshot of the real machines in rounds: all that is sent in one round arrives in the next. No Ray, no clock.

Every channel has carried one message before, which was processed: so all counters are there that a record has in a
system at work. Bytes are those that the transport packs for calls between processes, without what Ray adds to a call,
without application messages and states.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.graphs import Graph
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    AnnounceEnd,
    CollectorEvent,
    ProcessJoined,
    RecordArrived,
    SendBegin,
    SnapshotAnnounced,
    SnapshotStored,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.effects import (
    AnnounceSnapshot,
    CaptureState,
    DeliverBatch,
    Effect,
    ForgetSnapshot,
    ReportRecord,
    SendBatch,
)
from rayshot.protocol.events import (
    BatchAcknowledged,
    BatchArrived,
    BatchTaken,
    Begun,
    Event,
    ReceiverReady,
    SnapshotEnded,
    SnapshotRequested,
    StateCaptured,
)
from rayshot.protocol.participant import Participant
from rayshot.runtime.wire.packets import PacketAnswer, Status, pack, pack_answer, pack_packet
from rayshot.runtime.wire.reports import pack_record


@dataclass(slots=True)
class Cost:
    """What one snapshot took. `processes` and `channels` say of what.

    `markers` went by themselves, `riding` on messages that went anyway. `marker_bytes` are theirs and those of the
    answers to markers that went by themselves. `coordinator_messages` are begins, records, ends and announcements.
    `rounds` went by until the last record was there. `seconds` is the time of the machines and of this loop.
    """

    processes: int
    channels: int
    markers: int = 0
    riding: int = 0
    marker_bytes: int = 0
    coordinator_messages: int = 0
    coordinator_bytes: int = 0
    rounds: int = 0
    seconds: float = 0.0


class _Answered(NamedTuple):
    """What a receiver says to a batch."""

    sender: str
    event: BatchAcknowledged


@dataclass(slots=True)
class _Rounds:
    """`arriving` holds for each process what arrives in this round, `leaving` what will in the next."""

    graph: Graph
    cost: Cost
    collector: Collector
    machines: dict[str, Participant]
    sent: dict[str, dict[str, int]]
    received: dict[str, dict[str, int]]
    leaving: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    reports: list[CollectorEvent] = field(default_factory=list)
    complete: bool = False


def take_snapshot(graph: Graph, *, initiator: str | None = None, busy: bool = False) -> Cost:
    """Take one snapshot of an idle system, or of one in which each channel carries a message a round (`busy`).

    `initiator` begins it and its markers alone spread it; None: the coordinator tells everybody.
    """
    world = _set_up(graph)
    began_at = time.process_time()
    if initiator is None:
        _tell_collector(world, SnapshotWanted())
    else:
        _tell(world, initiator, SnapshotRequested())
    while world.leaving or world.reports:
        world.cost.rounds += not world.complete
        arriving, world.leaving = world.leaving, defaultdict(list)
        reports, world.reports = world.reports, []
        for name, events in arriving.items():
            for event in events:
                _tell(world, name, event)
        for report in reports:
            _tell_collector(world, report)
        if busy and not world.complete:
            _send_everywhere(world)
    world.cost.seconds = time.process_time() - began_at
    assert world.complete
    assert not any(machine.open_snapshots for machine in world.machines.values())
    return world.cost


def _set_up(graph: Graph) -> _Rounds:
    channels = [(sender, receiver) for sender, receivers in graph.items() for receiver in receivers]
    world = _Rounds(
        graph,
        Cost(len(graph), len(channels)),
        Collector(1),
        {name: Participant(name) for name in graph},
        {name: dict.fromkeys(receivers, 1) for name, receivers in graph.items()},
        {name: {} for name in graph},
    )
    for name in graph:
        world.collector.handle(ProcessJoined(name))
    for sender, receiver in channels:
        world.machines[sender].handle(ReceiverReady(receiver))
        world.machines[sender].handle(BatchTaken(receiver, 1))
        world.machines[receiver].handle(BatchArrived(sender, 1, 1, 1))
        world.machines[sender].handle(BatchAcknowledged(receiver, 1))
        world.received[receiver][sender] = 1
    return world


def _send_everywhere(world: _Rounds) -> None:
    for sender, receivers in world.graph.items():
        for receiver in receivers:
            world.sent[sender][receiver] += 1
            _tell(world, sender, BatchTaken(receiver, 1))


def _tell(world: _Rounds, name: str, event: Event) -> None:
    """Give a process's machine a fact; do what follows, and answer a batch."""
    machine = world.machines[name]
    for effect in machine.handle(event):
        _carry_out(world, name, effect)
    if isinstance(event, BatchArrived):
        recorded = machine.recorded_snapshots
        last = machine.arrived(event.sender)
        if event.count == 0:
            answer = PacketAnswer(Status.TAKEN, world.received[name].get(event.sender, 0), recorded)
            world.cost.marker_bytes += len(pack_answer(answer))
        taken = tuple(marker.snapshot for marker in event.markers)
        world.leaving[event.sender].append(BatchAcknowledged(name, last, taken, recorded))


def _carry_out(world: _Rounds, name: str, effect: Effect) -> None:
    match effect:
        case CaptureState(snapshot):
            _tell(world, name, StateCaptured(snapshot, True, dict(world.sent[name]), dict(world.received[name])))  # noqa: FBT003
        case DeliverBatch(sender, _, last):
            world.received[name][sender] = last
        case SendBatch(receiver, first, count, markers):
            _count_markers(world.cost, name, effect)
            world.leaving[receiver].append(BatchArrived(name, 1, first, count, markers))
        case ReportRecord(record):
            _count_call(world.cost, [pack_record(record)])
            world.reports.append(RecordArrived(record))
        case AnnounceSnapshot(snapshot, floor):
            _count_call(world.cost, (snapshot, name, floor))
            world.reports.append(SnapshotAnnounced(snapshot, name, floor, frozenset()))
        case ForgetSnapshot():
            pass
        case _:
            raise AssertionError(effect)


def _count_markers(cost: Cost, name: str, batch: SendBatch) -> None:
    with_them = len(pack_packet(name, 1, batch.first, batch.count, b"", markers=batch.markers))
    if batch.count == 0:
        cost.markers += len(batch.markers)
        cost.marker_bytes += with_them
    else:
        cost.riding += len(batch.markers)
        cost.marker_bytes += with_them - len(pack_packet(name, 1, batch.first, batch.count, b""))


def _count_call(cost: Cost, arguments: Any) -> None:
    cost.coordinator_messages += 1
    cost.coordinator_bytes += len(pack(arguments))


def _tell_collector(world: _Rounds, event: CollectorEvent) -> None:
    for effect in world.collector.handle(event):
        match effect:
            case SendBegin(process, snapshot, floor, inputs, quiet):
                _count_call(world.cost, (snapshot, floor, sorted(inputs), quiet))
                world.leaving[process].append(Begun(snapshot, floor, inputs, quiet))
            case StoreSnapshot(cut):
                assert len(cut.channels) == world.cost.channels
                world.complete = True
                _tell_collector(world, SnapshotStored(cut.snapshot))
            case AnnounceEnd(snapshot, reason, floor=floor):
                assert reason is None, effect
                for process in world.machines:
                    _count_call(world.cost, (snapshot, floor))
                    world.leaving[process].append(SnapshotEnded(snapshot, floor))
