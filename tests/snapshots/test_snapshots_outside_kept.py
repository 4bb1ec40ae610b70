"""All that keeps snapshots knows what hooks wrote for them: reading, verifying, deleting, collecting, copying."""

import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from rayshot.errors import CorruptFile, IntentExpired, KeyNotFound, MissingFile, RayshotError, StoreUnavailable
from rayshot.keys.encryption import EncryptionKey
from rayshot.places.kinds import below, open_store
from rayshot.places.local import LocalStore
from rayshot.places.memory import named_memory_store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.outside import ActorFolder
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from rayshot.snapshots.upkeep.retention import Keep
from rayshot.snapshots.verification import Portion
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore
from tests.snapshots.snapshot_builder import (
    Bank,
    committed,
    delete,
    make_manifest,
    make_snapshot,
    open_bank,
    retain,
    write_outside,
)
from tests.snapshots.test_snapshots_garbage import HOUR, Hours, objects

FILES = {"alice": {"shard 0.pt": b"zero", ".metadata": b""}, "bob": {"deep/er/f": b"one" * 100}}
OUTSIDE = Bank(files=FILES, payload={"step": 3})


@pytest.fixture(params=["disk", "s3"])
def store(request, tmp_path):
    if request.param == "disk":
        return LocalStore(tmp_path / "shots")
    return open_store(request.getfixturevalue("s3").address(f"kept/{uuid.uuid4().hex}"))


@pytest.fixture
def root(request):
    """A place elsewhere, which lasts as long as the test."""
    return named_memory_store(f"root-{uuid.uuid4().hex}")


def files_in(store, prefix="bank/outside"):
    return [entry.key for entry in store.list(prefix)]


def check_of(verification):
    return next(check for check in verification.checks if check.name == "outside")


# Reading and verifying. -------------------------------------------------------------------------------------------


def test_a_snapshot_tells_payloads_files_and_where_they_are(store):
    snapshot = make_snapshot(open_bank(store), OUTSIDE)
    alice = Storage(open_store(store.url)).system("bank").latest().outside["alice"]
    assert alice.payload == {"step": 3}
    assert [(file.path, file.size) for file in alice.files] == [(".metadata", 0), ("shard 0.pt", 4)]
    assert alice.folder.endswith("/bank/outside/1-coordinator-1/alice")
    assert alice.size_bytes == 4
    assert list(snapshot.outside) == ["alice", "bob"]
    if isinstance(store, LocalStore):
        assert Path(alice.folder, "shard 0.pt").read_bytes() == b"zero"


def test_a_snapshot_without_it_has_no_such_check_and_nothing_outside():
    snapshot = make_snapshot(open_bank(FaultyStore()))
    assert snapshot.outside == {}
    assert "outside" not in [check.name for check in snapshot.survey(()).checks]


def test_a_survey_compares_sizes_and_an_examination_digests(store):
    snapshot = make_snapshot(open_bank(store), OUTSIDE)
    assert check_of(snapshot.survey(())).detail == "2 payloads; 3 files with 304 bytes are there, unread"
    told = []
    examined = snapshot.examine((), told.append)
    assert (
        check_of(examined).detail
        == "2 payloads; 3 files with 304 bytes are there, 3 of them read and fit their digests"
    )
    assert sum(told) == snapshot.size_bytes + 304
    store.write("bank/outside/1-coordinator-1/alice/shard 0.pt", [b"orez"], 4)
    assert snapshot.survey(()).sound
    assert isinstance(check_of(snapshot.examine(())).error, CorruptFile)
    with pytest.raises(CorruptFile, match="does not fit its digest"):
        snapshot.verify(())
    store.delete("bank/outside/1-coordinator-1/alice/shard 0.pt")
    assert isinstance(check_of(snapshot.survey(())).error, MissingFile)


def test_all_parts_together_read_each_file_once():
    snapshot = make_snapshot(open_bank(FaultyStore()), OUTSIDE)
    told = []
    for number in range(1, 4):
        assert snapshot.survey((), Portion(number, 3), told.append).sound
    assert sum(told) == snapshot.size_bytes + 304


def test_a_root_that_is_not_here_is_not_seen_and_that_is_no_damage(tmp_path):
    root = LocalStore(tmp_path / "ckpt")
    snapshot = make_snapshot(open_bank(LocalStore(tmp_path / "shots")), Bank(files=FILES, root=root))
    assert "are there" in check_of(snapshot.survey(())).detail
    assert snapshot.outside["alice"].root == root.url
    for gone in (shutil.rmtree, lambda folder: folder.mkdir()):  # a disk that is away may leave an empty folder
        gone(tmp_path / "ckpt")
        unseen = check_of(snapshot.examine(()))
        assert unseen.ok
        assert unseen.detail == "2 payloads"
        assert unseen.unseen == f"3 files with 304 bytes, as nothing is in {root.url} from here"
    (tmp_path / "ckpt" / "other").mkdir()
    assert isinstance(check_of(snapshot.survey(())).error, MissingFile)


def test_verifying_an_encrypted_snapshot_says_that_its_files_are_plain():
    store, key = FaultyStore(), EncryptionKey(b"e" * 32)
    snapshot = make_snapshot(open_bank(store, keys=[key]), OUTSIDE)
    assert check_of(snapshot.survey(())).detail.endswith("are there, unread, plain: not encrypted")
    assert store.read("bank/outside/1-coordinator-1/alice/shard 0.pt") == b"zero"


def test_retention_reads_no_file():
    store = FaultyStore()
    repository = open_bank(store)
    for number in range(1, 4):
        make_snapshot(repository, OUTSIDE, number)
    store.journal.clear()
    retain(repository, Keep(last=1))
    assert not [key for verb, key in store.journal if "read" in verb and "/outside/" in key]
    assert {key.split("/")[2] for key in files_in(store)} == {"1-coordinator-3"}


def test_what_changed_outside_is_a_change_of_the_actor():
    repository = open_bank(FaultyStore())
    first = make_snapshot(repository, Bank(files={"alice": {"a": b"1", "b": b"2"}}, payload=1), 1)
    second = make_snapshot(repository, Bank(files={"alice": {"b": b"3", "c": b"4"}}, payload=2), 2)
    (changed,) = first.diff(second).actors_changed
    payload, files = changed.values
    assert (payload.name, payload.old, payload.new) == ("(payload)", 1, 2)
    assert (files.name, sorted(files.old), sorted(files.new)) == ("(files)", ["a", "b"], ["b", "c"])
    assert first.diff(first).same


# Deleting. --------------------------------------------------------------------------------------------------------


def test_the_folder_of_a_deleted_snapshot_goes_and_no_other(store):
    repository = open_bank(store)
    first, second = (make_snapshot(repository, OUTSIDE, number) for number in (1, 10))
    delete(repository, first.id)
    assert {key.split("/")[2] for key in files_in(store)} == {"1-coordinator-10"}
    assert second.verify(()).sound
    if isinstance(store, LocalStore):
        assert [path.name for path in (store.folder / "bank/outside").iterdir()] == ["1-coordinator-10"]


def test_the_folder_goes_also_below_another_root(root):
    repository = open_bank(FaultyStore())
    first, second = (make_snapshot(repository, Bank(files=FILES, root=root), number) for number in (1, 2))
    delete(repository, first.id)
    assert {key.split("/")[2] for key in files_in(root)} == {"1-coordinator-2"}
    assert second.verify(()).sound


class AwayStore(FaultyStore):
    def clear(self, folder):
        raise StoreUnavailable("it is away")


def test_a_root_that_is_away_keeps_nothing_else_from_going_and_is_cleared_by_a_collection_that_is_told(
    monkeypatch, caplog, root
):
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    first = make_snapshot(repository, Bank(files=FILES, root=root))
    make_snapshot(repository, Bank(), 2)
    with monkeypatch.context() as away:
        away.setattr("rayshot.snapshots.upkeep.deletion.open_store", lambda _: AwayStore())
        assert delete(repository, first.id).removed == (first.id,)
    assert "stay in memory://root-" in caplog.text
    clock.now = 1e12
    for _ in range(2):
        collect(store, "bank")
    assert len(files_in(root)) == 3  # no manifest names the place any more
    monkeypatch.setattr("rayshot.snapshots.upkeep.garbage.below", lambda *_: root.url)
    for _ in range(2):
        collect(store, "bank", files="told")
    assert files_in(root) == []


# Collecting garbage. ----------------------------------------------------------------------------------------------


@pytest.fixture
def aborted():
    """A snapshot that is retained, and files of one that was aborted; the store's clock; its coordinator."""
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    kept = make_snapshot(repository, OUTSIDE, 1)
    write_outside(repository, OUTSIDE, SnapshotId(1, "coordinator", 2), "alice")
    return store, clock, repository, kept


def test_files_of_an_aborted_snapshot_go_behind_its_expiry(aborted):
    store, clock, _, kept = aborted
    clock.now += HOUR - 1
    for _ in range(2):
        young = collect(store, "bank")
        assert (young.expired, young.groups["outside"].young.objects) == ((), 0)
        assert young.groups["outside"].kept.objects == 2
    clock.now += 1
    first = collect(store, "bank")
    assert first.expired == (SnapshotId(1, "coordinator", 2),)
    assert (first.groups["outside"].marked.objects, first.groups["outside"].marked.bytes) == (1, 4)
    assert len(files_in(store)) == 5
    assert collect(store, "bank").groups["outside"].removed.objects == 1
    assert {key.split("/")[2] for key in files_in(store)} == {"1-coordinator-1"}
    assert kept.verify(()).sound
    assert objects(collect(store, "bank"), "removed") == 0


def test_a_commit_that_was_lost_and_comes_before_the_expiry_finds_all_its_files():
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    late = make_manifest(repository, OUTSIDE, 1)
    clock.now += HOUR - 1
    for _ in range(3):
        collect(store, "bank")
    snapshot = repository.snapshot(repository.commit(late, None))
    clock.now += 10 * HOUR
    for _ in range(3):
        collect(store, "bank")
    assert snapshot.verify(()).sound


def test_a_commit_behind_the_expiry_is_void():
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    late = make_manifest(repository, OUTSIDE, 1)
    clock.now += HOUR
    assert collect(store, "bank").expired == (late.snapshot,)
    with pytest.raises(IntentExpired):
        repository.commit(late, None)
    collect(store, "bank")
    assert files_in(store) == []


def test_files_of_a_snapshot_that_is_open_stay_however_old_they_are(aborted):
    store, clock, repository, _ = aborted
    clock.now += 10 * HOUR
    repository.intend(SnapshotId(1, "coordinator", 2), None, 600.0)
    for _ in range(3):
        assert collect(store, "bank").expired == ()
    assert len(files_in(store)) == 5


def test_files_of_an_earlier_life_that_never_committed_go_without_a_record(aborted):
    store, clock, _, _ = aborted
    open_bank(store, "w2")
    clock.now += HOUR
    for _ in range(2):
        assert collect(store, "bank").expired == ()
    assert {key.split("/")[2] for key in files_in(store)} == {"1-coordinator-1"}


@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
@pytest.mark.parametrize("count", [1, 10_000])
def test_a_collection_that_fails_or_dies_at_any_call_keeps_what_is_needed_and_the_next_ones_finish(effect, count):
    def prepared():
        clock = Hours()
        store = FaultyStore(clock=clock)
        repository = open_bank(store)
        kept, gone = (make_snapshot(repository, OUTSIDE, number) for number in (1, 2))
        repository.log.delete("person", gone.id)  # and died before the bytes were removed
        write_outside(repository, OUTSIDE, SnapshotId(1, "coordinator", 3), "alice")
        clock.now += HOUR
        return store, kept

    store, _ = prepared()
    start = store.calls
    twice(store)
    for number in range(1, store.calls - start + 1):
        store, kept = prepared()
        store.fault = Fault(store.calls + number, effect, count)
        with suppress(RayshotError):
            twice(store)
        store.fault = None
        assert kept.verify(()).sound
        twice(store)
        assert kept.verify(()).sound
        assert {key.split("/")[2] for key in files_in(store)} == {"1-coordinator-1"}


def twice(store):
    for _ in range(2):
        collect(store, "bank")


def test_strange_folders_and_those_of_lives_to_come_stay(aborted):
    store, clock, _, _ = aborted
    strange = ["bank/outside/notes/x/y", "bank/outside/1-coordinator-9.1/x/y", "bank/outside/7-coordinator-1/x/y"]
    for key in strange:
        store.create(key, b"x")
    clock.now += HOUR
    for _ in range(3):
        collect(store, "bank")
    assert set(strange) <= set(files_in(store))


def test_a_dry_run_removes_no_folder(aborted):
    store, clock, _, _ = aborted
    clock.now += HOUR
    collect(store, "bank")
    dry = collect(store, "bank", dry_run=True)
    assert len(files_in(store)) == 5
    assert collect(store, "bank").groups == dry.groups


def test_below_a_root_that_only_manifests_name_goes_what_the_log_says_is_over(root):
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    there = Bank(files=FILES, root=root)
    make_snapshot(repository, there, 1)
    for counter in (2, 3):
        write_outside(repository, there, SnapshotId(1, "coordinator", counter), "alice")
    repository.intend(SnapshotId(1, "coordinator", 3))
    clock.now = 1e12  # the root has another clock
    assert collect(store, "bank").expired == (SnapshotId(1, "coordinator", 3),)
    collect(store, "bank")
    assert {key.split("/")[2] for key in files_in(root)} == {"1-coordinator-1", "1-coordinator-2"}


def test_a_storage_copied_by_hand_does_not_collect_what_the_first_writes_at_their_root(tmp_path, root):
    first = LocalStore(tmp_path / "first")
    repository = open_bank(first)
    there = Bank(files=FILES, root=root)
    make_snapshot(repository, there, 1)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    newer = make_snapshot(repository, there, 2)
    for _ in range(2):
        collect(LocalStore(tmp_path / "second"), "bank", min_age_s=0.0)
    assert newer.verify(()).sound


def test_two_storages_whose_systems_have_one_name_share_a_root_and_touch_only_their_own(tmp_path):
    repositories = [open_bank(LocalStore(tmp_path / name), name) for name in ("a", "b")]
    address = str(tmp_path / "ckpt")
    roots = [open_store(below(address, one.log.run)) for one in repositories]
    made = [make_snapshot(one, Bank(files=FILES, root=root)) for one, root in zip(repositories, roots, strict=True)]
    for one, root in zip(repositories, roots, strict=True):
        write_outside(one, Bank(files=FILES, root=root), SnapshotId(1, "coordinator", 2), "alice")
    for file in [path for path in Path(address).rglob("*") if path.is_file()]:
        os.utime(file, (time.time() - 4000,) * 2)
    for _ in range(2):
        collect(repositories[0].store, "bank", min_age_s=0.0, files=address)
    assert len(files_in(roots[0])) == 3
    assert len(files_in(roots[1])) == 5
    delete(repositories[0], made[0].id)
    assert files_in(roots[0]) == []
    assert made[1].verify(()).sound


def test_an_empty_folder_goes_when_its_snapshot_is_over(tmp_path):
    store = LocalStore(tmp_path)
    repository = open_bank(store)
    for counter in (1, 2):
        ActorFolder(store, "bank", SnapshotId(1, "coordinator", counter), "alice").open()
    repository.log.append_next(lambda history, position: expire(position))
    for _ in range(2):
        collect(store, "bank", min_age_s=0.0)
    assert [path.name for path in (tmp_path / "bank/outside").iterdir()] == ["1-coordinator-2"]


def expire(position):
    from rayshot.log.records import ExpireRecord

    return ExpireRecord(position, "gc-1", SnapshotId(1, "coordinator", 1))


# Copying. ---------------------------------------------------------------------------------------------------------


def test_a_copy_has_the_files_in_its_own_folder_and_needs_no_root(store, root):
    original = make_snapshot(open_bank(FaultyStore("source")), Bank(files=FILES, root=root, payload=[1]))
    told = []
    source = original._store
    found = copy_snapshot(source, store, original, progress=lambda *step: told.append(step))
    assert told[0] == ("copying", 0, found.size_bytes + 304)
    assert told[-1] == ("copying", found.size_bytes + 304, found.size_bytes + 304)
    root.clear("bank")
    assert found.verify(()).sound
    assert found.outside["alice"].folder.endswith("/bank/copies/1-coordinator-1.0/outside/1-coordinator-1/alice")
    assert found.outside["alice"].payload == [1]
    back = copy_snapshot(store, FaultyStore("back"), found)
    assert back.verify(()).sound
    for _ in range(2):
        collect(store, "bank", min_age_s=0.0)
    assert found.verify(()).sound
    assert copy_snapshot(source, store, original) == found
    delete(open_bank(store, "w2"), found.id)
    assert files_in(store, "bank/copies") == []


@pytest.mark.parametrize("content", [None, b"orez", b"zer"])
def test_a_copy_of_damaged_files_is_not_visible(content):
    source, destination = FaultyStore("a"), FaultyStore("b")
    original = make_snapshot(open_bank(source), OUTSIDE)
    key = "bank/outside/1-coordinator-1/alice/shard 0.pt"
    source.delete(key) if content is None else source.write(key, [content], len(content))
    with pytest.raises(MissingFile if content is None else CorruptFile):
        copy_snapshot(source, destination, original)
    assert committed(destination) == []
    with pytest.raises(KeyNotFound):
        destination.read(f"bank/copies/1-coordinator-1.0/{key.removeprefix('bank/')}")


def test_an_interrupted_copy_goes_on_with_the_files_that_are_whole(monkeypatch):
    source, destination = FaultyStore("a"), FaultyStore("b")
    original = make_snapshot(open_bank(source), OUTSIDE)
    written = []
    write = FaultyStore.write

    def note(self, key, parts, size):
        if len(written) == 2:
            written.append("")
            raise StoreUnavailable("it went away")
        write(self, key, parts, size)
        written.append(key)

    monkeypatch.setattr(FaultyStore, "write", note)
    with pytest.raises(StoreUnavailable):
        copy_snapshot(source, destination, original)
    assert committed(destination) == []
    first, second = written[:2]
    assert destination.read(second) == b"zero"
    write(destination, second, [b"orez"], 4)
    written[:] = ["-", "-", "-"]
    found = copy_snapshot(source, destination, original)
    assert found.verify(()).sound
    assert [key.rpartition("/")[2] for key in written[3:]] == ["shard 0.pt", "f"]
    assert first.endswith("/.metadata")


@pytest.mark.parametrize("count", [1, 10_000])
def test_a_copy_that_fails_at_any_call_is_never_visible_by_half_and_the_next_one_ends_it(count):
    source = FaultyStore("a")
    original = make_snapshot(open_bank(source), OUTSIDE)
    whole = FaultyStore("whole")
    copy_snapshot(source, whole, original)
    for number in range(1, whole.calls + 1):
        destination = FaultyStore("b")
        destination.fault = Fault(number, FaultEffect.BEFORE, count)
        with suppress(RayshotError):
            copy_snapshot(source, destination, original)
        destination.fault = None
        found = copy_snapshot(source, destination, original)
        assert committed(destination) == [found]
        assert found.verify(()).sound
