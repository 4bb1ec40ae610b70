"""A system is a folder with an object FORMAT in a storage: how one is found, made, and opened."""

import json
import re

from rayshot.errors import AlreadyExists, BadManifest, FormatTooNew, KeyNotFound, SnapshotsExist, SystemNotFound
from rayshot.format.suggestion import did_you_mean
from rayshot.log.history import History
from rayshot.log.layout import format_key, log_folder
from rayshot.log.log import CommitLog
from rayshot.log.lost_log import find_copied, find_written, log_lost
from rayshot.places.calls import create_once
from rayshot.places.store import Store
from rayshot.protocol.identity import NAME_LENGTH_MAX, check_name

STORAGE_FORMAT = 1
FORMAT_BYTES_MAX = 4096
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_LENGTH_MAX - 1}}}")


def system_names(store: Store) -> list[str]:
    """The sorted names of all systems in `store`. Other folders are skipped."""
    folders = (entry.key.removesuffix("/") for entry in store.list(shallow=True) if entry.key.endswith("/"))
    return [name for name in folders if _NAME.fullmatch(name) and _read_format(store, name) is not None]


def open_system(store: Store, name: str) -> None:
    """Raise unless `name` is a system that this rayshot can read: SystemNotFound, FormatTooNew, BadManifest."""
    check_name(name, "a system")
    data = _read_format(store, name)
    if data is None:
        _refuse_commits(store, name)
        names = system_names(store)
        raise SystemNotFound(
            f"{store.url} holds no system {name!r}; there is {', '.join(names) or 'none'}{did_you_mean(name, names)}",
            system=name,
            exists=names,
        )
    _check_format(data, name)


def make_system(store: Store, name: str) -> None:
    """Make `name` a system in `store`, unless it is one.

    Raises ConfigError for a store that cannot be written or has no conditional create, BadManifest if the folder holds
    commits but no FORMAT, which is written first, FormatTooNew, StoreError.
    """
    check_name(name, "a system")
    store.check()
    if _read_format(store, name) is None:
        _refuse_commits(store, name)
    try:
        create_once(store, format_key(name), format_document())
    except AlreadyExists:
        open_system(store, name)  # of another rayshot


def _refuse_commits(store: Store, name: str) -> None:
    """Raise BadManifest or LogLost if the folder belongs to a system that has lost its FORMAT."""
    if next(iter(store.list(log_folder(name))), None) is not None:
        raise BadManifest(
            f"{format_key(name)} is missing, but {log_folder(name)} holds commits: put it back with the content "
            f"{format_document().decode().strip()} if nothing else was removed",
            system=name,
        )
    written = find_written(store, name) or find_copied(store, name)
    if written is not None:
        raise log_lost(
            name,
            f"it has no record, and {written} was written after one; {format_key(name)} is missing too",
            key=written,
        )


def format_document() -> bytes:
    """The content of FORMAT: the version of the layout and of everything in it."""
    return json.dumps({"rayshot": STORAGE_FORMAT}).encode() + b"\n"


def _read_format(store: Store, name: str) -> bytes | None:
    """The content of FORMAT; None if the folder has no such object, so is not a system."""
    try:
        return store.read_range(format_key(name), 0, FORMAT_BYTES_MAX)
    except KeyNotFound:
        return None


def _check_format(data: bytes, name: str) -> None:
    """Raise unless this rayshot can read the format."""
    try:
        document = json.loads(data.decode())  # as bytes it would guess an encoding, and import it
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"{format_key(name)} was not written by rayshot, or is damaged: {error}") from error
    match document:
        case {"rayshot": version} if type(version) is int and version > STORAGE_FORMAT:
            raise FormatTooNew(
                f"the system {name!r} has format {version} and this rayshot reads up to {STORAGE_FORMAT}: "
                "install a newer one (pip install --upgrade rayshot)",
                format=version,
                supported=STORAGE_FORMAT,
            )
        case {"rayshot": version} if type(version) is int and version == STORAGE_FORMAT:
            return
        case _:
            raise BadManifest(f"{format_key(name)} was not written by rayshot, or is damaged")


def find_history(store: Store, system: str) -> History:
    """The history of `system`; an empty one if the system does not exist. Raises as `CommitLog.refresh`."""
    try:
        open_system(store, system)
    except SystemNotFound:
        return History()
    return CommitLog(store, system).refresh()


def check_no_snapshots(history: History, system: str, storage: str) -> None:
    """Raise SnapshotsExist if the log of `system` has snapshots: the snapshots of a new life would hide them."""
    latest = next(reversed([*history.retained.values()]), None)
    if latest is None:
        return
    raise SnapshotsExist(
        f"system {system!r} does not run in this cluster, and {storage} holds {len(history.retained)} snapshots of "
        f"it, the latest {latest.snapshot}. To go on from it:\n"
        f"    system = rayshot.resume({system!r}, storage={storage!r}, begin=...)\n"
        f"To begin with nothing, beside what is there:\n"
        f"    system = rayshot.init({system!r}, storage={storage!r}, fresh=True)",
        system=system,
        snapshot=str(latest.snapshot),
    )
