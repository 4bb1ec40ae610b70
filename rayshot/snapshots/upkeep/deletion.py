"""Deletes snapshots, and the bytes of deleted snapshots that nothing needs.

A DELETE record comes first, so that no reader begins with a snapshot whose bytes will go. Then a sweep looks for
snapshots being written (intents) and readers (leases) that need these bytes; they read the log after they announce
themselves. A manifest goes last, so that the next sweep finds and finishes an interrupted one. Files that hooks wrote
below another root go too. If that root does not answer, they stay: `gc` removes them later, if it is told the root.
"""

import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rayshot.errors import ConfigError, SnapshotNotFound, StoreError, UnsafePath
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.history import History
from rayshot.log.layout import copies_folder, inside, manifest_folder, outside_folder
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord, CopyRecord
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.intents import leased_bases, remove_intent, written_under
from rayshot.snapshots.leases import leased_by_readers
from rayshot.snapshots.manifests import Reachable

_log = logging.getLogger("rayshot")


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
            keys: Iterable[str] = written_under(self._store, self._system, record.snapshot) if named is None else named
            for key in sorted(set(keys) - protected):
                self._store.delete(inside(self._system, key))
            self._clear_outside(record, frozenset({None}) if named is None else self._reachable.roots(record))
            remove_intent(self._store, self._system, record.snapshot)
            self._store.delete(inside(self._system, record.manifest_key))
        self._reachable.forget(record)

    def _clear_outside(self, record: CommitRecord, roots: frozenset[str | None]) -> None:
        folder = inside(self._system, outside_folder(record.snapshot))
        for root in roots:
            if root is None:
                self._store.clear(folder)
                continue
            try:
                open_store(root).clear(folder)
            except (ConfigError, StoreError, UnsafePath) as error:
                _log.warning("files of the deleted snapshot %s stay in %s: %s", record.snapshot, root, error)


def delete_snapshot(
    store: Store, system: str, snapshot: SnapshotId | str, keys: Sequence[EncryptionKey] | None = None
) -> Sweep:
    """Delete a snapshot, also a savepoint: first for all readers, then the bytes that nothing else needs.

    This is safe beside a running system: its coordinator goes on. Bytes that a reader or a running snapshot needs stay;
    the next retention or garbage collection removes them.

    Args:
        store: the storage of the system.
        system: the name of the system.
        snapshot: the snapshot's id, or its text.
        keys: decrypt other manifests, to learn which bytes they need; None means the environment's keys.

    Raises SnapshotNotFound (SnapshotDeleted if it is deleted already), ConfigError for a string that is not an id,
    EncryptionKeyNeeded (then nothing is deleted), FormatTooNew, BadManifest and StoreError.
    """
    wanted = SystemView(store, system).snapshot(snapshot).id
    log, sweeper = CommitLog(store, system), Sweeper(store, system, keys)
    sweeper.check_keys(log.refresh())
    if log.delete(f"outside-{uuid.uuid4().hex[:12]}", wanted) is None:
        raise SnapshotNotFound(f"another program has just deleted {wanted}", snapshot=str(wanted))
    return sweeper.sweep(log.refresh())
