"""The commit log of one system: commit, order and fencing at once.

Theory of operation. The log is the objects `log/0`, `log/1`, ... without a hole. A record is appended by
creating the object at the next position, which only one writer can do. Whoever appends at position n has read
all records before n, so it knows whether its record will count: nothing can come in between. Losing the race
for a position, or seeing another writer's EPOCH, therefore proves that this writer is not alone. Where the
other is a coordinator it must stop (Fenced). Where it is somebody who deletes, expires or copies snapshots
beside the coordinator, it has read on and takes the next position (PositionTaken).
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
from rayshot.store.several import SMALL_AT_ONCE, several_at_once
from rayshot.store.store import Store

RACES_MAX = 100


class CommitLog:
    """The log of `system` in `store`. For one thread at a time; others use a CommitLog of their own."""

    def __init__(self, store: Store, system: str) -> None:
        self._store = store
        self._system = system
        self._records: list[Record] = []
        """Everything up to the last refresh; agrees with `_history`."""
        self._history = History()
        self._beginning_proved = False
        """Whether a log without an EPOCH was seen to be one that never had any."""
        self.epoch: EpochRecord | None = None
        """The EPOCH that this object began; None for a log that is only read."""

    def records(self) -> tuple[Record, ...]:
        """Read all records, those that do not count included.

        Raises LogLost where records are missing, BadManifest for a damaged one, LimitExceeded, FormatTooNew, and
        StoreError.
        """
        self.refresh()
        return tuple(self._records)

    def refresh(self) -> History:
        """Read what is new and return what it all means; raises as `records`.

        The first look lists the log, so that a hole in it is found; later ones only try the next position, so that
        they cost the same however long the log is. What lies beside it is looked at only where it has no EPOCH.
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
        """Raise LogLost where the log has no EPOCH, as that of a new system or of one with copies only, and had one."""
        written = find_written(self._store, self._system)
        copied = None if self._records else find_copied(self._store, self._system)
        self._read_on()  # what was found was written by somebody who had written to the log before
        if written is not None and self._history.epoch is None:
            raise log_lost(self._system, f"it has no EPOCH, and {written} was written after one", key=written)
        if copied is not None and not self._records:
            raise log_lost(self._system, f"it has no record, and {copied} was written after one", key=copied)
        self._beginning_proved = bool(self._records)

    def _read_all(self) -> None:
        end = find_end(self._store, self._system)
        with several_at_once(end, "rayshot-log", SMALL_AT_ONCE) as map_:
            for position, record in enumerate(map_(self._read, range(end))):
                if record is None:
                    raise log_lost(
                        self._system, f"record {position} is missing, and later ones are there", position=position
                    )
                self._take(record)

    @property
    def history(self) -> History:
        """What the log means, as far as it was read."""
        return self._history

    @property
    def next_position(self) -> int:
        """The position that the next record will have, as far as the log was read."""
        return len(self._records)

    def append(self, record: Record) -> None:
        """Write `record`; return when it is there and counts. Appending the same record again changes nothing.

        Raises:
            Fenced: another coordinator has the position, or a newer epoch; evidence: `writer`, `position`.
            PositionTaken: somebody else has the position, and this writer may take the next.
            IntentExpired: what the record would commit took too long and does not count.
            StoreFull: no room; the record was not written.
            StoreUnavailable: not written; the position holds an earlier record of this writer, one that got no answer.
            CommitUnknown: whether it was written is not known. Appending the same record again settles it, and so does
                any other record that gets the position.
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

    def prove_end(self) -> None:
        """Raise LogLost where the last record that was read is not there any more: behind a hole nobody finds another.

        And StoreError.
        """
        if not self._records:
            return
        position = self.next_position - 1
        try:
            self._store.read_range(log_key(self._system, position), 0, 1)
        except KeyNotFound as error:
            raise log_lost(self._system, f"record {position} was there and is gone", position=position) from error

    def append_next(self, make: Callable[[History, int], Record | None]) -> Record | None:
        """Append what `make` makes of all that was written before and the next position; again where that is taken.

        Returns what was written, None where `make` found nothing to write. Raises as `append`, and StoreUnavailable
        after RACES_MAX lost races.
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
        """Fence out everyone before: append an EPOCH at the next free position, moving on past lost races.

        Args:
            incarnation: one above the latest that this log has read begins a new life, the latest itself goes on
                with it under a new coordinator.
            writer: a name that no other coordinator ever has.
            began_at: when that was, in Unix seconds; None where nobody is to know.
            cause: why; None likewise.

        Raises:
            Fenced: a newer life has begun meanwhile, or another one with the same number.
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
        """The latest EPOCH of a writer whose name begins so, as far as the log was read; None if none."""
        epochs = (record for record in reversed(self._records) if isinstance(record, EpochRecord))
        return next((epoch for epoch in epochs if epoch.writer.startswith(prefix)), None)

    def _read(self, position: int) -> Record | None:
        return read_record(self._store, self._system, position)

    def _take(self, record: Record) -> None:
        self._records.append(record)
        self._history.add(record)

    def _expect(self, record: Record) -> None:
        """Raise unless `record` is what lies at its position."""
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
                f"what was written of {record.snapshot} was given up as garbage or deleted; write it anew",
                snapshot=str(record.snapshot),
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
    """The record at `position` of a log; None where there is none. Raises BadManifest, FormatTooNew, StoreError."""
    try:
        data = store.read_range(log_key(system, position), 0, RECORD_BYTES_MAX + 1)
    except KeyNotFound:
        return None
    return decode_record(data, position)


def find_end(store: Store, system: str) -> int:
    """One more than the position of the last record, by a listing: no record is read. Raises StoreError."""
    numbers = (_number(entry.key) for entry in store.list(log_folder(system)))
    return max((int(number) + 1 for number in numbers if number), default=0)


def _number(key: str) -> str:
    """The digits of a record's key; empty for an object that is no record."""
    name = key.rpartition("/")[2]
    return name if len(name) == POSITION_DIGITS and name.isascii() and name.isdigit() else ""
