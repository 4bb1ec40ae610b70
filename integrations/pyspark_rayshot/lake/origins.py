"""Copies of another run of the system whose life has the same number as one in the lake.

Counters and values of two runs say nothing about each other, but the columns of a lake know a life only by its number.
The log to which a snapshot was committed tells runs apart: a copy says its place in that log, and a log
has one record at each place.
"""

from collections.abc import Sequence

from rayshot.log.records import CommitRecord, CopyRecord, EpochRecord, Record


def of_another_run(records: Sequence[Record]) -> dict[int, CopyRecord]:
    """The positions of copies in a log that belong to another run than the rest of their life in this log.

    A life that ran here has all its snapshots in this log, even deleted ones. For a life that ran elsewhere the first
    copy at each place in that other log counts: two runs that never used the same place cannot be told apart.
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
