"""The storage's part of a rollback: which snapshot a system goes back to, and the record that begins the new life."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rayshot.errors import ConfigError, NotFound, RayshotError, StoreError, StoreUnavailable
from rayshot.format.manifest import FINAL, Manifest
from rayshot.format.pickling import dump_names
from rayshot.keys.finder import find_trusted_keys
from rayshot.keys.signing import Prover
from rayshot.log.history import RollbackTarget
from rayshot.log.records import EpochRecord
from rayshot.model.options import RAY_OPTIONS
from rayshot.model.specification import ActorSpecification
from rayshot.places.kinds import open_store
from rayshot.protocol.recovery_events import Evicted, Past
from rayshot.runtime.actor.loading import LoadPlan
from rayshot.runtime.actor.plans import make_plans
from rayshot.runtime.coordinator.committer import Committer
from rayshot.runtime.coordinator.evictions import is_held, moment
from rayshot.runtime.coordinator.notifications import holds_of_manifest
from rayshot.runtime.door import notes
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.restored_fit import RestoredFit
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.fallback import find_offer
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot, check_trust


class CannotRollBack(Exception):
    """The snapshot to which a system would go back is gone or unfit; the text says why. `way` is as in Stop."""

    def __init__(self, why: str, way: str = "") -> None:
        super().__init__(why)
        self.way = way


@dataclass(frozen=True)
class Origin:
    """The snapshot from which a life goes on. `storage` is the address of its storage.

    `fitted` says what is loaded of it, and as what.
    """

    snapshot: Snapshot
    storage: str
    fitted: RestoredFit

    @property
    def manifest(self) -> Manifest:
        """That of the snapshot, without the actors that are left out."""
        return self.fitted.of_manifest(self.snapshot.manifest)

    def plans(
        self, options: Mapping[str, Mapping[str, Any]], dead: frozenset[str], programs: Mapping[str, str]
    ) -> dict[str, LoadPlan]:
        """What each actor is loaded from. `options` has what Ray was told when it made an actor.

        A snapshot holds neither strategies that are good for one cluster only, nor values of variables. The drivers
        `dead` are gone for ever. `programs` has the present driver of each program with a name.
        """
        manifest = self.manifest
        told = {name: _told(one, options.get(name)) for name, one in self.fitted.specifications.items()}
        senders = {channel.sender for channel in manifest.channels}
        drivers = frozenset(senders - dead)
        fitted = replace(self.fitted, specifications=told)
        return make_plans(self.storage, self.snapshot.folder, manifest, fitted, drivers, programs)


def _as_recorded(snapshot: Snapshot) -> RestoredFit:
    """All of a snapshot, with the classes that it names or holds. Raises Damaged, StoreError."""
    recorded = {}
    for actor in snapshot.manifest.actors:
        by_value = None if actor.class_pickle is None else snapshot.read(actor.class_pickle)
        named = actor.class_module, actor.class_name
        recorded[actor.name] = ActorSpecification(*named, by_value, actor.methods, actor.options, actor.version)
    return RestoredFit(snapshot.id, recorded, dump_names({}))


def _told(specification: ActorSpecification, options: Mapping[str, Any] | None) -> ActorSpecification:
    """The specification with what Ray was told when it made the actor, if that is known."""
    if options is None:
        return specification
    own = {key: value for key, value in specification.options.items() if key not in RAY_OPTIONS}
    return replace(specification, options={**own, **options})


@dataclass(frozen=True)
class NewLife:
    """A life that a rollback began: its committer, what it goes on from, and all that the log says of rollbacks."""

    committer: Committer
    origin: Origin
    past: Past


def begin_life_behind(
    before: EpochRecord,
    settings: SystemSettings,
    writer: str,
    *,
    actor: str | None,
    detail: str,
    keyring: Keyring,
    needs: Sequence[Evicted] = (),
    fitted: RestoredFit | None = None,
) -> NewLife:
    """Write the record that begins the life behind `before`. Call it again with the same `writer` if it is unclear.

    The snapshot is read first: a life that cannot go on from it, or that would lack anything of `needs`, must not
    begin. `fitted` says how the snapshot from which a person restored the system fits, if it alone does not say it.

    Raises CannotRollBack, and Fenced if another coordinator has the system: then nothing was written. StoreError,
    LogLost, CommitUnknown: it may be written.
    """
    repository = _open(settings, before, keyring)
    failpoint("before_rollback")
    try:
        written, back = None, repository.log.rollback_target()
        while written != back:  # a commit of the old life may come between
            back = written or back
            known = _fit_of(settings.system, back, fitted)
            origin = find_origin(repository, settings.storage, back, keyring, before.incarnation, known)
            _check_holds(origin, needs)
            written = repository.log.roll_back(
                before, writer, began_at=time.time(), actor=actor, detail=detail, expected=back
            )
    except NotFound as error:
        gone = repository.log.history.rollback_target
        way = "" if gone is None else _fallback(repository, settings.storage, gone, keyring)
        raise CannotRollBack(error.message, way) from error
    failpoint("after_rollback")
    history = repository.log.history
    assert history.epoch is not None
    committer = Committer(settings, repository, history.epoch)
    committer.take_keys(keyring)
    if back.origin is None and not origin.snapshot.record.folder:
        committer.build_on(origin.snapshot.manifest)
    return NewLife(committer, origin, history.past)


def _open(settings: SystemSettings, before: EpochRecord, keyring: Keyring) -> Repository:
    """Raises StoreUnavailable for a storage that lacks the life itself: its volume may not be mounted now."""
    try:
        repository = Repository(open_store(settings.storage), settings.system, create=False, keys=keyring.encryption)
        if repository.log.refresh().epoch is not None:
            return repository
    except NotFound:
        pass
    raise StoreUnavailable(
        f"{settings.storage} does not hold life {before.incarnation} of {settings.system!r}: is its volume mounted?"
    )


def _fit_of(system: str, back: RollbackTarget, fitted: RestoredFit | None) -> RestoredFit | None:
    """What `fitted` says of this snapshot. Raises CannotRollBack if only its program could load it."""
    if fitted is not None and fitted.snapshot == back.snapshot:
        return fitted
    if str(back.snapshot) in notes.of_fits(system).all():
        raise CannotRollBack(
            f"it would go back to {back.snapshot}, from which a program restored it with classes of its own, and "
            f"nobody who knew them is left: the coordinator and all vaults died before the next snapshot. Call "
            f"rayshot.resume or rayshot.restore again, with the same rename_classes and skip_missing_classes"
        )
    return None


def _check_holds(origin: Origin, needs: Sequence[Evicted]) -> None:
    """Raise CannotRollBack if a snapshot lacks anything that drivers evicted."""
    holds, snapshot = holds_of_manifest(0, origin.manifest), origin.snapshot
    for evicted in needs:
        if not is_held(evicted, holds):
            raise CannotRollBack(
                f"it cannot go back since {moment(evicted.at)}: snapshots failed, and {evicted.driver} could keep no "
                f"more of what it told behind snapshot {snapshot.id}, taken {moment(snapshot.record.taken_at)}. "
                f"rayshot.resume and rayshot.restore go on from there, and lose what came behind it"
            )


def find_origin(
    repository: Repository, storage: str, back: RollbackTarget, keyring: Keyring, life: int, fitted: RestoredFit | None
) -> Origin:
    """Read and check the snapshot to which the life `life` goes back; without `fitted` it is loaded as recorded.

    Raises CannotRollBack, StoreError.
    """
    keys = _trusted(keyring)
    try:
        if back.origin is None:
            snapshot = repository.snapshot(repository.log.history.retained[back.snapshot])
        else:
            snapshot = open_storage(back.origin).system(repository.system).snapshot(back.snapshot)
        check_trust(snapshot, keys, allow_unsigned=False)
        manifest = snapshot.manifest
        fitted = fitted or _as_recorded(snapshot)
    except StoreError:
        raise
    except RayshotError as error:
        raise CannotRollBack(
            f"the system would go back to {back.snapshot}, which cannot be used: {error}",
            _fallback(repository, storage, back, keyring),
        ) from error
    if FINAL in manifest.stats and manifest.snapshot.incarnation == life:  # not one from which this life was restored
        raise CannotRollBack(f"it was stopped with the savepoint {back.snapshot}")
    return Origin(snapshot, back.origin or storage, fitted)


def find_fallback(origin: Origin, settings: SystemSettings, keyring: Keyring) -> str:
    """What to tell a person of a snapshot that does not load because it is damaged: see `find_offer`."""
    back = RollbackTarget(origin.snapshot.id, None if origin.storage == settings.storage else origin.storage)
    try:
        repository = Repository(open_store(settings.storage), settings.system, create=False, keys=keyring.encryption)
        repository.log.refresh()
    except RayshotError:  # the storage cannot be read, and the person will see why
        return ""
    return _fallback(repository, settings.storage, back, keyring)


def _fallback(repository: Repository, storage: str, back: RollbackTarget, keyring: Keyring) -> str:
    """See `find_offer`."""
    keys = _trusted(keyring)
    if back.origin is None:
        return find_offer(repository.log.history, repository.snapshot, back.snapshot, storage, keys)
    try:
        view = open_storage(back.origin).system(repository.system)
        return find_offer(view.history(), view.open, back.snapshot, back.origin, keys)
    except RayshotError:  # as above
        return ""


def _trusted(keyring: Keyring) -> list[Prover]:
    """The keys of which one must have signed a snapshot: those of the system, and of this machine."""
    keys: list[Prover] = [keyring.signing.public]
    with contextlib.suppress(ConfigError):
        keys += find_trusted_keys()
    return keys
