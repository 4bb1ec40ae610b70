"""What the commit log means: which snapshots there are, and who may write.

A COMMIT or DELETE counts only if its writer is that of the latest EPOCH before it. A coordinator that was
taken over and does not know it (a zombie) may still slip a record in, and everyone reads over it in the same
way.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from rayshot.protocol.identity import SnapshotId
from rayshot.store.records import CommitRecord, DeleteRecord, EpochRecord, Record


class History:
    """The log read from its start up to some position."""

    def __init__(self) -> None:
        self.epoch: EpochRecord | None = None
        """The latest EPOCH."""
        self._retained: dict[SnapshotId, CommitRecord] = {}
        self._deleted: dict[SnapshotId, CommitRecord] = {}

    @property
    def retained(self) -> Mapping[SnapshotId, CommitRecord]:
        """The snapshots that can be had, oldest commit first."""
        return MappingProxyType(self._retained)

    @property
    def deleted(self) -> Mapping[SnapshotId, CommitRecord]:
        """The snapshots that were committed and then deleted."""
        return MappingProxyType(self._deleted)

    @property
    def incarnation(self) -> int:
        """The latest life of the system; 0 before the first."""
        return 0 if self.epoch is None else self.epoch.incarnation

    def admits(self, record: Record) -> bool:
        """Whether `record` would count if it came next."""
        if isinstance(record, EpochRecord):
            return record.incarnation >= self.incarnation
        return self.epoch is not None and record.writer == self.epoch.writer

    def add(self, record: Record) -> None:
        """Read on by one record."""
        if not self.admits(record):
            return
        match record:
            case EpochRecord():
                self.epoch = record
            case CommitRecord(snapshot=snapshot):
                if snapshot not in self._deleted:
                    self._retained.setdefault(snapshot, record)
            case DeleteRecord(snapshot=snapshot):
                commit = self._retained.pop(snapshot, None)
                if commit is not None:
                    self._deleted[snapshot] = commit
            case _:
                assert_never(record)
