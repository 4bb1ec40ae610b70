"""Savepoints, stopping with one, and to whom a snapshot belongs that a system was restored from."""

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import ConfigError, SnapshotAborted, SnapshotDeleted, SystemDown, SystemStopped
from rayshot.places.local import LocalStore
from rayshot.runtime.door import failpoints
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from tests.runtime.test_runtime_restore import restore, running
from tests.runtime.workloads import Account, Holder, Sink, Source
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def accounts(*names, balance=100):
    made = {name: Account.options(name=name).remote(balance) for name in names}
    ray.get([account.read.remote() for account in made.values()])
    return made


def shared(one, other):
    """The keys of chunks that two snapshots have in common."""
    return {chunk.key for chunk in one.manifest.chunks} & {chunk.key for chunk in other.manifest.chunks}


def test_a_system_is_stopped_with_a_savepoint_behind_whose_cut_nothing_is_processed(new_system):
    system = new_system()
    sink = Sink.options(name="sink").remote()
    source = Source.options(name="source").remote([sink], 1_000_000, 100)
    ray.get([sink.report.remote(), source.progress.remote()])
    source.go_on.tell(source)
    eventually(lambda: ray.get(source.progress.remote()) or None)
    savepoint = system.stop_with_savepoint("before the move")
    assert (savepoint.label, savepoint.mode) == ("before the move", "stop-the-world")
    savepoint.verify()
    assert running(system) == []
    with pytest.raises(SystemStopped):
        system.snapshot()
    with pytest.raises(SystemDown):
        ray.get(source.progress.remote())
    sent = savepoint.states()["source"]["sent"]
    assert 0 < sent < 1_000_000
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    sink = restored.get_actor("sink")
    eventually(lambda: sum(ray.get(sink.report.remote())[0].values()) > sent or None)
    counts, wrong = ray.get(sink.report.remote())
    assert wrong == []
    assert set(counts) == {"source"}


def test_a_system_whose_coordinator_dies_between_the_savepoint_and_the_stop_is_stopped_by_the_next_one(new_system):
    system = new_system()
    sink = Sink.options(name="sink").remote()
    source = Source.options(name="source").remote([sink], 10_000_000, 100)
    ray.get([sink.report.remote(), source.progress.remote()])
    source.go_on.tell(source)
    coordinator = ray.get_actor(f"rayshot/{system.name}", namespace="rayshot")
    ray.get(coordinator.__ray_call__.remote(lambda _: failpoints._table.update(before_announce=1)))
    with pytest.raises(SystemStopped, match="stopped with the savepoint"):
        system.stop_with_savepoint("before the move")
    assert system.status().state == "stopped"
    hosts = ray.get(coordinator.actors.remote())
    sent = ray.get(hosts["source"].__ray_call__.remote(lambda self: self._process.cell.instance.sent))
    (savepoint,) = rayshot.open(system.storage).systems[system.name].snapshots()
    assert (savepoint.label, savepoint.states()["source"]["sent"]) == ("before the move", sent)
    with pytest.raises(SystemStopped, match="stopped with the savepoint"):
        system.snapshot()


def test_where_no_savepoint_comes_about_the_system_goes_on(new_system, tmp_path):
    system = new_system(snapshots=SnapshotConfig(timeout_s=0.5))
    alice, bob = accounts("alice", "bob").values()
    bob.pause_and_say_so.tell(str(tmp_path / "pausing"), 3.0)
    eventually(lambda: (tmp_path / "pausing").exists() or None)
    with pytest.raises(SnapshotAborted, match="timeout"):
        system.stop_with_savepoint("too early")
    assert ray.get(bob.read.remote()) == 100
    alice.transfer.tell(bob, 10)
    system.configure(SnapshotConfig())
    assert system.status().state == "running"
    savepoint = system.savepoint("in peace")
    assert savepoint.label == "in peace"
    held = sum(state["balance"] for state in savepoint.states().values())
    assert held in {190, 200}
    assert system.snapshots() == [savepoint]


def test_a_savepoint_needs_a_label(new_system):
    system = new_system()
    for label in ("", None, "x" * 257, "\ud800"):
        with pytest.raises(ConfigError, match="label"):
            system.savepoint(label)
        with pytest.raises(ConfigError, match="label"):
            system.stop_with_savepoint(label)
    with pytest.raises(ConfigError, match="label"):
        system.snapshot(label="")
    assert system.status().state == "running"


def test_a_copy_is_restored_into_another_storage_and_stays_as_it_is(new_system, tmp_path):
    system = new_system()
    alice, bob = accounts("alice", "bob").values()
    alice.transfer.tell(bob, 30)
    ray.get(alice.read.remote())
    savepoint = system.stop_with_savepoint("move")
    copied = rayshot.copy(system.storage, tmp_path / "copy", system=system.name)
    restored = rayshot.restore(
        system.name, into=tmp_path / "new", snapshots=SnapshotConfig(num_to_keep=1), storage=tmp_path / "copy"
    )
    new_system.made.append(restored)
    assert restored.storage == str(tmp_path / "new")
    assert restored.incarnation == savepoint.id.incarnation + 1
    assert ray.get(restored.get_actor("alice").read.remote()) == 70
    taken = [restored.snapshot() for _ in range(3)]
    eventually(lambda: restored.snapshots() == taken[-1:] or None)
    assert taken[0].id.incarnation == 2
    assert rayshot.open(tmp_path / "copy").system().snapshots() == [copied]
    collect(LocalStore(tmp_path / "new"), system.name)
    restored.shutdown()
    again = rayshot.restore(system.name, storage=tmp_path / "new")
    new_system.made.append(again)
    assert (again.incarnation, ray.get(again.get_actor("bob").read.remote())) == (3, 130)


def test_what_was_claimed_goes_when_its_turn_comes_also_in_the_storage_it_came_from(new_system, tmp_path):
    system = new_system()
    accounts("alice")
    system.stop_with_savepoint("move")
    rayshot.copy(system.storage, tmp_path / "copy", system=system.name)
    keep_two = SnapshotConfig(num_to_keep=2)
    restored = rayshot.restore(
        system.name, storage=tmp_path / "copy", into=tmp_path / "new", claim="claim", snapshots=keep_two
    )
    new_system.made.append(restored)
    foreign = rayshot.open(tmp_path / "copy").system(system.name)
    restored.snapshot()
    eventually(lambda: len(restored.snapshots()) == 1 or None)
    assert len(foreign.snapshots()) == 1
    restored.snapshot()
    eventually(lambda: foreign.snapshots() == [] or None)
    assert len(restored.snapshots()) == 2


def test_retention_leaves_alone_what_was_not_claimed_and_leans_on_nothing_of_it(new_system):
    system = new_system()
    holder = Holder.options(name="holder").remote(100_000)
    ray.get(holder.total.remote())
    first = system.snapshot()
    assert first.manifest.chunks  # read now: it will be deleted
    keep_one = SnapshotConfig(num_to_keep=1)
    unclaimed = restore(new_system.made, system, snapshots=keep_one)
    own = unclaimed.snapshot()
    assert not shared(own, first)
    last = unclaimed.snapshot()
    eventually(lambda: unclaimed.snapshots() == [first, last] or None)
    claimed = restore(new_system.made, unclaimed, snapshot=first.id, claim="claim", snapshots=keep_one)
    newest = claimed.snapshot()
    assert shared(newest, first)
    eventually(lambda: claimed.snapshots() == [last, newest] or None)  # nobody went on from the life of `last`
    newest.verify()
    with pytest.raises(ConfigError, match="no-claim"):
        rayshot.restore(storage=system.storage, claim="mine")


@pytest.mark.acceptance("E6")
def test_a_snapshot_that_is_deleted_while_it_is_restored_is_restored_whole(new_system, monkeypatch):
    from rayshot.runtime.opening import from_snapshot

    system = new_system()
    accounts("alice", "bob")
    snapshot, _ = system.snapshot(), system.snapshot()
    order_restore = from_snapshot.order_restore

    def order_then_delete(*arguments):
        order_restore(*arguments)
        assert delete_snapshot(LocalStore(system.storage), system.name, snapshot.id).removed == ()

    monkeypatch.setattr(from_snapshot, "order_restore", order_then_delete)
    restored = restore(new_system.made, system, snapshot=snapshot.id)
    assert ray.get(restored.get_actor("alice").read.remote()) == 100
    monkeypatch.undo()
    restored.shutdown()
    with pytest.raises(SnapshotDeleted, match="was deleted"):
        rayshot.restore(system.name, storage=system.storage, snapshot=snapshot.id)
