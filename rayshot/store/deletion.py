"""Deleting snapshots beside the coordinator, which may be alive: by a person, or by another life of the system."""

import uuid
from collections.abc import Callable, Sequence

from rayshot.errors import SnapshotNotFound
from rayshot.format.encryption_key import EncryptionKey
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import SystemView
from rayshot.store.history import History
from rayshot.store.keeping import Keep, choose_kept
from rayshot.store.locate import open_store
from rayshot.store.log import CommitLog
from rayshot.store.records import DeleteRecord, RestoreRecord
from rayshot.store.retention import Sweep, Sweeper, find_sound
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store


def deletion(writer: str, snapshot: SnapshotId) -> Callable[[History, int], DeleteRecord | None]:
    """For `CommitLog.append_next`: delete `snapshot`, or write nothing if it is not retained."""

    def make(history: History, position: int) -> DeleteRecord | None:
        return DeleteRecord(position, writer, snapshot) if snapshot in history.retained else None

    return make


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
    if log.append_next(deletion(f"outside-{uuid.uuid4().hex[:12]}", wanted)) is None:
        raise SnapshotNotFound(f"another program has just deleted {wanted}", snapshot=str(wanted))
    return sweeper.sweep(log.refresh())


class ForeignClaim:
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
