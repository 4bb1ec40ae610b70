"""Where things lie: the keys of a system's objects, counted from the root of the store.

<system>/FORMAT                 what the rest is written in
<system>/log/<20 digits>        the commit log, one object for each record
<system>/manifests/<snapshot>   sealed manifests
<system>/chunks/...             chunks, under the keys that their manifests give
<system>/intents/<snapshot>     which snapshots are being written, and what they lean on
"""

from rayshot.protocol.identity import SnapshotId

POSITION_DIGITS = 20


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


def manifest_name(snapshot: SnapshotId) -> str:
    """The key of a manifest as a COMMIT record names it: relative to the system's folder."""
    return f"manifests/{snapshot}"


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


def inside(system: str, key: str) -> str:
    """The key of what a manifest names by a key relative to the system's folder."""
    return f"{system}/{key}"
