"""Leases: a reader announces which snapshot it reads, and the bytes stay even if the snapshot is deleted meanwhile.

A lease is an object that names the snapshot and for how long it holds, counted from when the store wrote it. Objects
never change, so a reader renews its lease by writing the next one and removing the last. A reader writes its lease
first and reads the log after it. A deleter writes the log first and looks for leases after it. So one of the two sees
the other: the reader learns that the snapshot is gone, or its bytes stay.
"""

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from rayshot.errors import Damaged, KeyNotFound, SnapshotDeleted, SnapshotNotFound, StoreError
from rayshot.format.bounds import check_real
from rayshot.log.log import CommitLog
from rayshot.log.marks import Kind, Marks, store_now
from rayshot.log.records import check_snapshot
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId

_log = logging.getLogger("rayshot")
LEASE = Kind("lease", "leases", {"snapshot": check_snapshot, "seconds": check_real})
LEASE_S = 600.0
RENEWALS = 3
"""A reader renews its lease this many times before the time is up."""
LEASE_MAX_S = 86400.0
"""Longer leases end after this time: a reader that died must not keep a snapshot for ever."""


class Lease(NamedTuple):
    """A reader needs `snapshot` until `until`, in Unix seconds by the store's clock."""

    snapshot: SnapshotId
    until: float


@contextmanager
def hold(log: CommitLog, snapshot: SnapshotId, seconds: float = LEASE_S) -> Iterator[None]:
    """Keep the bytes of `snapshot` while this context is open. A thread of its own renews the lease.

    Args:
        log: the log of the system. It is read on here, in this thread, on entry.
        snapshot: a committed snapshot.
        seconds: for how long its bytes stay if this process dies, at most LEASE_MAX_S.

    Raises SnapshotDeleted if the snapshot is gone already, and StoreError if no lease can be written.
    """
    marks, name = Marks(log.store, log.system, LEASE), uuid.uuid4().hex

    def write(number: int) -> str:
        return marks.write(f"{name}-{number:08}", snapshot=list(snapshot), seconds=float(seconds))

    written = [write(0)]
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(seconds / RENEWALS):
            try:
                written.append(write(len(written)))
                log.store.delete(written[-2])
            except StoreError as error:
                _log.warning("the lease of snapshot %s could not be renewed; another try follows: %s", snapshot, error)

    thread = threading.Thread(target=renew, name="rayshot-lease", daemon=True)
    try:
        if snapshot not in log.refresh().retained:
            raise SnapshotDeleted(f"the snapshot {snapshot} of {log.system!r} was deleted", snapshot=str(snapshot))
        thread.start()
        yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()
        try:
            log.store.delete(written[-1])
        except StoreError as error:
            _log.warning(
                "the lease of snapshot %s could not be removed and stays until its time is up: %s", snapshot, error
            )


@contextmanager
def reading(log: CommitLog, snapshot: SnapshotId) -> Iterator[None]:
    """As `hold`, but go on without a lease if the storage cannot be written.

    If the snapshot is deleted meanwhile and the reader therefore meets damage, this raises SnapshotDeleted.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(log, snapshot))
        except StoreError as error:
            _log.warning("snapshot %s is read without a lease; do not delete it during the read: %s", snapshot, error)
        try:
            yield
        except (Damaged, KeyNotFound, SnapshotNotFound) as error:
            if snapshot in log.refresh().retained:
                raise
            raise SnapshotDeleted(
                f"the snapshot {snapshot} of {log.system!r} was deleted while it was read", snapshot=str(snapshot)
            ) from error


def leases(store: Store, system: str) -> dict[str, Lease]:
    """All leases by key, also leases whose time is up. Read the log before.

    Raises BadManifest for a lease that cannot be read, and StoreError.
    """
    return {
        key: Lease(said["snapshot"], written_at + min(said["seconds"], LEASE_MAX_S))
        for key, written_at, said in Marks(store, system, LEASE).present()
    }


def leased_by_readers(store: Store, system: str) -> set[SnapshotId]:
    """The snapshots that readers need now. Read the log before. Raises as `leases`, and StoreError."""
    found = leases(store, system)
    if not found:
        return set()
    now = store_now(store, system)
    return {lease.snapshot for lease in found.values() if lease.until > now}
