"""The coordinator's half of the protocol: collects records and decides when a snapshot is complete.

A snapshot is complete when the membership is closed - every process to which a record says that messages were
transported, and every process from which one was received, has recorded too - and each channel's equation holds with
all of its messages at hand. The collector sees this from the records' counters alone: where they say that a channel
is empty it waits for nothing more.

A process that joined after the snapshot began is part of it exactly if it is born, or a message inside the cut is
addressed to it; else its creation lies behind the cut.

A process that ended without having learned of a snapshot lies wholly before the cut: its last record stands in. The
last record is needed until every receiver knows that nothing will follow (Record.closed) and no sender counts a
channel to it; then only the name is kept, as names are never used again.

News comes in any order: a record may be here before the announcement of its snapshot, which it then stands for. A
record tells of all snapshots that its process had recorded before, so that none with records older than those of a
stored one is unknown.
Complete snapshots are stored one after the other, so that each can be compared with the one before: see Cut.advances.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from rayshot.errors import InconsistentCut
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.assembly import check_ends, close_membership, cut_channels
from rayshot.protocol.cut import Cut, Record
from rayshot.protocol.identity import COORDINATOR, Channel, SnapshotId
from rayshot.protocol.tombstones import Tombstones


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    """Somebody outside the system, or its rhythm, asked for a snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotAnnounced:
    """A process began a snapshot by itself, and has given up those it began with counters below `floor`."""

    snapshot: SnapshotId
    floor: int = 0


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
    """A process ended by its own wish and left its last record, which stands in for none of the `unfinished`."""

    record: Record
    unfinished: tuple[SnapshotId, ...] = ()


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
    """The snapshot must end without a commit, for this reason.

    While it is being stored only the verdicts of the one who stores it count (STORE_UNAVAILABLE, FENCED, DEFECT): it
    may be durable already.
    """

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
    """Tell every process, every driver and whoever waits that it ended; `reason` is None when it was committed.

    All snapshots of its initiator with a counter below `floor` have ended as well.

    `missing` are the processes that had not answered, `open_channels` the channels that had not closed.
    """

    snapshot: SnapshotId
    reason: AbortReason | None
    detail: str = ""
    missing: tuple[str, ...] = ()
    open_channels: tuple[Channel, ...] = ()
    floor: int = 0


CollectorEffect = SendBegin | StoreSnapshot | AnnounceEnd


_STORE_VERDICTS = (AbortReason.STORE_UNAVAILABLE, AbortReason.FENCED, AbortReason.DEFECT)


@dataclass(slots=True)
class _Collection:
    """What one open snapshot has gathered. `members` must record; others may.

    `ended_before` are the processes whose end was known when it began. `awaited` are the channels whose parts are
    still to come, known once the membership is closed. `storing` is the cut that is being stored.
    """

    members: set[str]
    ended_before: frozenset[str]
    records: dict[str, Record] = field(default_factory=dict)
    parts: dict[Channel, tuple[int, int]] = field(default_factory=dict)
    awaited: set[Channel] | None = None
    storing: Cut | None = None


class Collector:
    """The machine of the coordinator. `handle` is its only mutator.

    `floor` is the highest counter that an earlier coordinator of this incarnation may have used, `ended` the names of
    processes that ended before (Cut.ended of the newest snapshot, Participant.ended_peers of the living). A successor
    must be told of every living process before anything else, each of which has forgotten the open snapshots.
    """

    def __init__(self, incarnation: int, floor: int = 0, ended: Iterable[str] = ()) -> None:
        self.incarnation = incarnation
        self._counter = floor
        self._processes: set[str] = set()
        self._ended: set[str] = set(ended)
        self._last_records: dict[str, Record] = {}
        self._settled: dict[str, set[SnapshotId]] = {}
        self._newest: Cut | None = None
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
        records = self._records(collection)
        return tuple(sorted(close_membership(collection.members, records, self._ended) - records.keys()))

    def open_channels(self, snapshot: SnapshotId) -> tuple[Channel, ...]:
        """Channels whose messages an open snapshot still waits for, as far as its records tell."""
        collection = self._open[snapshot]
        known = self._records(collection)
        members = close_membership(collection.members, known, self._ended)
        cuts = cut_channels({name: known[name] for name in members & known.keys()}, members, self._ended)
        return tuple(
            cut.channel for cut in cuts if cut.transported > cut.received and cut.channel not in collection.parts
        )

    def handle(self, event: CollectorEvent) -> tuple[CollectorEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        match event:
            case SnapshotWanted():
                self._counter += 1
                return self._begin(SnapshotId(self.incarnation, COORDINATOR, self._counter))
            case SnapshotAnnounced(snapshot, floor):
                return (*self._give_up(snapshot, floor), *self._begin(snapshot))
            case RecordArrived(record):
                return self._record_arrived(record)
            case ChannelArrived():
                return self._channel_arrived(event)
            case ProcessJoined(process):
                if process in self._ended:
                    return ()
                self._processes.add(process)
                return tuple(SendBegin(process, snapshot, self._floor(snapshot)) for snapshot in self._open)
            case ProcessEnded(record, unfinished):
                return self._process_ended(record, unfinished)
            case ProcessDied(process, detail):
                self._processes.discard(process)
                return self._abort_all(AbortReason.ACTOR_DIED, f"{process} died: {detail}")
            case CaptureRefused(snapshot, process, detail):
                begin = self._begin(snapshot)
                return (*begin, *self._abort(snapshot, AbortReason.CAPTURE_FAILED, f"{process}: {detail}"))
            case SnapshotStored(snapshot):
                return self._stored(snapshot)
            case AbortWanted(snapshot, reason, detail):
                return self._abort(snapshot, reason, detail)
            case _:
                assert_never(event)

    # Beginning and ending ------------------------------------------------------------------------

    def _floor(self, snapshot: SnapshotId) -> int:
        return self._tombstones.floor(snapshot.initiator)

    def _begin(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        if snapshot in self._open or snapshot in self._tombstones or snapshot.incarnation != self.incarnation:
            return ()
        members = set(self._processes)
        if snapshot.initiator == COORDINATOR:
            self._counter = max(self._counter, snapshot.counter)
        elif snapshot.initiator not in self._ended:
            members.add(snapshot.initiator)
        self._open[snapshot] = _Collection(members, frozenset(self._last_records))
        begins = tuple(SendBegin(process, snapshot, self._floor(snapshot)) for process in sorted(self._processes))
        return (*begins, *self._try_complete(snapshot))

    def _give_up(self, snapshot: SnapshotId, floor: int) -> tuple[CollectorEffect, ...]:
        if snapshot.incarnation != self.incarnation:
            return ()
        older = [k for k in self._open if k.initiator == snapshot.initiator and k.counter < floor]
        effects = tuple(
            effect for k in older for effect in self._abort(k, AbortReason.TIMEOUT, f"{k.initiator} gave it up")
        )
        still_open = [k.counter for k in self._open if k.initiator == snapshot.initiator]
        self._tombstones.raise_floor(snapshot.initiator, min([floor, *still_open]))
        return effects

    def _end(self, snapshot: SnapshotId) -> None:
        del self._open[snapshot]
        self._tombstones.add(snapshot)
        self._drop_last_records(snapshot)
        if snapshot.initiator == COORDINATOR:
            still_open = (k.counter for k in self._open if k.initiator == COORDINATOR)
            self._tombstones.raise_floor(COORDINATOR, min(still_open, default=self._counter + 1))

    def _abort(self, snapshot: SnapshotId, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or (collection.storing and reason not in _STORE_VERDICTS):
            return ()
        missing, open_channels = self.missing(snapshot), self.open_channels(snapshot)
        self._end(snapshot)
        end = AnnounceEnd(snapshot, reason, detail, missing, open_channels, self._floor(snapshot))
        return (end, *(self._try_all() if collection.storing else ()))

    def _abort_all(self, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        """Abort what still gathers; what is being stored has all it needs and may finish."""
        return tuple(end for snapshot in tuple(self._open) for end in self._abort(snapshot, reason, detail))

    def _stored(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or collection.storing is None:
            return ()
        if collection.storing.advances:
            self._newest = collection.storing
        self._end(snapshot)
        self._settle_ends(collection)
        return (AnnounceEnd(snapshot, None, floor=self._floor(snapshot)), *self._try_all())

    # Arriving --------------------------------------------------------------------------------------

    def _record_arrived(self, record: Record) -> tuple[CollectorEffect, ...]:
        begin = [effect for snapshot in (record.snapshot, *record.overlaps) for effect in self._begin(snapshot)]
        if collection := self._open.get(record.snapshot):
            collection.records.setdefault(record.process, record)
            collection.awaited = None
        return (*begin, *self._try_complete(record.snapshot))

    def _channel_arrived(self, arrived: ChannelArrived) -> tuple[CollectorEffect, ...]:
        begin = self._begin(arrived.snapshot)
        if collection := self._open.get(arrived.snapshot):
            collection.parts.setdefault(arrived.channel, (arrived.first, arrived.last))
            if collection.awaited is not None:
                collection.awaited.discard(arrived.channel)
        return (*begin, *self._try_complete(arrived.snapshot))

    def _process_ended(self, record: Record, unfinished: tuple[SnapshotId, ...]) -> tuple[CollectorEffect, ...]:
        process = record.process
        self._processes.discard(process)
        if process in self._ended:
            return ()
        self._ended.add(process)
        self._last_records[process] = record
        effects: list[CollectorEffect] = []
        for snapshot in unfinished:
            effects += self._begin(snapshot)
            effects += self._abort(snapshot, AbortReason.TIMEOUT, f"{process} gave it up and ended")
        return (*effects, *self._try_all())

    def _settle_ends(self, collection: _Collection) -> None:
        """Find the ended processes that no record younger than those of a stored snapshot needs.

        Their last records are dropped when all that are open now, which may hold older records, have ended.
        """
        living = [record for record in collection.records.values() if record.process not in self._ended]
        closed = {record.process: record.closed for record in living}

        def is_settled(name: str) -> bool:
            receivers = self._last_records[name].sent.keys() - self._ended
            return all(name in closed.get(receiver, ()) for receiver in receivers) and not any(
                name in record.sent or (name in record.received and name not in record.closed) for record in living
            )

        for name in self._last_records.keys() & collection.ended_before - self._settled.keys():
            if is_settled(name):
                self._settled[name] = set(self._open)
        self._drop_last_records(None)

    def _drop_last_records(self, ended: SnapshotId | None) -> None:
        for name, waits_for in tuple(self._settled.items()):
            waits_for.discard(ended)
            if not waits_for:
                del self._settled[name], self._last_records[name]

    # Completing ------------------------------------------------------------------------------------

    def _try_all(self) -> tuple[CollectorEffect, ...]:
        for collection in self._open.values():
            collection.awaited = None
        return tuple(effect for snapshot in tuple(self._open) for effect in self._try_complete(snapshot))

    def _try_complete(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or collection.awaited or any(other.storing for other in self._open.values()):
            return ()
        try:
            collection.storing = self._complete_cut(snapshot, collection)
        except InconsistentCut as error:
            return self._abort(snapshot, AbortReason.INCONSISTENT, error.message)
        return () if collection.storing is None else (StoreSnapshot(collection.storing),)

    def _complete_cut(self, snapshot: SnapshotId, collection: _Collection) -> Cut | None:
        if not collection.members <= collection.records.keys() | self._last_records.keys():
            return None  # the common case while records come in, told apart without walking all channels
        known = self._records(collection)
        members = close_membership(collection.members, known, self._ended)
        if not members <= known.keys():
            return None
        records = {name: known[name] for name in members}
        channels = cut_channels(records, frozenset(), self._ended)
        check_ends(records)
        collection.awaited = set()
        for channel_cut in channels:
            channel_cut.check()
            if channel_cut.transported > channel_cut.received:
                part = collection.parts.get(channel_cut.channel)
                if part is None:
                    collection.awaited.add(channel_cut.channel)
                elif part != (channel_cut.received + 1, channel_cut.transported):
                    raise InconsistentCut(f"messages {part} were recorded, not those of {channel_cut}")
        if collection.awaited:
            return None
        living = {name: record for name, record in records.items() if not record.ended}
        unborn = {channel_cut.channel.receiver for channel_cut in channels} - living.keys()
        cut = Cut(snapshot, living, tuple(channels), tuple(sorted(unborn)), tuple(sorted(self._ended)))
        return cut if self._newest is None or cut.contains(self._newest) else replace(cut, advances=False)

    def _records(self, collection: _Collection) -> Mapping[str, Record]:
        """The records at hand; a process that ended without recording stands in with its last one."""
        return {**self._last_records, **collection.records}
