"""From COMMIT records to their manifests, the proof that they belong together, and the chunks that they need."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rayshot.errors import (
    BadManifest,
    Damaged,
    EncryptionKeyNeeded,
    Incompatible,
    KeyNotFound,
    NotFound,
    SnapshotDeleted,
    SnapshotMismatch,
    Untrusted,
)
from rayshot.format.bounds import ENVELOPE_BYTES_MAX
from rayshot.format.chunks import digest
from rayshot.format.encryption import open_manifest
from rayshot.format.envelope import Envelope, open_envelope
from rayshot.format.manifest import Manifest, decode
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.layout import inside
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId


def read_sealed(
    store: Store, system: str, record: CommitRecord, keys: Sequence[EncryptionKey] | None = None
) -> tuple[Envelope, Manifest]:
    """Read the manifest of a committed snapshot. The caller checks whether a trusted key signed it.

    `keys` decrypt it if it is encrypted; None means the environment's keys.

    Raises:
        EncryptionKeyNeeded: it is encrypted and `keys` does not hold its key.
        SnapshotDeleted: it was deleted meanwhile.
        SnapshotMismatch: the manifest belongs to another system, snapshot or log position, or has another time or label
            than the log.
        BadManifest: it is missing, or not what was committed; also LimitExceeded, InconsistentCut,
            UnsafePath. FormatTooNew, StoreError.
    """
    data = _read(store, system, record)
    if digest(data) != record.manifest_digest:
        _refuse_foreign(data, system, record, keys)
        raise BadManifest(
            f"the manifest of {record.snapshot} was changed after the commit; `rayshot verify` shows "
            f"whether another snapshot is whole",
            key=record.manifest_key,
        )
    envelope = open_envelope(data)
    manifest = decode(*open_manifest(envelope.payload, keys))
    _check_binding(manifest, system, record)
    return envelope, manifest


def _read(store: Store, system: str, record: CommitRecord) -> bytes:
    try:
        return store.read_range(inside(system, record.manifest_key), 0, ENVELOPE_BYTES_MAX + 1)
    except KeyNotFound as error:
        if record.snapshot in CommitLog(store, system).refresh().deleted:
            raise SnapshotDeleted(
                f"the snapshot {record.snapshot} of {system!r} was deleted", snapshot=str(record.snapshot)
            ) from error
        raise BadManifest(
            f"the manifest of {record.snapshot} is missing; `rayshot verify` shows whether another snapshot is whole",
            key=record.manifest_key,
        ) from error


def _refuse_foreign(data: bytes, system: str, record: CommitRecord, keys: Sequence[EncryptionKey] | None) -> None:
    """Raise SnapshotMismatch if the bytes are a valid manifest of something else, which was put in this place."""
    try:
        manifest = decode(*open_manifest(open_envelope(data).payload, keys))
    except (Damaged, Incompatible, EncryptionKeyNeeded):
        return
    _check_binding(manifest, system, record)


def _check_binding(manifest: Manifest, system: str, record: CommitRecord) -> None:
    found = (manifest.system, str(manifest.snapshot), manifest.position)
    expected = (system, str(record.snapshot), record.sealed_for)
    if found != expected:
        raise SnapshotMismatch(
            "a manifest of system {!r}, snapshot {}, position {} ".format(*found)
            + "is in the place of a manifest of system {!r}, snapshot {}, position {}".format(*expected),
            found=found,
            expected=expected,
        )
    said, signed = (record.taken_at, record.label), (manifest.taken_at, manifest.label)
    if said != signed:
        raise SnapshotMismatch(
            "the log says that {} was taken at {}, label {!r}; ".format(record.snapshot, *said)
            + "the manifest says at {}, label {!r}".format(*signed),
            found=said,
            expected=signed,
        )


class _Named(NamedTuple):
    """What a manifest names: chunks by their keys in the folder of chunks, and the roots of outside files."""

    chunks: frozenset[str]
    roots: frozenset[str | None]


class Reachable:
    """Reads manifests of one system. It remembers what they name, because manifests never change.

    `keys` decrypt them; None means the environment's keys. Its methods raise EncryptionKeyNeeded if a key is missing;
    then nothing may be removed.
    """

    def __init__(self, store: Store, system: str, keys: Sequence[EncryptionKey] | None = None) -> None:
        self._encryption_keys = keys
        self._store = store
        self._system = system
        self._named: dict[CommitRecord, _Named] = {}

    def chunks(self, record: CommitRecord) -> frozenset[str] | None:
        """The keys in the system's chunk folder that a snapshot needs; None if its manifest cannot be read.

        A copy has a folder of its own and needs no other objects, so its manifest is not read.
        """
        named = self._read(record)
        return None if named is None else named.chunks

    def roots(self, record: CommitRecord) -> frozenset[str | None]:
        """Below which addresses a snapshot has outside files, None for the storage; empty as far as is not known.

        A copy has them in its own folder.
        """
        named = self._read(record)
        return frozenset() if named is None else named.roots

    def _read(self, record: CommitRecord) -> _Named | None:
        if record.folder:
            return _Named(frozenset(), frozenset())
        known = self._named.get(record)
        if known is None:
            try:
                _, manifest = read_sealed(self._store, self._system, record, self._encryption_keys)
            except (Damaged, Untrusted, NotFound):
                return None
            roots = {actor.outside.root for actor in manifest.actors if actor.outside is not None}
            known = _Named(frozenset(chunk.key for chunk in manifest.chunks), frozenset(roots))
            self._named[record] = known
        return known

    def all_chunks(self, records: Iterable[CommitRecord]) -> tuple[frozenset[str], tuple[SnapshotId, ...]]:
        """The keys that several snapshots need, and the snapshots whose manifests cannot be read."""
        several = tuple(records)
        known = [self.chunks(record) for record in several]
        unreadable = tuple(record.snapshot for record, keys in zip(several, known, strict=True) if keys is None)
        return frozenset[str]().union(*(keys for keys in known if keys is not None)), unreadable

    def forget(self, record: CommitRecord) -> None:
        """Forget a removed snapshot."""
        self._named.pop(record, None)
