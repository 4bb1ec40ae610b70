"""A folder as a store. Every acknowledged write survives a power loss.

How an object is written: its bytes go into a temporary file beside its place (its name starts with a dot, which no key
can do). The file is synced, a hard link gives it its real name, and the folder is synced. The link makes creation
atomic and create-only: the kernel refuses a taken name, and no reader sees the object before. New folders are synced
from the bottom up, because a file is only as durable as the names above it.
"""

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from rayshot.errors import (
    AlreadyExists,
    ConfigError,
    KeyNotFound,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnsafePath,
)
from rayshot.places.calls import SMALL_AT_ONCE, several_at_once
from rayshot.places.store import Bytes, Data, Entry, check_key, is_key, is_user_file, prove_create_only, size_bytes

TEMPORARY_PREFIX = ".rayshot-"
TEMPORARY_AGE_MAX_S = 3600.0
"""A temporary file older than this belonged to a process that was killed; `check` removes it."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}


class LocalStore:
    """The store in `folder`, which need not exist before `check` or the first `create`.

    Raises ConfigError if no folder can have this name: the home of an unknown user, a string with a NUL.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            self.folder = Path(os.path.realpath(Path(folder).expanduser()))
        except (RuntimeError, OSError, ValueError) as error:
            raise ConfigError(f"{os.fspath(folder)!r} names no folder: {error}") from error
        self._durable: set[Path] = set()
        """Folders whose names this process has synced, up to the root of the disk."""

    @property
    def url(self) -> str:
        """The folder as a `file://` address."""
        return self.folder.as_uri()

    def is_there(self) -> bool:
        """Whether the folder exists. Raises ConfigError if no folder can be there, StoreUnavailable if nobody knows."""
        try:
            there = self.folder.is_dir()
        except OSError as error:
            raise _failure(error, self.folder, 0) from error
        if not there:
            self.refuse_file()
        return there

    def refuse_file(self) -> None:
        """Raise ConfigError if a file stands where the folder, or one above it, would be."""
        for path in (self.folder, *self.folder.parents):
            with suppress(OSError):  # one that cannot be looked at is refused where it is used
                if stat.S_ISDIR(path.stat().st_mode):  # one look: another program may make it at this moment
                    return
                raise ConfigError(f"{path} is a file, and a storage is a folder: give another path", url=self.url)

    def create(self, key: str, data: Data) -> None:
        """See Store.create."""
        path = self._path(key)
        try:
            taken = self._write_anew(path, data)
        except OSError as error:
            raise _failure(error, path, size_bytes(data)) from error
        _sync_folder(path.parent)  # also where the key is taken: what we say exists must survive a power loss
        if taken:
            raise AlreadyExists(f"{path} exists already", key=key)

    def read(self, key: str) -> bytes:
        """See Store.read."""
        return self._read(key, 0, -1)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See Store.read_range."""
        return self._read(key, start, length)

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        """See Store.list."""
        folder = self._path(prefix) if prefix else self.folder
        try:
            entries = list(self._scan(folder, after, shallow=shallow))
        except OSError as error:
            raise _failure(error, folder, 0) from error
        return iter(sorted((entry for entry in entries if entry.key > after), key=lambda entry: entry.key))

    def delete(self, key: str) -> None:
        """See Store.delete."""
        path = self._path(key)
        try:
            path.unlink()
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _failure(error, path, 0) from error

    def check(self) -> None:
        """See Store.check; also removes what killed writers left behind."""
        self.refuse_file()
        try:
            self._make_durable(self.folder)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be made: {error.strerror}", url=self.url) from error
        except StoreError as error:
            raise ConfigError(f"{self.folder} cannot be written: {error}", url=self.url) from error
        prove_create_only(self)
        try:
            self._remove_stale()
        except OSError as error:
            raise ConfigError(
                f"{self.folder} holds files that killed writers left, and they cannot be removed: {error}", url=self.url
            ) from error

    def adopt(self, folder: str) -> None:
        """See Store.adopt."""
        path = self._path(folder)
        try:
            if path.is_dir():
                files, folders = _content(path, self.folder)
                with several_at_once(len(files), "rayshot-adopt", SMALL_AT_ONCE) as each:  # a disk syncs many at once
                    for _ in each(_sync, files):
                        pass
                for one in (*reversed(folders), path):
                    _sync_folder(one)
                self._make_durable(path)
        except OSError as error:
            raise _failure(error, path, 0) from error

    def write(self, key: str, parts: Iterable[Bytes], size: int) -> None:
        """See Store.write."""
        path = self._path(key)
        try:
            self._write_anew(path, parts, replaces=True)
        except OSError as error:
            raise _failure(error, path, size) from error
        _sync_folder(path.parent)

    def clear(self, folder: str) -> None:
        """See Store.clear."""
        path = self._path(folder)
        try:
            shutil.rmtree(path)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _failure(error, path, 0) from error
        finally:
            self._durable = {known for known in self._durable if not known.is_relative_to(path)}

    def _path(self, key: str) -> Path:
        """The path of `key`. Raises UnsafePath if a symbolic link leads out of the folder."""
        path = self.folder / check_key(key)
        self._refuse_outside(path)
        return path

    def _refuse_outside(self, path: Path) -> None:
        if not Path(os.path.realpath(path)).is_relative_to(self.folder):
            raise UnsafePath(f"{path} leads out of {self.folder}; it is not followed", path=str(path))

    def _make_durable(self, folder: Path) -> None:
        """Make `folder` and missing folders above it, and sync all names that may be new.

        Each process syncs folders inside the store once, because the process that made them may have died before it
        synced them. The store's own folder and those above it are trusted if they exist.
        """
        if folder in self._durable:
            return
        inside = folder != self.folder and folder.is_relative_to(self.folder)
        if inside or not folder.is_dir():
            self._make_durable(folder.parent)
            folder.mkdir(exist_ok=True)
            _sync_folder(folder.parent)
        self._durable.add(folder)

    def _write_anew(self, path: Path, data: Data | Iterable[Bytes], *, replaces: bool = False) -> bool:
        """Write an object, even if its folder was removed since this process made it; see `_write`."""
        try:
            return self._write(path, data, replaces=replaces)
        except FileNotFoundError:
            if not self.folder.is_dir():  # the store itself is gone, such as one that was unmounted
                raise
            self._durable.clear()
            return self._write(path, data, replaces=replaces)

    def _write(self, path: Path, data: Data | Iterable[Bytes], *, replaces: bool) -> bool:
        """Write an object under its real name. Return whether the name was taken already and nothing was written."""
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        self._make_durable(path.parent)
        try:
            _write_synced(temporary, data)
            if replaces:
                temporary.replace(path)
                return False
            return _link(temporary, path)
        finally:
            with suppress(OSError):  # the result above counts; if the file stays, `check` removes it one day
                temporary.unlink()

    def _read(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)
        try:
            with open(path, "rb", opener=_open_at_once) as file:  # a Path takes no opener
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise UnsafePath(f"{path} is not a regular file; it is not read", path=str(path))
                file.seek(start)
                there = max(status.st_size - start, 0)
                return file.read(there if length < 0 else min(length, there))  # `read` allocates all it is told
        except OSError as error:
            if error.errno in _ABSENT:
                raise KeyNotFound(f"{path} does not exist", key=key) from error
            raise _failure(error, path, 0) from error

    def _scan(self, folder: Path, after: str, *, shallow: bool) -> Iterator[Entry]:
        """Yield the entries of `folder` in any order, no object up to `after`, and none that vanishes meanwhile."""
        if not folder.is_dir():
            self.refuse_file()
            return
        parent = "" if folder == self.folder else f"{folder.relative_to(self.folder).as_posix()}/"
        of_users = is_user_file(f"{parent}x")
        for item in os.scandir(folder):
            key = parent + item.name
            if not is_key(key if of_users else item.name):  # hidden, temporary, or put there by somebody else
                continue
            if item.is_symlink():
                if of_users:  # `adopt` refuses it
                    continue
                self._refuse_outside(folder / item.name)
            if item.is_dir(follow_symlinks=False):
                if shallow:
                    yield Entry(f"{key}/", 0, 0.0)
                else:
                    yield from self._scan(folder / item.name, after, shallow=False)
                continue
            if key <= after:
                continue
            with suppress(FileNotFoundError):
                status = item.stat()
                if stat.S_ISREG(status.st_mode):
                    yield Entry(key, status.st_size, status.st_mtime)

    def _remove_stale(self) -> None:
        """Remove temporary files that are old by the clock of the disk itself."""
        now = self.folder.stat().st_mtime  # `prove_create_only` has just written here
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name.startswith(TEMPORARY_PREFIX):
                    path = Path(folder, name)
                    with suppress(FileNotFoundError):
                        if now - path.stat().st_mtime > TEMPORARY_AGE_MAX_S:
                            path.unlink()


def _content(folder: Path, root: Path) -> tuple[list[Path], list[Path]]:
    """All files in `folder` at any depth, and all folders, each behind the one that it is in. Raises UnsafePath."""
    files, folders, here = list[Path](), list[Path](), [folder]
    while here:
        for item in os.scandir(parent := here.pop()):
            path = parent / item.name
            is_folder = item.is_dir(follow_symlinks=False)
            if not is_key(path.relative_to(root).as_posix()) or not (is_folder or item.is_file(follow_symlinks=False)):
                raise UnsafePath(
                    f"{str(path)!r} is not a regular file, or has a name that rayshot does not take", path=str(path)
                )
            (here if is_folder else files).append(path)
            folders += [path] if is_folder else []
    return files, folders


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting. Opening a named pipe in its place would otherwise wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _write_synced(path: Path, data: Data | Iterable[Bytes]) -> None:
    """Write a new file and wait until the disk has it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        for part in [data] if isinstance(data, bytes | bytearray | memoryview) else data:
            view = memoryview(part).cast("B")
            written = 0
            while written < view.nbytes:
                written += os.write(descriptor, view[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: Path, path: Path) -> bool:
    """Give the file its real name. Return whether the name was taken already and nothing was done."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return True
    return False


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in `folder`. Raises StoreUnavailable, because the names are visible already."""
    try:
        _sync(folder, os.O_DIRECTORY)
    except OSError as error:
        raise StoreUnavailable(
            f"{folder} could not be synced ({error.strerror}); its newest file may not survive a power loss",
            path=str(folder),
        ) from error


def _sync(path: Path, flags: int = os.O_NOFOLLOW) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(error: OSError, path: Path, size: int) -> StoreError:
    """The store error for an error of the operating system."""
    if error.errno in _FULL:
        return StoreFull(
            f"no room for {size:,} bytes at {path} ({error.strerror}); free some space or use other storage",
            path=str(path),
            bytes=size,
        )
    return StoreUnavailable(f"{path}: {error.strerror}", path=str(path), errno=error.errno)
