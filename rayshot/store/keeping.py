"""Which snapshots retention keeps: a pure question to the log's records, as `restic forget` answers it.

The snapshots of an hour, a day or a week are those whose time of taking lies in it, in UTC; only hours, days and
weeks that have any count. The order is that of the log and no clock is asked, so one that is wrong for a while
can never make retention delete more than it would else.
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
    """How many snapshots stay: what any rule keeps is kept. A rule that is None says nothing; without any, all stay.

    Attributes:
        last: the newest ones, at least 1.
        hourly: the newest one of each of so many hours, at least 1.
        daily: the same for days.
        weekly: the same for weeks, which begin on Monday.
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
        """Whether no rule says anything."""
        return self == Keep()


def choose_kept(records: Sequence[CommitRecord], keep: Keep) -> set[SnapshotId]:
    """Choose what stays out of `records`, which are in the order of the log; the newest always does."""
    if keep.everything:
        return {record.snapshot for record in records}
    kept: set[SnapshotId] = set()
    for count, period in ((keep.last, _itself), (keep.hourly, _hour), (keep.daily, _day), (keep.weekly, _week)):
        kept |= _newest_of_each(records, count or 0, period)
    return kept


def last_of_earlier_lives(records: Sequence[CommitRecord], life: int, line: set[int], keep: Keep) -> set[SnapshotId]:
    """Choose what stays of lives before `life`: the last snapshot of each that had any, whatever `keep` says.

    A life that begins anew must not eat the backups of the one before. One of a life in the `line` of restores that
    leads to `life` may go when the lives behind it in that line have `keep.last` snapshots (at least one) of their own.

    Args:
        records: all that can be had, in the order of the log.
        life: the present one.
        line: the present life and those that it goes back to by restores.
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
