"""Makes complete cuts durable: writes a manifest of the vaults' chunks, commits it, and deletes old snapshots."""

import logging
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayshot.errors import (
    Damaged,
    EncryptionKeyNeeded,
    Fenced,
    KeysMissing,
    NotFound,
    RayshotError,
    SnapshotNotFound,
    StateNotSerializable,
    StoreError,
    StoreUnavailable,
)
from rayshot.format.entries import Chunk
from rayshot.format.manifest import FINAL, HASH_SEED, Manifest
from rayshot.log.aborts import NOTES_KEPT, AbortNote, write_abort
from rayshot.log.layout import intent_folder, snapshot_of
from rayshot.log.records import CommitRecord, EpochRecord, RollbackRecord
from rayshot.log.system import check_no_snapshots
from rayshot.model.configuration import SnapshotConfig
from rayshot.places.kinds import below, open_store
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AnnounceEnd
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.recovery_events import Past
from rayshot.runtime.coordinator.manifest_building import build_manifest
from rayshot.runtime.coordinator.pending_snapshots import KEYS_MISSING, PendingSnapshot, Taken
from rayshot.runtime.coordinator.requests import Figures
from rayshot.runtime.door import door
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.wire.host_identity import OutsideTerms
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.stored_cut import Stored, pack_share, unpack_stored
from rayshot.snapshots.chunk_writer import find_present
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.pins import note_pin
from rayshot.snapshots.upkeep.retention import Keep, Retention

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.restoration import Restoration

log = logging.getLogger("rayshot")
_NO_STORAGE = (AbortReason.STORE_UNAVAILABLE, AbortReason.FENCED, AbortReason.KEYS_MISSING)
"""After an abort for one of these reasons, no abort is noted in the storage until a commit has succeeded."""
ANSWER_S = 5.0
"""A vault that gives up at the deadline has so many seconds more to say why."""


class Committer:
    """The only writer to the repository of a running system. Use it from one thread, except `keep_trace`."""

    def __init__(self, settings: SystemSettings, repository: Repository, epoch: EpochRecord) -> None:
        """Commit in the life that `epoch` began; the log of `repository` has read it, and only this object uses it."""
        self.incarnation, self.epoch = epoch.incarnation, epoch
        self.had_begun = False
        self.fenced: Fenced | None = None
        self._repository, self._log_owner = repository, repository.log.owner
        self._retention = Retention(repository)
        self._keyring: Keyring | None = None
        self._settings = settings
        self._seed = {} if settings.hash_seed is None else {HASH_SEED: settings.hash_seed}
        self._base: SnapshotId | None = None
        self.modules: frozenset[str] | None = None
        """Those that define the classes of the actors in the newest snapshot; None until a snapshot is known."""
        self.proved: tuple[SnapshotId, dict[str, int], str] | None = None
        """`Manifest.proofs` and `unproved` of the newest snapshot; None until one is known."""
        self._last_traces: dict[str, bytes] = {}
        self._aborts: deque[AbortNote] = deque(maxlen=NOTES_KEPT)
        self._reuse: Mapping[str, Chunk] = {}
        if settings.pin is not None:
            note_pin(repository.store, settings.system, self.incarnation, settings.pin)

    @classmethod
    def begin(cls, settings: SystemSettings, owner: str, *, again: bool = False) -> "Committer":
        """Take the storage over for a new life of the system, or for the life that this `owner` had begun before.

        `owner` is a name that a coordinator keeps when Ray starts it again, and that no other coordinator ever has.
        `had_begun` says whether this coordinator began the life before, so it may have left something. A restart by Ray
        alone does not say that: Ray also restarts a coordinator that never ran, because its node was dead. `fenced`
        says that a later life has the storage: this life can commit nothing any more.

        `again`: the owner has begun a life for certain, so a storage that lacks it now is the wrong one, such as the
        folder below a volume that is not mounted. Then it raises StoreError or NotFound, and nothing was written.

        Raises SnapshotsExist, StoreError; ConfigError for a new life in a storage that cannot be used.
        """
        store = open_store(settings.storage)
        repository = Repository(store, settings.system, create=not again, keys=())
        new = repository.next_incarnation(settings.after)  # reads the log
        begun = repository.log.begun_by(_writers(owner))
        if begun is None and again:
            raise StoreUnavailable(f"{settings.storage} does not hold the life of {settings.system!r} that runs")
        if begun is None and not (settings.loading or settings.fresh):
            check_no_snapshots(repository.log.history, settings.system, settings.storage)
        fenced: Fenced | None = None
        try:
            epoch = repository.log.begin_epoch(
                new if begun is None else begun.incarnation,
                new_writer(owner),
                began_at=time.time(),
                cause="takeover" if begun is not None else "restore" if settings.loading else "begin",
            )
        except Fenced as error:
            if begun is None:
                raise
            epoch, fenced = begun, error
        found = cls(settings if fenced is None else replace(settings, pin=None), repository, epoch)
        found.had_begun, found.fenced = begun is not None, fenced
        failpoint("epoch_written")
        return found

    @property
    def keyring(self) -> Keyring | None:
        """The keys, or None while they are missing."""
        return self._keyring

    @property
    def missing_keys(self) -> tuple[str, ...]:
        """The names of the missing keys, without which nothing can be written; empty if no keys are missing."""
        return () if self._keyring is not None else self._settings.keys

    def take_keys(self, keyring: Keyring) -> None:
        """From now on sign and encrypt with these keys."""
        self._repository.keys = keyring.encryption
        self._retention = Retention(self._repository)
        self._keyring = keyring

    def keep_trace(self, actor: str, segment: bytes) -> None:
        """An actor ended: the next snapshot after its end holds the last segment of its trace. Call from any thread."""
        self._last_traces[actor] = segment

    def note_abort(self, pending: PendingSnapshot, end: AnnounceEnd, when: float) -> None:
        """Note in the storage that a snapshot was aborted at `when`, by time.monotonic; if that fails, do it later."""
        assert end.reason is not None
        note = AbortNote(
            snapshot=end.snapshot,
            began_at=pending.taken_at,
            seconds=when - pending.began,
            mode=pending.request.mode,
            trigger=pending.request.trigger,
            reason=end.reason.value,
            detail=end.detail,
            missing=end.missing,
            missing_count=len(end.missing),
            open_channels=end.open_channels,
            open_count=len(end.open_channels),
        )
        self._aborts.append(note)
        if end.reason not in _NO_STORAGE:
            self.write_aborts()

    def write_aborts(self) -> None:
        """Write the waiting notes. If the storage refuses a note, it and all later ones wait for the next call."""
        keys = None if self._keyring is None else self._keyring.encryption
        while self._aborts and keys is not None:
            note = self._aborts.popleft()
            try:
                write_abort(self._repository.store, self._repository.system, note, keys[0] if keys else None)
            except StoreError as error:
                log.info("that snapshot %s was aborted could not be noted now: %s", note.snapshot, error)
                self._aborts.appendleft(note)
                return

    def store(self, cut: Cut, vaults: Iterable[tuple[Any, list[Any]]], taken: Taken) -> tuple[CommitRecord, Figures]:
        """Write and commit one snapshot. `vaults` has each vault with the bodies that it must write.

        Returns the commit and the figures of its manifest; in them, `bytes` is the size of all its chunks.

        Raises KeysMissing, StoreError, StateNotSerializable; then nothing of the snapshot is visible.
        """
        snapshot, keyring, taken = cut.snapshot, self._keyring, taken._replace(stats={**taken.stats, **self._seed})
        if keyring is None:
            raise KeysMissing(KEYS_MISSING)
        started = time.perf_counter()
        intent, reuse = self._intend(snapshot, taken.timeout_s)
        data_key = self._repository.new_data_key()
        try:
            ended = {name: self._last_traces[name] for name in cut.ended if name in self._last_traces}
            share = pack_share(cut)
            refs = [
                vault.store.remote(share, intent, reuse, taken.timeout_s, {} if index else ended, data_key, *bodies)
                for index, (vault, bodies) in enumerate(vaults)
            ]
            written = self._gather(refs, taken.timeout_s + ANSWER_S)
            position = self._repository.log.next_position
            manifest = build_manifest(self._repository.system, position, cut, written, intent, taken, started, data_key)
            _refuse_late(started, taken.timeout_s)
            failpoint("before_commit")
            record = self._repository.commit(manifest, keyring.signing)
            failpoint("after_commit")
        except RayshotError:
            self._abandon(snapshot)
            raise
        for name in ended:
            del self._last_traces[name]
        self.build_on(manifest)
        self._note_proved(manifest)
        return record, {**manifest.stats, "bytes": sum(chunk.stored_size for chunk in manifest.chunks)}

    def stored_in(self, incarnation: int) -> set[SnapshotId]:
        """All snapshots that were ever committed in the life `incarnation`."""
        history = self._repository.log.refresh()
        return {k for k in (*history.retained, *history.deleted) if k.incarnation == incarnation}

    def newest_of(self, incarnation: int) -> CommitRecord | None:
        """The newest snapshot of the life `incarnation` that is not deleted; None if it has none."""
        retained = self._repository.retained()
        return next((record for record in reversed(retained) if record.snapshot.incarnation == incarnation), None)

    def take_up(self, incarnation: int) -> CommitRecord | None:
        """As `newest_of`, for a coordinator that was started again: what was proved of the snapshot is known then."""
        record = self.newest_of(incarnation)
        if (manifest := self._manifest_of(record)) is not None:
            self._note_proved(manifest)
        return record

    def newest_that_advances(self, incarnation: int) -> SnapshotId | None:
        """The newest snapshot of the life `incarnation` that advances; None if it has none."""
        back = self._repository.log.refresh().rollback_target
        return back.snapshot if back is not None and back.snapshot.incarnation == incarnation else None

    def highest_counter(self, incarnation: int) -> int:
        """The highest counter, known to the storage, of all snapshots that the coordinator began in this life."""
        highest = 0
        entries = self._repository.store.list(intent_folder(self._repository.system))
        announced = [snapshot_of(entry.key.rpartition("/")[2]) for entry in entries]
        for snapshot in (*announced, *self._repository.log.refresh().ended()):
            if snapshot is not None and snapshot.incarnation == incarnation and snapshot.by_coordinator:
                highest = max(highest, snapshot.counter)
        return highest

    def stopped_with(self, incarnation: int) -> SnapshotId | None:
        """The savepoint with which this life of the system had to stop; None if it did not have to."""
        manifest = self._manifest_of(self.newest_of(incarnation))
        return manifest.snapshot if manifest is not None and FINAL in manifest.stats else None

    def outside_of_newest(self, incarnation: int) -> tuple[str, ...]:
        """The actors with something outside in the newest snapshot of this life."""
        manifest = self._manifest_of(self.newest_of(incarnation))
        return () if manifest is None else tuple(one.name for one in manifest.actors if one.outside is not None)

    @property
    def went_back(self) -> bool:
        """Whether a rollback began this life."""
        return self.rollback is not None

    @property
    def rollback(self) -> RollbackRecord | None:
        """The record of the rollback that began this life, if one did."""
        record = self._repository.log.history.restores.get(self.incarnation)
        return record if isinstance(record, RollbackRecord) else None

    @property
    def past(self) -> Past:
        """What the log says of rollbacks until now."""
        return self._repository.log.history.past

    def find_origin(self) -> Manifest | None:
        """The snapshot that a rollback would go back to now, or None if it cannot be read."""
        back = self._repository.log.refresh().rollback_target
        record = None if back is None else self._repository.log.history.retained.get(back.snapshot)
        return self._manifest_of(record)

    def ended_before(self, incarnation: int) -> set[str]:
        """The actors that had ended before the newest snapshot of this life, or before the one that it began from.

        If that one is in another storage, nobody here knows them; the actors that they sent to still do.
        """
        history = self._repository.log.refresh()
        restore, record = history.restores.get(incarnation), self.newest_of(incarnation)
        if record is None and restore is not None and restore.origin is None:
            record = history.retained.get(restore.snapshot)
        manifest = self._manifest_of(record)
        return set() if manifest is None else set(manifest.ended)

    def _manifest_of(self, record: CommitRecord | None) -> Manifest | None:
        if record is None:
            return None
        try:
            return self._repository.snapshot(record).manifest
        except (StoreError, Damaged, EncryptionKeyNeeded) as error:
            log.warning("snapshot %s, which says who had ended, cannot be read now: %s", record.snapshot, error)
            return None

    def write_segments(self) -> None:
        """Write what makes a long log quick to open. Never fails."""
        self._repository.log.write_segments()

    def retain(self, config: SnapshotConfig) -> None:
        """Delete snapshots that `config` does not keep. Raises Fenced; after other errors the next call tries again."""
        keep = Keep(
            last=config.num_to_keep,
            hourly=config.keep_hourly,
            daily=config.keep_daily,
            weekly=config.keep_weekly,
        )
        if keep.everything:
            return
        try:
            sweep = self._retention.retain(keep)
        except Fenced:
            raise
        except (StoreError, Damaged, NotFound, EncryptionKeyNeeded) as error:
            log.warning("old snapshots could not be deleted now: %s", error)
        else:
            if sweep.unreadable:
                log.warning("nothing is deleted while these cannot be read: %s", ", ".join(map(str, sweep.unreadable)))

    @property
    def is_look(self) -> bool:
        """Whether a person restored the system to look at it, and to leave alone what is outside."""
        said = self._repository.log.history.restore
        return said is not None and said.outside == "leave"

    def outside(self) -> OutsideTerms:
        """How far this life may go outside."""
        history, settings, run = self._repository.log.history, self._settings, self._repository.log.run
        said, encrypts = history.restore, len(settings.keys) > 1
        root = None if settings.files is None else below(settings.files, run)
        if said is None:
            takes = settings.takeover and history.rollback_target is None
            return OutsideTerms(
                run, self._log_owner, root=root, files=settings.files, takeover=takes, encrypted=encrypts
            )
        of = run, self._log_owner, said.outside, settings.files, root, said.takeover, f"{said.writer}:{said.position}"
        return OutsideTerms(*of, is_as_restored=history.is_as_restored, encrypted=encrypts)

    def restored(self, order: "Restoration") -> None:
        """Write down from which snapshot this life is restored; see `Repository.note_restore`.

        This life's first snapshot depends on it only if it was claimed and is in this life's storage; else it is full.
        """
        of = order.snapshot, order.origin
        self._repository.note_restore(*of, claimed=order.claimed, outside=order.outside, takeover=order.takeover)
        record = self._repository.log.history.retained.get(order.snapshot)
        if order.claimed and order.origin is None and record is not None and not record.folder:
            self.build_on(self._repository.snapshot(record).manifest)

    def build_on(self, manifest: Manifest) -> None:
        """This is the newest snapshot, and in this life's storage: the next one may use its bytes again."""
        self._base, self._reuse = manifest.snapshot, {chunk.digest: chunk for chunk in manifest.chunks}
        self.modules = frozenset(actor.class_module for actor in manifest.actors if actor.class_pickle is None)

    def _note_proved(self, manifest: Manifest) -> None:
        self.proved = manifest.snapshot, manifest.proofs, manifest.unproved

    def _intend(self, snapshot: SnapshotId, timeout_s: float) -> tuple[str, dict[str, Chunk]]:
        """Announce a snapshot; returns its intent, and the chunks that do not have to be written again."""
        if self._base is not None:
            present = find_present(self._repository.store, self._repository.system, self._reuse)
            try:
                return self._repository.intend(snapshot, self._base, timeout_s), present
            except SnapshotNotFound:
                log.info("snapshot %s is written in full, as %s was deleted", snapshot, self._base)
                self._base = None
        return self._repository.intend(snapshot, None, timeout_s), {}

    def _gather(self, refs: list[Any], timeout_s: float) -> list[Stored]:
        try:
            answers = door.get(refs, timeout=timeout_s)
        except door.Raised as error:
            if isinstance(error.cause, StoreError | StateNotSerializable):
                raise error.cause from error
            raise StoreUnavailable(f"a vault could not write: {error.cause!r}") from error
        except door.CallFailed as error:  # the vault died or was too slow, or a record was lost with its node
            raise StoreUnavailable(f"a vault did not answer: {error}") from error
        return [unpack_stored(answer) for answer in answers]

    def _abandon(self, snapshot: SnapshotId) -> None:
        try:
            self._repository.abandon(snapshot)
        except StoreError as error:
            log.warning("what was written of snapshot %s stays for now: %s", snapshot, error)


def new_writer(owner: str) -> str:
    """A name with which this coordinator begins a life; no other one ever has it."""
    return _writers(owner) + uuid.uuid4().hex[:12]


def _writers(owner: str) -> str:
    """How the names of all writers of this owner begin."""
    return f"coordinator-{owner}-"


def _refuse_late(started: float, timeout_s: float) -> None:
    """Raise StoreUnavailable if the storage was slower than the time-out that the caller was promised."""
    took_s = time.perf_counter() - started
    if took_s > timeout_s:
        raise StoreUnavailable(
            f"the storage took {took_s:.0f} s to write, longer than the snapshot's time-out allows; "
            "raise SnapshotConfig.timeout_s if it is always that slow"
        )
