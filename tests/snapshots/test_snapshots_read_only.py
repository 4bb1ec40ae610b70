"""Storage that cannot be written, or fails as disks and file servers do: typed errors, and reading goes on."""

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rayshot
from rayshot.cli import main
from rayshot.errors import ConfigError, MissingChunk, SnapshotDeleted, StoreError, StoreFull, StoreUnavailable
from rayshot.log.log import CommitLog
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.chunk_writer import LOOKED_FOR, find_present
from rayshot.snapshots.leases import reading
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.places.faulty_store import FaultyStore
from tests.snapshots.read_only import looped, view_of
from tests.snapshots.snapshot_builder import KEY, Bank, committed, large, make_snapshot, open_bank

pytestmark = pytest.mark.acceptance("X7")
STATES = {name: {"n": large(name)} for name in ("alice", "bob", "carol", "dave", "eve")}


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Two snapshots; somebody has held a lease, so that there is a folder for it."""
    store = LocalStore(tmp_path / "shots")
    repository = open_bank(store)
    for counter in (1, 2):
        snapshot = make_snapshot(repository, Bank(states=STATES), counter)
        with reading(CommitLog(store, "bank"), snapshot.id):
            pass
    return tmp_path / "shots"


@pytest.fixture(params=["mounted", "looped"])
def unwritable(request: pytest.FixtureRequest, shots: Path, tmp_path: Path) -> Iterator[Path]:
    """The storage where nobody can write a lease; what is done in `shots` happens there."""
    if request.param == "mounted":
        with view_of(shots, tmp_path / "view") as view:
            yield view
    else:
        with looped(shots / "bank/leases"):
            yield shots


def test_a_snapshot_is_copied_out_of_storage_that_cannot_be_written(
    unwritable: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copied = rayshot.copy(unwritable, tmp_path / "backup")
    assert copied.verify([KEY]).trusted
    assert "1-coordinator-2 is read without a lease; do not delete it during the read: " in caplog.text


def test_what_is_deleted_elsewhere_while_it_is_read_without_a_lease_is_said_to_be_deleted(
    unwritable: Path, shots: Path, tmp_path: Path
) -> None:
    def delete_it(_: str, done: int, __: int) -> None:
        if done == 0:
            delete_snapshot(LocalStore(shots), "bank", "1-coordinator-2")

    with pytest.raises(SnapshotDeleted, match="was deleted while it was read"):
        rayshot.copy(unwritable, tmp_path / "backup", progress=delete_it)
    assert committed(LocalStore(tmp_path / "backup")) == []


def test_a_command_that_writes_says_that_it_cannot(shots: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with view_of(shots, tmp_path / "view") as view, view_of(tmp_path / "empty", tmp_path / "full") as full:
        for code, *command in (
            (13, "gc", view),
            (13, "delete", view, "1-coordinator-1", "--yes"),
            (2, "copy", shots, full),
            (2, "copy", shots, full / "deep"),
        ):
            result = CliRunner().invoke(main, [str(word) for word in command])
            assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
            assert "Read-only file system" in result.stderr


def test_looking_needs_no_right_to_write(shots: Path, tmp_path: Path) -> None:
    with view_of(shots, tmp_path / "view") as view:
        for command in ("list", "show", "verify", "diff"):
            result = CliRunner().invoke(main, [command, str(view)])
            assert result.exit_code in {0, 12}, result.output
        snapshot = rayshot.open(view).system().latest()
        assert snapshot.verify([KEY]).trusted
        assert snapshot.states()["alice"] == STATES["alice"]
        with pytest.raises(ConfigError, match=r"cannot be written: .*Read-only file system"):
            LocalStore(view).check()


# Errors of the operating system ----------------------------------------------------------------------------------

CODES = [errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EACCES, errno.EPERM, errno.ETIMEDOUT, errno.ENXIO]
VERBS: dict[str, Callable[[LocalStore], Any]] = {
    "create": lambda store: store.create("bank/new", b"new"),
    "create in a new folder": lambda store: store.create("bank/young/new", b"new"),
    "read": lambda store: store.read("bank/old"),
    "read_range": lambda store: store.read_range("bank/old", 0, 1),
    "list": lambda store: list(store.list("bank")),
    "delete": lambda store: store.delete("bank/old"),
    "check": lambda store: store.check(),
    "is_there": lambda store: store.is_there(),
}
CALLS = {
    "create": ("open", "write", "fsync", "link"),
    "create in a new folder": ("mkdir", "open", "write", "fsync", "link"),
    "read": ("open", "fstat"),
    "read_range": ("open", "fstat"),
    "list": ("scandir", "stat"),
    "delete": ("unlink",),
    "check": ("open", "write", "fsync", "link", "walk"),
    "is_there": ("stat",),
}


@pytest.mark.sampled("more cases of one kind", keeps=135)
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.__getitem__)
@pytest.mark.parametrize(("verb", "call"), [(verb, call) for verb, calls in CALLS.items() for call in calls])
def test_whatever_the_operating_system_says_is_a_typed_error_that_says_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, call: str, code: int
) -> None:
    store = LocalStore(tmp_path)
    store.create("bank/old", b"old")
    store.create("bank/older", b"older")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        patch.setattr(os, "unlink", fail)  # as on a disk that is gone as a whole
        with pytest.raises((StoreUnavailable, ConfigError)) as caught:
            VERBS[verb](store)
    assert os.strerror(code) in caught.value.message
    if isinstance(caught.value, StoreUnavailable) and "power loss" not in caught.value.message:
        assert caught.value.evidence["errno"] == code
    store.create("bank/newest", b"newest")
    assert store.read("bank/newest") == b"newest"


def test_a_temporary_file_that_cannot_be_removed_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.create("bank/old", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(os, "unlink", read_only)
    with pytest.raises(StoreFull):
        store.create("bank/new", b"new")
    monkeypatch.undo()
    monkeypatch.setattr(os, "unlink", read_only)
    store.create("bank/new", b"new")
    assert store.read("bank/new") == b"new"


def test_a_store_whose_folder_loops_fails_with_typed_errors(shots: Path) -> None:
    store = LocalStore(shots)
    with looped(shots / "bank/intents"), pytest.raises(StoreError):
        open_bank(store).intend(Storage(store).system("bank").latest().id._replace(incarnation=2, counter=9))
    assert len(committed(store)) == 2


# Folders that were removed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["bank/chunks", "bank/chunks/ab", "bank"])
def test_a_folder_that_was_removed_is_made_again(tmp_path: Path, folder: str) -> None:
    store = LocalStore(tmp_path)
    store.create("bank/chunks/ab/one", b"1")
    shutil.rmtree(tmp_path / folder)
    store.create("bank/chunks/ab/two", b"2")
    store.create("bank/chunks/cd/three", b"3")
    assert [entry.key for entry in store.list("bank")] == ["bank/chunks/ab/two", "bank/chunks/cd/three"]


def test_the_storage_itself_is_not_made_again_by_who_has_written_to_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "mounted/shots")
    store.create("bank/old", b"old")
    shutil.rmtree(tmp_path / "mounted")
    for key in ("bank/new", "bank/young/new"):
        with pytest.raises(StoreUnavailable, match="No such file"):
            store.create(key, b"new")
    assert not (tmp_path / "mounted").exists()


# Chunks that vanished --------------------------------------------------------------------------------------------


def chunks_of(snapshot: Snapshot) -> dict[str, Any]:
    return {chunk.digest: chunk for chunk in snapshot.manifest.chunks}


@pytest.fixture
def shared() -> tuple[FaultyStore, Snapshot]:
    store = FaultyStore()
    return store, make_snapshot(open_bank(store), Bank(states=STATES))


def test_a_few_chunks_are_looked_for_and_none_is_listed_where_they_are_there(shared: Any) -> None:
    store, snapshot = shared
    chunks = chunks_of(snapshot)
    before = store.calls
    assert find_present(store, "bank", chunks) == chunks
    assert store.calls - before == LOOKED_FOR < len(snapshot.manifest.chunks)
    assert find_present(store, "bank", {}) == {}


def test_where_chunks_are_gone_those_that_are_left_are_shared(
    shared: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, snapshot = shared
    monkeypatch.setattr(random, "sample", lambda names, _: names[:1])
    gone, *left = sorted(chunks_of(snapshot))
    store.delete(f"bank/{chunks_of(snapshot)[gone].key}")
    assert sorted(find_present(store, "bank", chunks_of(snapshot))) == left
    assert f"1 of {len(left) + 1} chunks of the last snapshot of 'bank' are gone from memory://" in caplog.text


def test_chunks_that_were_all_removed_are_written_anew(shared: Any) -> None:
    store, snapshot = shared
    for entry in tuple(store.list("bank/chunks")):
        store.delete(entry.key)
    assert find_present(store, "bank", chunks_of(snapshot)) == {}
    with pytest.raises(MissingChunk):
        copy_snapshot(store, FaultyStore("backup"), snapshot)
