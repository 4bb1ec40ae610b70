"""The writing side of one system's storage.

How a snapshot is written: first its intent, then its chunks (see ChunkWriter), then its sealed manifest, and last the
COMMIT record. Before that record readers see nothing of the snapshot; after it they see all of it.
"""

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
)
from rayshot.format.chunks import digest
from rayshot.format.encryption import encrypt_manifest
from rayshot.format.entries import OutsideMode
from rayshot.format.envelope import seal
from rayshot.format.manifest import BEHIND, Manifest, encode
from rayshot.keys.encryption import DataKey, EncryptionKey, new_data_key
from rayshot.keys.finder import find_encryption_keys
from rayshot.keys.signing import Signer
from rayshot.log.history import History
from rayshot.log.layout import inside, manifest_name
from rayshot.log.log import RACES_MAX, CommitLog
from rayshot.log.records import CommitRecord, CopyRecord, EpochRecord, RestoreRecord
from rayshot.log.system import make_system, open_system
from rayshot.places.calls import create_once
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId, check_name
from rayshot.snapshots.intents import remove_intent, remove_uncommitted, write_intent
from rayshot.snapshots.snapshot import Snapshot


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
        self.keys = find_encryption_keys() if keys is None else keys
        """They decrypt, and the first of them encrypts."""
        self._unsettled: dict[SnapshotId, int] = {}
        """Snapshots whose commit got no answer -> position of the COMMIT record that may exist."""

    def next_incarnation(self, after: int = 0) -> int:
        """The number of the next life, from 1: above all lives in this storage, copies included, and above `after`."""
        return max(self.log.refresh().incarnation_max, after) + 1

    def retained(self) -> list[CommitRecord]:
        """The COMMIT records of all retained snapshots, oldest first."""
        return list(self.log.refresh().retained.values())

    def snapshot(self, record: CommitRecord) -> Snapshot:
        """Open a snapshot for reading, by a record that `commit` or `retained` returned."""
        return Snapshot(self.store, self.system, record, self.keys)

    def new_data_key(self) -> DataKey | None:
        """A data key for a new snapshot's ChunkWriters and manifest; None if the system is not encrypted."""
        return new_data_key() if self.keys else None

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
            remove_intent(self.store, self.system, snapshot)
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
        assert self.keys, "an encrypted manifest comes from `new_data_key`"
        return encrypt_manifest(encode(manifest), manifest.data_keys, self.keys[0])

    def abandon(self, snapshot: SnapshotId) -> None:
        """Remove the bytes of a snapshot that is not committed and never will be; its intent last.

        It leaves a committed snapshot as it is. Raises CommitUnknown if it may be committed: then the bytes must stay,
        and `settle` removes them later.
        """
        history = self.log.refresh()
        position = self._unsettled.get(snapshot)
        if position is not None and position >= self.log.next_position:
            raise CommitUnknown(f"the bytes of {snapshot} stay, because it may have been committed", position=position)
        if snapshot not in history.retained and snapshot not in history.deleted:
            remove_uncommitted(self.store, self.system, snapshot)
        self._unsettled.pop(snapshot, None)

    def settle(self) -> None:
        """Abandon the snapshots whose commit got no answer and of which it is now known that they are not committed."""
        self._own_epoch()
        for snapshot, position in list(self._unsettled.items()):
            if position < self.log.next_position:
                self.abandon(snapshot)

    def mark_deleted(self, snapshot: SnapshotId) -> None:
        """Write a DELETE record: readers do not find this snapshot any more. Raises SnapshotNotFound and Fenced."""
        writer = self._own_epoch().writer
        self.log.prove_end()
        if self.log.delete(writer, snapshot) is None:
            raise SnapshotNotFound(f"the snapshot {snapshot} is not retained", snapshot=str(snapshot))

    def note_restore(
        self,
        snapshot: SnapshotId,
        origin: str | None,
        *,
        claimed: bool,
        outside: OutsideMode = "refuse",
        takeover: bool = False,
    ) -> None:
        """Record from which snapshot this life was restored.

        Args:
            snapshot: the id of the snapshot.
            origin: the address of the storage that holds it; None for this storage.
            claimed: whether it now belongs to this life, so that retention may delete it.
            outside: as in RestoreRecord.
            takeover: as in RestoreRecord.

        Raises Fenced and StoreError.
        """
        writer = self._own_epoch().writer
        said = snapshot, origin, claimed, outside, takeover
        self.log.append_next(lambda _, position: RestoreRecord(position, writer, *said))

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
