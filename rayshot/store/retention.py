"""Retention: deletes snapshots that no rule keeps, and the bytes of deleted snapshots that nothing needs.

A DELETE record comes first, so that no reader begins with a snapshot whose bytes will go. Then retention looks for
snapshots being written (intents) and readers (leases) that need these bytes; they read the log after they announce
themselves. A manifest goes last, so that the next sweep finds and finishes an interrupted one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rayshot.errors import Damaged, EncryptionKeyNeeded
from rayshot.format.encryption_key import EncryptionKey
from rayshot.protocol.identity import SnapshotId
from rayshot.store.history import History
from rayshot.store.intents import leased_bases
from rayshot.store.keeping import Keep, choose_kept, last_of_earlier_lives
from rayshot.store.layout import (
    chunk_folder,
    copies_folder,
    inside,
    intent_key,
    manifest_folder,
    manifest_key,
    writer_of,
)
from rayshot.store.leases import leased_by_readers
from rayshot.store.reachable import Reachable
from rayshot.store.records import CommitRecord, CopyRecord
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store
from rayshot.store.verification import Part

EVERYTHING = Part(1, 1)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of a sweep: `removed` are the deleted snapshots whose bytes are gone now.

    If `unreadable` is not empty, nothing was removed: the manifests of these retained snapshots cannot be read, so it
    is not known what they need. Delete them; then the next sweep goes on.
    """

    removed: tuple[SnapshotId, ...]
    unreadable: tuple[SnapshotId, ...] = ()


class Sweeper:
    """Removes bytes of one system. `keys` decrypt manifests; None means the environment's keys."""

    def __init__(self, store: Store, system: str, keys: Sequence[EncryptionKey] | None = None) -> None:
        self._store = store
        self._system = system
        self._reachable = Reachable(store, system, keys)

    def check_keys(self, history: History) -> None:
        """Raise EncryptionKeyNeeded if a sweep would. Call it before DELETE is written."""
        self._reachable.all_chunks([*history.retained.values(), *self._present_and_deleted(history)])

    def sweep(self, history: History) -> Sweep:
        """Remove the bytes of deleted snapshots, except bytes that retained and leased snapshots need."""
        leased = leased_bases(self._store, self._system, history) | leased_by_readers(self._store, self._system)
        gone = self._present_and_deleted(history)
        doomed = [record for record in gone if record.snapshot not in leased]
        if not doomed:
            return Sweep(())
        needed = [*history.retained.values(), *(record for record in gone if record.snapshot in leased)]
        protected, unreadable = self._reachable.all_chunks(needed)
        if unreadable:
            return Sweep((), unreadable)
        for record in doomed:
            self._remove(record, protected)
        return Sweep(tuple(record.snapshot for record in doomed))

    def remove_uncommitted(self, snapshot: SnapshotId) -> None:
        """Remove all objects of the intent of a snapshot that no COMMIT names."""
        for key in self._written_by(snapshot):
            self._store.delete(inside(self._system, key))
        self._store.delete(manifest_key(self._system, snapshot))
        self._store.delete(intent_key(self._system, snapshot))

    def _present_and_deleted(self, history: History) -> list[CommitRecord]:
        """The deleted snapshots whose manifests still exist, or whose copy's folder is not empty."""
        present = {entry.key for entry in self._store.list(manifest_folder(self._system))}
        found = [record for record in history.deleted.values() if inside(self._system, record.manifest_key) in present]
        copies = [record for record in history.deleted.values() if isinstance(record, CopyRecord)]
        if copies:
            folders = {entry.key for entry in self._store.list(copies_folder(self._system), shallow=True)}
            found += [
                record
                for record in copies
                if inside(self._system, f"{record.folder}/") in folders and self._holds_objects(record.folder)
            ]
        return found

    def _holds_objects(self, folder: str) -> bool:
        """Whether the folder holds objects: a disk and some servers still list an empty folder."""
        return next(self._store.list(inside(self._system, folder)), None) is not None

    def _remove(self, record: CommitRecord, protected: frozenset[str]) -> None:
        if isinstance(record, CopyRecord):
            for entry in list(self._store.list(inside(self._system, record.folder))):
                self._store.delete(entry.key)
        else:
            named = self._reachable.chunks(record)
            keys: Iterable[str] = self._written_by(record.snapshot) if named is None else named
            for key in sorted(set(keys) - protected):
                self._store.delete(inside(self._system, key))
            self._store.delete(intent_key(self._system, record.snapshot))
            self._store.delete(inside(self._system, record.manifest_key))
        self._reachable.forget(record)

    def _written_by(self, snapshot: SnapshotId) -> list[str]:
        """The keys of the chunks that were written under the intent of `snapshot`, relative to the system."""
        keys = (entry.key.removeprefix(f"{self._system}/") for entry in self._store.list(chunk_folder(self._system)))
        return [key for key in keys if writer_of(key) == str(snapshot)]


def choose_doomed(
    snapshots: Sequence[Snapshot], keep: Keep, history: History, proved: set[SnapshotId]
) -> list[SnapshotId]:
    """Choose the snapshots that retention deletes: it owns them, by `history`, and `keep` does not keep them.

    It never chooses the newest valid snapshot, nor the one that the present life goes back to, see `History.way_back`,
    nor the last one of an earlier life, see `last_of_earlier_lives`, nor the last valid one of that life.

    Verifying reads a whole snapshot, so it stops at the first sound one and remembers it in `proved`. As long as a
    proved one stays, it reads nothing. If none is sound, it deletes none.
    """
    records = [snapshot.record for snapshot in snapshots]
    owned = [record for record in records if history.owns(record)]
    last = last_of_earlier_lives(records, history.incarnation, history.line(), keep)
    kept = choose_kept(owned, keep) | last
    if history.way_back is not None:
        kept.add(history.way_back.snapshot)
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
    channel at a time. It does not load states, so that no state must be in memory as a whole.

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
    if not snapshot.survey(keys=(), part=EVERYTHING).sound:
        return False
    try:
        for channel in snapshot.channels.values():
            channel.check()
    except Damaged:
        return False
    return True
