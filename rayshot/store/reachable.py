"""What committed snapshots need: the keys of their manifests and chunks."""

from collections.abc import Iterable, Sequence

from rayshot.errors import Damaged, NotFound, Untrusted
from rayshot.format.encryption_key import EncryptionKey
from rayshot.protocol.identity import SnapshotId
from rayshot.store.records import CommitRecord
from rayshot.store.sealed import read_sealed
from rayshot.store.store import Store


class Reachable:
    """Reads manifests of one system, and remembers which chunks they name, since manifests never change.

    `keys` open those that are encrypted; None means those of the environment. What is asked raises EncryptionKeyNeeded
    where it cannot be known without a key: then nothing may be removed.
    """

    def __init__(self, store: Store, system: str, keys: Sequence[EncryptionKey] | None = None) -> None:
        self._encryption_keys = keys
        self._store = store
        self._system = system
        self._chunks: dict[CommitRecord, frozenset[str]] = {}

    def chunks(self, record: CommitRecord) -> frozenset[str] | None:
        """The keys in the system's chunk folder that a snapshot needs; None where that cannot be read.

        A copy needs none of these: all of it lies in a folder of its own. So it is not read.
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
        """The keys of what several snapshots need together, and which of these cannot be read."""
        several = tuple(records)
        known = [self.chunks(record) for record in several]
        unreadable = tuple(record.snapshot for record, keys in zip(several, known, strict=True) if keys is None)
        return frozenset[str]().union(*(keys for keys in known if keys is not None)), unreadable

    def forget(self, record: CommitRecord) -> None:
        """It is gone."""
        self._chunks.pop(record, None)
