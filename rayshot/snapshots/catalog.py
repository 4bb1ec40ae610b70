"""From a storage to its systems and their snapshots. Reading starts here."""

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

from rayshot.errors import (
    ConfigError,
    RolledBack,
    SnapshotDeleted,
    SnapshotNotFound,
    SystemNotFound,
)
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.aborts import Aborts, read_aborts
from rayshot.log.history import History
from rayshot.log.log import CommitLog
from rayshot.log.lost_log import log_lost
from rayshot.log.records import CommitRecord, Record
from rayshot.log.segments import find_end
from rayshot.log.system import open_system, system_names
from rayshot.places.kinds import is_local, open_store
from rayshot.places.local import LocalStore
from rayshot.places.store import Store, prove_readable
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.snapshot import Snapshot

IDS_SHOWN_MAX = 10


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
        """Internal: this system when its log had `end` records, see `log_end`; None means the time of each call.

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
        """Internal: how many records the log has now. It reads none of them. Raises StoreError."""
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

    def rollback_target(self) -> Snapshot:
        """Internal: the last of `snapshots` that advances: no actor in it is behind an earlier one of its life.

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
        """Internal: all records of the log, also records that do not count."""
        self.history()
        return self.log.records()[: self.end]

    def aborts(self) -> Aborts:
        """Internal: the newest NOTES_KEPT notes of aborted snapshots, decrypted with the environment's keys."""
        return read_aborts(self._store, self.name)

    def restored_from(self) -> Mapping[int, SnapshotId]:
        """Life -> the snapshot that it was restored from or went back to; lives that came from none are missing."""
        return {life: record.snapshot for life, record in self.history().restores.items()}

    def ends_in_its_storage(self) -> dict[str, int]:
        """Internal: name of each system in this storage -> how many records its log has now."""
        return {name: view.log_end() for name, view in Storage(self._store, self._min_position).systems.items()}

    def beside(self, name: str) -> "SystemView":
        """Internal: the system `name` in the same storage."""
        return SystemView(self._store, name, self._min_position)

    def stored_bytes(self) -> int:
        """Internal: the bytes in the system's folder, from a listing; of deleted snapshots until garbage collection."""
        return sum(entry.size for entry in self._store.list(self.name))

    def committed_at(self, snapshot: SnapshotId) -> int:
        """Internal: the log index of the id's first commit, even if it was deleted since. Raises SnapshotNotFound."""
        history = History()
        for record in self.records():
            history.add(record)
            if history.retained.get(snapshot) == record:
                return record.position
        return self.snapshot(snapshot).record.position  # raises

    def owns(self, snapshot: Snapshot) -> bool:
        """Internal: whether retention may delete the snapshot. Raises as `snapshot`."""
        return self.history().owns(snapshot.record)

    def history(self) -> History:
        """Internal: the meaning of the log."""
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
        """Internal: the snapshot that a COMMIT record of this system names; `keys` as for Snapshot."""
        return Snapshot(self._store, self.name, record, keys)

    def table(self, view: str = "snapshots", **options: Any) -> Any:
        """The snapshots as a `rayshot.analysis.table.Table`: `table("messages", sender="alice").to_pandas()`.

        Args:
            view: one of `rayshot help spark`.
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


def _newest(ids: Iterable[str]) -> str:
    """The last few ids in a sentence."""
    known = list(ids)
    shown = ", ".join(known[-IDS_SHOWN_MAX:]) or "none"
    return f"... {shown}" if len(known) > IDS_SHOWN_MAX else shown


def open(storage: str | os.PathLike[str], *, min_position: int = 0) -> Storage:  # noqa: A001 - users read `rayshot.open`
    """Open a storage for reading: `rayshot.open("./shots").systems["bank"].latest()`.

    It takes no name: a storage may hold several systems. It does not need Ray. It needs keys only for encrypted
    snapshots. It executes nothing that it reads.

    Args:
        storage: the address of the storage, as for `rayshot.init`.
        min_position: the log position of a snapshot that was certainly committed. If the newest snapshot, or the wanted
            one, is older, RolledBack is raised. A signature alone does not show that the whole storage was put back to
            an older state.

    Raises ConfigError for an unknown kind of address, a path that leads to a file, and a bucket that cannot be read,
    SystemNotFound for a folder that does not exist, and StoreUnavailable for a folder that cannot be read.
    """
    store = open_store(storage)
    if isinstance(store, LocalStore) and not store.is_there():
        raise SystemNotFound(f"there is no storage folder {store.folder}", url=store.url, exists=[])
    if not is_local(store):
        prove_readable(store)
    return Storage(store, min_position)
