"""The meaning of the commit log: which snapshots exist, and who may write.

A COMMIT counts only if its writer wrote the latest EPOCH before it, and only for a snapshot of the life of that EPOCH:
if a later life begins while a snapshot is being stored, this snapshot is never committed. A superseded coordinator that
does not know it (a zombie) may still append a record, and all readers skip it in the same way. A DELETE, EXPIRE or COPY
counts from every writer except superseded coordinators: see docs/design/0014-who-may-write-beside-a-coordinator.md.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from rayshot.log.records import (
    CommitRecord,
    CopyRecord,
    DeleteRecord,
    EpochRecord,
    ExpireRecord,
    Record,
    RestoreRecord,
    RollbackRecord,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.recovery_events import Past


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """The snapshot from which a life goes on if it must go back; `origin` is as in RestoreRecord."""

    snapshot: SnapshotId
    origin: str | None = None


class History:
    """The log read from its start up to some position."""

    def __init__(self) -> None:
        self.epoch: EpochRecord | None = None
        """The latest EPOCH."""
        self.rollback_target: RollbackTarget | None = None
        """Where the present life goes back to: its newest committed snapshot that advances, or where it began from.

        None if it has neither. Nobody says that this snapshot is still there: to go further back would lose messages
        that their senders do not keep any more, so a system never does that by itself.
        """
        self._restores: dict[int, RestoreRecord | RollbackRecord] = {}
        self._restore: RestoreRecord | None = None
        self.past = Past()
        """What recovery must know of the rollbacks in the log."""
        self._retained: dict[SnapshotId, CommitRecord] = {}
        self._deleted: dict[SnapshotId, CommitRecord] = {}
        self._superseded: set[str] = set()
        """The writers of all EPOCHs but the latest."""
        self._ends: Counter[SnapshotId] = Counter()
        """Snapshot -> the number of its DELETE and EXPIRE records."""
        self._parents: dict[int, int] = {}
        """Life -> the life of the snapshot in this storage that it was restored from."""
        self._claims: dict[SnapshotId, bool] = {}
        """Snapshot in this storage that a life was restored from -> whether that life claimed it."""

    @property
    def retained(self) -> Mapping[SnapshotId, CommitRecord]:
        """The retained snapshots, oldest first: by life, then by the position that they were sealed for."""
        return MappingProxyType(self._retained)

    @property
    def deleted(self) -> Mapping[SnapshotId, CommitRecord]:
        """The snapshots that were committed here and then deleted, even if they were copied back since."""
        return MappingProxyType(self._deleted)

    @property
    def restores(self) -> Mapping[int, RestoreRecord | RollbackRecord]:
        """Life -> the record of its restore or rollback; lives that came from no snapshot are missing."""
        return MappingProxyType(self._restores)

    @property
    def restore(self) -> RestoreRecord | None:
        """The record of the present life's restore, also if the system has gone back since; None if there is none."""
        return self._restore

    @property
    def is_as_restored(self) -> bool:
        """Whether the present life would go back to the snapshot from which a person restored it."""
        said, back = self._restore, self.rollback_target
        return said is not None and back is not None and (back.snapshot, back.origin) == (said.snapshot, said.origin)

    def owns(self, record: CommitRecord) -> bool:
        """Whether retention may delete a snapshot.

        It may not delete savepoints and copies, nor a snapshot that a life was restored from but did not claim.
        """
        theirs = record.label is not None or isinstance(record, CopyRecord)
        return self._claims.get(record.snapshot, not theirs)

    def line(self) -> set[int]:
        """The present life, the one whose snapshot it was restored from, the one before that, and so on."""
        line, life = set[int](), self.incarnation
        while life and life not in line:
            line.add(life)
            life = self._parents.get(life, 0)
        return line

    def still_holds(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot that was committed here is there, or was copied back: no other one with the same id."""
        now, deleted = self._retained.get(snapshot), self._deleted.get(snapshot)
        return now is not None and (deleted is None or now.manifest_digest == deleted.manifest_digest)

    @property
    def incarnation(self) -> int:
        """The latest life that the system had here; 0 before the first."""
        return 0 if self.epoch is None else self.epoch.incarnation

    @property
    def incarnation_max(self) -> int:
        """The latest life of anything in this storage, copied snapshots included."""
        return max([self.incarnation, *(snapshot.incarnation for snapshot in self._retained)])

    def attempt(self, snapshot: SnapshotId) -> int:
        """The attempt to copy `snapshot` to this storage that can count."""
        return self._ends[snapshot]

    def is_over(self, snapshot: SnapshotId) -> bool:
        """Whether no further COMMIT of `snapshot` can count: it is committed, or it has expired."""
        return snapshot in self._retained or self._ends[snapshot] > 0

    def is_superseded(self, writer: str) -> bool:
        """Whether `writer` was a coordinator and another one has taken over."""
        return writer in self._superseded

    def knows(self, writer: str) -> bool:
        """Whether `writer` began an epoch here."""
        return self._coordinates(writer) or self.is_superseded(writer)

    def ended(self) -> set[SnapshotId]:
        """All snapshots that were ever committed, or expired."""
        return {*self._retained, *self._ends}

    def goes_on(self, record: Record) -> bool:
        """Whether the writer of `record`, which lost the race for its position, may go on at the next position."""
        match record:
            case EpochRecord():
                return False
            case CopyRecord():
                return True
            case CommitRecord() | RestoreRecord():
                return self._coordinates(record.writer)
            case DeleteRecord() | ExpireRecord():
                return not self.is_superseded(record.writer)
            case _:
                assert_never(record)

    def admits(self, record: Record) -> bool:
        """Whether `record` would count if it came next."""
        match record:
            case RollbackRecord():
                return record.incarnation > self.incarnation
            case EpochRecord():
                return record.incarnation >= self.incarnation
            case CopyRecord():
                return record.attempt == self.attempt(record.snapshot) and record.snapshot not in self._retained
            case CommitRecord(snapshot=snapshot):
                ours = self._coordinates(record.writer) and snapshot.incarnation == self.incarnation
                return ours and not self.is_over(snapshot)
            case RestoreRecord():
                return self._coordinates(record.writer)
            case DeleteRecord() | ExpireRecord():
                return not self.is_superseded(record.writer)
            case _:
                assert_never(record)

    def add(self, record: Record) -> None:
        """Add one record."""
        if not self.admits(record):
            return
        match record:
            case EpochRecord():
                self._begin(record)
            case CommitRecord():
                self._retain(record)
            case RestoreRecord(snapshot=snapshot, origin=origin, claimed=claimed):
                self._restore = record
                self._come_from(record)
                if origin is None:
                    self._claims[snapshot] = claimed
            case DeleteRecord(snapshot=snapshot):
                commit = self._retained.pop(snapshot, None)
                if commit is not None:
                    self._ends[snapshot] += 1
                    self._claims.pop(snapshot, None)
                    self._deleted[snapshot] = commit
            case ExpireRecord(snapshot=snapshot):
                if snapshot not in self._retained:
                    self._ends[snapshot] += 1
            case _:
                assert_never(record)

    def _coordinates(self, writer: str) -> bool:
        return self.epoch is not None and writer == self.epoch.writer

    def _begin(self, epoch: EpochRecord) -> None:
        if self.epoch is not None and self.epoch.writer != epoch.writer:
            self._superseded.add(self.epoch.writer)
        goes_on = epoch.incarnation == self.incarnation
        self.epoch = epoch
        if isinstance(epoch, RollbackRecord):
            self.past = self.past.rolled_back(epoch.began_at or 0.0, epoch.actor)
            self._come_from(epoch)
        elif not goes_on:
            self.past, self.rollback_target, self._restore = Past(), None, None

    def _come_from(self, record: RestoreRecord | RollbackRecord) -> None:
        self._restores[self.incarnation] = record
        self.rollback_target = RollbackTarget(record.snapshot, record.origin)
        if record.origin is None:
            self._parents[self.incarnation] = record.snapshot.incarnation

    def _retain(self, record: CommitRecord) -> None:
        if type(record) is CommitRecord:
            self.past = self.past.committed()
            if record.advances:
                self.rollback_target = RollbackTarget(record.snapshot)
        last = next(reversed(self._retained.values()), None)
        self._retained[record.snapshot] = record
        if last is not None and _age(record) < _age(last):
            self._retained = dict(sorted(self._retained.items(), key=lambda item: _age(item[1])))


def _age(record: CommitRecord) -> tuple[int, int]:
    return record.incarnation, record.sealed_for
