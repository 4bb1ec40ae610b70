"""The commit log of one system: commit, order and fencing at once.

Theory of operation. The log is the objects `log/0`, `log/1`, ... without a hole. A writer appends a record by creating
the object at the next position, and only one writer can create it. A writer that appends at position n has read all
records before n, so it knows whether its record will count: no record can come in between. So if a writer loses the
race for a position, or sees another writer's EPOCH, it is not alone. If the other writer is a coordinator, this one
must stop (Fenced). If the other deletes, expires or copies snapshots beside the coordinator, this one reads the new
record and takes the next position (PositionTaken).
"""

from collections.abc import Callable

from rayshot.errors import (
    AlreadyExists,
    CommitUnknown,
    Fenced,
    IntentExpired,
    KeyNotFound,
    PositionTaken,
    StoreUnavailable,
)
from rayshot.store.history import History
from rayshot.store.layout import POSITION_DIGITS, log_folder, log_key
from rayshot.store.lost_log import find_copied, find_written, log_lost
from rayshot.store.once import create_once
from rayshot.store.records import (
    RECORD_BYTES_MAX,
    Cause,
    CommitRecord,
    CopyRecord,
    EpochRecord,
    Record,
    decode_record,
    encode_record,
)
from rayshot.store.segments import (
    COUNTS,
    Segment,
    all_segments,
    cover,
    find_segments,
    read_segment,
    write_segments,
)
from rayshot.store.several import SMALL_AT_ONCE, several_at_once
from rayshot.store.store import Store

RACES_MAX = 100


class CommitLog:
    """The log of `system` in `store`. One thread at a time may use it; other threads use another CommitLog."""

    def __init__(self, store: Store, system: str) -> None:
        self._store = store
        self._system = system
        self._records: list[Record] = []
        """All records up to the last refresh; agrees with `_history`."""
        self._history = History()
        self._missing: set[Segment] = set()
        """Segments that could be there and are not."""
        self._wrote = False
        """Whether this object has appended a record."""
        self._beginning_proved = False
        """Whether it is proved that a log without an EPOCH never had one."""
        self.epoch: EpochRecord | None = None
        """The EPOCH that this object began; None for a log that is only read."""

    def records(self) -> tuple[Record, ...]:
        """Read all records, also records that do not count.

        Raises LogLost if records are missing, BadManifest for a damaged one, LimitExceeded, FormatTooNew, and
        StoreError.
        """
        self.refresh()
        return tuple(self._records)

    def refresh(self) -> History:
        """Read the new records and return the meaning of all. Raises as `records`.

        The first call reads the segments, and then the records behind them, which it lists, to find a hole. Later calls
        only try the next position, so their cost does not depend on the length of the log. Objects beside the log are
        listed only if the log has no EPOCH.
        """
        if not self._records:
            self._read_all()
        self._read_on()
        if self._history.epoch is None and not self._beginning_proved:
            self._prove_beginning()
        return self._history

    def _read_on(self) -> None:
        while (record := self._read(self.next_position)) is not None:
            self._take(record)

    def _prove_beginning(self) -> None:
        """Raise LogLost if the log has no EPOCH now, but had one. New systems and mere copies have none."""
        written = find_written(self._store, self._system)
        copied = None if self._records else find_copied(self._store, self._system)
        self._read_on()  # the writer of what was found had written to the log before
        if written is not None and self._history.epoch is None:
            raise log_lost(self._system, f"it has no EPOCH, and {written} was written after one", key=written)
        if copied is not None and not self._records:
            raise log_lost(self._system, f"it has no record, and {copied} was written after one", key=copied)
        self._beginning_proved = bool(self._records)

    def _read_all(self) -> None:
        found = find_segments(self._store, self._system)
        chosen = cover(found)
        with several_at_once(len(chosen), "rayshot-log", SMALL_AT_ONCE) as map_:
            for records in map_(lambda segment: read_segment(self._store, self._system, segment), chosen):
                if records is None:
                    break
                for record in records:
                    self._take(record)
        start = self.next_position
        end = find_end(self._store, self._system, start)
        self._missing = all_segments(end) - found
        with several_at_once(end - start, "rayshot-log", SMALL_AT_ONCE) as map_:
            for position, record in enumerate(map_(self._read, range(start, end)), start):
                if record is None:
                    raise log_lost(
                        self._system, f"record {position} is missing, and later ones are there", position=position
                    )
                self._take(record)

    @property
    def history(self) -> History:
        """The meaning of the records that were read."""
        return self._history

    @property
    def next_position(self) -> int:
        """The position of the next record, as far as the log was read."""
        return len(self._records)

    def append(self, record: Record) -> None:
        """Write `record`. Return when it is written and counts. Appending the same record again changes nothing.

        Raises:
            Fenced: another coordinator has the position, or a newer epoch; evidence: `writer`, `position`.
            PositionTaken: another writer has the position, and this writer may take the next.
            IntentExpired: the snapshot or copy took too long and does not count.
            StoreFull: the store is full; the record was not written.
            StoreUnavailable: not written; the position holds an earlier record of this writer that got no answer.
            CommitUnknown: the record may or may not be written. Append the same record again to find out; any other
                record that gets the position answers it too.
        """
        if record.position > self.next_position:
            self.refresh()
        assert record.position <= self.next_position, f"position {record.position} would leave a hole"
        if record.position < self.next_position:
            self._expect(record)
            return
        if not self._history.admits(record):
            raise self._refused(record)
        try:
            create_once(self._store, log_key(self._system, record.position), encode_record(record))
        except AlreadyExists:
            self.refresh()
            self._expect(record)
        except StoreUnavailable as error:
            raise CommitUnknown(
                f"rayshot cannot find out whether record {record.position} was written: {error}",
                position=record.position,
            ) from error
        else:
            self._take(record)
            self._write_segments()

    def _write_segments(self) -> None:
        """Write the segments that end here, and once after the first append those that are missing."""
        end = self.next_position
        self._missing |= {Segment(end - count, count) for count in COUNTS if end % count == 0}
        if self._missing and (end % COUNTS[-1] == 0 or not self._wrote):
            self._missing = write_segments(self._store, self._system, self._missing, self._records)
        self._wrote = True

    def prove_end(self) -> None:
        """Raise LogLost if the last record that was read is gone: no reader finds a record behind a hole.

        Also raises StoreError.
        """
        if not self._records:
            return
        position = self.next_position - 1
        try:
            self._store.read_range(log_key(self._system, position), 0, 1)
        except KeyNotFound as error:
            raise log_lost(self._system, f"record {position} was there and is gone", position=position) from error

    def append_next(self, make: Callable[[History, int], Record | None]) -> Record | None:
        """Append the record that `make` returns for the history and the next position. Repeat if the position is taken.

        Returns the record, or None if `make` returned none. Raises as `append`, and StoreUnavailable after RACES_MAX
        lost races.
        """
        for _ in range(RACES_MAX):
            record = make(self.refresh(), self.next_position)
            if record is None:
                return None
            try:
                self.append(record)
            except PositionTaken:
                continue
            return record
        raise StoreUnavailable(
            f"other writers were faster {RACES_MAX} times to write to the log of {self._system!r}; try again"
        )

    def begin_epoch(
        self, incarnation: int, writer: str, *, began_at: float | None = None, cause: Cause | None = None
    ) -> EpochRecord:
        """Fence out all earlier coordinators: append an EPOCH at the next free position, also after lost races.

        Args:
            incarnation: one more than the latest in this log begins a new life; the latest continues that life under
                a new coordinator.
            writer: a name that no other coordinator ever has.
            began_at: the time of the beginning in Unix seconds, or None.
            cause: the reason of the beginning, or None.

        Raises:
            Fenced: a newer life has begun meanwhile, or another life with the same number.
            StoreFull, CommitUnknown; StoreUnavailable after RACES_MAX lost races; and as `records`.
        """
        new_life = incarnation > self._history.incarnation
        for _ in range(RACES_MAX):
            latest = self.refresh().incarnation
            record = EpochRecord(self.next_position, incarnation, writer, began_at, cause)
            if latest > incarnation or (new_life and latest == incarnation):
                raise self._fenced(record, self._history.epoch)
            try:
                self.append(record)
            except Fenced:
                continue
            self.epoch = record
            return record
        raise StoreUnavailable(
            f"other writers were faster {RACES_MAX} times to begin an epoch of {self._system!r}; try again"
        )

    def begun_by(self, prefix: str) -> EpochRecord | None:
        """The latest EPOCH, as far as the log was read, of a writer with this prefix; or None."""
        epochs = (record for record in reversed(self._records) if isinstance(record, EpochRecord))
        return next((epoch for epoch in epochs if epoch.writer.startswith(prefix)), None)

    def _read(self, position: int) -> Record | None:
        return read_record(self._store, self._system, position)

    def _take(self, record: Record) -> None:
        self._records.append(record)
        self._history.add(record)

    def _expect(self, record: Record) -> None:
        """Raise unless `record` is the record at its position."""
        found = self._records[record.position]
        if found == record:
            return
        if found.writer == record.writer:
            raise StoreUnavailable(
                f"record {record.position} is an earlier one of {record.writer} that had got no answer; take the next",
                position=record.position,
            )
        if self._history.goes_on(record):
            raise PositionTaken(
                f"{found.writer} has written record {record.position}; take the next", position=record.position
            )
        raise self._refused(record, found)

    def _refused(self, record: Record, rival: Record | None = None) -> IntentExpired | Fenced:
        """Why `record` does not count."""
        epoch = self._history.epoch
        current = isinstance(record, CopyRecord) or (epoch is not None and record.writer == epoch.writer)
        if isinstance(record, CommitRecord) and current and self._history.attempt(record.snapshot):
            return IntentExpired(
                f"the bytes of {record.snapshot} were given up as garbage or deleted; write it anew",
                snapshot=str(record.snapshot),
            )
        life = self._history.incarnation
        if current and type(record) is CommitRecord and record.snapshot.incarnation < life:
            return Fenced(
                f"{record.snapshot} can never be committed: life {life} of {self._system!r} has begun",
                writer=record.writer,
                position=record.position,
            )
        return self._fenced(record, rival or epoch)

    def _fenced(self, record: Record, rival: Record | None) -> Fenced:
        writer = None if rival is None else rival.writer
        return Fenced(
            f"{record.writer} may not write to the log of {self._system!r} any more: "
            + ("no epoch was begun" if rival is None else f"{writer} has written record {rival.position}"),
            writer=writer,
            position=None if rival is None else rival.position,
        )


def read_record(store: Store, system: str, position: int) -> Record | None:
    """The record at `position` of a log, or None. Raises BadManifest, FormatTooNew, StoreError."""
    try:
        data = store.read_range(log_key(system, position), 0, RECORD_BYTES_MAX + 1)
    except KeyNotFound:
        return None
    return decode_record(data, position)


def find_end(store: Store, system: str, start: int | None = None) -> int:
    """One more than the position of the last record, from listings; 0 if no record is there. It reads no record.

    `start`: as many records are in the segments; None to look. Raises LogLost if the last of these is not in the log,
    and StoreError.
    """
    if start is None:
        start = max((segment.end for segment in cover(find_segments(store, system))), default=0)
    after = log_key(system, start - 2) if start > 1 else ""
    numbers = (_number(entry.key) for entry in store.list(log_folder(system), after=after))
    end = max((int(number) + 1 for number in numbers if number), default=0)
    if end < start:
        position = start - 1
        raise log_lost(system, f"record {position} is missing, and a segment holds it", position=position)
    return end


def _number(key: str) -> str:
    """The digits of a record's key; empty for other objects."""
    name = key.rpartition("/")[2]
    return name if len(name) == POSITION_DIGITS and name.isascii() and name.isdigit() else ""
