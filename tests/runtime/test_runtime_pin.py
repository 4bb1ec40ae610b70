"""A program whose environment pins the snapshot to go back to, and which is started again and again under that pin."""

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError, SnapshotDeleted, SnapshotNotFound
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray
PIN = "RAYSHOT_RESTORE_SNAPSHOT"


@pytest.fixture
def start(new_system, tmp_path, monkeypatch):
    """Starts the program, pinned or not; its system ends as where a cluster dies: nothing more is committed."""

    def again(pin=None, name="bank", **settings):
        for system in new_system.made:
            system.shutdown()
        monkeypatch.setenv(PIN, pin or "")
        settings.setdefault("begin", lambda _: Account.options(name="alice").remote(0))
        system = rayshot.resume(name, storage=tmp_path / "shots", **settings)
        new_system.made.append(system)
        return system

    return again


def balance(system):
    return ray.get(system.get_actor("alice").read.remote())


def commit(system, amount):
    """Add to what alice has, and take a snapshot of it; returns its id."""
    system.get_actor("alice").deposit.tell(amount)
    return str(system.snapshot().id)


@pytest.mark.wide("slow")
def test_a_pin_goes_back_and_a_second_start_under_it_goes_on(start):
    first = start()
    pinned, _ = commit(first, 1), commit(first, 10)
    under = start(pinned)
    assert (under.incarnation, balance(under)) == (2, 1)
    assert balance(start(pinned)) == 1  # it had committed nothing
    commit(start(pinned), 100)
    for life in (5, 6, 7):
        again = start(pinned)
        assert (again.incarnation, balance(again)) == (life, 101 + life - 5)
        commit(again, 1)
    assert balance(start()) == 104


@pytest.mark.wide("slow")
def test_the_way_back_of_an_upgrade_is_not_what_the_new_version_committed(start):
    pinned = commit(start(), 1)
    commit(start(), 1000)  # the new version goes on from the same snapshot, and is no good
    back = start(pinned)
    assert balance(back) == 1
    commit(back, 10)
    assert balance(start(pinned)) == 11
    commit(start(), 1000)  # the next attempt, from what the old version had committed since
    assert balance(start(pinned)) == 1


@pytest.mark.wide("slow")
def test_a_life_that_committed_nothing_does_not_end_a_pin(start):
    pinned = commit(start(), 1)
    commit(start(pinned), 10)
    assert balance(start()) == 11
    assert balance(start(pinned)) == 11


@pytest.mark.wide("slow")
def test_another_pin_is_another_one(start):
    first = start()
    one, two = commit(first, 1), commit(first, 10)
    commit(start(one), 100)
    assert balance(start(two)) == 11
    commit(start(two), 100)
    assert balance(start(one)) == 1


def test_what_is_kept_under_a_pin_is_what_a_start_needs(start):
    pinned = commit(start(), 1)
    system = start(pinned, snapshots=rayshot.SnapshotConfig(num_to_keep=1))
    for _ in range(3):
        last = commit(system, 10)
    eventually(lambda: [str(one.id) for one in system.snapshots()] == [last])
    assert balance(start(pinned)) == 31
    system.shutdown()
    commit(start(), 0)  # not under it
    with pytest.raises(SnapshotDeleted, match=f"^{PIN}={pinned}: the snapshot {pinned} of 'bank' was deleted"):
        start(pinned)


def test_a_pin_that_leads_nowhere_is_an_error_and_nothing_is_begun(start, tmp_path):
    with pytest.raises(SnapshotNotFound, match=f"^{PIN}=1-coordinator-7: .* holds no snapshot of system 'bank'"):
        start("1-coordinator-7")
    system = start()
    kept = commit(system, 1)
    with pytest.raises(SnapshotNotFound, match=f"^{PIN}=1-coordinator-7: .* does not exist; there is .*{kept}"):
        start("1-coordinator-7")
    with pytest.raises(ConfigError, match=f"^{PIN}: "):
        start("the last one")
    assert not [
        one for one in ray.util.list_named_actors(all_namespaces=True) if one["name"].startswith("rayshot/bank")
    ]
    assert [str(one.id) for one in rayshot.open(tmp_path / "shots").system("bank").snapshots()][-1] == kept


def test_a_system_that_runs_is_attached_to_whatever_is_pinned(start, new_system, tmp_path, monkeypatch):
    system = start()
    pinned = commit(system, 1)
    commit(system, 10)
    monkeypatch.setenv(PIN, pinned)
    attached = rayshot.resume("bank", storage=tmp_path / "shots", begin=print)
    assert (attached.incarnation, balance(attached)) == (1, 11)


@pytest.mark.wide("slow")
def test_a_pin_is_of_one_system_where_that_is_named(start, monkeypatch):
    commit(start(name="shop"), 5)
    pinned = commit(start(), 1)
    commit(start(), 10)
    monkeypatch.setenv("RAYSHOT_SYSTEM", "bank")
    assert balance(start(pinned)) == 1
    assert balance(start(pinned, name="shop")) == 5
