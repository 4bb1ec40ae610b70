"""Copies that are of another run of the system, whose life has the number of one that the lake has.

Counters and values of two runs say nothing about each other, and the columns of a lake know a life by its number alone.
What tells runs apart is the log that a snapshot was committed to: a copy says at which place of it that was, and a log
has one record at each place.
"""

from collections.abc import Sequence

from rayshot.store.records import CommitRecord, CopyRecord, EpochRecord, Record


def of_another_run(records: Sequence[Record]) -> dict[int, CopyRecord]:
    """By position, the copies in a log that are of another run than all else that it has of their life.

    A life that ran here has all its snapshots in this log, be they deleted. Of one that ran elsewhere the first copy
    that has a place in that other log is believed: two runs that never used the same place are not told apart.
    """
    ran_here = {record.incarnation for record in records if isinstance(record, EpochRecord)}
    elsewhere: dict[tuple[int, int], str] = {}
    found = {}
    for copied in records:
        if isinstance(copied, CopyRecord):
            life, place = copied.snapshot.incarnation, copied.origin_position
            known: str | None
            if life in ran_here:
                known = _manifest_at(records, place)
            else:
                known = elsewhere.setdefault((life, place), copied.manifest_digest)
            if known != copied.manifest_digest:
                found[copied.position] = copied
    return found


def _manifest_at(records: Sequence[Record], place: int) -> str | None:
    match records[place] if place < len(records) else None:
        case CommitRecord(manifest_digest=digest):
            return digest
    return None
