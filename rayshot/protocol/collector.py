"""The coordinator's half of the protocol: it collects records and decides when a snapshot is complete.

A snapshot is complete when the membership is closed: every process to which a record says that messages were
transported, and every process from which messages had arrived, has recorded too. Then each message in flight is with
one of two records at hand, and each channel's equation must hold. The collector sees all this from the records'
counters alone.

A process that joined after the snapshot began is part of it exactly if it is born, or if a message inside the cut is
addressed to it. Otherwise its creation is behind the cut.

A process that ended without having learned of a snapshot is wholly before the cut: its last record takes its place. The
last record is needed until every living receiver knows that nothing will follow (Record.closed) and no open snapshot
can hold older records. Then only the name is kept, as names are never used again.

News comes in any order: a record may arrive before the announcement of its snapshot, and then waits for it. A record
alone never opens a snapshot: it may belong to a snapshot that ended long ago, of which a late marker told its process.
A record names all snapshots that its process had recorded before, so the collector knows every snapshot that has older
records than a stored one.
Complete snapshots are stored one after the other, so that each can be compared with the one before: see Cut.advances.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import assert_never

from rayshot.errors import InconsistentCut
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.assembly import check_alignment, check_ends, close_membership, cut_channels
from rayshot.protocol.collector_events import (
    AbortWanted,
    AnnounceEnd,
    CaptureRefused,
    CollectorEffect,
    CollectorEvent,
    ProcessDied,
    ProcessEnded,
    ProcessJoined,
    ProcessQuiet,
    RecordArrived,
    SendBegin,
    SnapshotAnnounced,
    SnapshotStored,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.cut import ChannelCut, Cut
from rayshot.protocol.identity import ALIGNED, INITIATORS, RESERVED, STOP_THE_WORLD, Channel, SnapshotId
from rayshot.protocol.record import Record
from rayshot.protocol.tombstones import Tombstones

_STORE_VERDICTS = (
    AbortReason.STORE_UNAVAILABLE,
    AbortReason.OBJECT_MISSING,
    AbortReason.DOES_NOT_LOAD,
    AbortReason.KEYS_MISSING,
    AbortReason.FENCED,
    AbortReason.DEFECT,
)
"""Why a snapshot that is being stored may end without a commit: only the code that stores it can know."""


@dataclass(slots=True)
class _Collection:
    """The records of one snapshot so far. `members` must record; others may. `storing` is the cut being stored.

    `loud` are the processes of a stop-the-world snapshot that must become quiet before any process is told to record.
    """

    members: set[str] = field(default_factory=set)
    records: dict[str, Record] = field(default_factory=dict)
    storing: Cut | None = None
    loud: set[str] = field(default_factory=set)


class Collector:
    """The machine of the coordinator. `handle` is its only mutator.

    `floor` is the highest counter that an earlier coordinator of this incarnation may have used. `ended` are the names
    of processes that ended before (Cut.ended of the newest snapshot, Participant.ended_peers of the living). `stored`
    are the snapshots of this incarnation that the log holds. A successor must first be told of every process that still
    exists: of living processes with the snapshots that they gave up, and of ended ones by their last records. If one is
    missing, it died meanwhile, and the system must go back.
    """

    def __init__(
        self, incarnation: int, floor: int = 0, ended: Iterable[str] = (), stored: Iterable[SnapshotId] = ()
    ) -> None:
        self.incarnation = incarnation
        self._counter = floor
        self._processes: set[str] = set()
        self._ended: set[str] = set(ended)
        self._last_records: dict[str, Record] = {}
        self._settled: dict[str, set[SnapshotId]] = {}
        self._newest: Cut | None = None
        self._open: dict[SnapshotId, _Collection] = {}
        self._unannounced: dict[SnapshotId, _Collection] = {}
        self._tombstones = Tombstones()
        for initiator in RESERVED:
            self._tombstones.raise_floor(initiator, floor + 1)
        self._lost: set[SnapshotId] = set()
        self._stored_before = frozenset(stored)
        for snapshot in self._stored_before:
            self._retire(snapshot)

    @property
    def processes(self) -> frozenset[str]:
        """The processes that have joined and are alive."""
        return frozenset(self._processes)

    @property
    def open_snapshots(self) -> tuple[SnapshotId, ...]:
        """Snapshots under way, the oldest first."""
        return tuple(self._open)

    @property
    def unannounced(self) -> tuple[SnapshotId, ...]:
        """Snapshots with records that came before the announcement."""
        return tuple(self._unannounced)

    @property
    def is_aligning(self) -> bool:
        """Whether an aligned snapshot is under way."""
        return any(snapshot.mode == ALIGNED for snapshot in self._open)

    def missing(self, snapshot: SnapshotId) -> tuple[str, ...]:
        """Processes for which an open snapshot waits: those that are loud, and when none is, those not recorded."""
        collection = self._open[snapshot]
        if collection.loud:
            return tuple(sorted(collection.loud))
        records = self._records(collection)
        return tuple(sorted(close_membership(collection.members, records, self._ended) - records.keys()))

    def open_channels(self, snapshot: SnapshotId) -> tuple[Channel, ...]:
        """Channels that carried messages, with a record at only one end in this open snapshot."""
        missing = set(self.missing(snapshot))
        known = self._records(self._open[snapshot]).values()
        out = (Channel(record.process, receiver) for record in known for receiver in record.sent.keys() & missing)
        into = (
            Channel(sender, record.process)
            for record in known
            for sender in (record.received.keys() | record.arrived.keys()) & missing
        )
        return tuple(sorted({*out, *into}))

    def handle(self, event: CollectorEvent) -> tuple[CollectorEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        match event:
            case SnapshotWanted(mode, inputs):
                assert mode != ALIGNED or not self.is_aligning
                self._counter += 1
                return self._begin(SnapshotId(self.incarnation, INITIATORS[mode], self._counter), inputs=inputs)
            case SnapshotAnnounced(snapshot, process, floor, helpers):
                return (*self._give_up(snapshot, process, floor), *self._begin(snapshot, helpers, process=process))
            case RecordArrived(record):
                return self._record_arrived(record)
            case ProcessQuiet(snapshot, process):
                return self._fall_quiet(snapshot, process) if snapshot in self._open else ()
            case ProcessJoined(process, open_snapshots):
                return self._process_joined(process, open_snapshots)
            case ProcessEnded(record, unfinished):
                return self._process_ended(record, unfinished)
            case ProcessDied(process, detail):
                self._processes.discard(process)
                return self._abort_all(AbortReason.ACTOR_DIED, f"{process} died: {detail}")
            case CaptureRefused(snapshot, process, detail, reason):
                return self._refuse(snapshot, reason, f"{process}: {detail}")
            case SnapshotStored(snapshot):
                return self._stored(snapshot)
            case AbortWanted(snapshot, reason, detail):
                return self._abort(snapshot, reason, detail)
            case _:
                assert_never(event)

    def validate(self) -> None:
        """Assert what holds between any two events, computed again from all that is gathered here; for tests."""
        both = self._open.keys() & self._unannounced.keys()
        assert not both, f"{both} are open, and not announced"
        for snapshot, collection in (*self._open.items(), *self._unannounced.items()):
            assert not self._is_over(snapshot), f"{snapshot} is open, and over"
            assert not snapshot.by_coordinator or snapshot.counter <= self._counter, f"{snapshot} will begin again"
            for process, record in collection.records.items():
                assert (record.process, record.snapshot) == (process, snapshot), f"{record} is kept for {process}"
            assert snapshot.mode == STOP_THE_WORLD or not collection.loud, f"{snapshot} waits for {collection.loud}"
        storing = [k for k, collection in self._open.items() if collection.storing]
        assert len(storing) <= 1, f"{storing} are stored at a time"
        assert not self._processes & self._ended, f"{self._processes & self._ended} are alive, and have ended"
        assert self._settled.keys() <= self._last_records.keys() <= self._ended, "last records are of who ended"

    # Beginning and ending ------------------------------------------------------------------------

    def _floor(self, snapshot: SnapshotId) -> int:
        return self._tombstones.floor(snapshot.initiator)

    def _begin(
        self,
        snapshot: SnapshotId,
        helpers: frozenset[str] | None = None,
        inputs: Mapping[str, frozenset[str]] = MappingProxyType({}),
        process: str | None = None,
    ) -> tuple[CollectorEffect, ...]:
        if snapshot in self._open or self._is_over(snapshot):
            return ()
        collection = self._open[snapshot] = self._unannounced.pop(snapshot, _Collection())
        collection.members |= self._processes
        if process is not None and process not in self._ended:
            collection.members.add(process)
        if snapshot.mode == STOP_THE_WORLD:
            collection.loud = set(self._processes)
        told = sorted(self._processes if helpers is None else self._processes & helpers)
        begins = tuple(
            SendBegin(process, snapshot, self._floor(snapshot), inputs.get(process, frozenset())) for process in told
        )
        return (*begins, *self._try_complete(snapshot))

    def _fall_quiet(self, snapshot: SnapshotId, process: str) -> tuple[CollectorEffect, ...]:
        """Order all processes to record when the last one has become quiet."""
        loud = self._open[snapshot].loud
        if process not in loud:
            return ()
        loud.remove(process)
        return () if loud else tuple(self._begin_again(snapshot, name) for name in sorted(self._processes))

    def _begin_again(self, snapshot: SnapshotId, process: str) -> SendBegin:
        """The order about an open snapshot, for a process that joins and for every process once all are quiet."""
        quiet = snapshot.mode == STOP_THE_WORLD and not self._open[snapshot].loud
        return SendBegin(process, snapshot, self._floor(snapshot), quiet=quiet)

    def _is_over(self, snapshot: SnapshotId) -> bool:
        return snapshot.incarnation != self.incarnation or snapshot in self._tombstones

    def _give_up(self, snapshot: SnapshotId, process: str, floor: int) -> tuple[CollectorEffect, ...]:
        if snapshot.incarnation != self.incarnation:
            return ()
        older = [k for k in self._open if k.initiator == snapshot.initiator and k.counter < floor]
        effects = tuple(
            effect for k in older for effect in self._abort(k, AbortReason.TIMEOUT, f"{process} gave it up")
        )
        still_open = [k.counter for k in self._open if k.initiator == snapshot.initiator]
        self._tombstones.raise_floor(snapshot.initiator, min([floor, *still_open]))
        self._forget_unannounced()
        return effects

    def _end(self, snapshot: SnapshotId) -> None:
        del self._open[snapshot]
        self._tombstones.add(snapshot)
        if snapshot.by_coordinator:
            still_open = (k.counter for k in self._open if k.initiator == snapshot.initiator)
            self._tombstones.raise_floor(snapshot.initiator, min(still_open, default=self._counter + 1))
        self._forget_unannounced()

    def _retire(self, snapshot: SnapshotId) -> None:
        """Remember the end of a snapshot that is not open here; a coordinator's counter counts as used."""
        if snapshot.by_coordinator:
            self._counter = max(self._counter, snapshot.counter)
        self._tombstones.add(snapshot)
        self._forget_unannounced()

    def _forget_unannounced(self) -> None:
        """Forget snapshots that have ended meanwhile, and the last records that waited for them."""
        for snapshot in [k for k in self._unannounced if k in self._tombstones]:
            del self._unannounced[snapshot]
        self._drop_last_records()

    def _abort(self, snapshot: SnapshotId, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or (collection.storing and reason not in _STORE_VERDICTS):
            return ()
        missing, open_channels = self.missing(snapshot), self.open_channels(snapshot)
        self._end(snapshot)
        end = AnnounceEnd(snapshot, reason, detail, missing, open_channels, self._floor(snapshot))
        return (end, *(self._try_all() if collection.storing else ()))

    def _refuse(self, snapshot: SnapshotId, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        """End a snapshot without a commit, even if its announcement has not come yet."""
        if snapshot in self._open or self._is_over(snapshot):
            return self._abort(snapshot, reason, detail)
        self._retire(snapshot)
        return (AnnounceEnd(snapshot, reason, detail, floor=self._floor(snapshot)),)

    def _abort_all(self, reason: AbortReason, detail: str) -> tuple[CollectorEffect, ...]:
        """Abort all snapshots that still gather; one that is being stored has all it needs and may finish."""
        return tuple(end for snapshot in tuple(self._open) for end in self._abort(snapshot, reason, detail))

    def _stored(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or collection.storing is None:
            return ()
        past: dict[str, frozenset[str]] = {}
        if collection.storing.advances:
            self._newest = collection.storing
            records = collection.storing.records.values()
            past = {record.process: drivers for record in records if (drivers := record.past_drivers)}
        self._end(snapshot)
        self._settle_ends(collection.records)
        return (AnnounceEnd(snapshot, None, floor=self._floor(snapshot), past_drivers=past), *self._try_all())

    # Arriving --------------------------------------------------------------------------------------

    def _collection(self, snapshot: SnapshotId) -> _Collection | None:
        """The collection for what arrived for a snapshot; None if the snapshot is over."""
        if snapshot in self._open:
            return self._open[snapshot]
        if not self._is_over(snapshot) and snapshot.by_coordinator:
            self._retire(snapshot)  # of a coordinator that was wrongly believed dead
        return None if self._is_over(snapshot) else self._unannounced.setdefault(snapshot, _Collection())

    def _record_arrived(self, record: Record) -> tuple[CollectorEffect, ...]:
        for snapshot in record.overlaps:
            self._collection(snapshot)
        if collection := self._collection(record.snapshot):
            collection.records.setdefault(record.process, record)
        return self._try_complete(record.snapshot)

    def _process_joined(self, process: str, open_snapshots: tuple[SnapshotId, ...]) -> tuple[CollectorEffect, ...]:
        lost = tuple(effect for snapshot in open_snapshots for effect in self._lose(snapshot))
        if process in self._ended:
            return lost
        self._processes.add(process)
        return (*lost, *(self._begin_again(snapshot, process) for snapshot in self._open))

    def _lose(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        """Announce a lost coordinator's snapshot: committed if the log has it, else it will never be committed."""
        if snapshot in self._lost or snapshot.incarnation != self.incarnation:
            return ()
        self._lost.add(snapshot)
        self._retire(snapshot)
        reason = None if snapshot in self._stored_before else AbortReason.COORDINATOR_LOST
        return (AnnounceEnd(snapshot, reason, "its coordinator was lost", floor=self._floor(snapshot)),)

    def _process_ended(self, record: Record, unfinished: tuple[SnapshotId, ...]) -> tuple[CollectorEffect, ...]:
        process = record.process
        self._processes.discard(process)
        self._ended.add(process)
        self._last_records.setdefault(process, record)
        effects: list[CollectorEffect] = []
        for snapshot in tuple(self._open):
            effects += self._fall_quiet(snapshot, process)
        for snapshot in unfinished:
            effects += self._refuse(snapshot, AbortReason.TIMEOUT, f"{process} gave it up and ended")
        return (*effects, *self._try_all())

    def _settle_ends(self, records: Mapping[str, Record]) -> None:
        """Find ended processes whose last records only snapshots older than a stored one can need.

        These are the ended processes whose end all living receivers had learned of. Their last records are dropped when
        the snapshots known now, which may hold older records, have ended.
        """
        for name, last in self._last_records.items():
            living = last.sent.keys() - self._ended
            if name not in self._settled and all(q in records and name in records[q].closed for q in living):
                self._settled[name] = {*self._open, *self._unannounced}
        self._drop_last_records()

    def _drop_last_records(self) -> None:
        for name, waits_for in tuple(self._settled.items()):
            if waits_for.isdisjoint(self._open) and waits_for.isdisjoint(self._unannounced):
                del self._settled[name], self._last_records[name]

    # Completing ------------------------------------------------------------------------------------

    def _try_all(self) -> tuple[CollectorEffect, ...]:
        return tuple(effect for snapshot in tuple(self._open) for effect in self._try_complete(snapshot))

    def _try_complete(self, snapshot: SnapshotId) -> tuple[CollectorEffect, ...]:
        collection = self._open.get(snapshot)
        if collection is None or any(other.storing for other in self._open.values()):
            return ()
        records, last_records = collection.records, self._last_records
        if len(collection.members) > len(records) + len(last_records):
            return ()  # while records come, counting them is enough: no walk over processes and channels each time
        if not collection.members <= records.keys() | last_records.keys():
            return ()
        known = self._records(collection)
        members = close_membership(collection.members, known, self._ended)
        if not members <= known.keys():
            return ()
        records = {name: known[name] for name in sorted(members)}
        try:
            channels = cut_channels(records, self._ended)
            check_ends(records)
            check_alignment(channels, records)
        except InconsistentCut as error:
            return self._abort(snapshot, AbortReason.INCONSISTENT, error.message)
        collection.storing = self._make_cut(snapshot, records, channels)
        return (StoreSnapshot(collection.storing),)

    def _make_cut(self, snapshot: SnapshotId, records: Mapping[str, Record], channels: Sequence[ChannelCut]) -> Cut:
        living = {name: record for name, record in records.items() if not record.ended}
        unborn = {channel_cut.channel.receiver for channel_cut in channels} - living.keys()
        cut = Cut(snapshot, living, tuple(channels), tuple(sorted(unborn)), tuple(sorted(self._ended)))
        return cut if self._newest is None or cut.contains(self._newest) else replace(cut, advances=False)

    def _records(self, collection: _Collection) -> Mapping[str, Record]:
        """The records at hand; for a process that ended without recording, its last record."""
        return {**self._last_records, **collection.records}
