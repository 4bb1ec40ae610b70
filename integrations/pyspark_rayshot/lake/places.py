"""The folder of a lake: its owner, its only writer, and names that survive a power loss."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from rayshot.errors import ConfigError, ForeignLake, LakeInUse, StoreFull, StoreUnavailable
from rayshot.places.kinds import open_store
from rayshot.places.local import LocalStore

FORMATS = ("parquet", "delta", "iceberg")
IDENTITY = "lake.json"
LOG = "log.json"
LOCK = ".lock"
STAGING = ".staging"
_OURS = {IDENTITY, LOCK, STAGING}
_VERSION = 1
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PATTERN = "*?[]{}\\"
"""Characters that Spark and DuckDB read as a pattern, which other lakes may match."""
_NOT_IN_PATHS = {"parquet": _PATTERN, "delta": f"{_PATTERN}%", "iceberg": f"{_PATTERN}#%"}
"""Characters in a folder's path that readers, or the package of a format, understand in another way."""


def unknown_format(form: str) -> ConfigError:
    """The error for an unknown format."""
    return ConfigError(
        f"the format must be one of {', '.join(FORMATS)}; it is {form!r}", option="format", value=str(form)
    )


def check_place(folder: Path, form: str, storage: str) -> None:
    """Raise ConfigError if `folder` cannot be a lake of that format, of the snapshots in `storage`; change nothing.

    A lake inside the storage would be among its systems, and one around it would hold files that no pipeline made.
    """
    if form not in FORMATS:
        raise unknown_format(form)
    place, store = folder.resolve(), open_store(storage)
    with disk_errors(folder):
        is_file = place.exists() and not place.is_dir()
    bad = sorted(one for one in set(str(place)) if one in _NOT_IN_PATHS[form] or not one.isprintable())
    where = None
    if is_file:
        where = "that is a file"
    elif bad:
        where = f"no {' or '.join(map(repr, bad))} may be in its path"
    elif isinstance(store, LocalStore) and (place.is_relative_to(store.folder) or store.folder.is_relative_to(place)):
        where = f"the snapshots are in {store.folder}, and neither may be inside the other"
    if where is not None:
        raise ConfigError(
            f"a lake of {form} cannot be in {place}: {where}; give another folder",
            option="destination",
            value=str(folder),
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """The system, storage and format of a lake; `began` is the number of log records at the pipeline's first run."""

    system: str
    storage: str
    format: str
    began: int

    def check(self, wanted: "Identity", folder: Path) -> None:
        """Raise ForeignLake, or ConfigError for another format, unless `wanted` may go on in this lake."""
        if (self.system, self.storage) != (wanted.system, wanted.storage):
            raise ForeignLake(
                f"{folder} holds the snapshots of {self.system!r} in {self.storage}, and these are of "
                f"{wanted.system!r} in {wanted.storage}: give each its own folder; if that storage was moved, "
                f"say so in {folder / IDENTITY}",
                holds={"system": self.system, "storage": self.storage},
                wanted={"system": wanted.system, "storage": wanted.storage},
            )
        if self.format != wanted.format:
            raise ConfigError(
                f"{folder} is a lake of {self.format}, and {wanted.format} was asked for: give each its own folder",
                option="format",
                expected=self.format,
                value=wanted.format,
            )


def claim(folder: Path, wanted: Identity) -> Identity:
    """Make `folder` the lake of `wanted`, unless it is already. Raises as `Identity.check`, StoreErrors and OSError."""
    place = folder / IDENTITY
    if not place.exists():
        others = sorted(path.name for path in folder.iterdir() if path.name not in _OURS)
        if others:
            raise ForeignLake(
                f"{folder} holds {', '.join(others[:5])}{' ...' if len(others) > 5 else ''} and no {IDENTITY}, so no "  # noqa: PLR2004 - a few names
                f"pipeline of {wanted.system!r} in {wanted.storage} made it: give a folder that is new or empty",
                holds=others,
                wanted={"system": wanted.system, "storage": wanted.storage},
            )
        aside = folder / STAGING / IDENTITY
        aside.parent.mkdir(exist_ok=True)
        write_flushed(aside, json.dumps({"lake": _VERSION, **asdict(wanted)}, indent=1).encode() + b"\n")
        aside.replace(place)
        sync_folder(folder)
    found = read_identity(folder)
    found.check(wanted, folder)
    return found


def read_identity(folder: Path) -> Identity:
    """The identity of the lake in `folder`. Raises ForeignLake, ConfigError for a newer one, and OSError."""
    place = folder / IDENTITY
    try:
        document: dict[str, Any] = json.loads(place.read_bytes())
        if document["lake"] != _VERSION:
            raise ConfigError(f"{place} is of version {document['lake']}, and this rayshot writes {_VERSION}")
        return Identity(**{field.name: document[field.name] for field in fields(Identity)})
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignLake(f"{place} is not what a pipeline writes: {error}; give another folder") from error


class LogMark(NamedTuple):
    """A record that the log of a lake had, and the digest that tells it from others at its place."""

    position: int
    mark: str


def read_log(folder: Path) -> LogMark | None:
    """What is known about the log of a lake, None if nothing is. Raises ForeignLake and OSError."""
    place = folder / LOG
    if not place.exists():
        return None
    try:
        document: dict[str, Any] = json.loads(place.read_bytes())
        return LogMark(int(document["position"]), str(document["mark"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignLake(f"{place} is not what a pipeline writes: {error}; give another folder") from error


def note_log(folder: Path, known: LogMark) -> None:
    """Store what is known about the log, in one step. Raises OSError."""
    aside = folder / STAGING / LOG
    write_flushed(aside, json.dumps(known._asdict()).encode() + b"\n")
    aside.replace(folder / LOG)
    sync_folder(folder)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lake's lock; the kernel releases it when the process is killed. Raises LakeInUse."""
    with (folder / LOCK).open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeInUse(f"another pipeline writes into {folder}: end one of them", folder=str(folder)) from error
        yield


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise errors of a lake's disk as StoreFull or StoreUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL or "disk is full" in str(error) or "No space left" in str(error):
            raise StoreFull(
                f"no space in {folder} ({error}); the lake is undamaged: free some space and start again",
                path=str(folder),
            ) from error
        raise StoreUnavailable(
            f"{folder} cannot be written: {error}; the lake is undamaged", path=str(folder), errno=error.errno
        ) from error


def write_flushed(place: Path, data: bytes) -> None:
    """Write a file that survives a power loss as soon as its name does."""
    with place.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def link_once(file: Path, place: Path) -> None:
    """Give a file a second name, unless it has it. Unlike a rename this never replaces another: FileExistsError."""
    try:
        os.link(file, place)
    except FileExistsError:
        if not place.samefile(file):
            raise
    sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
