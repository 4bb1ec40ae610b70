"""The writing side of one system's storage, and `open` for the reading side.

How a snapshot comes to be: its intent is written, then its chunks (see ChunkWriter), then its sealed
manifest, and at last the COMMIT record. Until that record is there nothing of it is visible; from then on all
of it is.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from rayshot.errors import (
    AlreadyExists,
    CommitUnknown,
    Fenced,
    IntentExpired,
    PositionTaken,
    SnapshotDeleted,
    SnapshotNotFound,
    StoreUnavailable,
    SystemNotFound,
)
from rayshot.format.chunks import digest
from rayshot.format.encryption import encrypt_manifest
from rayshot.format.encryption_key import DataKey, EncryptionKey, find_encryption_keys, new_data_key
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

    Needs neither Ray nor keys, but for encrypted snapshots, and executes nothing of what it reads.

    Args:
        storage: its address.
        min_position: the position in the log of a snapshot that is known to have been committed: where the newest is
            older, or one that is asked for, it is refused with RolledBack. A signature cannot tell that the whole
            storage was put back to an older state.

    Raises ConfigError for an address of no known kind and for a bucket that cannot be read, SystemNotFound for a folder
    that does not exist, and StoreUnavailable for one that cannot be looked at.
    """
    store = open_store(storage)
    if isinstance(store, LocalStore) and not store.is_there():
        raise SystemNotFound(f"there is no storage folder {store.folder}", url=store.url, exists=[])
    if not is_local(store):
        prove_readable(store)
    return Storage(store, min_position)


class Repository:
    """The storage of `system`, opened for writing by its coordinator. For one thread at a time.

    Args:
        store: where.
        system: whose.
        create: make the system if it is not there; else raise SystemNotFound.
        keys: open what is encrypted, and the first of them encrypts what is written; where there is none nothing is
            encrypted. None means those of the environment.

    Raises ConfigError for a store that cannot be written or has no conditional create, FormatTooNew,
    BadManifest. Before anything is written, `log.begin_epoch(next_incarnation(), writer)` must
    have been called.
    """

    def __init__(self, store: Store, system: str, *, create: bool, keys: Sequence[EncryptionKey] | None = None) -> None:
        check_name(system, "a system")
        if create:
            make_system(store, system)
        open_system(store, system)
        if not create:
            store.check()  # only now: it makes the folder
        self.store = store
        self.system = system
        self.log = CommitLog(store, system)
        self.use_keys(find_encryption_keys() if keys is None else keys)
        self._unsettled: dict[SnapshotId, int] = {}
        """Snapshots whose commit got no answer -> position of the COMMIT record that may exist."""
        self._proved: set[SnapshotId] = set()
        """Snapshots that retention has verified."""

    def use_keys(self, keys: Sequence[EncryptionKey]) -> None:
        """From now on open what is encrypted with these, and encrypt with the first of them."""
        self._keys = keys
        self._sweeper = Sweeper(self.store, self.system, keys)
        self._claim = ForeignClaim(self.system, keys)

    def next_incarnation(self, after: int = 0) -> int:
        """The number of the next life of the system, from 1: above all that is here, copies included, and `after`."""
        return max(self.log.refresh().incarnation_max, after) + 1

    def retained(self) -> list[CommitRecord]:
        """The COMMIT records of all snapshots that can be had, oldest first."""
        return list(self.log.refresh().retained.values())

    def snapshot(self, record: CommitRecord) -> Snapshot:
        """Open what `commit` or `retained` returned for reading."""
        return Snapshot(self.store, self.system, record, self._keys)

    def new_data_key(self) -> DataKey | None:
        """What a new snapshot is encrypted with, for its ChunkWriters and manifest; None where nothing is encrypted."""
        return new_data_key() if self._keys else None

    def intend(self, snapshot: SnapshotId, base: SnapshotId | None = None, timeout_s: float = 0.0) -> str:
        """Announce that `snapshot` is about to be written; return the intent for its ChunkWriters and manifest.

        Args:
            snapshot: an id that was never used before, by no copy either.
            base: a retained snapshot, and no copy, whose chunks may be reused; its bytes stay until `snapshot` has
                ended.
            timeout_s: it will have been committed or abandoned by then; garbage collection waits for so long.

        Raises AlreadyExists for an id that was used, IntentExpired where what had it is over, SnapshotNotFound for a
        base that is not retained (also where it was deleted at this moment; then announce it again without one),
        Fenced, StoreFull, StoreUnavailable.
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
            # Whoever deleted it may have looked for intents before this one was there.
            self.store.delete(intent_key(self.system, snapshot))
            raise SnapshotDeleted(
                f"the snapshot {base} was deleted, so it cannot be the base of another", snapshot=str(base)
            )
        return str(snapshot)

    def _may_be_leant_on(self, base: SnapshotId, history: History) -> bool:
        """Whether chunks of `base` lie where a manifest can name them: those of one that was copied back do not."""
        record = history.retained.get(base)
        return record is not None and not record.folder

    def commit(self, manifest: Manifest, key: Signer | None) -> CommitRecord:
        """Make a snapshot visible whose chunks are all written. Calling it again with the same manifest is safe.

        Where somebody who deletes or copies beside this coordinator gets the manifest's position first, it is sealed
        for the next one.

        Args:
            manifest: its `position` is `log.next_position`, its `intent` what `intend` returned.
            key: the key that signs it; None leaves it unsigned.

        Raises:
            Fenced: another coordinator has taken over; this one must stop.
            IntentExpired: garbage collection gave it up, as it had taken too long.
            AlreadyExists: a snapshot with its id was copied here meanwhile, from where the system lived on too.
            LogLost: the commit log is gone; not committed.
            StoreFull, StoreUnavailable: not committed.
            CommitUnknown: not known; call again with the same manifest to settle it.
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
        """Commit for the position that `manifest` says, or find that this was done; raises PositionTaken."""
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
                f"what was written of {manifest.snapshot} was deleted or given up as garbage: it had taken longer "
                "than garbage collection waits",
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
        )
        try:
            self.log.append(record)
        except CommitUnknown:
            self._unsettled[manifest.snapshot] = record.position
            raise
        self._unsettled.pop(manifest.snapshot, None)
        return record

    def _payload(self, manifest: Manifest) -> bytes:
        """What of a manifest is signed and stored: the same bytes each time, as a second attempt compares them."""
        if manifest.data_key is None:
            return encode(manifest)
        assert self._keys, "an encrypted manifest comes from `new_data_key`"
        return encrypt_manifest(encode(manifest), manifest.data_keys, self._keys[0])

    def abandon(self, snapshot: SnapshotId) -> None:
        """Remove what was written of a snapshot that was not committed and never will be; its intent last.

        Nothing happens to a committed one. Raises CommitUnknown where that is not known: then the bytes must stay,
        and `retain` removes them when it is known.
        """
        history = self.log.refresh()
        position = self._unsettled.get(snapshot)
        if position is not None and position >= self.log.next_position:
            raise CommitUnknown(f"the bytes of {snapshot} stay, because it may have been committed", position=position)
        if snapshot not in history.retained and snapshot not in history.deleted:
            self._sweeper.remove_uncommitted(snapshot)
        self._unsettled.pop(snapshot, None)

    def delete(self, snapshot: SnapshotId) -> Sweep:
        """Delete a snapshot, savepoints too: first for all readers, then its bytes that no other one needs.

        Raises SnapshotNotFound, Fenced, EncryptionKeyNeeded (then nothing is deleted), and StoreError; what an
        interrupted call left is removed by the next one.
        """
        self._mark_deleted([snapshot])
        return self._sweeper.sweep(self.log.refresh())

    def retain(self, keep: Keep) -> Sweep:
        """Delete the snapshots that no rule of `keep` keeps; savepoints, and what is not owned, neither go nor count.

        The newest snapshot that verifies is never deleted, nor the last one of an earlier life that the present line
        does not replace (see `choose_doomed`). A snapshot in another storage that this life was restored from, and
        claimed, counts as the oldest one and goes when its turn comes. Raises as `delete`.
        """
        self._own_epoch()
        for snapshot, position in list(self._unsettled.items()):
            if position < self.log.next_position:
                self.abandon(snapshot)
        history = self.log.refresh()
        snapshots = [self.snapshot(record) for record in self.retained()]
        self._mark_deleted(choose_doomed(snapshots, keep, history, self._proved))
        sweep = self._sweeper.sweep(self.log.refresh())
        # last, as that other storage may fail, or be gone for good
        self._claim.retire([self.snapshot(record) for record in self.retained()], keep, history, self._proved)
        return sweep

    def note_restore(self, snapshot: SnapshotId, origin: str | None, *, claimed: bool) -> None:
        """Write down what this life was restored from.

        Args:
            snapshot: which.
            origin: the address of the storage in which it lies; None for this one.
            claimed: whether it belongs to this life now, so that retention may delete it.

        Raises Fenced and StoreError.
        """
        writer = self._own_epoch().writer
        self.log.append_next(lambda _, position: RestoreRecord(position, writer, snapshot, origin, claimed))

    def _mark_deleted(self, snapshots: list[SnapshotId]) -> None:
        """Write DELETE records, so that no reader finds these snapshots any more."""
        if snapshots:
            self._sweeper.check_keys(self.log.refresh())
        for snapshot in snapshots:
            writer = self._own_epoch().writer
            self.log.prove_end()
            if snapshot not in self.log.history.retained:
                raise SnapshotNotFound(f"the snapshot {snapshot} is not retained", snapshot=str(snapshot))
            self.log.append_next(deletion(writer, snapshot))

    def _own_epoch(self) -> EpochRecord:
        """The epoch that this repository began; raises Fenced when it is not the latest any more."""
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
