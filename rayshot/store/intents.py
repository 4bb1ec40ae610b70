"""Intents: which snapshots are being written, and which committed one each leans on.

An intent is written before anything else of its snapshot. It names the *base*: the retained snapshot whose
chunks may be reused. As long as the intent is open, the base's bytes stay, whatever becomes of the base
itself.
"""

from collections.abc import Iterator

from rayshot.errors import BadManifest, ConfigError, KeyNotFound
from rayshot.format import canonical
from rayshot.format.bounds import check_count, check_process_name
from rayshot.protocol.identity import SnapshotId
from rayshot.store.history import History
from rayshot.store.layout import intent_folder, intent_key
from rayshot.store.once import create_once
from rayshot.store.store import Store

INTENT_FORMAT = 1
INTENT_BYTES_MAX = 4096


def write_intent(store: Store, system: str, snapshot: SnapshotId, base: SnapshotId | None) -> None:
    """Announce `snapshot`; raises AlreadyExists where another intent has its name, StoreFull, StoreUnavailable."""
    tree = {"format": INTENT_FORMAT, "base": None if base is None else list(base)}
    create_once(store, intent_key(system, snapshot), canonical.pack(tree))


def leased_bases(store: Store, system: str, history: History) -> set[SnapshotId]:
    """The snapshots that open intents lean on. Raises BadManifest for an intent that cannot be read."""
    bases = {_read_base(store, system, snapshot) for snapshot in _open_intents(store, system, history)}
    return {base for base in bases if base is not None}


def _open_intents(store: Store, system: str, history: History) -> Iterator[SnapshotId]:
    """Snapshots announced in the present life and not ended; those of earlier lives can never be committed."""
    for entry in store.list(intent_folder(system)):
        try:
            snapshot = SnapshotId.parse(entry.key.rpartition("/")[2])
        except ConfigError:
            continue  # an object that is no intent
        ended = snapshot in history.retained or snapshot in history.deleted
        if snapshot.incarnation == history.incarnation and not ended:
            yield snapshot


def _read_base(store: Store, system: str, snapshot: SnapshotId) -> SnapshotId | None:
    what = f"the intent of {snapshot}"
    try:
        data = store.read_range(intent_key(system, snapshot), 0, INTENT_BYTES_MAX + 1)
    except KeyNotFound:
        return None  # given up between the listing and now
    match canonical.unpack(data, what=what, bytes_max=INTENT_BYTES_MAX):
        case {"format": 1, "base": None}:
            return None
        case {"format": 1, "base": [incarnation, initiator, counter]}:
            return SnapshotId(
                check_count(incarnation, f"the incarnation in {what}", smallest=1),
                check_process_name(initiator, "an initiator"),
                check_count(counter, f"the counter in {what}", smallest=1),
            )
        case _:
            raise BadManifest(f"{what} is not what rayshot writes")
