"""Intents: they say which snapshots are being written, and on which committed snapshot each is based.

A writer writes the intent before all other parts of its snapshot. The intent names the *base*: the retained snapshot
whose chunks may be reused. As long as the intent is open, the base's bytes stay, even if the base is deleted. The
intent also says how long its snapshot may take, so that garbage collection does not expire it earlier.
"""

from typing import Any, NamedTuple

from rayshot.format.bounds import check_real, check_text
from rayshot.log.history import History
from rayshot.log.layout import chunk_folder, inside, manifest_key, snapshot_of, writer_of
from rayshot.log.marks import Kind, Marks
from rayshot.log.records import check_snapshot
from rayshot.places.store import Entry, Store
from rayshot.protocol.identity import SnapshotId


def _check_base(value: Any, what: str) -> SnapshotId | None:
    return None if value is None else check_snapshot(value, what)


INTENT = Kind("intent", "intents", {"writer": check_text, "base": _check_base, "timeout_s": check_real})


class Intent(NamedTuple):
    """Who announced a snapshot, its base, and how many seconds it may take (0: unknown).

    `announced_at` is the time of the announcement by the store's clock, in Unix seconds.
    """

    writer: str
    base: SnapshotId | None
    timeout_s: float
    announced_at: float


def write_intent(
    store: Store, system: str, snapshot: SnapshotId, writer: str, base: SnapshotId | None, timeout_s: float
) -> None:
    """Announce `snapshot`. Raises AlreadyExists if it has another intent, StoreFull and StoreUnavailable."""
    stored = None if base is None else list(base)
    Marks(store, system, INTENT).write(str(snapshot), writer=writer, base=stored, timeout_s=float(timeout_s))


def open_intents(store: Store, system: str, history: History) -> dict[SnapshotId, Intent]:
    """The announced snapshots that may still be committed. Read the log into `history` before.

    The intents of a superseded coordinator are not open. A writer that `history` does not know may have begun its epoch
    since, so its intents are open. Raises BadManifest for an intent that cannot be read.
    """
    found = {}
    for entry in Marks(store, system, INTENT).listed():
        snapshot = snapshot_of(entry.key.rpartition("/")[2])
        if snapshot is None:
            continue  # an object that is not an intent
        if history.is_over(snapshot) or snapshot.incarnation < history.incarnation:
            continue
        intent = read_intent(store, system, entry)
        if intent is not None and not history.is_superseded(intent.writer):
            found[snapshot] = intent
    return found


def leased_bases(store: Store, system: str, history: History) -> set[SnapshotId]:
    """The bases of open intents. Raises as `open_intents`."""
    return {intent.base for intent in open_intents(store, system, history).values() if intent.base is not None}


def read_intent(store: Store, system: str, entry: Entry) -> Intent | None:
    """A listed intent; None if it was given up since. Raises BadManifest if it cannot be read."""
    mark = Marks(store, system, INTENT).read(entry)
    return None if mark is None else Intent(**mark.said, announced_at=mark.written_at)


def written_under(store: Store, system: str, snapshot: SnapshotId) -> list[str]:
    """The keys of the chunks that were written under the intent of `snapshot`, relative to the system."""
    keys = (entry.key.removeprefix(f"{system}/") for entry in store.list(chunk_folder(system)))
    return [key for key in keys if writer_of(key) == str(snapshot)]


def remove_uncommitted(store: Store, system: str, snapshot: SnapshotId) -> None:
    """Remove all that was written under the intent of a snapshot that no COMMIT names, the intent last."""
    for key in written_under(store, system, snapshot):
        store.delete(inside(system, key))
    store.delete(manifest_key(system, snapshot))
    remove_intent(store, system, snapshot)


def remove_intent(store: Store, system: str, snapshot: SnapshotId) -> None:
    """Remove an intent. It is not an error if there is none."""
    Marks(store, system, INTENT).remove(str(snapshot))
