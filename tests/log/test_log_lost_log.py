"""A commit log that is gone, or is not the one that belongs here: nobody takes it for an empty one."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import rayshot
from rayshot.cli import main
from rayshot.errors import BadManifest, LogLost, SnapshotNotFound
from rayshot.log.log import CommitLog
from rayshot.log.records import EpochRecord, ExpireRecord, encode_record
from rayshot.log.system import find_history, format_document, make_system
from rayshot.places.kinds import open_store
from rayshot.places.local import LocalStore
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from rayshot.snapshots.upkeep.retention import Keep
from tests.places.faulty_store import FaultyStore
from tests.snapshots.snapshot_builder import Bank, committed, make_manifest, make_snapshot, open_bank, retain

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.places.s3_server import S3Server

pytestmark = pytest.mark.acceptance("X6")


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty storage."""
    if request.param == "disk":
        return str(tmp_path / "shots")
    s3: S3Server = request.getfixturevalue("s3")
    return s3.address(f"lost/{uuid.uuid4().hex}")


def three_snapshots(store: Store) -> Repository:
    repository = open_bank(store)
    for counter in (1, 2, 3):
        make_snapshot(repository, Bank(), counter)
    return repository


def log_keys(store: Store) -> list[str]:
    return [entry.key for entry in store.list("bank/log")]


def lose_log(store: Store) -> None:
    for key in log_keys(store):
        store.delete(key)


def everything(store: Store) -> set[str]:
    return {entry.key for entry in store.list()}


COMMANDS = [
    ("list",),
    ("show",),
    ("show", "--snapshot", "1-coordinator-2"),
    ("verify",),
    ("diff",),
    ("trace",),
    ("gc", "--min-age", "0"),
    ("gc", "--min-age", "0", "--dry-run"),
    ("delete", "1-coordinator-1", "--yes"),
]


@pytest.mark.parametrize("lost", ["all", "first"])
def test_every_command_refuses_a_storage_whose_log_is_gone_and_removes_nothing(place: str, lost: str) -> None:
    store = open_store(place)
    three_snapshots(store)
    for key in log_keys(store)[: None if lost == "all" else 1]:
        store.delete(key)
    there = everything(store)
    for command, *arguments in COMMANDS * 2:
        result = CliRunner().invoke(main, [command, place, *arguments])
        assert result.exit_code == (17 if command == "diff" else 1), (command, result.output)
        assert result.stderr.startswith("error: log_lost: the commit log of 'bank' is incomplete: ")
        assert "put the newest backup of bank/log/ back" in result.stderr
        assert everything(store) == there


def test_reading_copying_and_beginning_refuse_too_and_write_nothing(place: str, tmp_path: Path) -> None:
    store = open_store(place)
    three_snapshots(store)
    elsewhere = FaultyStore()
    foreign = make_snapshot(open_bank(elsewhere, "elsewhere"), Bank(), 7)
    lose_log(store)
    there = everything(store)
    doors: list[Callable[[], Any]] = [
        lambda: rayshot.open(place).systems["bank"].snapshot("1-coordinator-2"),
        lambda: rayshot.open(place).system().latest(),
        lambda: rayshot.copy(place, tmp_path / "backup"),
        lambda: copy_snapshot(elsewhere, store, foreign),
        lambda: collect(store, "bank", min_age_s=0.0),
        lambda: delete_snapshot(store, "bank", "1-coordinator-1"),
        lambda: find_history(store, "bank"),
        lambda: open_bank(store, "w2"),
    ]
    for door in doors:
        with pytest.raises(LogLost):
            door()
    assert everything(store) == there
    assert not (tmp_path / "backup").exists()


def test_a_log_that_is_brought_back_brings_all_back(place: str) -> None:
    store = open_store(place)
    three_snapshots(store)
    backup = {key: store.read(key) for key in log_keys(store)}
    lose_log(store)
    with pytest.raises(LogLost):
        committed(store)
    for key, record in backup.items():
        store.create(key, record)
    assert [snapshot.id.counter for snapshot in committed(store)] == [1, 2, 3]
    assert all(snapshot.verify(()).sound for snapshot in committed(store))


def test_a_folder_that_lost_its_log_and_its_format_is_no_new_system() -> None:
    store = FaultyStore()
    three_snapshots(store)
    lose_log(store)
    store.delete("bank/FORMAT")
    there = everything(store)
    for door in (lambda: make_system(store, "bank"), lambda: Storage(store).system("bank")):
        with pytest.raises(LogLost, match="bank/FORMAT is missing too"):
            door()
    assert everything(store) == there


@pytest.mark.parametrize("left", ["manifests", "intents", "chunks"])
def test_one_kind_of_objects_is_sign_enough(left: str) -> None:
    store = FaultyStore()
    three_snapshots(store)
    for key in everything(store):
        if not key.startswith(("bank/FORMAT", f"bank/{left}")):
            store.delete(key)
    with pytest.raises(LogLost, match=f"bank/{left}"):
        collect(store, "bank", min_age_s=0.0)


def test_a_log_that_garbage_collection_began_anew_is_none() -> None:
    store = FaultyStore()
    three_snapshots(store)
    lose_log(store)
    expired = [ExpireRecord(at, "gc-0123", SnapshotId(1, "coordinator", at + 1)) for at in (0, 1, 2)]
    for key, record in zip([f"bank/log/{at:020}" for at in (0, 1, 2)], expired, strict=True):
        store.create(key, encode_record(record))
    with pytest.raises(LogLost, match="no EPOCH"):
        committed(store)
    with pytest.raises(LogLost, match="no EPOCH"):
        collect(store, "bank", min_age_s=0.0)


# Another log, or an older one, in its place: garbage collection looks closer ------------------------------


def put_log(store: Store, *records: EpochRecord) -> None:
    lose_log(store)
    for record in records:
        store.create(f"bank/log/{record.position:020}", encode_record(record))


@pytest.mark.parametrize(
    ("records", "missing"),
    [
        ((EpochRecord(0, 1, "of-another-system"),), "no EPOCH of w1"),
        ((EpochRecord(0, 1, "of-another-system"), EpochRecord(1, 9, "of-another-system-too")), "no EPOCH of w1"),
        ((EpochRecord(0, 1, "w1"),), "record 1 is missing"),
    ],
)
def test_garbage_collection_refuses_a_log_under_which_this_was_not_written(
    records: tuple[EpochRecord, ...], missing: str
) -> None:
    store = FaultyStore()
    three_snapshots(store)
    put_log(store, *records)
    there = everything(store)
    for _ in range(2):
        with pytest.raises(LogLost, match=missing):
            collect(store, "bank", min_age_s=0.0)
    assert everything(store) == there


def test_garbage_collection_refuses_a_log_that_has_lost_a_life() -> None:
    store = FaultyStore()
    three_snapshots(store)
    older = {key: store.read(key) for key in log_keys(store)}
    make_snapshot(open_bank(store, "w2"), Bank(), 1)
    for key in set(log_keys(store)) - set(older):
        store.delete(key)
    with pytest.raises(LogLost, match="no EPOCH of life 2"):
        collect(store, "bank", min_age_s=0.0)


# What is whole stays so ----------------------------------------------------------------------------------------


def test_a_system_that_crashed_before_its_first_epoch_is_empty_and_can_begin() -> None:
    store = FaultyStore()
    store.create("bank/FORMAT", format_document())
    assert Storage(store).system("bank").snapshots() == []
    assert collect(store, "bank", min_age_s=0.0).groups == {}
    make_snapshot(open_bank(store))
    assert len(committed(store)) == 1


def test_what_is_written_while_an_empty_system_is_read_is_no_damage() -> None:
    store = FaultyStore()
    make_system(store, "bank")
    listed = store.list

    def begin_meanwhile(prefix: str = "", **how: Any) -> Any:
        if prefix == "bank/manifests":
            store.list = listed  # type: ignore[method-assign]
            make_snapshot(open_bank(store))
        return listed(prefix, **how)

    store.list = begin_meanwhile  # type: ignore[method-assign]
    assert len(committed(store)) == 1


@pytest.fixture
def backup() -> FaultyStore:
    """A storage that holds copies, and never had a life."""
    source, destination = FaultyStore("source"), FaultyStore("backup")
    for snapshot in (three_snapshots(source), *committed(source))[1:]:
        copy_snapshot(source, destination, snapshot)
    return destination


def test_a_storage_of_copies_stays_readable_and_is_collected(backup: FaultyStore) -> None:
    for _ in range(3):
        collect(backup, "bank", min_age_s=0.0)
    assert [snapshot.id.counter for snapshot in committed(backup)] == [1, 2, 3]
    assert all(snapshot.verify(()).sound for snapshot in committed(backup))
    before = backup.calls
    view = Storage(backup).system("bank")
    view.snapshots()
    first = backup.calls - before
    view.snapshots()
    assert backup.calls - before - first < first / 2  # it was looked once what lies beside the log


def test_a_storage_of_copies_whose_log_is_gone_is_refused(backup: FaultyStore) -> None:
    lose_log(backup)
    there = everything(backup)
    for door in (
        lambda: committed(backup),
        lambda: collect(backup, "bank", min_age_s=0.0),
        lambda: open_bank(backup, "w1"),
    ):
        with pytest.raises(LogLost, match="copies/"):
            door()
    assert everything(backup) == there


def test_copies_that_an_older_log_does_not_know_are_no_garbage(backup: FaultyStore) -> None:
    there = {key for key in everything(backup) if "/copies/" in key}
    for key in log_keys(backup)[1:]:
        backup.delete(key)
    for _ in range(3):
        assert collect(backup, "bank", min_age_s=0.0).expired == ()
    assert {key for key in everything(backup) if "/copies/" in key} == there


def test_a_copy_that_died_behind_its_manifest_goes_on_and_is_read_meanwhile_as_not_there() -> None:
    source, destination = FaultyStore("source"), FaultyStore("backup")
    snapshot = make_snapshot(open_bank(source))
    created = destination.create

    def die_before_the_record(key: str, data: Any) -> None:
        if "/log/" in key and any("/manifests/" in entry.key for entry in destination.list("bank/copies")):
            raise SystemExit
        created(key, data)

    destination.create = die_before_the_record  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        copy_snapshot(source, destination, snapshot)
    destination.create = created  # type: ignore[method-assign]
    with pytest.raises(SnapshotNotFound):
        Storage(destination).system("bank").latest()
    assert copy_snapshot(source, destination, snapshot).verify(()).sound


def test_a_log_that_is_whole_costs_no_look_at_what_lies_beside_it() -> None:
    store = FaultyStore()
    three_snapshots(store)
    before = len(store.journal)
    CommitLog(store, "bank").refresh()
    assert [key for verb, key in store.journal[before:] if verb == "list"] == ["bank/segments", "bank/log"]


def test_nothing_is_committed_behind_a_hole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    repository = three_snapshots(store)
    manifest = make_manifest(repository, Bank(), 4)
    for path in (tmp_path / "bank/log").iterdir():
        path.unlink()
    (tmp_path / "bank/log").rmdir()
    with pytest.raises(LogLost, match="record 3 was there and is gone"):
        repository.commit(manifest, None)
    with pytest.raises(BadManifest):
        retain(repository, Keep(last=1))
    assert not (tmp_path / "bank/log").exists()
    assert len(list((tmp_path / "bank/manifests").iterdir())) == 3
