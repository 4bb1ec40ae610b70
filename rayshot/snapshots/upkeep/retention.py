"""Retention: which snapshots a coordinator keeps, and the deletion of the others.

The rules are a pure function of the records of the log, as in `restic forget`. A snapshot belongs to the hour, day and
week of its `taken_at`, in UTC. Hours, days and weeks without snapshots do not count. The order is that of the log, and
no clock is read. So a wrong clock can never make retention delete more.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from rayshot.errors import ConfigError, Damaged, EncryptionKeyNeeded
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.history import History
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord, RestoreRecord
from rayshot.places.kinds import open_store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.deletion import Sweep, Sweeper, delete_snapshot
from rayshot.snapshots.verification import WHOLE

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


class Retention:
    """Deletes snapshots of the system of `repository`, as its coordinator, with the keys that it has now."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._sweeper = Sweeper(repository.store, repository.system, repository.keys)
        self._claim = _ForeignClaim(repository.system, repository.keys)
        self._proved: set[SnapshotId] = set()
        """Snapshots that were verified."""

    def retain(self, keep: Keep) -> Sweep:
        """Delete the snapshots that no rule of `keep` keeps. Savepoints and snapshots that it does not own stay.

        Those do not count for the rules either. The newest snapshot that verifies always stays, and so does the last
        one of an earlier life that the present line does not replace (see `choose_doomed`). If this life was restored
        from a snapshot in another storage and claimed it, that snapshot counts as the oldest one and can be deleted.

        Raises Fenced, EncryptionKeyNeeded (then nothing is deleted), and StoreError. The next call removes what an
        interrupted call left.
        """
        repository = self._repository
        repository.settle()
        history = repository.log.refresh()
        snapshots = [repository.snapshot(record) for record in repository.retained()]
        doomed = choose_doomed(snapshots, keep, history, self._proved)
        if doomed:
            self._sweeper.check_keys(repository.log.refresh())
        for snapshot in doomed:
            repository.mark_deleted(snapshot)
        sweep = self._sweeper.sweep(repository.log.refresh())
        # this comes last, because the other storage may fail, or be gone for good
        left = [repository.snapshot(record) for record in repository.retained()]
        self._claim.retire(left, keep, history, self._proved)
        return sweep


def choose_doomed(
    snapshots: Sequence[Snapshot], keep: Keep, history: History, proved: set[SnapshotId]
) -> list[SnapshotId]:
    """Choose the snapshots that retention deletes: it owns them, by `history`, and `keep` does not keep them.

    It never chooses the newest valid snapshot, nor the one that the present life goes back to, see
    `History.rollback_target`, nor the last one of an earlier life, see `last_of_earlier_lives`, nor the last valid one
    of that life.

    Verifying reads a whole snapshot, so it stops at the first sound one and remembers it in `proved`. As long as a
    proved one stays, it reads nothing. If none is sound, it deletes none.
    """
    records = [snapshot.record for snapshot in snapshots]
    owned = [record for record in records if history.owns(record)]
    last = last_of_earlier_lives(records, history.incarnation, history.line(), keep)
    kept = choose_kept(owned, keep) | last
    if history.rollback_target is not None:
        kept.add(history.rollback_target.snapshot)
    doomed = [record.snapshot for record in owned if record.snapshot not in kept]
    for life in {snapshot.incarnation for snapshot in last}:
        doomed = _without_the_sound_one([one for one in snapshots if one.id.incarnation == life], doomed, proved)
    if not doomed or not proved.isdisjoint({snapshot.id for snapshot in snapshots}.difference(doomed)):
        return doomed
    newest = find_sound(snapshots, proved)
    return [] if newest is None else [one for one in doomed if one != newest]


def _without_the_sound_one(
    snapshots: Sequence[Snapshot], doomed: list[SnapshotId], proved: set[SnapshotId]
) -> list[SnapshotId]:
    """`doomed` without the newest of `snapshots` that verifies; without all of `snapshots` if none verifies."""
    ours = {snapshot.id for snapshot in snapshots}
    if ours.isdisjoint(doomed):
        return doomed
    sound = find_sound(snapshots, proved)
    spared = ours if sound is None else {sound}
    return [one for one in doomed if one not in spared]


def find_sound(snapshots: Sequence[Snapshot], proved: set[SnapshotId]) -> SnapshotId | None:
    """The newest snapshot that verifies, or None. It is `proved` from now on.

    It reads every chunk, one after the other, compares it with its digest, and counts the messages in flight, one
    channel at a time. It does not load states, so that no state must be in memory as a whole, and of outside files it
    compares the sizes only, as they may be larger than all else.

    If the key of an encrypted snapshot is missing, as for a copy from elsewhere, that snapshot proves nothing. Raises
    EncryptionKeyNeeded if then no other one verifies.
    """
    locked: EncryptionKeyNeeded | None = None
    for snapshot in reversed(snapshots):
        try:
            sound = snapshot.id in proved or _is_sound(snapshot)
        except EncryptionKeyNeeded as error:
            locked = error
            continue
        if sound:
            proved.add(snapshot.id)
            return snapshot.id
    if locked is not None:
        raise locked
    return None


def _is_sound(snapshot: Snapshot) -> bool:
    if not snapshot.survey(keys=(), part=WHOLE, reads_files=False).sound:
        return False
    try:
        for channel in snapshot.channels.values():
            channel.check()
    except Damaged:
        return False
    return True


class _ForeignClaim:
    """A snapshot in another storage that the present life of `system` was restored from, and claimed.

    `keys` decrypt it; None means the environment's keys.
    """

    def __init__(self, system: str, keys: Sequence[EncryptionKey] | None) -> None:
        self._system = system
        self._keys = keys
        self._done: RestoreRecord | None = None
        """The claim whose snapshot is already deleted."""

    def retire(self, own: Sequence[Snapshot], keep: Keep, history: History, proved: set[SnapshotId]) -> None:
        """Delete it if `keep`, which counts it as the oldest, does not keep it, and one of our `own` verifies."""
        restore = history.restore
        if restore is None or restore.origin is None or not restore.claimed or restore == self._done:
            return
        store = open_store(restore.origin)
        record = CommitLog(store, self._system).refresh().retained.get(restore.snapshot)
        if record is None:
            self._done = restore
            return
        owned = [snapshot.record for snapshot in own if history.owns(snapshot.record)]
        if record.snapshot not in choose_kept([record, *owned], keep) and find_sound(own, proved) is not None:
            delete_snapshot(store, self._system, restore.snapshot, self._keys)
            self._done = restore
