"""Storages that are spoiled, before a system begins or while it runs: damage is not taken for emptiness."""

import shutil

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError, LogLost, MissingChunk, SnapshotAborted
from rayshot.log.log import CommitLog
from rayshot.places.local import LocalStore
from rayshot.snapshots.leases import reading
from tests.runtime.healed import kill, pid_of, report, until_it_runs, words_of_processes
from tests.runtime.take_over import kill_coordinator
from tests.runtime.workloads import Account
from tests.snapshots.read_only import disk, looped, remounted, view_of
from tests.snapshots.test_snapshots_full import filled
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def files_of(folder):
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shots(tmp_path):
    return tmp_path / "shots"


@pytest.mark.acceptance("X6")
def test_nobody_begins_resumes_or_restores_a_system_whose_log_is_gone(new_system, shots, tmp_path):
    system = new_system("bank")
    Account.options(name="alice").remote(1)
    system.snapshot()
    system.shutdown()
    rayshot.copy(shots, tmp_path / "backup")
    shutil.rmtree(shots / "bank/log")
    there = files_of(shots)
    for door in (
        lambda: rayshot.init("bank", storage=shots),
        lambda: rayshot.init("bank", storage=shots, fresh=True),
        lambda: rayshot.resume("bank", storage=shots, begin=print),
        lambda: rayshot.resume("bank", storage=shots, begin=print, takeover=True),
        lambda: rayshot.restore(storage=shots),
        lambda: rayshot.restore(storage=tmp_path / "backup", into=shots),
    ):
        with pytest.raises(LogLost, match="the newest backup of bank/log/"):
            door()
    assert files_of(shots) == there
    assert not [
        one for one in ray.util.list_named_actors(all_namespaces=True) if one["name"].startswith("rayshot/bank")
    ]


@pytest.mark.acceptance("X6")
def test_a_snapshot_behind_a_log_that_is_gone_is_no_defect_and_nothing_is_written_to_the_log(new_system, shots):
    system = new_system("bank")
    Account.options(name="alice").remote(1)
    system.snapshot()
    shutil.rmtree(shots / "bank/log")
    with pytest.raises(SnapshotAborted, match="the newest backup of bank/log/") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "store_unavailable"
    assert not (shots / "bank/log").exists()


# Storage that cannot be written ----------------------------------------------------------------------------------


def both(notes):
    return notes if len(notes) > 1 else None


def aborted(system):
    with pytest.raises(SnapshotAborted) as caught:
        system.snapshot()
    return caught.value


@pytest.mark.acceptance("X7")
def test_a_disk_that_becomes_read_only_under_a_system_costs_snapshots_and_nothing_else(new_system, tmp_path):
    with disk(tmp_path / "disk") as there:
        system = new_system("bank", storage=there / "shots")
        alice = Account.options(name="alice").remote(1)
        before = system.snapshot().id
        with remounted(there):
            for _ in range(2):
                error = aborted(system)
                assert error.evidence["reason"] == "store_unavailable"
                assert "Read-only file system" in error.message
            with pytest.raises(ConfigError, match=r"cannot be written: .*Read-only file system"):
                rayshot.init("shop", storage=there / "shots")
            alice.deposit.tell(5)
            assert ray.get(alice.read.remote()) == 6
        system.snapshot()
        notes = eventually(lambda: both(rayshot.open(there / "shots").system("bank").aborts().notes))
        assert [note.reason for note in notes] == ["store_unavailable"] * 2  # they had waited for the disk
        assert system.snapshots()[0].id == before
        assert system.snapshots()[-1].states() == {"alice": {"balance": 6}}
        system.shutdown()


@pytest.mark.wide("slow")
@pytest.mark.acceptance("X7")
@pytest.mark.parametrize("lost", ["actor", "coordinator and actor"])
def test_a_system_that_goes_back_waits_for_a_disk_that_is_full(new_system, tmp_path, lost):
    with disk(tmp_path / "disk") as there:
        system = new_system("bank", storage=there / "shots")
        alice = Account.options(name="alice").remote(1)
        system.snapshot()
        with filled(there, room=0):
            if lost == "actor":
                kill(system, "alice")
                eventually(lambda: "No space left" in report(system)["recovering"], 30)
            else:
                kill_coordinator(system, pid_of(system, "alice"))
                eventually(lambda: "system 'bank' waits for its storage: " in words_of_processes(), 30)
        until_it_runs(system)
        system.wait_until_running(30)
        alice.deposit.tell(5)
        assert ray.get(alice.read.remote()) == 6
        assert system.snapshot().states() == {"alice": {"balance": 6}}
        system.shutdown()


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.acceptance("X7")
@pytest.mark.parametrize("folder", ["intents", "chunks", "manifests", "log"])
def test_a_folder_that_fails_under_a_system_is_said_to_be_the_storages_fault(new_system, shots, folder):
    system = new_system("bank")
    Account.options(name="alice").remote(1)
    system.snapshot()
    Account.options(name="bob").remote(2)
    with looped(shots / "bank" / folder):
        error = aborted(system)
        assert error.evidence["reason"] == "store_unavailable"
        assert "symbolic links" in error.message
    system.snapshot()
    assert system.snapshots()[-1].states() == {"alice": {"balance": 1}, "bob": {"balance": 2}}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("X7")
@pytest.mark.parametrize("how", ["mounted", "looped"])
def test_a_system_is_restored_from_storage_that_cannot_be_written_into_another(new_system, shots, tmp_path, how):
    system = new_system("bank")
    Account.options(name="alice").remote(1)
    kept = system.snapshot().id
    system.shutdown()
    with reading(CommitLog(LocalStore(shots), "bank"), kept):
        pass  # so that there is a folder for leases
    with view_of(shots, tmp_path / "view") if how == "mounted" else looped(shots / "bank/leases") as view:
        there = files_of(shots)
        restored = rayshot.restore(storage=view or shots, into=tmp_path / "into")
        new_system.made.append(restored)
        restored.get_actor("alice").deposit.tell(5)
        assert ray.get(restored.get_actor("alice").read.remote()) == 6
        restored.snapshot()
        assert files_of(shots) == there
    assert [snapshot.states() for snapshot in restored.snapshots()] == [{"alice": {"balance": 6}}]


# Folders that were removed ---------------------------------------------------------------------------------------


@pytest.mark.acceptance("X7")
def test_chunks_that_were_removed_under_a_system_are_written_anew_by_its_next_snapshot(new_system, shots):
    system = new_system("bank")
    alice = Account.options(name="alice").remote(1)
    large = {name: name * 50_000 for name in ("bob", "carol")}  # of which the next snapshot would write nothing
    for name, balance in large.items():
        Account.options(name=name).remote(balance)
    lost = system.snapshot()
    shutil.rmtree(shots / "bank/chunks")
    assert ray.get(alice.read.remote()) == 1
    found = system.snapshot()
    assert found.examine().sound
    assert found.states() == {name: {"balance": balance} for name, balance in {"alice": 1, **large}.items()}
    with pytest.raises(MissingChunk):
        lost.states()
