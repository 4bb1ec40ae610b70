"""A disk that is really full: a small file system in memory, or a limit on the size of files."""

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rayshot.errors import ConfigError, StoreFull
from rayshot.places.local import TEMPORARY_PREFIX, LocalStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.repository import Repository
from tests.acceptance import Cases
from tests.snapshots.snapshot_builder import (
    KEY,
    Bank,
    assert_every_chunk_is_reachable,
    committed,
    make_manifest,
    make_snapshot,
    open_bank,
)

DISK_BYTES = 8 << 20
STEP_BYTES = 16 << 10
NOISE = random.Random(7)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of DISK_BYTES; needs root."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(tmp_path)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def temporary_files(folder: Path) -> list[Path]:
    return list(folder.rglob(f"{TEMPORARY_PREFIX}*"))


@contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """Fill the disk up to `room` bytes."""
    filler = disk / "filler"
    status = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize - room)
    try:
        yield
    finally:
        filler.unlink()


def noisy_bank() -> Bank:
    """A bank whose states do not shrink when compressed."""
    return Bank(states={name: {"noise": NOISE.randbytes(100_000)} for name in ("alice", "bob")})


def take(repository: Repository, counter: int) -> None:
    repository.commit(make_manifest(repository, noisy_bank(), counter), KEY)


def prove_recovery(repository: Repository, store: LocalStore, counter: int) -> None:
    """After a snapshot that found no room: nothing temporary, nothing unreachable, all that is visible is sound."""
    assert temporary_files(store.folder) == []
    repository.abandon(SnapshotId(1, "coordinator", counter))
    assert_every_chunk_is_reachable(store)
    assert all(snapshot.verify((KEY,)).sound for snapshot in committed(store))


@pytest.mark.acceptance("D7")
def test_wherever_a_disk_fills_up_a_snapshot_is_refused_with_path_and_bytes_and_the_next_one_commits(
    disk: Path, cases: Cases
) -> None:
    store = LocalStore(disk / "shots")
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    counter, room = 1, 0
    while committed(store)[-1].id.counter == 1:
        counter += 1
        with filled(disk, room):
            try:
                take(repository, counter)
            except StoreFull as error:
                full = error.evidence
            else:
                full = None
        if full is not None:
            assert full["path"].startswith(str(store.folder))
            assert full["bytes"] > 0
            prove_recovery(repository, store, counter)
        room += STEP_BYTES
        cases.held()
    assert counter > 5
    take(repository, counter + 1)
    assert [snapshot.id.counter for snapshot in committed(store)] == [1, counter, counter + 1]


@pytest.mark.acceptance("D7")
def test_a_file_that_may_not_grow_that_large_is_a_full_store(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    with file_size_limit(50_000), pytest.raises(StoreFull, match="no room"):
        take(repository, 2)
    prove_recovery(repository, store, 2)
    take(repository, 3)
    assert [snapshot.id.counter for snapshot in committed(store)] == [1, 3]


@pytest.mark.acceptance("D7")
def test_a_disk_without_any_room_is_refused_at_check(disk: Path) -> None:
    (disk / "shots").mkdir()
    with filled(disk, 0), pytest.raises(ConfigError, match="no room for 5 bytes"):
        LocalStore(disk / "shots").check()
    assert temporary_files(disk) == []


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
