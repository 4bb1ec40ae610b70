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

from rayshot.errors import (
    BadManifest,
    Damaged,
    KeyNotFound,
    SnapshotDeleted,
    SnapshotNotFound,
    StoreError,
    StoreUnavailable,
)
from rayshot.format import canonical
from rayshot.format.bounds import check_count, check_initiator, check_real
from rayshot.protocol.identity import SnapshotId
from rayshot.store.clock import store_now
from rayshot.store.layout import lease_folder
from rayshot.store.log import CommitLog
from rayshot.store.once import create_once
from rayshot.store.store import Entry, Store

_log = logging.getLogger("rayshot")
LEASE_FORMAT = 1
LEASE_BYTES_MAX = 4096
LEASE_S = 600.0
RENEWALS = 3
"""A reader renews its lease this many times before the time is up."""
LOOKS_MAX = 20
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
    store, system = log.store, log.system
    name = f"{lease_folder(system)}/{uuid.uuid4().hex}"
    data = canonical.pack({"format": LEASE_FORMAT, "snapshot": list(snapshot), "seconds": float(seconds)})
    create_once(store, _key(name, 0), data)
    ended = threading.Event()
    renewals = [0]

    def renew() -> None:
        while not ended.wait(seconds / RENEWALS):
            try:
                create_once(store, _key(name, renewals[0] + 1), data)
                renewals[0] += 1
                store.delete(_key(name, renewals[0] - 1))
            except StoreError as error:
                _log.warning("the lease of snapshot %s could not be renewed; another try follows: %s", snapshot, error)

    thread = threading.Thread(target=renew, name="rayshot-lease", daemon=True)
    try:
        if snapshot not in log.refresh().retained:
            raise SnapshotDeleted(f"the snapshot {snapshot} of {system!r} was deleted", snapshot=str(snapshot))
        thread.start()
        yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()
        try:
            store.delete(_key(name, renewals[0]))
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


def _key(name: str, renewal: int) -> str:
    """A newer key sorts behind an older one, so that a listing meanwhile does not miss both."""
    return f"{name}-{renewal:08}"


def leases(store: Store, system: str) -> dict[str, Lease]:
    """All leases by key, also leases whose time is up. Read the log before.

    Raises BadManifest for a lease that cannot be read, and StoreError.
    """
    for _ in range(LOOKS_MAX):
        found = _look(store, system)
        if found is not None:
            return found
    raise StoreUnavailable(f"{lease_folder(system)} changed during each of {LOOKS_MAX} reads; try again")


def _look(store: Store, system: str) -> dict[str, Lease] | None:
    """None if a lease vanished: it may have been renewed, and its successor may be missing in the listing."""
    found = {}
    for entry in store.list(lease_folder(system)):
        try:
            data = store.read_range(entry.key, 0, LEASE_BYTES_MAX + 1)
        except KeyNotFound:
            return None
        found[entry.key] = _decode(data, entry)
    return found


def _decode(data: bytes, entry: Entry) -> Lease:
    what = f"the lease {entry.key}"
    match canonical.unpack(data, what=what, bytes_max=LEASE_BYTES_MAX):
        case {"format": 1, "snapshot": [incarnation, initiator, counter], "seconds": seconds}:
            snapshot = SnapshotId(
                check_count(incarnation, f"the incarnation in {what}", smallest=1),
                check_initiator(initiator),
                check_count(counter, f"the counter in {what}", smallest=1),
            )
            return Lease(snapshot, entry.modified + min(check_real(seconds, f"seconds in {what}"), LEASE_MAX_S))
        case _:
            raise BadManifest(f"{what} was not written by rayshot, or is damaged")


def leased_by_readers(store: Store, system: str) -> set[SnapshotId]:
    """The snapshots that readers need now. Read the log before. Raises as `leases`, and StoreError."""
    found = leases(store, system)
    if not found:
        return set()
    now = store_now(store, system)
    return {lease.snapshot for lease in found.values() if lease.until > now}
