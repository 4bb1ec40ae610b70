"""Finds out that a commit log is gone or lacks records, by objects that were written after them.

A coordinator begins its epoch before it writes anything. A copy finds a record in the log, or writes one, before its
first chunk. So an object that the log does not explain proves that the log is not whole. Such a log would say "no
snapshots", and all objects would look like garbage: no program may rely on it.
"""

from rayshot.errors import LogLost
from rayshot.log.layout import (
    chunk_folder,
    copies_folder,
    intent_folder,
    log_folder,
    manifest_folder,
    snapshot_of,
    writer_of,
)
from rayshot.places.store import Store


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


def _name(key: str) -> str:
    return key.rpartition("/")[2]
