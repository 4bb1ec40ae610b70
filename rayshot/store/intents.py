"""Intents: they say which snapshots are being written, and on which committed snapshot each is based.

A writer writes the intent before all other parts of its snapshot. The intent names the *base*: the retained snapshot
whose chunks may be reused. As long as the intent is open, the base's bytes stay, even if the base is deleted. The
intent also says how long its snapshot may take, so that garbage collection does not expire it earlier.
"""

from typing import NamedTuple

from rayshot.errors import BadManifest, KeyNotFound
from rayshot.format import canonical
from rayshot.format.bounds import check_count, check_initiator, check_real, check_text
from rayshot.protocol.identity import SnapshotId
from rayshot.store.history import History
from rayshot.store.layout import intent_folder, intent_key, snapshot_of
from rayshot.store.once import create_once
from rayshot.store.store import Store

INTENT_FORMAT = 1
INTENT_BYTES_MAX = 4096


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
    tree = {
        "format": INTENT_FORMAT,
        "writer": writer,
        "base": None if base is None else list(base),
        "timeout_s": float(timeout_s),
    }
    create_once(store, intent_key(system, snapshot), canonical.pack(tree))


def open_intents(store: Store, system: str, history: History) -> dict[SnapshotId, Intent]:
    """The announced snapshots that may still be committed. Read the log into `history` before.

    The intents of a superseded coordinator are not open. A writer that `history` does not know may have begun its epoch
    since, so its intents are open. Raises BadManifest for an intent that cannot be read.
    """
    found = {}
    for entry in store.list(intent_folder(system)):
        snapshot = snapshot_of(entry.key.rpartition("/")[2])
        if snapshot is None:
            continue  # an object that is not an intent
        if history.is_over(snapshot) or snapshot.incarnation < history.incarnation:
            continue
        intent = read_intent(store, system, snapshot, entry.modified)
        if intent is not None and not history.is_superseded(intent.writer):
            found[snapshot] = intent
    return found


def leased_bases(store: Store, system: str, history: History) -> set[SnapshotId]:
    """The bases of open intents. Raises as `open_intents`."""
    return {intent.base for intent in open_intents(store, system, history).values() if intent.base is not None}


def read_intent(store: Store, system: str, snapshot: SnapshotId, announced_at: float) -> Intent | None:
    """The intent of `snapshot`; None if it was given up. Raises BadManifest if it cannot be read."""
    what = f"the intent of {snapshot}"
    try:
        data = store.read_range(intent_key(system, snapshot), 0, INTENT_BYTES_MAX + 1)
    except KeyNotFound:
        return None  # given up between the listing and now
    match canonical.unpack(data, what=what, bytes_max=INTENT_BYTES_MAX):
        case {"format": 1, "writer": writer, "base": base, "timeout_s": timeout_s}:
            return Intent(
                check_text(writer, f"the writer in {what}"),
                None if base is None else _base(base, what),
                check_real(timeout_s, f"timeout_s in {what}"),
                announced_at,
            )
        case _:
            raise BadManifest(f"{what} was not written by rayshot, or is damaged")


def _base(tree: object, what: str) -> SnapshotId:
    match tree:
        case [incarnation, initiator, counter]:
            return SnapshotId(
                check_count(incarnation, f"the incarnation in {what}", smallest=1),
                check_initiator(initiator),
                check_count(counter, f"the counter in {what}", smallest=1),
            )
        case _:
            raise BadManifest(f"{what} has a base that is not the id of a snapshot")
