"""What may go: the bytes of deleted snapshots that nobody needs any more.

A DELETE record comes first, so that no reader starts with a snapshot whose bytes are about to go. Its
manifest goes last, so that a sweep that was interrupted is found again and finished by the next one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rayshot.errors import ConfigError, Damaged, Untrusted
from rayshot.format.encryption_key import EncryptionKey
from rayshot.protocol.identity import SnapshotId
from rayshot.store.history import History
from rayshot.store.intents import leased_bases
from rayshot.store.layout import chunk_folder, inside, intent_key, manifest_folder, manifest_key
from rayshot.store.records import CommitRecord
from rayshot.store.sealed import read_sealed
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store

_DIGEST_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep did: `removed` are the deleted snapshots whose bytes are gone now.

    Where `unreadable` is not empty nothing was removed: the manifests of these retained snapshots cannot be
    read, so what they need is not known. Delete them, then the next sweep goes on.
    """

    removed: tuple[SnapshotId, ...]
    unreadable: tuple[SnapshotId, ...] = ()


class Sweeper:
    """Removes bytes of one system. Remembers which chunks a manifest names, since manifests never change."""

    def __init__(self, store: Store, system: str, keys: Sequence[EncryptionKey] = ()) -> None:
        self._store = store
        self._encryption_keys = keys
        self._system = system
        self._keys: dict[SnapshotId, frozenset[str]] = {}

    def sweep(self, history: History) -> Sweep:
        """Remove the bytes of the deleted snapshots, except what retained and leased ones need."""
        leased = leased_bases(self._store, self._system, history)
        gone = [history.deleted[snapshot] for snapshot in self._present() if snapshot in history.deleted]
        doomed = [record for record in gone if record.snapshot not in leased]
        if not doomed:
            return Sweep(())
        needed = [*history.retained.values(), *(record for record in gone if record.snapshot in leased)]
        unreadable = tuple(record.snapshot for record in needed if self._named(record) is None)
        if unreadable:
            return Sweep((), unreadable)
        protected = frozenset[str]().union(*(self._named(record) or frozenset() for record in needed))
        for record in doomed:
            self._remove(record, protected)
        return Sweep(tuple(record.snapshot for record in doomed))

    def remove_uncommitted(self, snapshot: SnapshotId) -> None:
        """Remove everything written under the intent of a snapshot that no COMMIT names."""
        for key in self._written_by(snapshot):
            self._store.delete(inside(self._system, key))
        self._store.delete(manifest_key(self._system, snapshot))
        self._store.delete(intent_key(self._system, snapshot))

    def _present(self) -> list[SnapshotId]:
        """The snapshots whose manifests are in the store."""
        found = []
        for entry in self._store.list(manifest_folder(self._system)):
            try:
                found.append(SnapshotId.parse(entry.key.rpartition("/")[2]))
            except ConfigError:
                continue  # an object that is no manifest
        return found

    def _named(self, record: CommitRecord) -> frozenset[str] | None:
        """The keys of the chunks that a snapshot needs; None where its manifest is damaged.

        Raises EncryptionKeyNeeded where it cannot be known without a key: then nothing may be removed.
        """
        known = self._keys.get(record.snapshot)
        if known is None:
            try:
                _, manifest = read_sealed(self._store, self._system, record, self._encryption_keys)
            except (Damaged, Untrusted):
                return None
            known = self._keys[record.snapshot] = frozenset(chunk.key for chunk in manifest.chunks)
        return known

    def _remove(self, record: CommitRecord, protected: frozenset[str]) -> None:
        named = self._named(record)
        keys: Iterable[str] = self._written_by(record.snapshot) if named is None else named
        for key in sorted(set(keys) - protected):
            self._store.delete(inside(self._system, key))
        self._store.delete(intent_key(self._system, record.snapshot))
        self._store.delete(manifest_key(self._system, record.snapshot))
        self._keys.pop(record.snapshot, None)

    def _written_by(self, snapshot: SnapshotId) -> list[str]:
        """The keys of the chunks that were written under the intent of `snapshot`, relative to the system."""
        keys = (entry.key.removeprefix(f"{self._system}/") for entry in self._store.list(chunk_folder(self._system)))
        return [key for key in keys if key.rpartition("/")[2][_DIGEST_DIGITS + 1 :] == str(snapshot)]


def choose_doomed(snapshots: Sequence[Snapshot], keep: int, proved: set[SnapshotId]) -> list[SnapshotId]:
    """Choose what retention deletes: the oldest beyond the `keep` newest, but no savepoint and not the newest valid.

    Verifying reads a whole snapshot, so it stops at the first that is sound and remembers it in `proved`: as
    long as a proved one stays, nothing is read. Where nothing is sound nothing is deleted.
    """
    ids = [snapshot.id for snapshot in snapshots]
    doomed = [snapshot.id for snapshot in snapshots if snapshot.label is None][:-keep]
    if not doomed or not proved.isdisjoint(set(ids).difference(doomed)):
        return doomed
    for snapshot in reversed(snapshots):
        if snapshot.examine(keys=()).sound:
            proved.add(snapshot.id)
            return [one for one in doomed if one != snapshot.id]
    return []
