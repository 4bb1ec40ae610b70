"""From a storage to its systems and their snapshots. Reading starts here."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

from rayshot.errors import (
    AlreadyExists,
    BadManifest,
    ConfigError,
    FormatTooNew,
    KeyNotFound,
    RolledBack,
    SnapshotDeleted,
    SnapshotNotFound,
    SystemNotFound,
)
from rayshot.format.encryption_key import EncryptionKey
from rayshot.format.suggestion import did_you_mean
from rayshot.protocol.identity import NAME_LENGTH_MAX, SnapshotId, check_name
from rayshot.store.aborts import Aborts, read_aborts
from rayshot.store.history import History
from rayshot.store.layout import format_key, log_folder
from rayshot.store.log import CommitLog, find_end
from rayshot.store.lost_log import find_copied, find_written, log_lost
from rayshot.store.once import create_once
from rayshot.store.records import CommitRecord, Record
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store

STORAGE_FORMAT = 1
FORMAT_BYTES_MAX = 4096
IDS_SHOWN_MAX = 10
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_LENGTH_MAX - 1}}}")


class SystemView:
    """The committed snapshots of one system. Each call reads the log again.

    Calls raise FormatTooNew and BadManifest if the system cannot be read, StoreError, and RolledBack if the newest
    snapshot is before `min_position` in the log.
    """

    def __init__(self, store: Store, name: str, min_position: int = 0) -> None:
        self._store = store
        self._min_position = min_position
        self.name = name
        self.log = CommitLog(store, name)
        """The log that it reads, also behind `end`."""
        self.end: int | None = None
        """How many records of the log this view reads; None for all."""

    def __repr__(self) -> str:
        return f"<SystemView {self.name!r} in {self.url}>"

    @property
    def url(self) -> str:
        """The address of the storage."""
        return self._store.url

    def as_of(self, end: int | None) -> "SystemView":
        """This system when its log had `end` records, see `log_end`; None means the time of each call.

        Snapshots that were deleted since are listed, and reading one raises SnapshotDeleted.
        """
        view = copy(self)
        view.end = end
        return view

    def now(self) -> "SystemView":
        """This system as its log is now, so that several calls see one moment. Raises as any call."""
        self.history()
        return self.as_of(self.log.next_position if self.end is None else self.end)

    def log_end(self) -> int:
        """How many records the log has now. It reads none of them. Raises StoreError."""
        return find_end(self._store, self.name)

    def snapshots(self) -> list[Snapshot]:
        """All committed snapshots, ordered by life and then by log position."""
        return [self.open(record) for record in self.history().retained.values()]

    def latest(self) -> Snapshot:
        """The last of `snapshots`. Raises SnapshotNotFound if there are none."""
        records = list(self.history().retained.values())
        if not records:
            raise SnapshotNotFound(f"the system {self.name!r} has no committed snapshot yet", exists=[])
        return self.open(records[-1])

    def way_back(self) -> Snapshot:
        """The last of `snapshots` that advances: no actor in it is behind an earlier one of its life.

        If two snapshots overlap, the one that is stored later may be behind the other. Raises SnapshotNotFound if there
        are no snapshots.
        """
        advancing = [record for record in self.history().retained.values() if record.advances]
        return self.open(advancing[-1]) if advancing else self.latest()

    def snapshot(self, which: SnapshotId | str | None = None) -> Snapshot:
        """The snapshot with this id; None means the latest.

        Raises SnapshotNotFound, which lists the snapshots that exist (SnapshotDeleted if it was deleted), RolledBack if
        it is before `min_position`, and ConfigError for a string that is not a snapshot id.
        """
        if which is None:
            return self.latest()
        wanted = SnapshotId.parse(which) if isinstance(which, str) else which
        history = self.history()
        if wanted in history.retained:
            self._check_position(f"the snapshot {wanted}", history.retained[wanted])
            return self.open(history.retained[wanted])
        deleted = wanted in history.deleted
        fate, kind = ("was deleted", SnapshotDeleted) if deleted else ("does not exist", SnapshotNotFound)
        exists = [str(snapshot) for snapshot in history.retained]
        raise kind(
            f"the snapshot {wanted} of {self.name!r} {fate}; there is {_newest(exists)}",
            snapshot=str(wanted),
            exists=exists,
        )

    def records(self) -> tuple[Record, ...]:
        """All records of the log, also records that do not count."""
        self.history()
        return self.log.records()[: self.end]

    def aborts(self) -> Aborts:
        """The newest NOTES_KEPT notes of aborted snapshots, decrypted with the environment's keys."""
        return read_aborts(self._store, self.name)

    def restored_from(self) -> Mapping[int, SnapshotId]:
        """Life -> the snapshot that it was restored from or went back to; lives that came from none are missing."""
        return {life: record.snapshot for life, record in self.history().restores.items()}

    def ends_in_its_storage(self) -> dict[str, int]:
        """Name of each system in this storage -> how many records its log has now."""
        return {name: view.log_end() for name, view in Storage(self._store, self._min_position).systems.items()}

    def beside(self, name: str) -> "SystemView":
        """The system `name` in the same storage."""
        return SystemView(self._store, name, self._min_position)

    def stored_bytes(self) -> int:
        """The bytes in the system's folder, from a listing. Deleted snapshots count until garbage collection."""
        return sum(entry.size for entry in self._store.list(self.name))

    def committed_at(self, snapshot: SnapshotId) -> int:
        """The log index of the id's first commit, even if it was deleted since. Raises SnapshotNotFound."""
        history = History()
        for record in self.records():
            history.add(record)
            if history.retained.get(snapshot) == record:
                return record.position
        return self.snapshot(snapshot).record.position  # raises

    def owns(self, snapshot: Snapshot) -> bool:
        """Whether retention may delete the snapshot. Raises as `snapshot`."""
        return self.history().owns(snapshot.record)

    def history(self) -> History:
        """The meaning of the log."""
        open_system(self._store, self.name)
        history = self.log.refresh() if self.end is None else self._history_at(self.end)
        self._check_position("the newest snapshot", next(reversed([*history.retained.values()]), None))
        return history

    def _history_at(self, end: int) -> History:
        records = self.log.records()
        if len(records) < end:
            raise log_lost(self.name, f"it had {end} records and has {len(records)}", position=end - 1)
        history = History()
        for record in records[:end]:
            history.add(record)
        return history

    def _check_position(self, what: str, record: CommitRecord | None) -> None:
        """Compare a snapshot's own position, which its signature covers: anyone could lengthen the log."""
        found = None if record is None else record.sealed_for
        if self._min_position > (found or 0):
            where = "there is none" if found is None else f"{what} is at position {found} of the log"
            raise RolledBack(
                f"{where}, but position {self._min_position} was committed before: somebody put the storage of "
                f"{self.name!r} back to an older state, or deleted snapshots; find out which",
                found=found,
                min_position=self._min_position,
            )

    def open(self, record: CommitRecord, keys: Sequence[EncryptionKey] | None = None) -> Snapshot:
        """The snapshot that a COMMIT record of this system names; `keys` as for Snapshot."""
        return Snapshot(self._store, self.name, record, keys)

    def table(self, view: str = "snapshots", **options: Any) -> Any:
        """The snapshots as a `rayshot.analysis.table.Table`: `table("messages", sender="alice").to_pandas()`.

        Args:
            view: one of docs/spark.md.
            options: those of the view, also in lower case with underscores: `show_secrets=True`.

        The call fixes which snapshots are read; rows are read when they are asked for. Raises ConfigError for options
        that cannot work and if pyarrow is missing, and the errors for a snapshot or an actor that does not exist.
        """
        import rayshot  # noqa: PLC0415 - the code that makes tables is above this package

        return rayshot._open_table(self, view, options)  # noqa: SLF001


class Storage:
    """The systems in one store. Raises ConfigError for a `min_position`, see SystemView, that is below 0."""

    def __init__(self, store: Store, min_position: int = 0) -> None:
        if min_position < 0:
            raise ConfigError(
                f"min_position={min_position}: give the position of a snapshot, as `rayshot list` shows it"
            )
        self._store = store
        self._min_position = min_position
        self.url = store.url

    def __repr__(self) -> str:
        return f"<Storage {self.url}>"

    @property
    def systems(self) -> Mapping[str, SystemView]:
        """The systems by name, listed now; also systems that only a newer rayshot can read."""
        return MappingProxyType({name: self._view(name) for name in system_names(self._store)})

    def system(self, name: str | None = None) -> SystemView:
        """The system `name`; None means the only one.

        Raises SystemNotFound, which lists the systems that exist, and ConfigError if `name` is None and the storage
        holds several.
        """
        if name is not None:
            open_system(self._store, name)
            return self._view(name)
        names = system_names(self._store)
        if not names:
            raise SystemNotFound(f"{self.url} holds no system", exists=[])
        if len(names) > 1:
            raise ConfigError(f"{self.url} holds several systems; name one of {', '.join(names)}", exists=names)
        return self._view(names[0])

    def table(self, view: str = "snapshots", **options: Any) -> Any:
        """As `SystemView.table`, of the only system; the view `systems` is of all systems. Also raises as `system`."""
        import rayshot  # noqa: PLC0415 - see above

        return rayshot._open_table(self, view, options)  # noqa: SLF001

    def _view(self, name: str) -> SystemView:
        return SystemView(self._store, name, self._min_position)


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


def _newest(ids: Iterable[str]) -> str:
    """The last few ids in a sentence."""
    known = list(ids)
    shown = ", ".join(known[-IDS_SHOWN_MAX:]) or "none"
    return f"... {shown}" if len(known) > IDS_SHOWN_MAX else shown
