"""Which snapshots have outside files at which place, for garbage collection."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from rayshot.errors import ConfigError, StoreError, UnsafePath
from rayshot.log.layout import inside, snapshot_of
from rayshot.places.kinds import open_store
from rayshot.places.store import OUTSIDE, Entry, Store
from rayshot.protocol.identity import SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotFolder:
    """The outside files of one snapshot at one place.

    `entry` stands for all of them: its key is that of the folder, behind the address of a place elsewhere; it has the
    size of all, and the time of the youngest, 0 if no file is seen. `is_ours`: only this system's storage writes
    there. Otherwise a manifest names it, and a storage that somebody copied by hand may write there as well.
    """

    snapshot: SnapshotId
    entry: Entry
    store: Store
    key: str
    is_ours: bool

    def clear(self) -> None:
        """Remove it, whatever is in it."""
        self.store.clear(self.key)


def outside_folders(
    store: Store, system: str, told: str | None, named: Iterable[str | None]
) -> Iterator[SnapshotFolder]:
    """The folders in a storage, below the root that somebody told, and below roots that manifests name.

    Raises ConfigError for a `told` root that cannot be used, StoreError for one that does not answer. What does not
    answer and is only `named` is left out, so that it does not stop the collection of all else.
    """
    yield from _folders(store, system, "", is_ours=True)
    if told is not None:
        yield from _folders(open_store(told), system, f"{told}/", is_ours=True)
    for root in sorted({root for root in named if root is not None and root != told}):
        with suppress(ConfigError, StoreError, UnsafePath):
            yield from list(_folders(open_store(root), system, f"{root}/", is_ours=False))


def _folders(store: Store, system: str, place: str, *, is_ours: bool) -> Iterator[SnapshotFolder]:
    folder = inside(system, OUTSIDE)
    names = {entry.key.removesuffix("/") for entry in store.list(folder, shallow=True) if entry.key.endswith("/")}
    sizes, times = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    if names:
        for entry in store.list(folder):
            key = "/".join(entry.key.split("/")[: folder.count("/") + 2])
            if key in names:
                sizes[key] += entry.size
                times[key] = max(times[key], entry.modified)
    for key in sorted(names):
        if (snapshot := snapshot_of(key.rpartition("/")[2])) is not None and key.endswith(f"/{snapshot}"):
            yield SnapshotFolder(snapshot, Entry(f"{place}{key}", sizes[key], times[key]), store, key, is_ours)
