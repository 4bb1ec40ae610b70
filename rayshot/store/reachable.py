"""The objects that committed snapshots need: the keys of their manifests and chunks."""

from collections.abc import Iterable, Sequence

from rayshot.errors import Damaged, NotFound, Untrusted
from rayshot.format.encryption_key import EncryptionKey
from rayshot.protocol.identity import SnapshotId
from rayshot.store.records import CommitRecord
from rayshot.store.sealed import read_sealed
from rayshot.store.store import Store


class Reachable:
    """Reads manifests of one system. It remembers their chunks, because manifests never change.

    `keys` decrypt them; None means the environment's keys. Its methods raise EncryptionKeyNeeded if a key is missing;
    then nothing may be removed.
    """

    def __init__(self, store: Store, system: str, keys: Sequence[EncryptionKey] | None = None) -> None:
        self._encryption_keys = keys
        self._store = store
        self._system = system
        self._chunks: dict[CommitRecord, frozenset[str]] = {}

    def chunks(self, record: CommitRecord) -> frozenset[str] | None:
        """The keys in the system's chunk folder that a snapshot needs; None if its manifest cannot be read.

        A copy has a folder of its own and needs no other objects, so its manifest is not read.
        """
        if record.folder:
            return frozenset()
        known = self._chunks.get(record)
        if known is None:
            try:
                _, manifest = read_sealed(self._store, self._system, record, self._encryption_keys)
            except (Damaged, Untrusted, NotFound):
                return None
            known = frozenset(chunk.key for chunk in manifest.chunks)
            self._chunks[record] = known
        return known

    def all_chunks(self, records: Iterable[CommitRecord]) -> tuple[frozenset[str], tuple[SnapshotId, ...]]:
        """The keys that several snapshots need, and the snapshots whose manifests cannot be read."""
        several = tuple(records)
        known = [self.chunks(record) for record in several]
        unreadable = tuple(record.snapshot for record, keys in zip(several, known, strict=True) if keys is None)
        return frozenset[str]().union(*(keys for keys in known if keys is not None)), unreadable

    def forget(self, record: CommitRecord) -> None:
        """Forget a removed snapshot."""
        self._chunks.pop(record, None)
