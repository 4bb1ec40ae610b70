"""Leases: who reads a snapshot says so, and its bytes stay even if it is deleted meanwhile.

A lease is an object that names the snapshot and how long it is to be honoured, counted from when the store
wrote it. Objects never change, so a lease is renewed by writing the next one and removing the last. It is
written first and the log is read after it; who deletes writes the log first and looks for leases after it.
So one of the two sees the other: the reader is told that the snapshot is gone, or its bytes stay.
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

log = logging.getLogger("rayshot")
LEASE_FORMAT = 1
LEASE_BYTES_MAX = 4096
LEASE_S = 600.0
RENEWALS = 3
"""A lease is renewed so many times before its time is up."""
LOOKS_MAX = 20
LEASE_MAX_S = 86400.0
"""Longer ones are honoured for so long only: a reader that died must not keep a snapshot for ever."""


class Lease(NamedTuple):
    """Somebody reads `snapshot`; to be honoured until `until`, by the store's clock in Unix seconds."""

    snapshot: SnapshotId
    until: float


@contextmanager
def hold(store: Store, system: str, snapshot: SnapshotId, seconds: float = LEASE_S) -> Iterator[None]:
    """Keep the bytes of `snapshot` for as long as this is open, renewing the lease in a thread of its own.

    Args:
        store: where it lies.
        system: whose it is.
        snapshot: a committed one.
        seconds: for how long it is kept if this process dies, at most LEASE_MAX_S.

    Raises SnapshotDeleted where it is gone already, and StoreError where no lease can be written.
    """
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
                log.warning("the lease of snapshot %s could not be renewed now: %s", snapshot, error)

    thread = threading.Thread(target=renew, name="rayshot-lease", daemon=True)
    try:
        if snapshot not in CommitLog(store, system).refresh().retained:
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
            log.warning("the lease of snapshot %s stays until its time is up: %s", snapshot, error)


@contextmanager
def reading(store: Store, system: str, snapshot: SnapshotId) -> Iterator[None]:
    """As `hold`, for as long as this is open, but go on without a lease in a storage that cannot be written.

    Damage that is met because the snapshot was deleted all the same is raised as SnapshotDeleted.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(store, system, snapshot))
        except StoreError as error:
            log.warning("snapshot %s is read without a lease, so let nobody delete it now: %s", snapshot, error)
        try:
            yield
        except (Damaged, KeyNotFound, SnapshotNotFound) as error:
            if snapshot in CommitLog(store, system).refresh().retained:
                raise
            raise SnapshotDeleted(
                f"the snapshot {snapshot} of {system!r} was deleted while it was read", snapshot=str(snapshot)
            ) from error


def _key(name: str, renewal: int) -> str:
    """Newer ones sort behind older ones, so that a listing under way does not miss both."""
    return f"{name}-{renewal:08}"


def leases(store: Store, system: str) -> dict[str, Lease]:
    """All leases by key, those whose time is up included; call it after the log was read.

    Raises BadManifest for one that cannot be read, and StoreError.
    """
    for _ in range(LOOKS_MAX):
        found = _look(store, system)
        if found is not None:
            return found
    raise StoreUnavailable(f"{lease_folder(system)} changed {LOOKS_MAX} times while it was read; try again")


def _look(store: Store, system: str) -> dict[str, Lease] | None:
    """None where one vanished: it may have been renewed, and its successor come too late for the listing."""
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
            raise BadManifest(f"{what} is not what rayshot writes")


def leased_by_readers(store: Store, system: str) -> set[SnapshotId]:
    """The snapshots that somebody reads now; call it after the log was read. Raises as `leases`, and StoreError."""
    found = leases(store, system)
    if not found:
        return set()
    now = store_now(store, system)
    return {lease.snapshot for lease in found.values() if lease.until > now}
