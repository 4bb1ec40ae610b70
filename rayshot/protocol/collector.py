"""The coordinator's half of the protocol: collects records and decides when a snapshot is complete.

A snapshot is complete when the membership is closed - every process to which a record says that messages were
transported, and every process from which one was received, has recorded too - and each channel's equation holds with
all of its messages at hand. The collector sees this from the records' counters alone: where they say that a channel
is empty it waits for nothing more.

A process that joined after the snapshot began is part of it exactly if it is born, or a message inside the cut is
addressed to it; else its creation lies behind the cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from rayshot.errors import InconsistentCut
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import ChannelCut, Cut, Record
from rayshot.protocol.identity import COORDINATOR, Channel, SnapshotId, is_driver
from rayshot.protocol.tombstones import Tombstones


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    """Somebody outside the system, or its rhythm, asked for a snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotAnnounced:
    """A process began a snapshot by itself."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class RecordArrived:
    """A process's record arrived and its state is held safely."""

    record: Record


@dataclass(frozen=True, slots=True)
class ChannelArrived:
    """The receiver's part of a channel arrived: messages `first` .. `last`."""

    snapshot: SnapshotId
    channel: Channel
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ProcessJoined:
    """A process said hello."""

    process: str


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """A process ended by its own wish and left its last record."""

    record: Record


@dataclass(frozen=True, slots=True)
class ProcessDied:
    """A process died."""

    process: str
    detail: str


@dataclass(frozen=True, slots=True)
class CaptureRefused:
    """A process could not capture its state."""

    snapshot: SnapshotId
    process: str
    detail: str


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """The commit record of the snapshot was written."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class AbortWanted:
    """The snapshot must end without a commit, for this reason."""

    snapshot: SnapshotId
    reason: AbortReason
    detail: str


CollectorEvent = (
    SnapshotWanted
    | SnapshotAnnounced
    | RecordArrived
    | ChannelArrived
    | ProcessJoined
    | ProcessEnded
    | ProcessDied
    | CaptureRefused
    | SnapshotStored
    | AbortWanted
)


@dataclass(frozen=True, slots=True)
class SendBegin:
    """Tell the process to record. Orders nothing else: it may have recorded already."""

    process: str
    snapshot: SnapshotId
    floor: int


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The cut is complete and checked: write it, then say SnapshotStored or AbortWanted."""

    cut: Cut


@dataclass(frozen=True, slots=True)
class AnnounceEnd:
    """Tell every process and whoever waits that the snapshot ended; `reason` is None when it was committed.

    `missing` are the processes that had not answered, `open_channels` the channels that had not closed.
    """

    snapshot: SnapshotId
    reason: AbortReason | None
    detail: str = ""
    missing: tuple[str, ...] = ()
    open_channels: tuple[Channel, ...] = ()


CollectorEffect = SendBegin | StoreSnapshot | AnnounceEnd


@dataclass(slots=True)
class _Collection:
    """What one open snapshot has gathered. `members` must record; others may.

    `awaited` are the channels whose parts are still to come, known once the membership is closed.
    """

    members: set[str]
    records: dict[str, Record] = field(default_factory=dict)
    parts: dict[Channel, tuple[int, int]] = field(default_factory=dict)
    awaited: set[Channel] | None = None
    storing: bool = False


class Collector:
    """The machine of the coordinator. `handle` is its only mutator.

    `floor` is the highest counter that an earlier coordinator of this incarnation may have used.
    """

    def __init__(self, incarnation: int, floor: int = 0) -> None:
        self.incarnation = incarnation
        self._counter = floor
        self._processes: set[str] = set()
        self._last_records: dict[str, Record] = {}
        self._open: dict[SnapshotId, _Collection] = {}
        self._tombstones = Tombstones()
        self._tombstones.raise_floor(COORDINATOR, floor + 1)

    @property
    def processes(self) -> frozenset[str]:
        """The processes that have joined and are alive."""
        return frozenset(self._processes)

    @property
    def open_snapshots(self) -> tuple[SnapshotId, ...]:
        """Snapshots under way, the oldest first."""
        return tuple(self._open)

    def missing(self, snapshot: SnapshotId) -> tuple[str, ...]:
        """Processes whose record an open snapshot still waits for."""
        collection = self._open[snapshot]
        return tuple(sorted(self._closure(collection) - self._records(collection).keys()))

    def open_channels(self, snapshot: SnapshotId) -> tuple[Channel, ...]:
        """Channels whose messages an open snapshot still waits for, as far as its records tell."""
        collection = self._open[snapshot]
        members, records = self._closure(collection), self._records(collection)
        cuts = self._channel_cuts({name: records[name] for name in members & records.keys()}, members)
        return tuple(
            cut.channel for cut in cuts if cut.transported > cut.received and cut.channel not in collection.parts
        )

    def handle(self, event: CollectorEvent) -> tuple[CollectorEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        match event:
            case SnapshotWanted():
                self._counter += 1
                return self._begin(SnapshotId(self.incarnation, COORDINATOR, self._counter))
            case SnapshotAnnounced(snapshot):
                return self._begin(snapshot)
            case RecordArrived(record):
                if collection := self._open.get(record.snapshot):
                    collection.records.setdefault(record.process, record)
                    collection.awaited = None
                return self._try_complete(record.snapshot)
            case ChannelArrived(snapshot, channel, first, last):
                if collection := self._open.get(snapshot):
                    collection.parts.setdefault(channel, (first, last))
                    if collection.awaited is not None:
                        collection.awaited.discard(channel)
                return self._try_complete(snapshot)
            case ProcessJoined(process):
                self._processes.add(process)
                return tuple(SendBegin(process, snapshot, self._floor(snapshot)) for snapshot in self._open)
            case ProcessEnded(record):
                self._processes.discard(record.process)
                self._last_records[record.process] = record
                for collection in self._open.values():
                    collection.awaited = None
                return tuple(effect for snapshot in tuple(self._open) for effect in self._try_complete(snapshot))
            case ProcessDied(process, detail):
                self._processes.discard(process)
                return self._abort_all(AbortReason.ACTOR_DIED, f"{process} died: {detail}")
            case CaptureRefused(snapshot, process, detail):
                return self._abort(snapshot, AbortReason.CAPTURE_FAILED, f"{process}: {detail}")
            case SnapshotStored(snapshot):
                return self._stored(snapshot)
            case AbortWanted(snapshot, reason, detail):
                return self._abort(snapshot, reason, detail)
            case _:
                assert_never(event)

    # Beginning and ending ------------------------------------------------------------------------

    def _floor(self, snapshot: SnapshotId) -> int:
        same = (other.counter for other in self._open if other.initiator == snapshot.initiator)
        return min(same, default=snapshot.counter)

    def _begin(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        if snapshot in self._open or snapshot in self._tombstones or snapshot.incarnation != self.incarnation:
            return ()
        members = set(self._processes)
        if snapshot.initiator != COORDINATOR:
            members.add(snapshot.initiator)
        self._open[snapshot] = _Collection(members)
        begins = tuple(SendBegin(process, snapshot, self._floor(snapshot)) for process in sorted(self._processes))
        return (*begins, *self._try_complete(snapshot))

    def _end(self, snapshot: SnapshotId) -> None:
        del self._open[snapshot]
        self._tombstones.add(snapshot)
        self._tombstones.raise_floor(snapshot.initiator, self._floor(snapshot))

    def _abort(self, snapshot: SnapshotId, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        if snapshot not in self._open:
            return ()
        end = AnnounceEnd(snapshot, reason, detail, self.missing(snapshot), self.open_channels(snapshot))
        self._end(snapshot)
        return (end,)

    def _abort_all(self, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        """Abort what still gathers; what is being stored has all it needs and may finish."""
        gathering = tuple(k for k, collection in self._open.items() if not collection.storing)
        return tuple(end for snapshot in gathering for end in self._abort(snapshot, reason, detail))

    def _stored(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        if snapshot not in self._open:
            return ()
        drained = self._drained_ends(self._open[snapshot])
        self._end(snapshot)
        for process in drained:
            del self._last_records[process]
        return (AnnounceEnd(snapshot, None),)

    def _drained_ends(self, collection: _Collection) -> list[str]:
        """Ended processes that no later record will mention, as a committed snapshot shows.

        All their messages were processed, and no sender counts a channel to them any more.
        """
        records = collection.records
        return [
            name
            for name, last in self._last_records.items()
            if all(
                receiver in records and records[receiver].received.get(name, 0) == n
                for receiver, n in last.sent.items()
            )
            and not any(name in record.sent for record in records.values())
        ]

    # Completing ------------------------------------------------------------------------------------

    def _try_complete(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or collection.storing or collection.awaited:
            return ()
        try:
            cut = self._complete_cut(snapshot, collection)
        except InconsistentCut as error:
            return self._abort(snapshot, AbortReason.INCONSISTENT, error.message)
        if cut is None:
            return ()
        collection.storing = True
        return (StoreSnapshot(cut),)

    def _complete_cut(self, snapshot: SnapshotId, collection: _Collection) -> Cut | None:
        if not collection.members <= collection.records.keys() | self._last_records.keys():
            return None  # the common case while records come in, told apart without walking all channels
        members, known = self._closure(collection), self._records(collection)
        if not members <= known.keys():
            return None
        records = {name: known[name] for name in members}
        channels = self._channel_cuts(records, members)
        collection.awaited = set()
        for cut in channels:
            cut.check()
            if cut.transported > cut.received:
                part = collection.parts.get(cut.channel)
                if part is None:
                    collection.awaited.add(cut.channel)
                elif part != (cut.received + 1, cut.transported):
                    raise InconsistentCut(f"channel {cut.channel}: messages {part} were recorded, not those of {cut}")
        if collection.awaited:
            return None
        senders = {cut.channel.sender for cut in channels}
        kept = {name: record for name, record in records.items() if not record.ended or name in senders}
        receivers = {cut.channel.receiver for cut in channels}
        return Cut(snapshot, kept, tuple(channels), tuple(sorted(receivers - kept.keys())))

    def _records(self, collection: _Collection) -> Mapping[str, Record]:
        """The records at hand; a process that ended without recording stands in with its last one."""
        return {**self._last_records, **collection.records}

    def _closure(self, collection: _Collection) -> set[str]:
        """The members, and all that records of members prove to lie inside the cut as well."""
        records = self._records(collection)
        closed: set[str] = set()
        waiting = set(collection.members)
        waiting |= {name for name, record in collection.records.items() if _stands_alone(record)}
        while waiting:
            name = waiting.pop()
            closed.add(name)
            record = records.get(name)
            if record is None:
                continue
            reached = {receiver for receiver, n in record.transported.items() if n > 0}
            heard = {sender for sender, n in record.received.items() if n > 0 and not is_driver(sender)}
            waiting |= (reached | heard) - closed
        unborn = {name for name in closed if name in records and not records[name].born}
        return closed - {name for name in unborn if not self._addressed(name, closed, records)}

    def _addressed(self, name: str, members: set[str], records: Mapping[str, Record]) -> bool:
        own = records[name]
        if any(n > 0 for n in own.environment.values()):
            return True
        return any(records[other].sent.get(name, 0) > 0 for other in members if other in records)

    def _channel_cuts(self, records: Mapping[str, Record], members: set[str]) -> list[ChannelCut]:
        cuts = []
        for sender, record in records.items():
            for receiver, n in record.sent.items():
                theirs = records.get(receiver)
                if n == 0 or (theirs is None and receiver in members):
                    continue
                received = theirs.received.get(sender, 0) if theirs else 0
                if theirs is not None and theirs.ended:
                    # Nobody will process the rest: dead letters, no channel state.
                    _check_heard(Channel(sender, receiver), received, n)
                    continue
                if record.ended and received == n:
                    continue
                cuts.append(ChannelCut(Channel(sender, receiver), n, record.transported.get(receiver, 0), received))
        for receiver, record in records.items():
            for driver, n in record.environment.items():
                if n > 0:
                    cuts.append(ChannelCut(Channel(driver, receiver), n, n, record.received.get(driver, 0)))
            for sender, m in record.received.items():
                if m > 0 and sender in records and records[sender].sent.get(receiver, 0) == 0 and not record.ended:
                    cuts.append(ChannelCut(Channel(sender, receiver), 0, 0, m))
        return cuts


def _stands_alone(record: Record) -> bool:
    return record.born or any(n > 0 for n in record.environment.values())


def _check_heard(channel: Channel, received: int, sent: int) -> None:
    ChannelCut(channel, sent, sent, received).check()
