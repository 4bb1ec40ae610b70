"""Finds out that a commit log is gone or lacks records, by objects that were written after them.

A coordinator begins its epoch before it writes anything. A copy finds a record in the log, or writes one, before its
first chunk. So an object that the log does not explain proves that the log is not whole. Such a log would say "no
snapshots", and all objects would look like garbage: no program may rely on it.
"""

from collections.abc import Sequence
from contextlib import suppress

from rayshot.errors import Damaged, EncryptionKeyNeeded, Incompatible, KeyNotFound, LogLost
from rayshot.format.bounds import ENVELOPE_BYTES_MAX
from rayshot.format.encryption import open_manifest
from rayshot.format.manifest import decode
from rayshot.format.signing import open_envelope
from rayshot.protocol.identity import SnapshotId
from rayshot.store.history import History
from rayshot.store.intents import read_intent
from rayshot.store.layout import (
    chunk_folder,
    copies_folder,
    intent_folder,
    log_folder,
    manifest_folder,
    snapshot_of,
    writer_of,
)
from rayshot.store.store import Entry, Store


def find_written(store: Store, system: str) -> str | None:
    """The key of an object that can only be written after the first EPOCH, or None."""
    for folder in (manifest_folder(system), intent_folder(system)):
        for entry in store.list(folder):
            if snapshot_of(_name(entry.key)) is not None:
                return entry.key
    return next((entry.key for entry in store.list(chunk_folder(system)) if writer_of(entry.key)), None)


def find_copied(store: Store, system: str) -> str | None:
    """The key of a copy's manifest, which can only be written after the first record, or None."""
    for folder in store.list(copies_folder(system), shallow=True):
        if folder.key.endswith("/"):
            for entry in store.list(f"{folder.key}manifests"):
                return entry.key
    return None


def log_lost(system: str, what: str, *, mend: str = "", **evidence: object) -> LogLost:
    """The error for a log that is not whole. `what` names the missing part, `mend` another way out."""
    other_way = f" {mend}." if mend else ""
    return LogLost(
        f"the commit log of {system!r} is incomplete: {what}. No command shows, writes or deletes anything here before "
        f"you put the newest backup of {log_folder(system)}/ back.{other_way} If you need nothing of this system any "
        f"more, remove {system}/ by hand",
        system=system,
        **evidence,
    )


def check_logged(
    store: Store, system: str, listed: Sequence[tuple[str, Entry]], history: History, next_position: int
) -> None:
    """Raise LogLost if these manifests and intents cannot have been written under this log.

    It may be the log of another system, or an older one. Objects that the log explains are not read.

    Args:
        store: the storage of the system.
        system: the name of the system.
        listed: the objects of the system, each with its folder; the log was read after it was listed.
        history: the meaning of the log.
        next_position: the length of the log.
    """
    ended = history.ended()
    for wanted in ("intents", "manifests"):
        for key in (entry.key for folder, entry in listed if folder == wanted):
            snapshot = snapshot_of(_name(key))
            if snapshot is None or snapshot in ended:
                continue
            if snapshot.incarnation > history.incarnation:
                raise log_lost(system, f"it has no EPOCH of life {snapshot.incarnation}, and {key} is of that", key=key)
            if wanted == "manifests":
                position = _position_of_manifest(store, key)
                if position is not None and position > next_position:
                    raise log_lost(system, f"record {position - 1} is missing, and {key} was written after it", key=key)
            else:
                writer = _writer_of_intent(store, system, snapshot)
                if writer is not None and not history.knows(writer):
                    raise log_lost(system, f"it has no EPOCH of {writer}, who wrote {key}", key=key)


def _writer_of_intent(store: Store, system: str, snapshot: SnapshotId) -> str | None:
    with suppress(Damaged):  # it proves nothing
        intent = read_intent(store, system, snapshot, announced_at=0.0)
        return None if intent is None else intent.writer
    return None


def _position_of_manifest(store: Store, key: str) -> int | None:
    """The position that the manifest was sealed for, behind an existing record; None if it cannot be read."""
    with suppress(Damaged, Incompatible, EncryptionKeyNeeded, KeyNotFound):
        envelope = open_envelope(store.read_range(key, 0, ENVELOPE_BYTES_MAX + 1))
        return decode(*open_manifest(envelope.payload, None)).position
    return None


def _name(key: str) -> str:
    return key.rpartition("/")[2]
