"""Notes of aborted snapshots, for people who look at a history. No commit and no restore depends on them.

Each note is a separate object, `<system>/aborts/<snapshot>`. The coordinator writes it when the snapshot is over; if
the coordinator dies before, there is no note. Writing a note removes the oldest ones: NOTES_KEPT stay. An encrypted
system encrypts its notes as it does manifests, each with its own data key. Notes are not signed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from rayshot.errors import AlreadyExists, BadManifest, Damaged, EncryptionKeyNeeded, FormatTooNew, KeyNotFound
from rayshot.format import canonical
from rayshot.format.bounds import check_count, check_process, check_real, check_text, check_time
from rayshot.format.encryption import encrypt_manifest, open_manifest
from rayshot.format.encryption_key import EncryptionKey, new_data_key
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.store.layout import abort_folder, snapshot_of
from rayshot.store.store import Entry, Store

NOTE_FORMAT = 1
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
    tree = {"format": NOTE_FORMAT, **asdict(note)}
    tree["snapshot"] = list(note.snapshot)
    tree["detail"] = note.detail[:DETAIL_LENGTH_MAX] or note.reason
    tree["missing"] = list(note.missing[:NAMES_MAX])
    tree["open_channels"] = [list(channel) for channel in note.open_channels[:NAMES_MAX]]
    document = canonical.pack(tree)
    data = document if key is None else encrypt_manifest(document, (new_data_key(),), key)
    try:
        store.create(f"{abort_folder(system)}/{note.snapshot}", data)
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
            notes.append(_decode(open_manifest(data, keys)[0], entry.key))
        except KeyNotFound:
            continue  # it was the oldest
        except (Damaged, FormatTooNew, EncryptionKeyNeeded):
            unreadable += 1
    return Aborts(tuple(notes), unreadable)


def _entries(store: Store, system: str) -> list[Entry]:
    """The entries of all notes, oldest first."""
    named = [(snapshot_of(entry.key.rpartition("/")[2]), entry) for entry in store.list(abort_folder(system))]
    dated = [(snapshot.incarnation, entry.modified, entry.key, entry) for snapshot, entry in named if snapshot]
    return [entry for *_, entry in sorted(dated, key=lambda one: one[:3])]


def _decode(document: bytes, key: str) -> AbortNote:
    what = f"the note {key}"
    tree = canonical.unpack(document, what=what, bytes_max=NOTE_BYTES_MAX)
    if type(tree) is not dict:
        raise BadManifest(f"{what} is not a map")
    version = check_count(tree.pop("format", None), f"the format of {what}", smallest=1)
    if version > NOTE_FORMAT:
        raise FormatTooNew(
            f"{what} has format {version} and this rayshot reads up to {NOTE_FORMAT}: install a newer one "
            "(pip install --upgrade rayshot)"
        )
    if tuple(tree) != tuple(field.name for field in fields(AbortNote)):
        raise BadManifest(f"{what} does not have the fields of its format")
    note = AbortNote(**{name: _check(name, value, what) for name, value in tree.items()})
    if note.snapshot != snapshot_of(key.rpartition("/")[2]):
        raise BadManifest(f"{what} is about another snapshot")
    return note


def _check(name: str, value: Any, what: str) -> Any:
    described = f"{name} in {what}"
    match name, value:
        case "snapshot", [incarnation, str(initiator), counter]:
            return SnapshotId(check_count(incarnation, described), initiator, check_count(counter, described))
        case "began_at", _:
            return check_time(value, described)
        case "seconds", _:
            return check_real(value, described)
        case "missing_count" | "open_count", _:
            return check_count(value, described)
        case "missing", list():
            return tuple(check_process(one, described) for one in value)
        case "open_channels", list():
            return tuple(_check_channel(one, described) for one in value)
        case "detail", _:
            return check_text(value, described, DETAIL_LENGTH_MAX)
        case _:
            return check_text(value, described)


def _check_channel(value: Any, what: str) -> Channel:
    match value:
        case [sender, receiver]:
            return Channel(check_process(sender, what), check_process(receiver, what))
        case _:
            raise BadManifest(f"{what} is not a channel")
