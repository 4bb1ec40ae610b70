"""Tables of the records in a system's log, and of the systems in a storage."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rayshot.analysis.view import Column, View, every_of_rows
from rayshot.log.history import History
from rayshot.log.records import CommitRecord, EpochRecord, Record, kind_of
from rayshot.snapshots.catalog import SystemView


class LogRow(NamedTuple):
    """One record, whether it counts, and the life that its system was in when it was written."""

    system: str
    record: Record
    counts: bool
    life: int

    def said(self, field: str) -> Any:
        """A field of the record; None if records of its kind do not have it."""
        return getattr(self.record, field, None)


class SystemRow(NamedTuple):
    """One system: its log up to a moment, and the bytes in its folder now."""

    name: str
    records: tuple[CommitRecord, ...]
    """The records of the snapshots that exist."""
    lives: int
    bytes: int

    @property
    def newest(self) -> CommitRecord | None:
        """The last of `records`, which are sorted by life and then by position."""
        return self.records[-1] if self.records else None

    def taken(self) -> list[datetime]:
        """When its snapshots were taken, first to last."""
        return [_time(second) for second in sorted(record.taken_at for record in self.records)]


def _log_rows(system: SystemView, piece: Any) -> Iterable[LogRow]:
    return _read(system.name, system.records()[: piece.stop])


def _read(system: str, records: Iterable[Record]) -> Iterator[LogRow]:
    history = History()
    for record in records:
        counts = history.admits(record)
        history.add(record)
        life = record.incarnation if isinstance(record, CommitRecord | EpochRecord) else history.incarnation
        yield LogRow(system, record, counts, life)


def _system_rows(system: SystemView, _: Any) -> Iterable[SystemRow]:
    records = tuple(snapshot.record for snapshot in system.snapshots())
    epochs = (row for row in _read(system.name, system.records()) if isinstance(row.record, EpochRecord) and row.counts)
    lives = {row.life for row in epochs}
    yield SystemRow(system.name, records, len(lives), system.stored_bytes())


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _id(record: Any) -> str | None:
    snapshot = getattr(record, "snapshot", None)
    return None if snapshot is None else str(snapshot)


_LOG_START = every_of_rows(
    system=lambda row: row.system,
    snapshot=lambda row: _id(row.record),
    position=lambda row: row.said("sealed_for"),
    taken_at=lambda row: _time(row.record.taken_at) if isinstance(row.record, CommitRecord) else None,
    log_index=lambda row: row.record.position,
    life=lambda row: row.life,
)
_SYSTEM_START = every_of_rows(
    system=lambda row: row.name,
    snapshot=lambda row: _id(row.newest),
    position=lambda row: row.newest and row.newest.sealed_for,
    taken_at=lambda row: row.newest and _time(row.newest.taken_at),
    log_index=lambda row: row.newest and row.newest.position,
    life=lambda row: row.newest and row.newest.snapshot.incarnation,
)

_LOG_COLUMNS = (
    Column(
        "kind", "string", "epoch, rollback, commit, copy, delete, expire or restore", lambda _, row: kind_of(row.record)
    ),
    Column("writer", "string", "the writer of the record", lambda _, row: row.record.writer),
    Column(
        "began_at",
        "timestamp",
        "of an epoch: when it began; null if an older rayshot wrote it",
        lambda _, row: None if (seconds := row.said("began_at")) is None else _time(seconds),
    ),
    Column(
        "cause",
        "string",
        "of an epoch: begin, restore, rollback, or takeover by a new coordinator in one life; null like `began_at`",
        lambda _, row: row.said("cause"),
    ),
    Column("label", "string", "of a commit or copy: a person's word for a savepoint", lambda _, row: row.said("label")),
    Column(
        "origin",
        "string",
        "of a restore or rollback: the storage that the snapshot came from; null if that is this storage",
        lambda _, row: row.said("origin"),
    ),
    Column(
        "counts",
        "boolean",
        "false if readers ignore it: its writer had been replaced, or its snapshot already existed or was over",
        lambda _, row: row.counts,
    ),
)
_SYSTEM_COLUMNS = (
    Column("snapshots", "bigint", "how many snapshots can be read", lambda _, row: len(row.records)),
    Column("lives", "bigint", "how many lives it had here", lambda _, row: row.lives),
    Column(
        "first_taken_at", "timestamp", "when its first snapshot was taken", lambda _, row: next(iter(row.taken()), None)
    ),
    Column(
        "last_taken_at",
        "timestamp",
        "when its last snapshot was taken",
        lambda _, row: next(reversed(row.taken()), None),
    ),
    Column(
        "bytes",
        "bigint",
        "bytes in its folder at the time of reading, with deleted snapshots that are not yet removed",
        lambda _, row: row.bytes,
    ),
)

LOG_VIEWS = (
    View(
        "systems",
        "one row for each system of the storage; the first columns are of its newest snapshot",
        (*_SYSTEM_START, *_SYSTEM_COLUMNS),
        _system_rows,
        subject="storage",
    ),
    View(
        "log",
        "one row for each record of the log; the first columns are those of its snapshot, null if it has none",
        (*_LOG_START, *_LOG_COLUMNS),
        _log_rows,
        subject="log",
    ),
)
