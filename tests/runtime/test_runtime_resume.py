"""A program that is started again and again: what it finds, what it leaves, and what it must not eat."""

import os
import signal
import threading

import pytest
import ray
from click.testing import CliRunner

import rayshot
from rayshot.cli import main
from rayshot.errors import ConfigError, LivesElsewhere, SnapshotsExist
from rayshot.log.heartbeat import Beating, last_heartbeat
from rayshot.places.local import LocalStore
from tests.runtime.healed import STOPS
from tests.runtime.workloads import Account, Unfinished
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def open_accounts(system):
    for name, balance in (("alice", 1), ("bob", 2)):
        Account.options(name=name).remote(balance)


def balances(system):
    return {name: ray.get(actor.read.remote()) for name, actor in sorted(system.actors().items())}


@pytest.fixture
def resume(new_system, tmp_path):
    def again(begin=open_accounts, **settings):
        system = rayshot.resume("bank", storage=tmp_path / "shots", begin=begin, **settings)
        new_system.made.append(system)
        return system

    return again


def ids(system):
    return [str(snapshot.id) for snapshot in system.snapshots()]


@pytest.mark.acceptance("X5")
def test_init_refuses_to_begin_where_there_are_snapshots_and_says_what_to_write(new_system, tmp_path):
    system = new_system("bank")
    open_accounts(system)
    kept = system.snapshot().id
    system.shutdown()
    with pytest.raises(SnapshotsExist) as caught:
        new_system("bank")
    storage = str(tmp_path / "shots")
    assert f"    system = rayshot.resume('bank', storage={storage!r}, begin=...)" in str(caught.value).splitlines()
    assert f"    system = rayshot.init('bank', storage={storage!r}, fresh=True)" in str(caught.value).splitlines()
    assert caught.value.evidence["snapshot"] == str(kept)
    assert not [
        one for one in ray.util.list_named_actors(all_namespaces=True) if one["name"].startswith("rayshot/bank")
    ]
    assert [snapshot.id for snapshot in rayshot.open(storage).system("bank").snapshots()] == [kept]


@pytest.mark.acceptance("X5")
def test_a_life_that_begins_afresh_leaves_the_backup_of_the_one_before(new_system):
    system = new_system("bank")
    open_accounts(system)
    kept = str(system.snapshot().id)
    system.shutdown()
    system = new_system("bank", fresh=True, snapshots=rayshot.SnapshotConfig(num_to_keep=2))
    for _ in range(4):
        system.snapshot()
    eventually(lambda: ids(system) == [kept, "2-coordinator-3", "2-coordinator-4"])  # what is old goes after a commit


def test_resume_begins_once_then_attaches_then_restores(resume):
    called = []

    def begin(system):
        called.append(system.status().state)
        open_accounts(system)

    system = resume(begin)
    assert called == ["beginning"]
    assert system.status().state == "running"
    assert ids(system) == ["1-coordinator-1"]
    assert system.snapshots()[0].states() == {"alice": {"balance": 1}, "bob": {"balance": 2}}
    system.get_actor("alice").deposit.tell(10)
    attached = resume(begin)
    assert attached.incarnation == 1
    assert balances(attached) == {"alice": 11, "bob": 2}
    attached.snapshot()
    attached.shutdown()
    restored = resume(begin)
    assert restored.incarnation == 2
    assert balances(restored) == {"alice": 11, "bob": 2}
    assert called == ["beginning"]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("X5")
def test_a_program_that_is_started_again_and_again_does_not_fill_its_storage(resume):
    for life in range(1, 5):
        system = resume(snapshots=rayshot.SnapshotConfig(num_to_keep=2))
        assert system.incarnation == life
        last = [str(system.snapshot().id) for _ in range(3)][-2:]
        eventually(lambda: ids(system) == last)  # noqa: B023 - it is called here
        assert balances(system) == {"alice": 1, "bob": 2}
        system.shutdown()


def test_resume_leaves_a_savepoint_to_the_person_who_asked_for_it(resume):
    system = resume()
    savepoint = str(system.savepoint("before the move").id)
    system.shutdown()
    system = resume(snapshots=rayshot.SnapshotConfig(num_to_keep=1))
    for _ in range(3):
        last = str(system.snapshot().id)
    eventually(lambda: ids(system) == [savepoint, last])


def test_resume_goes_back_when_an_actor_was_killed(resume):
    system = resume(failure=STOPS)
    os.kill(system.status().actors["bob"].pid, signal.SIGKILL)
    eventually(lambda: system.status().state == "stopped", 10)
    restored = resume()
    assert (restored.incarnation, balances(restored)) == (2, {"alice": 1, "bob": 2})


def test_nothing_is_committed_before_begin_has_returned(resume):
    def begin(system):
        open_accounts(system)
        system.configure(rayshot.SnapshotConfig(interval_s=0.05))
        with pytest.raises(ConfigError, match="when `begin` has returned"):
            system.snapshot()
        photographer = Account.remote(0)
        ray.get(photographer.photograph.remote())
        eventually(lambda: system.status().aborted)
        assert system.snapshots() == []
        ray.get(photographer.leave.remote())

    system = resume(begin)
    assert system.snapshots()[0].states() == {"alice": {"balance": 1}, "bob": {"balance": 2}}


def test_a_begin_that_raises_leaves_nothing_and_is_called_again(resume):
    def fail(system):
        open_accounts(system)
        raise LookupError("no such customer")

    with pytest.raises(LookupError, match="no such customer"):
        resume(fail)
    assert not [
        one for one in ray.util.list_named_actors(all_namespaces=True) if one["name"].startswith("rayshot/bank")
    ]
    assert balances(resume()) == {"alice": 1, "bob": 2}


def test_a_begin_whose_actors_all_fail_in_their_constructors_is_said_and_seen(resume, caplog):
    system = resume(lambda _: Unfinished.options(name="alice").remote(0))
    assert system.status().actors == {}
    assert "system 'bank' begins with no actors, and from now on is restored with none" in caplog.text
    assert "fresh=True" in caplog.text
    shown = " ".join(CliRunner().invoke(main, ["status", "bank"]).output.split())
    assert "no actor lives: none was made, or each has ended, such as one whose constructor failed" in shown
    caplog.clear()
    resume()
    assert "begins with no actors" not in caplog.text


def test_who_attaches_meanwhile_waits_until_the_system_runs(resume, new_system, tmp_path):
    found = []

    def attach():
        found.append(rayshot.init("bank", storage=tmp_path / "shots"))

    def begin(system):
        thread = threading.Thread(target=attach)
        thread.start()
        open_accounts(system)
        found.append(thread)

    resume(begin)
    thread, *_ = found
    thread.join(30)
    attached = found[-1]
    new_system.made.append(attached)
    assert balances(attached) == {"alice": 1, "bob": 2}


def test_a_life_in_another_cluster_is_not_fenced_out_unless_asked_for(resume, tmp_path):
    resume().shutdown()
    store = LocalStore(tmp_path / "shots")
    assert last_heartbeat(store, "bank") is None
    elsewhere = Beating(store, "bank", 1, os.getpid())
    elsewhere.beat()
    said = r"life 1 of system 'bank' may still run in another cluster: .* said \d+ s ago that it runs"
    with pytest.raises(LivesElsewhere, match=said) as caught:
        resume()
    assert 0 < caught.value.evidence["seconds_left"] <= 60
    taken = resume(takeover=True)
    assert balances(taken) == {"alice": 1, "bob": 2}
    eventually(lambda: last_heartbeat(store, "bank").incarnation == 2)
