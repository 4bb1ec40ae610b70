"""From snapshots to committed batches.

The tables say which snapshots are done, each table for itself; the caller's word does not count. The caller orders a
batch by log indexes. Snapshots that are done are left out, so the caller may order a batch twice, or cut it otherwise.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa

from pyspark_rayshot.checkpoint import mark
from pyspark_rayshot.lake.destination import Destination
from pyspark_rayshot.lake.lake_tables import TABLES, ActorMoment
from pyspark_rayshot.lake.lives import LakeLife
from pyspark_rayshot.lake.origins import of_another_run
from pyspark_rayshot.lake.parts import ChangesPart, ViewPart, Workers
from pyspark_rayshot.lake.places import (
    IDENTITY,
    STAGING,
    Identity,
    LogMark,
    check_place,
    claim,
    disk_errors,
    note_log,
    only_writer,
    read_identity,
    read_log,
    unknown_format,
)
from pyspark_rayshot.lake.staging import Staging, carry_over, carry_over_all
from pyspark_rayshot.loss import lost
from rayshot.analysis.batches import read_batches, to_batches
from rayshot.analysis.planning import SHARE_BYTES, Piece, TableShare, divide
from rayshot.analysis.query import parse_query
from rayshot.analysis.view import state_bytes
from rayshot.errors import ConfigError, Damaged, ForeignLake, SnapshotDeleted
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.lost_log import log_lost
from rayshot.log.records import CommitRecord, Record
from rayshot.log.segments import read_record
from rayshot.places.kinds import open_store
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot

_AS_VIEWS = ("channels", "messages", "snapshots")
"""Tables with the rows of the view of the same name."""
LARGE_SHARES = 4
"""If the rows of a snapshot have this many times SHARE_BYTES or more, they are worth a job of Spark."""
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Written(NamedTuple):
    """The result of a batch: how many snapshots, how many gaps, and how many rows in all tables."""

    snapshots: int = 0
    gaps: int = 0
    rows: int = 0

    def plus(self, other: "Written") -> "Written":
        """Both together."""
        return Written(*map(sum, zip(self, other, strict=True)))


class LakeWriter:
    """The one writer of a lake, see `open_lake`."""

    def __init__(
        self,
        system: SystemView,
        lake: Destination,
        folder: Path,
        began: int,
        keys: Sequence[EncryptionKey],
        workers: Workers | None,
    ) -> None:
        self._system = _KeptOpen(system)
        self._lake = lake
        self._folder = folder
        self._began = began
        self._keys = keys
        self._workers = workers
        self._life: tuple[int, LakeLife] | None = None
        found = lake.read("snapshots", ("snapshot", "log_index"))
        self._done = dict(zip(found["snapshot"].to_pylist(), found["log_index"].to_pylist(), strict=True))
        """The log indexes of the lake's snapshots, by id."""
        self._gaps: set[str] = set(lake.read("gaps", ("snapshot",))["snapshot"].to_pylist())
        self._left_out: set[int] = set()
        """The log indexes of copies of another run, which never come into the lake."""
        self._check_tables()
        self._check_log()
        self._check_mark(system)

    @property
    def newest(self) -> str | None:
        """The snapshot of the lake that came last in the log."""
        return max(self._done, key=self._done.__getitem__, default=None)

    def write(self, upto: int) -> Written:
        """Commit all snapshots up to that log index that the lake does not have, and the gaps before the next one.

        Raises what reading snapshots raises, StoreFull, StoreUnavailable, LakeInUse; earlier commits stay.
        """
        written = Written()
        while (one := self._write_some(upto)) is not None:
            written = written.plus(one)
        return written

    def _write_some(self, upto: int) -> Written | None:
        """Commit one batch, up to a snapshot that needs all earlier ones in the lake; None if nothing is left."""
        system = self._system.now()
        self._check_mark(system)
        todo, gaps = self._todo(system, upto)
        if not todo and not gaps:
            return None
        try:
            with disk_errors(self._folder), self._staging() as staging:
                last, count = self._stage(staging, todo, gaps, system)
                place = staging.close(last)
        except SnapshotDeleted:
            if self._todo(self._system.now(), upto) == (todo, gaps):
                raise
            return Written()  # it is a gap now
        with disk_errors(self._folder):
            rows = carry_over(place, self._lake)
        for record in todo[:count]:
            self._done.setdefault(str(record.snapshot), record.position)
        self._gaps.update(str(gap.snapshot) for gap in gaps if gap.position <= last)
        return Written(rows["snapshots"], rows["gaps"], sum(rows.values()))

    def _todo(self, system: SystemView, upto: int) -> tuple[list[CommitRecord], list[CommitRecord]]:
        """The snapshots to read, and those that are lost; both in the order of the log."""
        assert system.end is not None, "a system as of a moment"
        first = self._lake.last("snapshots") + 1
        self._leave_out(system)
        retained = system.history().retained.values()
        unread = [record for record in retained if record.position >= first and record.position not in self._left_out]
        unread.sort(key=lambda record: record.position)
        stop = next((record.position for record in unread if record.position > upto), system.end)
        known = self._done.keys() | self._gaps
        gaps = [
            gap
            for gap in lost(system, first, stop, self._began)
            if str(gap.snapshot) not in known and gap.position not in self._left_out
        ]
        return (
            [record for record in unread if record.position < stop],
            sorted(gaps, key=lambda gap: gap.position),
        )

    def _leave_out(self, system: SystemView) -> None:
        found = of_another_run(system.records())
        for position in found.keys() - self._left_out:
            _log.warning(
                "%s, copied to record %d of the log, is of another run whose life has the same number: it is left out; "
                "make a lake of the storage that it comes from",
                found[position].snapshot,
                position,
            )
        self._left_out |= found.keys()

    @contextmanager
    def _staging(self) -> Iterator[Staging]:
        staging = Staging(self._folder)
        with ExitStack() as failed:
            failed.callback(staging.give_up)
            failed.callback(setattr, self, "_life", None)  # it may have seen snapshots that are not committed
            yield staging
            failed.pop_all()

    def _stage(
        self, staging: Staging, todo: Sequence[CommitRecord], gaps: Sequence[CommitRecord], system: SystemView
    ) -> tuple[int, int]:
        """Write a batch into `.staging`. Returns its last log index, and how many of `todo` are in it."""
        marks = {table: self._lake.last(table) for table in TABLES}
        for count, record in enumerate(todo):
            if str(record.snapshot) in self._done:
                _log.warning("%s came back at record %d of the log, and is here", record.snapshot, record.position)
                continue
            wanted = {table for table, mark in marks.items() if mark < record.position}
            if not self._add(staging, record, wanted, marks, system, is_first=count == 0):
                last = todo[count - 1].position
                self._add_gaps(staging, [gap for gap in gaps if gap.position < record.position])
                return max([last, *(gap.position for gap in gaps if gap.position < record.position)]), count
        self._add_gaps(staging, gaps)
        return max(record.position for record in (*todo, *gaps)), len(todo)

    def _add(
        self,
        staging: Staging,
        record: CommitRecord,
        wanted: set[str],
        marks: dict[str, int],
        system: SystemView,
        *,
        is_first: bool,
    ) -> bool:
        """Write the rows of one snapshot into `.staging`. False, and nothing done, if earlier ones must come first."""
        number = record.snapshot.incarnation
        restored = None if record.folder else system.restored_from().get(number)
        if self._life is None or self._life[0] != number:
            if not is_first:
                return False
            origin = None if restored is None else str(restored)
            self._life = number, LakeLife(self._lake, number, marks["state_changes"], origin)
        life = self._life[1]
        snapshot = self._system.open(record, self._keys)
        moments = life.moments(snapshot)
        if life.is_late(moments):
            if not is_first:
                return False
            life.catch_up(marks["state_changes"])
        piece = Piece(record, restored_from=restored)
        for table in _AS_VIEWS:
            if table in wanted:
                self._add_view(staging, table, piece)
        if "actors" in wanted:
            staging.add("actors", _rows("actors", ((snapshot, moment) for moment in moments)))
        if "state_changes" in wanted:
            left = self._add_turns(staging, piece, life, moments)
            staging.add("state_changes", _rows("state_changes", ((snapshot, one) for one in life.see(snapshot, left))))
        return True

    def _add_view(self, staging: Staging, table: str, piece: Piece) -> None:
        query = parse_query({"view": table})
        if self._workers is not None:
            shares = divide(query, self._system, [piece], self._keys)
            if len(shares) >= LARGE_SHARES:
                dealt = _deal(shares, self._workers.count)
                staging.add_parts([ViewPart(table, some) for some in dealt], self._workers, self._keys)
                return
        staging.add(table, read_batches(query, self._system, [piece], self._keys))

    def _add_turns(
        self, staging: Staging, piece: Piece, life: LakeLife, moments: list[ActorMoment]
    ) -> list[ActorMoment]:
        """Let executors read the states of a large snapshot. Returns the actors that are left for this process."""
        if self._workers is None:
            return moments
        turns = life.turns(moments)
        if sum(state_bytes(turn.entry) for turn in turns) < LARGE_SHARES * SHARE_BYTES:
            return moments
        turns.sort(key=lambda turn: state_bytes(turn.entry))
        share = TableShare(self._system.url, self._system.name, (piece,))
        parts = [ChangesPart(share, some) for some in _deal(turns, self._workers.count)]
        for done in staging.add_parts(parts, self._workers, self._keys):
            life.seen(done.heads)
        gone = {turn.entry.name for turn in turns}
        return [moment for moment in moments if moment.row.name not in gone]

    def _add_gaps(self, staging: Staging, gaps: Sequence[CommitRecord]) -> None:
        for gap in gaps:
            _log.warning("%s was deleted before it was read: it is a row of `gaps`", gap.snapshot)
        staging.add("gaps", _rows("gaps", ((self._system.open(gap, self._keys), None) for gap in gaps)))

    def _check_tables(self) -> None:
        """Raise Damaged for a table that has less than `snapshots`, which is committed last."""
        marks = {table: self._lake.last(table) for table in TABLES}
        short = [table for table, last in marks.items() if last < marks["snapshots"]]
        if short:
            raise Damaged(
                f"{self._folder} has snapshots up to record {marks['snapshots']} of the log, and {', '.join(short)} "
                "has less: files were removed; put them back, or begin a lake in a new folder",
                folder=str(self._folder),
                marks=marks,
            )

    def _check_log(self) -> None:
        """Raise LogLost or ForeignLake if the lake was made of another log."""
        newest = self.newest
        if newest is None:
            return
        records, at = self._system.records(), self._done[newest]
        if at >= len(records):
            raise log_lost(
                self._system.name,
                f"{self._folder} has {newest} from its record {at}, and it has {len(records)} records",
            )
        found = getattr(records[at], "snapshot", None)
        if str(found) != newest:
            raise ForeignLake(
                f"{self._folder} has {newest} from record {at} of a log, and that record of {self._system.name!r} in "
                f"{self._system.url} is {'of ' + str(found) if found else 'none of a snapshot'}: it is another log; "
                "give another folder",
                holds={"system": self._system.name, "snapshot": newest},
                wanted={"system": self._system.name, "snapshot": None if found is None else str(found)},
            )

    def _check_mark(self, system: SystemView) -> None:
        """Raise if the log is not the one that was read before, and note how far this one goes.

        Equal ids at equal places prove nothing: another log of the same name numbers its snapshots in the same way. The
        records that were read before prove nothing either: the storage may have been replaced, so read one again.
        """
        with disk_errors(self._folder):
            known = read_log(self._folder)
        records = system.records()
        if known is not None:
            found = self._system.stored_record(known.position)
            if found is None:
                raise log_lost(
                    system.name,
                    f"{self._folder} was made of a log that had a record {known.position}, and it has none there",
                )
            if mark(found) != known.mark:
                raise ForeignLake(
                    f"{self._folder} was made of a log of {system.name!r} in {system.url} whose record "
                    f"{known.position} was another one: it is another log by now; give another folder",
                    holds={"system": system.name, "position": known.position, "mark": known.mark},
                    wanted={"system": system.name, "mark": mark(found)},
                )
        if records and (known is None or known.position < len(records) - 1):
            with disk_errors(self._folder):
                note_log(self._folder, LogMark(len(records) - 1, mark(records[-1])))


@contextmanager
def open_lake(
    system: SystemView,
    folder: Path,
    form: str,
    keys: Sequence[EncryptionKey] = (),
    workers: Workers | None = None,
) -> Iterator[LakeWriter]:
    """Make or find the lake of a system in `folder`, and complete what a killed process had begun.

    `workers` write the rows of large snapshots; without them this process does.

    Raises ConfigError as `check_place` and for a format whose package is missing, ForeignLake, LakeInUse, StoreFull,
    StoreUnavailable, and Damaged for a lake with a torn file.
    """
    check_place(folder, form, system.url)
    kind = _destination(form)
    with ExitStack() as stack:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            place = folder.resolve()
            stack.enter_context(only_writer(place))
            (place / STAGING).mkdir(exist_ok=True)
            identity = claim(place, Identity(system.name, system.url, form, system.log_end()))
            lake = kind(place, system.name)
            lake.create()
            carried = carry_over_all(place, lake)
            if carried:
                _log.warning("%d batches of a pipeline that was killed were carried over", carried)
            writer = LakeWriter(system, lake, place, identity.began, keys, workers)
        yield writer


def find_lake(folder: Path) -> Destination:
    """The tables of an existing lake, for reading. Raises ConfigError, ForeignLake and StoreUnavailable."""
    with disk_errors(folder):
        try:
            identity = read_identity(folder.resolve())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ForeignLake(f"{folder} is not a lake: it has no {IDENTITY}; a pipeline makes one") from error
    return _destination(identity.format)(folder.resolve(), identity.system)


def _destination(form: str) -> type[Destination]:
    try:
        match form:
            case "parquet":
                from pyspark_rayshot.lake.parquet import ParquetLake  # noqa: PLC0415 - only what is asked for

                return ParquetLake
            case "delta":
                from pyspark_rayshot.lake.delta import DeltaLake  # noqa: PLC0415 - its package may be missing

                return DeltaLake
            case "iceberg":
                from pyspark_rayshot.lake.iceberg import IcebergLake  # noqa: PLC0415 - its package may be missing

                return IcebergLake
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a lake of {form} needs {error.name}: pip install 'rayshot[lake]'", option="format"
        ) from error
    raise unknown_format(form)


class _KeptOpen(SystemView):
    """A system that opens a snapshot once for all tables."""

    def __init__(self, system: SystemView) -> None:
        super().__init__(open_store(system.url), system.name)
        self._kept: Snapshot | None = None

    def stored_record(self, position: int) -> Record | None:
        """The record at that place of the log as the storage has it now, None if there is none."""
        return read_record(self._store, self.name, position)

    def open(self, record: CommitRecord, keys: Sequence[EncryptionKey] | None = None) -> Snapshot:
        """See SystemView."""
        if self._kept is None or self._kept.record != record:
            self._kept = super().open(record, keys)
        return self._kept


def _deal(items: Sequence[_T], hands: int) -> list[Sequence[_T]]:
    """As many lists as there are hands, or fewer, so that no list is empty."""
    return [items[hand::hands] for hand in range(min(hands, len(items)))]


def _rows(table: str, items: Iterable[tuple[Snapshot, object]]) -> Iterator[pa.RecordBatch]:
    return to_batches(items, TABLES[table].columns, TABLES[table].schema)
