"""Snapshots that were deleted before a reader that follows the log had read them."""

from rayshot.log.records import CommitRecord
from rayshot.snapshots.catalog import SystemView


def lost(system: SystemView, first: int, end: int, began: int) -> list[CommitRecord]:
    """The snapshots in the log's range `first` .. `end` - 1 that were deleted since it had `began` records.

    A snapshot that came back is not lost.
    """
    history = system.history()
    gone = [record for record in history.deleted.values() if first <= record.position < end]
    if not gone:
        return []
    before = system.as_of(began).history().retained
    return [
        record
        for record in gone
        if record.snapshot not in history.retained
        and (record.position >= began or before.get(record.snapshot) == record)
    ]
