"""Notes of aborted snapshots, for people who look at a history. No commit and no restore depends on them.

Each note is a separate object, `<system>/aborts/<snapshot>`. The coordinator writes it when the snapshot is over; if
the coordinator dies before, there is no note. Writing a note removes the oldest ones: NOTES_KEPT stay. An encrypted
system encrypts its notes as it does manifests, each with its own data key. Notes are not signed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from rayshot.errors import AlreadyExists, BadManifest, Damaged, EncryptionKeyNeeded, FormatTooNew, KeyNotFound
from rayshot.format.bounds import check_count, check_process, check_real, check_text, check_time
from rayshot.format.encryption import encrypt_manifest, open_manifest
from rayshot.keys.encryption import EncryptionKey, new_data_key
from rayshot.log.layout import snapshot_of
from rayshot.log.marks import Kind
from rayshot.log.records import check_snapshot
from rayshot.places.store import Entry, Store
from rayshot.protocol.identity import Channel, SnapshotId

NOTES_KEPT = 100
NOTE_BYTES_MAX = 256 << 10
NAMES_MAX = 100
"""A note names at most this many processes and this many channels, and counts the rest."""
DETAIL_LENGTH_MAX = 4_000


@dataclass(frozen=True, slots=True)
class AbortNote:
    """Why `snapshot` was aborted.

    `began_at` counts Unix seconds by the coordinator's clock; `seconds` is the time until the abort. `mode` is the
    snapshot's mode, `trigger` says who asked for it. `reason` is the value of an AbortReason, `detail` a sentence.
    `missing` names the processes that had not recorded and `open_channels` the open channels, at most NAMES_MAX of
    each; `missing_count` and `open_count` count all.
    """

    snapshot: SnapshotId
    began_at: float
    seconds: float
    mode: str
    trigger: str
    reason: str
    detail: str
    missing: tuple[str, ...]
    missing_count: int
    open_channels: tuple[Channel, ...]
    open_count: int


class Aborts(NamedTuple):
    """The readable notes, oldest first, and the number of unreadable ones: damaged, or no key for them is here."""

    notes: tuple[AbortNote, ...]
    unreadable: int


def write_abort(store: Store, system: str, note: AbortNote, key: EncryptionKey | None) -> None:
    """Write a note, encrypted with `key` if given, and remove the oldest above NOTES_KEPT. Raises StoreError."""
    tree = asdict(note)
    tree["snapshot"] = list(note.snapshot)
    tree["detail"] = note.detail[:DETAIL_LENGTH_MAX] or note.reason
    tree["missing"] = list(note.missing[:NAMES_MAX])
    tree["open_channels"] = [list(channel) for channel in note.open_channels[:NAMES_MAX]]
    document = NOTE.encode(tree)
    data = document if key is None else encrypt_manifest(document, (new_data_key(),), key)
    try:
        store.create(f"{system}/{NOTE.folder}/{note.snapshot}", data)
    except AlreadyExists:
        return  # an earlier coordinator wrote it
    for entry in _entries(store, system)[:-NOTES_KEPT]:
        store.delete(entry.key)


def read_aborts(store: Store, system: str, keys: Sequence[EncryptionKey] | None = None) -> Aborts:
    """All notes of a system. `keys` decrypt them; None means the environment's keys. Raises StoreError."""
    notes, unreadable = [], 0
    for entry in _entries(store, system):
        try:
            data = store.read_range(entry.key, 0, NOTE_BYTES_MAX + 1)
            note = AbortNote(**NOTE.decode(open_manifest(data, keys)[0], entry.key))
        except KeyNotFound:
            continue  # it was the oldest
        except (Damaged, FormatTooNew, EncryptionKeyNeeded):
            unreadable += 1
            continue
        if note.snapshot == snapshot_of(entry.key.rpartition("/")[2]):
            notes.append(note)
        else:
            unreadable += 1
    return Aborts(tuple(notes), unreadable)


def _entries(store: Store, system: str) -> list[Entry]:
    """The entries of all notes, oldest first."""
    named = [(snapshot_of(entry.key.rpartition("/")[2]), entry) for entry in store.list(f"{system}/{NOTE.folder}")]
    dated = [(snapshot.incarnation, entry.modified, entry.key, entry) for snapshot, entry in named if snapshot]
    return [entry for *_, entry in sorted(dated, key=lambda one: one[:3])]


def _check_names(value: Any, what: str) -> tuple[str, ...]:
    return tuple(check_process(one, what) for one in _check_list(value, what))


def _check_channels(value: Any, what: str) -> tuple[Channel, ...]:
    pairs = [_check_list(one, what) for one in _check_list(value, what)]
    if any(len(pair) != len(Channel._fields) for pair in pairs):
        raise BadManifest(f"{what} are not channels")
    return tuple(Channel(*_check_names(pair, what)) for pair in pairs)


def _check_list(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise BadManifest(f"{what} is not a list")
    return value


NOTE = Kind(
    "note",
    "aborts",
    {
        "snapshot": check_snapshot,
        "began_at": check_time,
        "seconds": check_real,
        "mode": check_text,
        "trigger": check_text,
        "reason": check_text,
        "detail": partial(check_text, largest=DETAIL_LENGTH_MAX),
        "missing": _check_names,
        "missing_count": check_count,
        "open_channels": _check_channels,
        "open_count": check_count,
    },
    NOTE_BYTES_MAX,
)
