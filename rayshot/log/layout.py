"""The keys of a system's objects, relative to the root of the store.

<system>/FORMAT                 the format of all other objects
<system>/log/<20 digits>        the commit log, one object for each record
<system>/segments/<20 digits>-<count> copies of many records, for readers of a long log
<system>/manifests/<snapshot>   sealed manifests
<system>/chunks/...             chunks, under the keys that their manifests give
<system>/intents/<snapshot>     which snapshots are being written, and their bases
<system>/outside/<snapshot>/<actor>/... files that hooks of actors wrote for a snapshot; or below another root
<system>/copies/<snapshot>.<n>/ manifest, chunks and outside files of a copied snapshot, n-th attempt
<system>/leases/...             which snapshots readers need
<system>/heartbeats/...         which life of the system runs
<system>/aborts/<snapshot>      why a snapshot was aborted
<system>/pins/<life>-<snapshot> the pinned snapshot under which a life began
<system>/gc/...                 marks of garbage collection, and its objects for the store's clock
"""

import re

from rayshot.errors import ConfigError
from rayshot.protocol.identity import SnapshotId, initiator_of

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
    """The key of the record at `position`. Keys sort like positions."""
    return f"{log_folder(system)}/{position:0{POSITION_DIGITS}}"


def segment_folder(system: str) -> str:
    """The folder of the segments of the commit log."""
    return f"{system}/segments"


def segment_key(system: str, first: int, count: int) -> str:
    """The key of the segment with `count` records from position `first` on."""
    return f"{segment_folder(system)}/{first:0{POSITION_DIGITS}}-{count}"


def manifest_folder(system: str) -> str:
    """The folder of the manifests."""
    return f"{system}/manifests"


def manifest_name(snapshot: SnapshotId, resealed_for: int | None = None) -> str:
    """The key of a manifest as a COMMIT record names it: relative to the system's folder.

    `resealed_for` is the position for which it was sealed again, after another record took the first one.
    """
    return f"manifests/{snapshot}" if resealed_for is None else f"manifests/{snapshot}.{resealed_for}"


def snapshot_of(name: str) -> SnapshotId | None:
    """The snapshot in the name of an intent, a manifest (resealed or not) or a copy's folder, or None."""
    match = _NUMBERED.fullmatch(name)
    try:
        return SnapshotId.parse(name if match is None else match[1])
    except ConfigError:
        return None


def writer_of(chunk: str) -> str:
    """The intent that wrote a chunk, from its key; empty for an object that is not a chunk."""
    return chunk.rpartition("/")[2][_DIGEST_DIGITS + 1 :]


def copy_folder(snapshot: SnapshotId, attempt: int) -> str:
    """The folder of a copied snapshot, relative to the system's folder. Its layout is that of a system."""
    return f"copies/{snapshot}.{attempt}"


def outside_folder(snapshot: SnapshotId) -> str:
    """The folder of what hooks wrote for a snapshot, relative to the folder of the system or of the copied snapshot.

    The folder of the system is in the storage of the snapshot, or below the root that the manifest names.
    """
    return f"outside/{snapshot}"


def actor_folder(name: str) -> str:
    """The folder of an actor's files in `outside_folder`; no two actors have the same."""
    return initiator_of(name)


def manifest_key(system: str, snapshot: SnapshotId) -> str:
    """The key of a manifest."""
    return f"{system}/{manifest_name(snapshot)}"


def intent_folder(system: str) -> str:
    """The folder of the intents."""
    return f"{system}/intents"


def chunk_folder(system: str) -> str:
    """The folder of the chunks."""
    return f"{system}/chunks"


def copies_folder(system: str) -> str:
    """The folder of all copied snapshots."""
    return f"{system}/copies"


def inside(folder: str, key: str) -> str:
    """The key of an object in a folder: the folder of a system or of a copied snapshot."""
    return f"{folder}/{key}"
