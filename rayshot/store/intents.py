"""Intents: which snapshots are being written, and which committed one each leans on.

An intent is written before anything else of its snapshot. It names the *base*: the retained snapshot whose
chunks may be reused. As long as the intent is open, the base's bytes stay, whatever becomes of the base
itself.
"""

from collections.abc import Iterator
from typing import NamedTuple

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


class Intent(NamedTuple):
    """Who announced a snapshot, and which one it leans on."""

    writer: str
    base: SnapshotId | None


def write_intent(store: Store, system: str, snapshot: SnapshotId, writer: str, base: SnapshotId | None) -> None:
    """Announce `snapshot`; raises AlreadyExists where another intent has its name, StoreFull, StoreUnavailable."""
    tree = {"format": INTENT_FORMAT, "writer": writer, "base": None if base is None else list(base)}
    create_once(store, intent_key(system, snapshot), canonical.pack(tree))


def leased_bases(store: Store, system: str, history: History) -> set[SnapshotId]:
    """The snapshots that open intents lean on. Raises BadManifest for an intent that cannot be read.

    Intents of earlier coordinators do not count: what they announced can never be committed.
    """
    writer = None if history.epoch is None else history.epoch.writer
    intents = [_read_intent(store, system, snapshot) for snapshot in _not_ended(store, system, history)]
    return {intent.base for intent in intents if intent.base is not None and intent.writer == writer}


def _not_ended(store: Store, system: str, history: History) -> Iterator[SnapshotId]:
    """Snapshots that were announced in the present life and neither committed nor given up."""
    for entry in store.list(intent_folder(system)):
        try:
            snapshot = SnapshotId.parse(entry.key.rpartition("/")[2])
        except ConfigError:
            continue  # an object that is no intent
        ended = snapshot in history.retained or snapshot in history.deleted
        if snapshot.incarnation == history.incarnation and not ended:
            yield snapshot


def _read_intent(store: Store, system: str, snapshot: SnapshotId) -> Intent:
    what = f"the intent of {snapshot}"
    try:
        data = store.read_range(intent_key(system, snapshot), 0, INTENT_BYTES_MAX + 1)
    except KeyNotFound:
        return Intent("", None)  # given up between the listing and now
    match canonical.unpack(data, what=what, bytes_max=INTENT_BYTES_MAX):
        case {"format": 1, "writer": str(writer), "base": None}:
            return Intent(writer, None)
        case {"format": 1, "writer": str(writer), "base": [incarnation, initiator, counter]}:
            base = SnapshotId(
                check_count(incarnation, f"the incarnation in {what}", smallest=1),
                check_process_name(initiator, "an initiator"),
                check_count(counter, f"the counter in {what}", smallest=1),
            )
            return Intent(writer, base)
        case _:
            raise BadManifest(f"{what} is not what rayshot writes")
