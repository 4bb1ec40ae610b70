"""Where things lie: the keys of a system's objects, counted from the root of the store.

<system>/FORMAT                 what the rest is written in
<system>/log/<20 digits>        the commit log, one object for each record
<system>/manifests/<snapshot>   sealed manifests
<system>/chunks/...             chunks, under the keys that their manifests give
<system>/intents/<snapshot>     which snapshots are being written, and what they lean on
<system>/copies/<snapshot>.<n>/ manifests and chunks of a snapshot that was copied here, n-th attempt
<system>/leases/...             which snapshots somebody reads
<system>/heartbeats/...         which life of the system runs
<system>/aborts/<snapshot>      why that snapshot was aborted
<system>/pins/<life>-<snapshot> to which snapshot that life was told to go back
<system>/gc/...                 what garbage collection has found unreachable, and its looks at the store's clock
"""

import re

from rayshot.errors import ConfigError
from rayshot.protocol.identity import SnapshotId

POSITION_DIGITS = 20
_DIGEST_DIGITS = 64
_NUMBERED = re.compile(r"(.+-\d+)\.\d+")


def format_key(system: str) -> str:
    """The object that makes a folder a system."""
    return f"{system}/FORMAT"


def log_folder(system: str) -> str:
    """The folder of the commit log."""
    return f"{system}/log"


def log_key(system: str, position: int) -> str:
    """The record at `position`; keys sort like positions."""
    return f"{log_folder(system)}/{position:0{POSITION_DIGITS}}"


def manifest_folder(system: str) -> str:
    """The folder of the manifests."""
    return f"{system}/manifests"


def manifest_name(snapshot: SnapshotId, resealed_for: int | None = None) -> str:
    """The key of a manifest as a COMMIT record names it: relative to the system's folder.

    `resealed_for` is the position for which it was sealed again, after another record had got the first one.
    """
    return f"manifests/{snapshot}" if resealed_for is None else f"manifests/{snapshot}.{resealed_for}"


def snapshot_of(name: str) -> SnapshotId | None:
    """The snapshot that the name of an intent, a manifest (resealed or not) or a copy's folder tells; None: of none."""
    match = _NUMBERED.fullmatch(name)
    try:
        return SnapshotId.parse(name if match is None else match[1])
    except ConfigError:
        return None


def writer_of(chunk: str) -> str:
    """The intent under which a chunk was written, by its key; empty for an object that is not a chunk."""
    return chunk.rpartition("/")[2][_DIGEST_DIGITS + 1 :]


def copy_folder(snapshot: SnapshotId, attempt: int) -> str:
    """Where a copied snapshot lies, relative to the system's folder: in itself laid out like a system."""
    return f"copies/{snapshot}.{attempt}"


def manifest_key(system: str, snapshot: SnapshotId) -> str:
    """The key of a manifest."""
    return f"{system}/{manifest_name(snapshot)}"


def intent_folder(system: str) -> str:
    """The folder of the intents."""
    return f"{system}/intents"


def intent_key(system: str, snapshot: SnapshotId) -> str:
    """The key of an intent."""
    return f"{intent_folder(system)}/{snapshot}"


def chunk_folder(system: str) -> str:
    """The folder of the chunks."""
    return f"{system}/chunks"


def copies_folder(system: str) -> str:
    """The folder of all copied snapshots."""
    return f"{system}/copies"


def lease_folder(system: str) -> str:
    """The folder of the leases of readers."""
    return f"{system}/leases"


def heartbeat_folder(system: str) -> str:
    """The folder of the heartbeats."""
    return f"{system}/heartbeats"


def abort_folder(system: str) -> str:
    """The folder of the notes of aborted snapshots."""
    return f"{system}/aborts"


def pin_folder(system: str) -> str:
    """The folder of the pins under which lives began."""
    return f"{system}/pins"


def gc_folder(system: str) -> str:
    """The folder of garbage collection."""
    return f"{system}/gc"


def inside(folder: str, key: str) -> str:
    """The key of what is named relative to a folder: a system's, or that of a copied snapshot."""
    return f"{folder}/{key}"
