"""The commit log of one system: commit, order and fencing at once.

Theory of operation. The log is the objects `log/0`, `log/1`, ... without a hole. A writer appends a record by creating
the object at the next position, and only one writer can create it. A writer that appends at position n has read all
records before n, so it knows whether its record will count: no record can come in between. So if a writer loses the
race for a position, or sees another writer's EPOCH, it is not alone. If the other writer is a coordinator, this one
must stop (Fenced). If the other deletes, expires or copies snapshots beside the coordinator, this one reads the new
record and takes the next position (PositionTaken).
"""

import logging
from collections.abc import Callable

from rayshot.errors import (
    AlreadyExists,
    CommitUnknown,
    Damaged,
    Fenced,
    Incompatible,
    IntentExpired,
    PositionTaken,
    SnapshotDeleted,
    SnapshotNotFound,
    StoreError,
    StoreUnavailable,
)
from rayshot.format.chunks import digest
from rayshot.log.history import History, RollbackTarget
from rayshot.log.layout import log_key
from rayshot.log.lost_log import find_copied, find_written, log_lost
from rayshot.log.records import (
    DETAIL_LENGTH_MAX,
    Cause,
    CommitRecord,
    CopyRecord,
    DeleteRecord,
    EpochRecord,
    Record,
    RollbackRecord,
    encode_record,
)
from rayshot.log.segments import COUNTS, WINDOW, LogSegment, read_behind, read_log, read_record, write_segments
from rayshot.places.calls import create_once
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId

log = logging.getLogger("rayshot")
RACES_MAX = 100
_NAME_DIGITS = 16


def _name_of(record: Record) -> str:
    return digest(record.writer.encode())[:_NAME_DIGITS]


class _Moved(Exception):
    """The way back is another one than expected."""

    def __init__(self, rollback_target: RollbackTarget) -> None:
        super().__init__(rollback_target)
        self.rollback_target = rollback_target


class CommitLog:
    """The log of `system` in `store`. One thread at a time may use it; other threads use another CommitLog.

    Its first use reads the whole log, which takes time if it is long: who has one hands it on.
    """

    def __init__(self, store: Store, system: str) -> None:
        self.store = store
        self.system = system
        self._records: list[Record] = []
        """All records up to the last refresh; agrees with `_history`."""
        self._history = History()
        self._missing: set[LogSegment] = set()
        """Segments that could be there and are not."""
        self._beginning_proved = False
        """Whether it is proved that a log without an EPOCH never had one."""
        self.epoch: EpochRecord | None = None
        """The EPOCH that this object began; None for a log that is only read."""

    @property
    def run(self) -> str:
        """The name of this log, which no other one has, 16 hexadecimal digits; "" before its first record is read."""
        return _name_of(self._records[0]) if self._records else ""

    @property
    def owner(self) -> str:
        """The name of who began the present life, as `run`: a copy of the log may have a life of the same number."""
        life = self._history.incarnation
        began = (one for one in self._records if isinstance(one, EpochRecord) and one.incarnation == life)
        return next(map(_name_of, began), "")

    def records(self) -> tuple[Record, ...]:
        """Read all records, also records that do not count.

        Raises LogLost if records are missing, BadManifest for a damaged one, LimitExceeded, FormatTooNew, and
        StoreError.
        """
        self.refresh()
        return tuple(self._records)

    def refresh(self) -> History:
        """Read the new records and return the meaning of all. Raises as `records`.

        The first call reads the segments and the records behind them, or all records if there are no segments. Later
        calls only try the next position, so their cost does not depend on the length of the log. Objects beside the log
        are listed only if the log has no EPOCH.
        """
        if not self._records:
            self._read_all()
        self._read_on()
        if self._history.epoch is None and not self._beginning_proved:
            self._prove_beginning()
        return self._history

    def _read_on(self) -> None:
        for _ in range(WINDOW):
            if (record := self._read(self.next_position)) is None:
                return
            self._take(record)
        for record in read_behind(self.store, self.system, self.next_position):  # it has not read for long
            self._take(record)

    def _prove_beginning(self) -> None:
        """Raise LogLost if the log has no EPOCH now, but had one. New systems and mere copies have none."""
        written = find_written(self.store, self.system)
        copied = None if self._records else find_copied(self.store, self.system)
        self._read_on()  # the writer of what was found had written to the log before
        if written is not None and self._history.epoch is None:
            raise log_lost(self.system, f"it has no EPOCH, and {written} was written after one", key=written)
        if copied is not None and not self._records:
            raise log_lost(self.system, f"it has no record, and {copied} was written after one", key=copied)
        self._beginning_proved = bool(self._records)

    def _read_all(self) -> None:
        """Read the log from its start. Nothing is kept unless all of it can be read."""
        self._records, self._missing = read_log(self.store, self.system)
        for record in self._records:
            self._history.add(record)

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
            create_once(self.store, log_key(self.system, record.position), encode_record(record))
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

    def write_segments(self) -> None:
        """Write the segments that are missing. Call it between two appends, when nobody waits.

        It never fails: what cannot be written now is written by a later call, which a record or a new writer brings.
        """
        if not self._missing:
            return
        try:
            self.prove_end()  # a segment must not copy records of a log that was put back meanwhile
            self._missing = write_segments(self.store, self.system, self._missing, self._records)
        except (StoreError, Damaged, Incompatible) as error:  # the records are written, and count without segments
            log.warning("segments of the log of %r could not be written now: %s", self.system, error)

    def prove_end(self) -> None:
        """Raise LogLost if the last record that was read is gone, or is another one now: the log was put back.

        A record behind a hole is found by no reader. Also raises BadManifest, FormatTooNew and StoreError.
        """
        if not self._records:
            return
        position = self.next_position - 1
        record = self._read(position)
        if record is None:
            raise log_lost(self.system, f"record {position} was there and is gone", position=position)
        if record != self._records[-1]:
            raise log_lost(self.system, f"record {position} was another one before", position=position)

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
            f"other writers were faster {RACES_MAX} times to write to the log of {self.system!r}; try again"
        )

    def delete(self, writer: str, snapshot: SnapshotId) -> Record | None:
        """Append a DELETE record and return it; None if the snapshot is not retained. Raises as `append_next`."""
        return self.append_next(
            lambda history, position: DeleteRecord(position, writer, snapshot) if snapshot in history.retained else None
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

        def make(history: History) -> EpochRecord:
            record = EpochRecord(self.next_position, incarnation, writer, began_at, cause)
            if history.incarnation > incarnation or (new_life and history.incarnation == incarnation):
                raise self._fenced(record, history.epoch)
            return record

        return self._begin(make)

    def roll_back(
        self,
        epoch: EpochRecord,
        writer: str,
        *,
        began_at: float,
        actor: str | None,
        detail: str,
        expected: RollbackTarget | None = None,
    ) -> RollbackTarget:
        """Begin a new life behind that of `epoch`, which goes on from `History.rollback_target`; returns this.

        The snapshot is chosen and noted in one step: no COMMIT of the life before can come between. See RollbackRecord
        for `actor` and `detail`, and `begin_epoch` for `writer`. If the way back is another one than `expected`, which
        the caller has read, nothing is written, and it is returned: read it, and call again.

        If an answer was lost, call it again with the same `writer`: it finds the record that was written.

        Raises:
            Fenced: `epoch` is not the latest any more: another coordinator has the system.
            SnapshotNotFound: there is no snapshot to go back to, or it was deleted. Then nothing was written.
            StoreFull, CommitUnknown; StoreUnavailable after RACES_MAX lost races; and as `records`.
        """
        text = detail[:DETAIL_LENGTH_MAX].encode(errors="replace").decode()  # errors of users may say anything

        def make(history: History) -> EpochRecord:
            if isinstance(history.epoch, RollbackRecord) and history.epoch.writer == writer:
                return history.epoch
            back = self._choose(history)
            if expected not in (None, back):
                raise _Moved(back)
            record = RollbackRecord(
                self.next_position,
                history.incarnation_max + 1,
                writer,
                float(began_at),
                "rollback",
                snapshot=back.snapshot,
                origin=back.origin,
                actor=actor,
                detail=text or "?",
            )
            if history.epoch != epoch:
                raise self._fenced(record, history.epoch)
            return record

        try:
            self._begin(make)
        except _Moved as moved:
            return moved.rollback_target
        assert self._history.rollback_target is not None
        return self._history.rollback_target

    def rollback_target(self) -> RollbackTarget:
        """The snapshot that `roll_back` would choose now. Raises SnapshotNotFound; and as `records`."""
        return self._choose(self.refresh())

    def _choose(self, history: History) -> RollbackTarget:
        back = history.rollback_target
        if back is None:
            raise SnapshotNotFound(
                f"life {history.incarnation} of {self.system!r} has no committed snapshot to go back to"
            )
        if back.origin is None and not history.still_holds(back.snapshot):
            left = [*history.retained][-1:]
            raise SnapshotDeleted(
                f"{self.system!r} would go back to {back.snapshot}, which was deleted"
                + (f"; from {left[0]} the work behind it would be lost: see rayshot.restore" if left else ""),
                snapshot=str(back.snapshot),
            )
        return back

    def _begin(self, make: Callable[[History], EpochRecord]) -> EpochRecord:
        for _ in range(RACES_MAX):
            record = make(self.refresh())
            try:
                self.append(record)
            except Fenced:
                continue
            self.epoch = record
            return record
        raise StoreUnavailable(
            f"other writers were faster {RACES_MAX} times to begin an epoch of {self.system!r}; try again"
        )

    def begun_by(self, prefix: str) -> EpochRecord | None:
        """The latest EPOCH, as far as the log was read, of a writer with this prefix; or None."""
        epochs = (record for record in reversed(self._records) if isinstance(record, EpochRecord))
        return next((epoch for epoch in epochs if epoch.writer.startswith(prefix)), None)

    def _read(self, position: int) -> Record | None:
        return read_record(self.store, self.system, position)

    def _take(self, record: Record) -> None:
        self._records.append(record)
        self._history.add(record)
        end = self.next_position
        if end % COUNTS[-1] == 0:
            self._missing.update(LogSegment(end - count, count) for count in COUNTS if end % count == 0)

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
                f"{record.snapshot} can never be committed: life {life} of {self.system!r} has begun",
                writer=record.writer,
                position=record.position,
            )
        return self._fenced(record, rival or epoch)

    def _fenced(self, record: Record, rival: Record | None) -> Fenced:
        writer = None if rival is None else rival.writer
        return Fenced(
            f"{record.writer} may not write to the log of {self.system!r} any more: "
            + ("no epoch was begun" if rival is None else f"{writer} has written record {rival.position}"),
            writer=writer,
            position=None if rival is None else rival.position,
        )


class Fence:
    """Looks for a later EPOCH than its own. One thread at a time may use it.

    Each look tries one key and reads the records that are new, however long the log is.

    Args:
        store: the storage of the system.
        system: the name of the system.
        epoch: the record with which this life took the storage over.
    """

    def __init__(self, store: Store, system: str, epoch: EpochRecord) -> None:
        self._store = store
        self._system = system
        self._epoch = epoch
        self._position = epoch.position + 1

    def check(self) -> None:
        """Raise Fenced if another life has taken over the storage. Also BadManifest, FormatTooNew, StoreError."""
        while (record := read_record(self._store, self._system, self._position)) is not None:
            if isinstance(record, EpochRecord) and record.incarnation >= self._epoch.incarnation:
                raise Fenced(
                    f"life {self._epoch.incarnation} of {self._system!r} is over: {record.writer} has taken its "
                    f"storage over for life {record.incarnation}, with record {record.position} of the log",
                    writer=record.writer,
                    position=record.position,
                )
            self._position += 1
