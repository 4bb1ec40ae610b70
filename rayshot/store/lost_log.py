"""A commit log that is gone, or lacks records, is told by what was written after them.

A coordinator begins its epoch before it writes anything, and a copy finds a record in the log, or writes one, before
its first chunk. So what lies beside a log that says nothing of it proves that the log is not whole. It would say
"no snapshots", and all that is there would look like garbage: nobody may go by it.
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
    """The key of an object that nobody writes before the first EPOCH; None where there is none."""
    for folder in (manifest_folder(system), intent_folder(system)):
        for entry in store.list(folder):
            if snapshot_of(_name(entry.key)) is not None:
                return entry.key
    return next((entry.key for entry in store.list(chunk_folder(system)) if writer_of(entry.key)), None)


def find_copied(store: Store, system: str) -> str | None:
    """The key of the manifest of a copy, which nobody writes to a log without any record; None where there is none."""
    for folder in store.list(copies_folder(system), shallow=True):
        if folder.key.endswith("/"):
            for entry in store.list(f"{folder.key}manifests"):
                return entry.key
    return None


def log_lost(system: str, what: str, **evidence: object) -> LogLost:
    """The error for a log that is not whole; `what` says what is missing."""
    return LogLost(
        f"the commit log of {system!r} is not whole: {what}. Nothing here is shown, written or deleted before "
        f"the newest backup of {log_folder(system)}/ is back in its place. If nothing of this system is needed any "
        f"more, remove {system}/ by hand",
        system=system,
        **evidence,
    )


def check_logged(
    store: Store, system: str, listed: Sequence[tuple[str, Entry]], history: History, next_position: int
) -> None:
    """Raise LogLost where the log cannot be the one under which these manifests and intents were written.

    Such as that of another system, or an older one. Of what is known to the log nothing is read.

    Args:
        store: where.
        system: whose.
        listed: the objects of the system, each with its folder; the log was read after it was listed.
        history: what the log means.
        next_position: how long it is.
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
    """The position that it was sealed for, one behind a record that was there; None where it cannot be read."""
    with suppress(Damaged, Incompatible, EncryptionKeyNeeded, KeyNotFound):
        envelope = open_envelope(store.read_range(key, 0, ENVELOPE_BYTES_MAX + 1))
        return decode(*open_manifest(envelope.payload, None)).position
    return None


def _name(key: str) -> str:
    return key.rpartition("/")[2]
