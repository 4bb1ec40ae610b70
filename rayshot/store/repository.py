"""The writing side of one system's storage, and `open` for the reading side.

How a snapshot is written: first its intent, then its chunks (see ChunkWriter), then its sealed manifest, and last the
COMMIT record. Before that record readers see nothing of the snapshot; after it they see all of it.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from rayshot.errors import (
    AlreadyExists,
    CommitUnknown,
    ConfigError,
    Fenced,
    IntentExpired,
    PositionTaken,
    SnapshotDeleted,
    SnapshotNotFound,
    StoreError,
    StoreUnavailable,
    SystemNotFound,
)
from rayshot.format.chunks import digest
from rayshot.format.encryption import encrypt_manifest
from rayshot.format.encryption_key import DataKey, EncryptionKey, find_encryption_keys, new_data_key
from rayshot.format.figures import BEHIND
from rayshot.format.manifest import Manifest, encode
from rayshot.format.signing import Signer, seal
from rayshot.protocol.identity import SnapshotId, check_name
from rayshot.store.catalog import Storage, make_system, open_system
from rayshot.store.deletion import ForeignClaim, deletion
from rayshot.store.history import History
from rayshot.store.intents import write_intent
from rayshot.store.keeping import Keep
from rayshot.store.layout import inside, intent_key, manifest_name
from rayshot.store.local import LocalStore
from rayshot.store.locate import is_local, open_store
from rayshot.store.log import RACES_MAX, CommitLog
from rayshot.store.once import create_once
from rayshot.store.probe import prove_readable
from rayshot.store.records import CommitRecord, CopyRecord, EpochRecord, RestoreRecord
from rayshot.store.retention import Sweep, Sweeper, choose_doomed
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store


def open(storage: str | os.PathLike[str], *, min_position: int = 0) -> Storage:  # noqa: A001 - users read `rayshot.open`
    """Open a storage for reading: `rayshot.open("./shots").systems["bank"].latest()`.

    It does not need Ray. It needs keys only for encrypted snapshots. It executes nothing that it reads.

    Args:
        storage: the address of the storage.
        min_position: the log position of a snapshot that was certainly committed. If the newest snapshot, or the wanted
            one, is older, RolledBack is raised. A signature alone does not show that the whole storage was put back to
            an older state.

    Raises ConfigError for an unknown kind of address and for a bucket that cannot be read, SystemNotFound for a folder
    that does not exist, and StoreUnavailable for a folder that cannot be read.
    """
    store = open_store(storage)
    if isinstance(store, LocalStore) and not store.is_there():
        raise SystemNotFound(f"there is no storage folder {store.folder}", url=store.url, exists=[])
    if not is_local(store):
        prove_readable(store)
    return Storage(store, min_position)


def _check_now(store: Store) -> None:
    """Check a store that was written before. Raises StoreError if it fails, ConfigError if it is unfit."""
    try:
        store.check()
    except ConfigError as error:
        if isinstance(error.__cause__, StoreError):
            raise error.__cause__ from None
        raise


class Repository:
    """The storage of `system`, opened for writing by its coordinator. One thread at a time may use it.

    Args:
        store: the storage of the system.
        system: the name of the system.
        create: make the system if it does not exist; without it, raise SystemNotFound.
        keys: decrypt snapshots, and the first one encrypts new snapshots; without keys, new snapshots are not
            encrypted. None means the environment's keys.

    Raises ConfigError for a store that has no conditional create or, with `create`, cannot be written; without it,
    StoreError, as a disk may be full for a while. Raises FormatTooNew, BadManifest.
    Call `log.begin_epoch(next_incarnation(), writer)` before you write anything.
    """

    def __init__(self, store: Store, system: str, *, create: bool, keys: Sequence[EncryptionKey] | None = None) -> None:
        check_name(system, "a system")
        if create:
            make_system(store, system)
        open_system(store, system)
        if not create:
            _check_now(store)  # not earlier, because it makes the folder
        self.store = store
        self.system = system
        self.log = CommitLog(store, system)
        self.use_keys(find_encryption_keys() if keys is None else keys)
        self._unsettled: dict[SnapshotId, int] = {}
        """Snapshots whose commit got no answer -> position of the COMMIT record that may exist."""
        self._proved: set[SnapshotId] = set()
        """Snapshots that retention has verified."""

    def use_keys(self, keys: Sequence[EncryptionKey]) -> None:
        """From now on decrypt with these keys, and encrypt with the first of them."""
        self._keys = keys
        self._sweeper = Sweeper(self.store, self.system, keys)
        self._claim = ForeignClaim(self.system, keys)

    def next_incarnation(self, after: int = 0) -> int:
        """The number of the next life, from 1: above all lives in this storage, copies included, and above `after`."""
        return max(self.log.refresh().incarnation_max, after) + 1

    def retained(self) -> list[CommitRecord]:
        """The COMMIT records of all retained snapshots, oldest first."""
        return list(self.log.refresh().retained.values())

    def snapshot(self, record: CommitRecord) -> Snapshot:
        """Open a snapshot for reading, by a record that `commit` or `retained` returned."""
        return Snapshot(self.store, self.system, record, self._keys)

    def new_data_key(self) -> DataKey | None:
        """A data key for a new snapshot's ChunkWriters and manifest; None if the system is not encrypted."""
        return new_data_key() if self._keys else None

    def intend(self, snapshot: SnapshotId, base: SnapshotId | None = None, timeout_s: float = 0.0) -> str:
        """Announce `snapshot` before it is written. Return the intent for its ChunkWriters and manifest.

        Args:
            snapshot: an id that was never used before, also not by a copy.
            base: a retained snapshot, not a copy, whose chunks may be reused; its bytes stay until `snapshot` ends.
            timeout_s: the snapshot is committed or abandoned by then; garbage collection waits for so long.

        Raises AlreadyExists for a used id, IntentExpired if the snapshot with this id is over, SnapshotNotFound for a
        base that is not retained (also if it is deleted at this moment; then announce again without a base), Fenced,
        StoreFull, StoreUnavailable.
        """
        epoch = self._own_epoch()
        if snapshot in self.log.history.retained:
            raise AlreadyExists(f"the snapshot {snapshot} exists already; it may be a copy", snapshot=str(snapshot))
        if self.log.history.attempt(snapshot):
            raise IntentExpired(f"the id {snapshot} was used, and then deleted or given up", snapshot=str(snapshot))
        if base is not None and not self._may_be_leant_on(base, self.log.history):
            raise SnapshotNotFound(
                f"the snapshot {base} is not retained, or is a copy, so it cannot be the base of another",
                snapshot=str(base),
            )
        write_intent(self.store, self.system, snapshot, epoch.writer, base, timeout_s)
        if base is not None and not self._may_be_leant_on(base, self.log.refresh()):
            # The deleter may have looked for intents before this one was written.
            self.store.delete(intent_key(self.system, snapshot))
            raise SnapshotDeleted(
                f"the snapshot {base} was deleted, so it cannot be the base of another", snapshot=str(base)
            )
        return str(snapshot)

    def _may_be_leant_on(self, base: SnapshotId, history: History) -> bool:
        """Whether a manifest can name the chunks of `base`: a copy's chunks are in another folder."""
        record = history.retained.get(base)
        return record is not None and not record.folder

    def commit(self, manifest: Manifest, key: Signer | None) -> CommitRecord:
        """Make a snapshot visible after all its chunks are written. A second call with the same manifest is safe.

        If another writer, which deletes or copies, takes the manifest's position first, the manifest is sealed again
        for the next position.

        Args:
            manifest: its `position` is `log.next_position`, its `intent` is the result of `intend`.
            key: the key that signs it; None leaves it unsigned.

        Raises:
            Fenced: another coordinator has taken over; this one must stop.
            IntentExpired: garbage collection gave up the snapshot, because it took too long.
            AlreadyExists: a snapshot with its id was copied here meanwhile, from a place where the system ran too.
            LogLost: the commit log is gone; not committed.
            StoreFull, StoreUnavailable: not committed.
            CommitUnknown: it may or may not be committed; call again with the same manifest to find out.
        """
        assert manifest.system == self.system, "a manifest of another system"
        name = manifest_name(manifest.snapshot)
        for _ in range(RACES_MAX):
            try:
                return self._commit_at(manifest, name, key)
            except PositionTaken:
                self.store.delete(inside(self.system, name))  # nothing can commit it any more
                manifest = replace(manifest, position=self.log.next_position)
                name = manifest_name(manifest.snapshot, manifest.position)
        raise StoreUnavailable(
            f"other writers were faster {RACES_MAX} times to write to the log of {self.system!r}; try again"
        )

    def _commit_at(self, manifest: Manifest, name: str, key: Signer | None) -> CommitRecord:
        """Commit for the position in `manifest`, or find out that this was done. Raises PositionTaken."""
        epoch, history = self._own_epoch(), self.log.history
        self.log.prove_end()
        assert manifest.position <= self.log.next_position, "the manifest's position leaves a hole in the log"
        done = history.retained.get(manifest.snapshot)
        if done is not None and done.writer == epoch.writer:
            self._unsettled.pop(manifest.snapshot, None)
            return done
        if isinstance(done, CopyRecord):
            raise AlreadyExists(
                f"another snapshot {manifest.snapshot} was copied here: {self.system!r} has lived on in both places",
                snapshot=str(manifest.snapshot),
            )
        if history.attempt(manifest.snapshot):
            raise IntentExpired(
                f"the bytes of {manifest.snapshot} were deleted or given up as garbage: writing took longer than "
                "garbage collection waits",
                snapshot=str(manifest.snapshot),
            )
        envelope = seal(self._payload(manifest), key)
        try:
            create_once(self.store, inside(self.system, name), envelope)
        except AlreadyExists as error:
            raise Fenced(
                f"another manifest of {manifest.snapshot} exists: another program writes under the same id",
                snapshot=str(manifest.snapshot),
            ) from error
        record = CommitRecord(
            position=manifest.position,
            writer=epoch.writer,
            incarnation=epoch.incarnation,
            snapshot=manifest.snapshot,
            manifest_key=name,
            manifest_digest=digest(envelope),
            taken_at=manifest.taken_at,
            label=manifest.label,
            advances=BEHIND not in manifest.stats,
        )
        try:
            self.log.append(record)
        except CommitUnknown:
            self._unsettled[manifest.snapshot] = record.position
            raise
        self._unsettled.pop(manifest.snapshot, None)
        return record

    def _payload(self, manifest: Manifest) -> bytes:
        """The bytes to sign and store for a manifest: always the same, because a second attempt compares them."""
        if manifest.data_key is None:
            return encode(manifest)
        assert self._keys, "an encrypted manifest comes from `new_data_key`"
        return encrypt_manifest(encode(manifest), manifest.data_keys, self._keys[0])

    def abandon(self, snapshot: SnapshotId) -> None:
        """Remove the bytes of a snapshot that is not committed and never will be; its intent last.

        It leaves a committed snapshot as it is. Raises CommitUnknown if it may be committed: then the bytes must stay,
        and `retain` removes them later.
        """
        history = self.log.refresh()
        position = self._unsettled.get(snapshot)
        if position is not None and position >= self.log.next_position:
            raise CommitUnknown(f"the bytes of {snapshot} stay, because it may have been committed", position=position)
        if snapshot not in history.retained and snapshot not in history.deleted:
            self._sweeper.remove_uncommitted(snapshot)
        self._unsettled.pop(snapshot, None)

    def delete(self, snapshot: SnapshotId) -> Sweep:
        """Delete a snapshot, also a savepoint: first for all readers, then the bytes that no other snapshot needs.

        Raises SnapshotNotFound, Fenced, EncryptionKeyNeeded (then nothing is deleted), and StoreError. The next call
        removes what an interrupted call left.
        """
        self._mark_deleted([snapshot])
        return self._sweeper.sweep(self.log.refresh())

    def retain(self, keep: Keep) -> Sweep:
        """Delete the snapshots that no rule of `keep` keeps. Savepoints and snapshots that it does not own stay.

        Those do not count for the rules either. The newest snapshot that verifies always stays, and so does the last
        one of an earlier life that the present line does not replace (see `choose_doomed`). If this life was restored
        from a snapshot in another storage and claimed it, that snapshot counts as the oldest one and can be deleted.
        Raises as `delete`.
        """
        self._own_epoch()
        for snapshot, position in list(self._unsettled.items()):
            if position < self.log.next_position:
                self.abandon(snapshot)
        history = self.log.refresh()
        snapshots = [self.snapshot(record) for record in self.retained()]
        self._mark_deleted(choose_doomed(snapshots, keep, history, self._proved))
        sweep = self._sweeper.sweep(self.log.refresh())
        # this comes last, because the other storage may fail, or be gone for good
        self._claim.retire([self.snapshot(record) for record in self.retained()], keep, history, self._proved)
        return sweep

    def note_restore(self, snapshot: SnapshotId, origin: str | None, *, claimed: bool) -> None:
        """Record from which snapshot this life was restored.

        Args:
            snapshot: the id of the snapshot.
            origin: the address of the storage that holds it; None for this storage.
            claimed: whether it now belongs to this life, so that retention may delete it.

        Raises Fenced and StoreError.
        """
        writer = self._own_epoch().writer
        self.log.append_next(lambda _, position: RestoreRecord(position, writer, snapshot, origin, claimed))

    def _mark_deleted(self, snapshots: list[SnapshotId]) -> None:
        """Write DELETE records, so that readers do not find these snapshots any more."""
        if snapshots:
            self._sweeper.check_keys(self.log.refresh())
        for snapshot in snapshots:
            writer = self._own_epoch().writer
            self.log.prove_end()
            if snapshot not in self.log.history.retained:
                raise SnapshotNotFound(f"the snapshot {snapshot} is not retained", snapshot=str(snapshot))
            self.log.append_next(deletion(writer, snapshot))

    def _own_epoch(self) -> EpochRecord:
        """The epoch that this repository began. Raises Fenced if it is not the latest any more."""
        epoch = self.log.epoch
        assert epoch is not None, "log.begin_epoch comes first"
        latest = self.log.refresh().epoch
        if latest != epoch:
            raise Fenced(
                f"{epoch.writer} may not write to {self.system!r} any more: {latest and latest.writer} took over",
                writer=latest and latest.writer,
                position=latest and latest.position,
            )
        return epoch
