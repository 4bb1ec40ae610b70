"""How a commit log is read: by its segments, which hold many records in one object, so that a long one takes few reads.

A segment of `count` records begins at a multiple of `count`. The coordinator writes it, after its last record. It says
nothing that the records do not say, so a reader can always read the records instead. It also holds the record before
its first one, so that a reader sees whether two segments are of one log: a log can be put back to an older state, and
go on in another way.

No record is deleted when its segment is there: a writer that slept for long tries the position that was the next one,
and would take a missing record for the end of the log.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rayshot.errors import AlreadyExists, BadManifest, KeyNotFound, LimitExceeded, LogLost, StoreError
from rayshot.format import canonical
from rayshot.log.layout import POSITION_DIGITS, log_folder, log_key, segment_folder, segment_key
from rayshot.log.lost_log import log_lost
from rayshot.log.records import (
    RECORD_BYTES_MAX,
    Record,
    decode_record,
    record_of,
    record_tree,
    take_digest,
    with_digest,
)
from rayshot.places.calls import AT_ONCE, SMALL_AT_ONCE, create_once, several_at_once
from rayshot.places.store import Store

log = logging.getLogger("rayshot")
COUNTS = (4096, 64)
"""How many records the segments hold, the largest first; each divides the one before."""
BYTES_MAX = 8 << 20
"""A segment with more bytes is not written: a record has some 250. No more are read, whoever wrote them."""
WINDOW = 64
"""Behind the segments so many positions are tried at once: a hole before fewer records is found."""
_NAME = re.compile(rf"([0-9]{{{POSITION_DIGITS}}})-([1-9][0-9]{{0,4}})")


@dataclass(frozen=True, slots=True, order=True)
class LogSegment:
    """The records `first` .. `first + count - 1` of a log."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """One more than the position of its last record."""
        return self.first + self.count


def find_segments(store: Store, system: str) -> set[LogSegment]:
    """The segments of a log that are there. Raises StoreError."""
    names = (_NAME.fullmatch(entry.key.rpartition("/")[2]) for entry in store.list(segment_folder(system)))
    found = (LogSegment(int(name[1]), int(name[2])) for name in names if name)
    return {segment for segment in found if segment.count in COUNTS and segment.first % segment.count == 0}


def cover(segments: set[LogSegment]) -> list[LogSegment]:
    """The segments that hold a log from its start on, without a hole; a large one instead of its small ones."""
    chosen: list[LogSegment] = []
    end = 0
    while (segment := next((s for s in (LogSegment(end, n) for n in COUNTS) if s in segments), None)) is not None:
        chosen.append(segment)
        end = segment.end
    return chosen


def all_segments(end: int) -> set[LogSegment]:
    """All segments that a log with `end` records can have."""
    return {LogSegment(first, count) for count in COUNTS for first in range(0, end - count + 1, count)}


def read_segments(store: Store, system: str, segments: Sequence[LogSegment]) -> list[Record]:
    """The records of segments that follow each other from position 0 on.

    From a segment on that is gone or damaged there are none, and none at all if two segments are of different logs.
    Raises FormatTooNew and StoreError.
    """
    records: list[Record] = []
    with several_at_once(len(segments), "rayshot-log", AT_ONCE) as map_:
        # only the bytes: threads that also build records wait for each other most of the time
        for segment, data in zip(segments, map_(lambda one: _read(store, system, one), segments), strict=True):
            read = _decode(data, system, segment)
            if read is None:
                break
            if segment.first and read[0] != records[-1]:
                log.warning(
                    "the log of %r is read record by record, as its segments are of different logs: remove %s/",
                    system,
                    segment_folder(system),
                )
                return []
            records += read[1:] if segment.first else read
    return records


def _read(store: Store, system: str, segment: LogSegment) -> bytes | None:
    """The bytes of a segment; None if it is gone."""
    try:
        return store.read_range(segment_key(system, segment.first, segment.count), 0, BYTES_MAX + 1)
    except KeyNotFound:
        return None


def _decode(data: bytes | None, system: str, segment: LogSegment) -> list[Record] | None:
    """The records of a segment, and the one before it if there is one; None if the segment is gone or damaged."""
    key = segment_key(system, segment.first, segment.count)
    try:
        return _records_in(data, segment, key)
    except (BadManifest, LimitExceeded) as error:
        log.warning("the log of %r is read record by record, as a segment of it cannot be read: %s", system, error)
        return None


def _records_in(data: bytes | None, segment: LogSegment, key: str) -> list[Record]:
    if data is None:
        raise BadManifest(f"{key} is gone")
    tree = canonical.unpack(data, what=key, bytes_max=BYTES_MAX)
    if type(tree) is not dict:
        raise BadManifest(f"{key} is not a map")
    take_digest(tree, key)
    trees, start = tree.get("records"), max(0, segment.first - 1)
    if type(trees) is not list or len(trees) != segment.end - start:
        raise BadManifest(f"{key} does not hold {segment.end - start} records")
    return [record_of(one, position) for position, one in enumerate(trees, start)]


def write_segments(store: Store, system: str, segments: set[LogSegment], records: Sequence[Record]) -> set[LogSegment]:
    """Write these segments of a log that begins with `records`. Returns those that could not be written now."""

    def write(segment: LogSegment) -> bool:
        part = records[max(0, segment.first - 1) : segment.end]
        try:
            data = canonical.pack(with_digest({"records": [record_tree(one) for one in part]}))
            if len(data) > BYTES_MAX:
                return True
            create_once(store, segment_key(system, segment.first, segment.count), data)
        except AlreadyExists:  # by a rayshot that spells records differently
            return True
        except StoreError as error:
            log.info("a segment of the log of %r could not be written now: %s", system, error)
            return False
        return True

    ordered = sorted(segments)
    with several_at_once(len(ordered), "rayshot-segments") as map_:
        written = list(map_(write, ordered))
    return {segment for segment, there in zip(ordered, written, strict=True) if not there}


def read_log(store: Store, system: str) -> tuple[list[Record], set[LogSegment]]:
    """All records of a log from its start, and the segments that it could have and has not.

    Raises LogLost if records are missing, BadManifest, LimitExceeded, FormatTooNew and StoreError.
    """
    found = find_segments(store, system)
    records = read_segments(store, system, cover(found))
    if records and _is_the_end_of(records, store, system):
        records += read_behind(store, system, len(records))
    else:
        records = _read_listed(store, system)
    return records, all_segments(len(records)) - found


def _is_the_end_of(records: list[Record], store: Store, system: str) -> bool:
    """Whether the log holds the last record of its segments. Raises LogLost if it holds none there."""
    position = len(records) - 1
    record = read_record(store, system, position)
    if record is None:
        raise log_lost(
            system,
            f"record {position} is missing, and a segment holds it",
            mend=f"Or remove {segment_folder(system)}/ if log/ was put back to an older state, or copied "
            "while the system ran",
            position=position,
        )
    if record != records[-1]:
        log.warning(
            "the segments of the log of %r are of another log, so it is read record by record: remove %s/",
            system,
            segment_folder(system),
        )
    return record == records[-1]


def read_behind(store: Store, system: str, start: int) -> list[Record]:
    """The records from `start` on. They are few, so they are found by trying, without a list of the log.

    Raises as `read_log`.
    """
    records: list[Record] = []
    read = partial(read_record, store, system)
    while True:
        with several_at_once(WINDOW, "rayshot-log", SMALL_AT_ONCE) as map_:
            window = list(map_(read, range(start, start + WINDOW)))
        there = next((count for count, record in enumerate(window) if record is None), WINDOW)
        records += window[:there]
        if any(window[there:]):
            if read(start + there) is None:
                raise _hole(system, start + there)
            start += there  # it was written between two of these reads: look again
            continue
        if there < WINDOW:
            return records
        start += WINDOW


def _read_listed(store: Store, system: str) -> list[Record]:
    records: list[Record] = []
    end = find_end(store, system)
    with several_at_once(end, "rayshot-log", SMALL_AT_ONCE) as map_:
        for position, record in enumerate(map_(partial(read_record, store, system), range(end))):
            if record is None:
                raise _hole(system, position)
            records.append(record)
    return records


def _hole(system: str, position: int) -> LogLost:
    return log_lost(system, f"record {position} is missing, and later ones are there", position=position)


def read_record(store: Store, system: str, position: int) -> Record | None:
    """The record at `position` of a log, or None. Raises BadManifest, FormatTooNew, StoreError."""
    try:
        data = store.read_range(log_key(system, position), 0, RECORD_BYTES_MAX + 1)
    except KeyNotFound:
        return None
    return decode_record(data, position)


def find_end(store: Store, system: str) -> int:
    """One more than the position of the last record, from a listing. It reads no record. Raises StoreError."""
    numbers = (_number(entry.key) for entry in store.list(log_folder(system)))
    return max((int(number) + 1 for number in numbers if number), default=0)


def _number(key: str) -> str:
    """The digits of a record's key; empty for other objects."""
    name = key.rpartition("/")[2]
    return name if len(name) == POSITION_DIGITS and name.isascii() and name.isdigit() else ""
