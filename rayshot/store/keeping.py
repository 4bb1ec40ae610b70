"""Which snapshots retention keeps: a pure function of the log's records, as in `restic forget`.

A snapshot belongs to the hour, day and week of its `taken_at`, in UTC. Hours, days and weeks without snapshots do not
count. The order is the order of the log, and no clock is read. So a wrong clock can never make retention delete more.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from rayshot.errors import ConfigError
from rayshot.protocol.identity import SnapshotId
from rayshot.store.records import CommitRecord

THURSDAY = 3
"""The day of the week on which Unix time began, Monday being 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How many snapshots stay. A snapshot stays if any rule keeps it. None means no rule; without rules all stay.

    Attributes:
        last: this many of the newest snapshots stay, at least 1.
        hourly: the newest snapshot of each of this many hours, at least 1.
        daily: the newest of each of this many days, at least 1.
        weekly: the newest of each of this many weeks, which begin on Monday, at least 1.
    """

    last: int | None = None
    hourly: int | None = None
    daily: int | None = None
    weekly: int | None = None

    def __post_init__(self) -> None:
        for name in ("last", "hourly", "daily", "weekly"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ConfigError(f"at least one snapshot must be kept, not {name}={count}", keep=count)

    @property
    def everything(self) -> bool:
        """Whether there are no rules."""
        return self == Keep()


def choose_kept(records: Sequence[CommitRecord], keep: Keep) -> set[SnapshotId]:
    """Choose which `records` stay; they are in the order of the log. The newest always stays."""
    if keep.everything:
        return {record.snapshot for record in records}
    kept: set[SnapshotId] = set()
    for count, period in ((keep.last, _itself), (keep.hourly, _hour), (keep.daily, _day), (keep.weekly, _week)):
        kept |= _newest_of_each(records, count or 0, period)
    return kept


def last_of_earlier_lives(records: Sequence[CommitRecord], life: int, line: set[int], keep: Keep) -> set[SnapshotId]:
    """Choose which snapshots of earlier lives stay: the last one of each life, whatever `keep` says.

    A new life must not delete the backups of the life before. But if a life is in the `line` of restores that leads to
    `life`, its last snapshot may go when the later lives in that line have `keep.last` snapshots (at least one).

    Args:
        records: all retained snapshots, in the order of the log.
        life: the present life.
        line: the present life and the lives that it goes back to by restores.
        keep: the rules.
    """
    last = {record.snapshot.incarnation: record.snapshot for record in records}
    wanted = keep.last or 1

    def goes_on(earlier: int) -> bool:
        behind = [record for record in records if record.snapshot.incarnation in line]
        return earlier in line and sum(record.snapshot.incarnation > earlier for record in behind) >= wanted

    return {snapshot for earlier, snapshot in last.items() if earlier < life and not goes_on(earlier)}


def _newest_of_each(
    records: Sequence[CommitRecord], count: int, period: Callable[[CommitRecord], Hashable]
) -> set[SnapshotId]:
    newest: dict[Hashable, SnapshotId] = {}
    for record in reversed(records):
        if len(newest) == count:
            break
        newest.setdefault(period(record), record.snapshot)
    return set(newest.values())


def _itself(record: CommitRecord) -> Hashable:
    return record.snapshot


def _hour(record: CommitRecord) -> Hashable:
    return int(record.taken_at // 3600)


def _day(record: CommitRecord) -> Hashable:
    return int(record.taken_at // 86400)


def _week(record: CommitRecord) -> Hashable:
    return int((record.taken_at // 86400 + THURSDAY) // 7)
