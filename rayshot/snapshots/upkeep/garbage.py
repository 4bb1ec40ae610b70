"""Garbage: objects in a storage that no log, running snapshot or reader needs.

Theory of operation. A pass lists the objects *first*, then it reads the log, then intents and leases. Writers use the
opposite order (intent, chunks, manifest, COMMIT). So if a listed object is needed, the pass knows it. An object that is
not needed now will never be needed: keys are never used twice, and a chunk is reused only from a snapshot that is
retained or leased at that moment.

Still, a collection deletes in two passes, because a mistake here costs data. A pass writes down which objects it finds
unreachable (marks). It deletes only objects that an earlier pass marked too, and that are old by the store's own clock.
An old intent protects what was written under it until an EXPIRE record in the log ends it. After that a late COMMIT is
void, and its writer learns that. A pass that dies leaves marks and unreachable objects for the next pass, nothing else.

Files that hooks of actors wrote go with the folder of their snapshot, whose name says enough: no manifest has to be
read. Those of an aborted snapshot stay until its EXPIRE record, as the answer to its COMMIT may have been lost.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import BadManifest, ConfigError, Damaged, EncryptionKeyNeeded, Incompatible, KeyNotFound
from rayshot.format.bounds import ENVELOPE_BYTES_MAX
from rayshot.format.encryption import open_manifest
from rayshot.format.envelope import open_envelope
from rayshot.format.manifest import decode
from rayshot.log.history import History
from rayshot.log.layout import inside, snapshot_of, writer_of
from rayshot.log.log import CommitLog
from rayshot.log.lost_log import log_lost
from rayshot.log.marks import CLOCK_AGE_MAX_S, CLOCK_SUFFIX, GARBAGE_FOLDER, Kind, Marks, store_now
from rayshot.log.records import CommitRecord, CopyRecord, ExpireRecord
from rayshot.log.system import open_system
from rayshot.places.kinds import below
from rayshot.places.store import PROBE_PREFIX, Entry, Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.intents import Intent, open_intents, read_intent
from rayshot.snapshots.leases import Lease, leases
from rayshot.snapshots.manifests import Reachable
from rayshot.snapshots.upkeep.outside_folders import SnapshotFolder, outside_folders

MIN_AGE_S = 3600.0
MARKS_MAX = 500_000
"""One pass marks at most this many objects; later passes mark the rest."""


def _check_keys(value: Any, what: str) -> frozenset[str]:
    if type(value) is not list:
        raise BadManifest(f"{what} is not a list")
    return frozenset(key for key in value if isinstance(key, str))


UNREACHABLE = Kind("marks", GARBAGE_FOLDER, {"keys": _check_keys}, bytes_max=1 << 30)
_FOLDERS = ("manifests", "chunks", "intents", "copies", "leases", "log")
_ORDER = ("copies", "chunks", "outside", "manifests", "leases", "probes", "intents")
"""The order of deletion: an intent goes when nothing that was written under it is left."""

Progress = Callable[[str, int, int], None]
"""Called with what is done (a word), how much of it is done, and out of how many (0: not known)."""


@dataclass(slots=True)
class Tally:
    """Objects of one kind, or folders of snapshots with outside files, and their bytes."""

    objects: int = 0
    bytes: int = 0

    def add(self, entry: Entry) -> None:
        """Count one more."""
        self.objects += 1
        self.bytes += entry.size


@dataclass(slots=True)
class Tallies:
    """Counts of one kind of objects.

    `kept` objects are needed. `young` ones are not needed, but too young to delete. `marked` ones were found
    unreachable for the first time; the next pass deletes them. `removed` ones are deleted now; a dry run only counts
    them.
    """

    kept: Tally = field(default_factory=Tally)
    young: Tally = field(default_factory=Tally)
    marked: Tally = field(default_factory=Tally)
    removed: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class Collection:
    """What one pass of garbage collection did.

    `groups` has the counts by kind ("chunks", "manifests", ...). `expired` are the snapshots whose intents or
    unfinished copies do not count any more. `unreadable` are retained or leased snapshots whose manifests cannot be
    read. As long as there are any, it is not known what they need, and no chunk and no manifest is removed: delete them
    first.
    """

    groups: dict[str, Tallies]
    expired: tuple[SnapshotId, ...]
    unreadable: tuple[SnapshotId, ...]
    dry_run: bool


def collect(
    store: Store,
    system: str,
    *,
    min_age_s: float = MIN_AGE_S,
    dry_run: bool = False,
    files: str | None = None,
    progress: Progress = lambda *_: None,
) -> Collection:
    """Make one pass: mark unreachable objects, and delete objects that an earlier pass marked and that are old.

    This is safe beside a running system, readers, copies and other collections. Call it twice to delete old garbage.

    Args:
        store: the storage of the system.
        system: the name of the system.
        min_age_s: younger objects stay, in seconds by the store's clock. At least the time-out of every snapshot that
            is being written.
        dry_run: count only; mark, expire and delete nothing.
        files: where actors write files, if not into the storage: the address that `init` got. Without it, files
            elsewhere go only if the log says that their snapshot was deleted or given up, and a manifest that is still
            there names the place.
        progress: called with the progress.

    Raises:
        ConfigError: `min_age_s` is below the time-out of a snapshot that is being written.
        EncryptionKeyNeeded: a key is missing to learn what a snapshot needs; nothing was changed.
        SystemNotFound, FormatTooNew, BadManifest, StoreError.
    """
    open_system(store, system)
    return _Pass(store, system, min_age_s, files, progress, dry_run=dry_run).run()


class _Pass:
    def __init__(
        self, store: Store, system: str, min_age_s: float, files: str | None, progress: Progress, *, dry_run: bool
    ) -> None:
        self._store = store
        self._system = system
        self._min_age_s = min_age_s
        self._files = files
        self._outside: dict[str, SnapshotFolder] = {}
        """By the keys of their entries."""
        self._dry_run = dry_run
        self._progress = progress
        self._log = CommitLog(store, system)
        self._marks = Marks(store, system, UNREACHABLE)
        self._reachable = Reachable(store, system)
        self._groups: dict[str, Tallies] = {}
        self._expired: list[SnapshotId] = []

    def run(self) -> Collection:
        store, system = self._store, self._system
        self._log.refresh()  # before anything is written
        now = store_now(store, system)
        listed = self._listed()
        probes = [entry for entry in store.list(shallow=True) if entry.key.startswith(PROBE_PREFIX)]
        marks = [entry for entry in self._marks.listed() if not entry.key.endswith(CLOCK_SUFFIX)]
        self._outside = {folder.entry.key: folder for folder in self._outside_folders(listed)}
        marked_before = frozenset[str]().union(*map(self._read_marks, marks))
        before = dict(self._log.refresh().retained)
        _check_logged(store, system, listed, self._log.history, self._log.next_position)
        intents = open_intents(store, system, self._log.history)
        held = leases(store, system)
        self._check_age(intents)
        self._reachable.all_chunks(before.values())  # if a key is missing, this raises before anything is written
        self._expire(listed, intents, now)
        needed = self._needed(before, intents, held, now)
        garbage = [("probes", probe) for probe in probes]
        for kind, entry in listed:
            if needed.keeps(kind, entry.key.removeprefix(f"{system}/")):
                self._group(kind).kept.add(entry)
            else:
                garbage.append((kind, entry))
        for folder in self._outside.values():
            if needed.keeps_outside(folder):
                self._group("outside").kept.add(folder.entry)
            else:
                garbage.append(("outside", folder.entry))
        doomed = self._judge(garbage, marked_before, now)
        if not self._dry_run:
            self._write_marks([entry.key for _, entry in garbage][:MARKS_MAX])
            self._delete(doomed)
            for entry in marks:
                store.delete(entry.key)  # this pass has marked again what these marks named and is still there
            self._remove_clocks(now)
        return Collection(self._groups, tuple(self._expired), needed.unreadable, self._dry_run)

    def _group(self, name: str) -> Tallies:
        return self._groups.setdefault(name, Tallies())

    def _listed(self) -> list[tuple[str, Entry]]:
        found = []
        for folder in _FOLDERS:
            for entry in self._store.list(inside(self._system, folder)):
                found.append((folder, entry))
                if len(found) % 1000 == 0:
                    self._progress("listing", len(found), 0)
        return found

    def _outside_folders(self, listed: list[tuple[str, Entry]]) -> Iterator[SnapshotFolder]:
        history, there = self._log.history, {entry.key for _, entry in listed}
        records = [*history.retained.values(), *history.deleted.values()]
        found = (record for record in records if inside(self._system, record.manifest_key) in there)
        roots = {root for record in found for root in self._reachable.roots(record)}
        told = None if self._files is None else below(self._files, self._log.run)
        return outside_folders(self._store, self._system, told, roots)

    def _check_age(self, intents: dict[SnapshotId, Intent]) -> None:
        for snapshot, intent in intents.items():
            if intent.timeout_s > self._min_age_s:
                raise ConfigError(
                    f"a minimum age of {self._min_age_s:g} s is below the {intent.timeout_s:g} s that snapshot "
                    f"{snapshot} may take: give a greater one",
                    min_age_s=self._min_age_s,
                    timeout_s=intent.timeout_s,
                )

    # What does not count any more -----------------------------------------------------------------------------

    def _expire(self, listed: list[tuple[str, Entry]], intents: dict[SnapshotId, Intent], now: float) -> None:
        """Log that old intents and paused copies do not count; that closes them."""
        history = self._log.history
        old = {k for k, intent in intents.items() if now - intent.announced_at >= self._min_age_s}
        abandoned = self._abandoned(listed, history, set(intents), now)
        stalled = self._stalled_copies(listed, history, now)
        aborted = self._aborted(history, set(intents), now)
        for snapshot in sorted(old | abandoned | stalled | aborted):
            intents.pop(snapshot, None)
            if self._dry_run or self._log.append_next(_expiry(snapshot, history.attempt(snapshot))) is not None:
                self._expired.append(snapshot)

    def _abandoned(
        self, listed: list[tuple[str, Entry]], history: History, still_open: set[SnapshotId], now: float
    ) -> set[SnapshotId]:
        """Intents that a dead coordinator of the present life left.

        They are over anyway, but the log must keep their ids, so that no successor uses one again.
        """
        named = {
            snapshot_of(entry.key.rpartition("/")[2])
            for folder, entry in listed
            if folder == "intents" and now - entry.modified >= self._min_age_s
        }
        return {
            snapshot
            for snapshot in named
            if snapshot is not None
            and snapshot.incarnation == history.incarnation
            and snapshot not in still_open
            and not history.is_over(snapshot)
        }

    def _aborted(self, history: History, still_open: set[SnapshotId], now: float) -> set[SnapshotId]:
        """Snapshots of the present life of which only outside files are left, and these are old.

        A snapshot that is open has files before it has an intent, which says how long it may take. So only the age of
        the files protects them, and it is never below MIN_AGE_S.
        """
        before = now - max(self._min_age_s, MIN_AGE_S)
        return {
            folder.snapshot
            for folder in self._outside.values()
            if folder.is_ours
            and 0 < folder.entry.modified <= before
            and folder.snapshot.incarnation == history.incarnation
            and folder.snapshot not in still_open
            and not history.is_over(folder.snapshot)
        }

    def _stalled_copies(self, listed: list[tuple[str, Entry]], history: History, now: float) -> set[SnapshotId]:
        """Incomplete copies without a recent write.

        A copy with a manifest is complete. The log may have lost its record, so it stays.
        """
        youngest: dict[SnapshotId, float] = {}
        complete = set[SnapshotId]()
        for folder, entry in listed:
            key = entry.key.removeprefix(f"{self._system}/")
            snapshot, attempt = _copied(key) if folder == "copies" else (None, 0)
            if snapshot is not None and attempt == history.attempt(snapshot) and snapshot not in history.retained:
                youngest[snapshot] = max(entry.modified, youngest.get(snapshot, 0.0))
                if _is_manifest_of_copy(key):
                    complete.add(snapshot)
        return {snapshot for snapshot, modified in youngest.items() if now - modified >= self._min_age_s} - complete

    # What is needed -------------------------------------------------------------------------------------------

    def _needed(
        self,
        before: Mapping[SnapshotId, CommitRecord],
        intents: dict[SnapshotId, Intent],
        held: dict[str, Lease],
        now: float,
    ) -> "_Needed":
        """The keys that the snapshots need which were retained `before` the listing of intents and leases, or are now.

        After that listing, a writer or reader may have announced that it needs a snapshot which was deleted since.
        """
        history = self._log.refresh()
        read = {lease.snapshot for lease in held.values() if lease.until > now}
        bases = {intent.base for intent in intents.values() if intent.base is not None}
        leased = [record for snapshot, record in history.deleted.items() if snapshot in read | bases]
        records = list(dict.fromkeys([*before.values(), *history.retained.values(), *leased]))
        self._progress("reading manifests", 0, len(records))
        chunks, unreadable = self._reachable.all_chunks(records)
        return _Needed(
            history,
            frozenset(intents),
            frozenset(key.removeprefix(f"{self._system}/") for key, lease in held.items() if lease.until > now),
            frozenset(record.manifest_key for record in records),
            chunks,
            frozenset((record.snapshot, record.attempt) for record in records if isinstance(record, CopyRecord)),
            unreadable,
            frozenset(self._expired),
            frozenset(record.snapshot for record in records if not record.folder),
        )

    # Marking and deleting -------------------------------------------------------------------------------------

    def _judge(
        self, garbage: list[tuple[str, Entry]], marked_before: frozenset[str], now: float
    ) -> list[tuple[str, Entry]]:
        doomed = []
        for folder, entry in garbage:
            group = self._group(folder)
            # neither intent nor lease protects the object of a store check that runs now; its age must do that
            min_age_s = max(self._min_age_s, CLOCK_AGE_MAX_S) if folder == "probes" else self._min_age_s
            if now - entry.modified < min_age_s:
                group.young.add(entry)
            elif entry.key not in marked_before:
                group.marked.add(entry)
            else:
                group.removed.add(entry)
                doomed.append((folder, entry))
        return sorted(doomed, key=lambda item: _ORDER.index(item[0]))

    def _delete(self, doomed: list[tuple[str, Entry]]) -> None:
        for number, (kind, entry) in enumerate(doomed):
            self._progress("deleting", number, len(doomed))
            if kind == "outside":
                self._outside[entry.key].clear()
            else:
                self._store.delete(entry.key)

    def _write_marks(self, keys: list[str]) -> None:
        if keys:
            self._marks.write(uuid.uuid4().hex, keys=keys)

    def _read_marks(self, entry: Entry) -> frozenset[str]:
        mark = self._marks.read(entry)
        return frozenset() if mark is None else mark.said["keys"]  # None: another collection has ended meanwhile

    def _remove_clocks(self, now: float) -> None:
        """Remove the clock objects that killed processes left."""
        for entry in self._marks.listed():
            if entry.key.endswith(CLOCK_SUFFIX) and now - entry.modified >= CLOCK_AGE_MAX_S:
                self._store.delete(entry.key)


@dataclass(frozen=True, slots=True)
class _Needed:
    """The objects that must stay, as keys relative to the system's folder. `copies` are (snapshot, attempt).

    `outside` are the snapshots whose outside files must stay, except copies, which have theirs with them.
    """

    history: History
    intents: frozenset[SnapshotId]
    leases: frozenset[str]
    manifests: frozenset[str]
    chunks: frozenset[str]
    copies: frozenset[tuple[SnapshotId, int]]
    unreadable: tuple[SnapshotId, ...]
    expired: frozenset[SnapshotId]
    outside: frozenset[SnapshotId]

    def keeps(self, folder: str, key: str) -> bool:
        """Whether an object stays."""
        match folder:
            case "manifests":
                name = snapshot_of(key.rpartition("/")[2])
                return bool(self.unreadable) or key in self.manifests or name is None or name in self.intents
            case "chunks":
                writer = writer_of(key)
                name = snapshot_of(writer)
                return bool(self.unreadable) or key in self.chunks or not writer or name in self.intents
            case "intents":
                name = snapshot_of(key.rpartition("/")[2])
                return name is None or name in self.intents or name in self.history.retained
            case "copies":
                return self._keeps_copy(*_copied(key))
            case "leases":
                return key in self.leases
            case _:
                return True

    def keeps_outside(self, folder: SnapshotFolder) -> bool:
        """Whether the outside files of a snapshot stay."""
        snapshot = folder.snapshot
        if snapshot in self.outside or snapshot in self.intents:
            return True
        if self.history.is_over(snapshot) or snapshot in self.expired:
            return False
        return not folder.is_ours or snapshot.incarnation >= self.history.incarnation

    def _keeps_copy(self, snapshot: SnapshotId | None, attempt: int) -> bool:
        if snapshot is None or (snapshot, attempt) in self.copies:
            return True
        unfinished = attempt >= self.history.attempt(snapshot) and snapshot not in self.history.retained
        return unfinished and snapshot not in self.expired


def _copied(key: str) -> tuple[SnapshotId | None, int]:
    """The copied snapshot and the attempt that an object belongs to, by its key relative to the system's folder."""
    folder = key.split("/")[1]
    snapshot = snapshot_of(folder)
    number = folder.rpartition(".")[2]
    return (snapshot, int(number)) if snapshot is not None and number.isdecimal() else (None, 0)


def _is_manifest_of_copy(key: str) -> bool:
    return key.split("/")[2:3] == ["manifests"]


def _expiry(snapshot: SnapshotId, attempt: int) -> Callable[[History, int], ExpireRecord | None]:
    """For `CommitLog.append_next`: write nothing if the snapshot was committed or expired meanwhile."""
    writer = f"gc-{uuid.uuid4().hex[:12]}"

    def make(history: History, position: int) -> ExpireRecord | None:
        over = snapshot in history.retained or history.attempt(snapshot) != attempt
        return None if over else ExpireRecord(position, writer, snapshot)

    return make


def _check_logged(
    store: Store, system: str, listed: Sequence[tuple[str, Entry]], history: History, next_position: int
) -> None:
    """Raise LogLost if these manifests and intents cannot have been written under this log.

    It may be the log of another system, or an older one. Objects that the log explains are not read.

    Args:
        store: the storage of the system.
        system: the name of the system.
        listed: the objects of the system, each with its folder; the log was read after it was listed.
        history: the meaning of the log.
        next_position: the length of the log.
    """
    ended = history.ended()
    for wanted in ("intents", "manifests"):
        for entry in (entry for folder, entry in listed if folder == wanted):
            key = entry.key
            snapshot = snapshot_of(key.rpartition("/")[2])
            if snapshot is None or snapshot in ended:
                continue
            if snapshot.incarnation > history.incarnation:
                raise log_lost(system, f"it has no EPOCH of life {snapshot.incarnation}, and {key} is of that", key=key)
            if wanted == "manifests":
                position = _position_of_manifest(store, key)
                if position is not None and position > next_position:
                    raise log_lost(system, f"record {position - 1} is missing, and {key} was written after it", key=key)
            else:
                writer = _writer_of_intent(store, system, entry)
                if writer is not None and not history.knows(writer):
                    raise log_lost(system, f"it has no EPOCH of {writer}, who wrote {key}", key=key)


def _writer_of_intent(store: Store, system: str, entry: Entry) -> str | None:
    with suppress(Damaged):  # it proves nothing
        intent = read_intent(store, system, entry)
        return None if intent is None else intent.writer
    return None


def _position_of_manifest(store: Store, key: str) -> int | None:
    """The position that the manifest was sealed for, behind an existing record; None if it cannot be read."""
    with suppress(Damaged, Incompatible, EncryptionKeyNeeded, KeyNotFound):
        envelope = open_envelope(store.read_range(key, 0, ENVELOPE_BYTES_MAX + 1))
        return decode(*open_manifest(envelope.payload, None)).position
    return None
