"""Real coordinators that die, and such as are no longer wanted. The fake asks what the others do then."""

import os
import re
import signal
import time

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import ActorDied, ConfigError, RestoreFailed, SnapshotAborted, SystemStopped
from rayshot.log.log import CommitLog
from rayshot.log.records import EpochRecord
from rayshot.places.kinds import open_store
from rayshot.protocol.recovery_events import StopWanted
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door import failpoints
from rayshot.runtime.driver.coordinator_client import CoordinatorClient
from rayshot.runtime.opening import start as opening_start
from rayshot.runtime.wire.answers import get_answer, get_told
from rayshot.snapshots.repository import Repository
from tests.runtime.healed import STOPS
from tests.runtime.heralds import processes_of
from tests.runtime.hostile import DoomedCoordinator, Saboteur
from tests.runtime.take_over import after_take_over, kill_coordinator
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def test_a_new_coordinator_takes_over_from_one_that_was_killed(system):
    alice = Account.options(name="alice").remote(1)
    first = system.snapshot()
    kill_coordinator(system)
    found = after_take_over(system.status)
    assert (found.last_snapshot, found.proofs) == (first.id, {"plain": 1})
    alice.deposit.tell(1)
    ray.get(alice.read.remote())
    second = after_take_over(system.snapshot)
    assert [snapshot.id for snapshot in system.snapshots()] == [first.id, second.id]
    assert second.id.counter > first.id.counter
    assert second.states() == {"alice": {"balance": 2}}
    assert system.status().state == "running"


def test_a_handle_of_an_actor_that_dies_while_it_is_asked_for_is_refused_with_its_death(new_system, monkeypatch):
    system = new_system(failure=STOPS)
    ray.get(Account.options(name="alice").remote(1).read.remote())
    pid, ask = system.status().actors["alice"].pid, system._client.ask

    def ask_before_its_death(method, *args, **limits):
        answer = ask(method, *args, **limits)
        if method == "actors":
            os.kill(pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(system._client, "ask", ask_before_its_death)
    with pytest.raises(ActorDied, match=r"actor 'alice' .* died"):
        system.get_actor("alice")


@pytest.mark.wide("slow")
def test_an_actor_that_dies_while_nobody_coordinates_is_missed_and_comes_back_with_a_restore(new_system):
    system = new_system(failure=STOPS)
    alice, bob = (Account.options(name=name).remote(1) for name in ("alice", "bob"))  # they never meet
    ray.get([alice.read.remote(), bob.deposit.remote(1)])
    first, pid = system.snapshot(), system.status().actors["alice"].pid
    kill_coordinator(system)
    os.kill(pid, signal.SIGKILL)
    status = after_take_over(lambda: (now := system.status()).state == "stopped" and now)
    assert re.match(r"actor 'alice' .* rayshot\.restore\(", status.detail), status.detail
    with pytest.raises(ActorDied, match="'alice'"):
        system.snapshot()
    with pytest.raises(ActorDied, match="'alice'"):
        bob.deposit.tell(1)
        ray.get(bob.read.remote())
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert restored.snapshots()[-1].id == first.id
    assert {name: ray.get(actor.read.remote()) for name, actor in restored.actors().items()} == {"alice": 1, "bob": 2}
    records = CommitLog(open_store(system.storage), system.name).records()
    epochs = [record for record in records if isinstance(record, EpochRecord)]
    assert [epoch.cause for epoch in epochs] == ["begin", "takeover", "restore"]
    assert 0 < epochs[0].began_at < epochs[1].began_at < epochs[2].began_at < time.time()


def test_a_restored_life_that_lost_its_coordinator_and_all_its_actors_does_not_say_that_it_was_being_restored(
    system, new_system
):
    Account.options(name="alice").remote(1)
    first = system.snapshot()
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage, failure=STOPS)
    new_system.made.append(restored)
    kill_coordinator(restored, restored.status().actors["alice"].pid)
    status = after_take_over(lambda: (now := restored.status()).state == "stopped" and now)
    assert "it died while nobody coordinated" in status.detail
    again = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(again)
    assert again.snapshots()[-1].id == first.id


def test_a_living_system_whose_coordinator_was_just_killed_is_not_restored_over_but_attached_to(system):
    alice = Account.options(name="alice").remote(1)
    system.snapshot()
    alice.deposit.tell(1)
    ray.get(alice.read.remote())
    kill_coordinator(system)
    with pytest.raises(ConfigError, match="is running in this cluster"):
        rayshot.restore(system.name, storage=system.storage)
    assert ray.get(alice.read.remote()) == 2
    kill_coordinator(system)
    assert rayshot.init(system.name, storage=system.storage).status().state == "running"


def test_a_coordinator_is_not_gone_while_ray_knows_it_whatever_the_error_of_a_lost_call_says(system, monkeypatch):
    """On a node that is drained, Ray says of every lost call that the actor died."""

    def lose(*_):
        raise ray.exceptions.ActorDiedError

    liveness = system._port.session.liveness
    held = liveness._held
    liveness._ended(ray.exceptions.ActorDiedError())
    eventually(lambda: liveness._held is not held)
    monkeypatch.setattr(CoordinatorClient, "get", lose)
    with pytest.raises(ray.exceptions.ActorUnavailableError, match="Ray starts it again"):
        system.status()
    monkeypatch.undo()
    assert system.status().state == "running"


def test_what_a_coordinator_refuses_is_rays_error_for_who_asks_so_and_rayshots_for_others(system):
    coordinator = system._identity.coordinator
    ray.get(coordinator.__ray_call__.remote(lambda self: self._healer.hear(StopWanted("the test wants it"))))
    refused = coordinator.snapshot.remote(SnapshotRequest())
    with pytest.raises(ray.exceptions.RayTaskError) as told:
        get_answer(refused, "the coordinator")
    assert isinstance(told.value.cause, SystemStopped)
    with pytest.raises(SystemStopped) as plain:
        get_told(refused, "the coordinator")
    assert not isinstance(plain.value, ray.exceptions.RayError)


def test_who_ended_is_known_after_a_restore(system, new_system):
    alice, gone = Account.options(name="alice").remote(5), Account.options(name="gone").remote(5)
    ray.get([alice.read.remote(), gone.read.remote()])
    gone.transfer.tell(alice, 2)
    gone.leave.tell()
    eventually(lambda: list(system.actors()) == ["alice"] or None, 10)
    system.snapshot()
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert restored.snapshot().manifest.ended == ("gone",)
    assert ray.get(restored.get_actor("alice").read.remote()) == 7


def test_a_system_whose_storage_another_life_took_over_commits_nothing_and_stops(system):
    alice = Account.options(name="alice").remote(1)
    first = system.snapshot()
    rival = Repository(open_store(system.storage), system.name, create=False)
    rival.log.begin_epoch(rival.next_incarnation(), "rival")
    with pytest.raises(SnapshotAborted) as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "fenced"
    with pytest.raises(SystemStopped, match="took over"):
        eventually(lambda: alice.deposit.tell(1), 10)
    assert system.status().state == "stopped"
    assert [snapshot.id for snapshot in rayshot.open(system.storage).systems[system.name].snapshots()] == [first.id]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B13")
def test_a_restore_whose_coordinator_dies_fails_and_leaves_nothing_and_the_next_one_works(new_system, tmp_path):
    system = new_system()
    fuse = tmp_path / "fuse"
    for name, path in (("alice", ""), ("bob", str(fuse))):
        assert ray.get(Saboteur.options(name=name).remote(path).read.remote()) == 1
    taken = system.snapshot()
    system.shutdown()
    fuse.touch()
    with pytest.raises(RestoreFailed):
        rayshot.restore(system.name, storage=system.storage, snapshots=SnapshotConfig(interval_s=0.05))
    assert not fuse.exists()
    left = [entry["name"] for entry in ray.util.list_named_actors(all_namespaces=True)]
    assert not [name for name in left if name.startswith(f"rayshot/{system.name}")]
    assert [snapshot.id for snapshot in rayshot.open(system.storage).systems[system.name].snapshots()] == [taken.id]
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("bob").read.remote()) == 1
    alive = [name for name in processes_of(system) if "/actor/" in name]
    assert len(alive) == len(restored.actors()) == 2, "one live set"


@pytest.mark.acceptance("X12")
def test_a_coordinator_that_ray_starts_again_before_it_has_begun_is_no_lost_one(new_system, tmp_path, monkeypatch):
    system = new_system()
    alice = Account.options(name="alice").remote(7)
    ray.get(alice.read.remote())
    system.snapshot()
    system.shutdown()
    doom = tmp_path / "shots" / "doom"
    doom.write_text("1")
    monkeypatch.setattr(opening_start, "Coordinator", DoomedCoordinator)
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert doom.read_text() == "0"
    assert ray.get(restored.get_actor("alice").read.remote()) == 7


def die_at(system, failpoint):
    """The coordinator that lives now, not the next one, dies when it passes `failpoint`."""
    coordinator = system._identity.coordinator
    ray.get(coordinator.__ray_call__.remote(lambda _: failpoints._table.update({failpoint: 1})))


def test_an_actor_whose_coordinator_died_of_its_wish_to_join_is_a_member_of_the_next_one(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    life = lambda: ray.get(system._identity.coordinator.__ray_call__.remote(lambda self: self._life.term))  # noqa: E731
    first = life()
    die_at(system, "notice_join")
    bob = Account.options(name="bob").remote(2)
    assert ray.get(bob.read.remote(), timeout=30) == 2
    assert life() != first, "the coordinator did not die"
    assert after_take_over(system.snapshot).states() == {"alice": {"balance": 1}, "bob": {"balance": 2}}
    assert system.status().state == "running"


def test_a_new_coordinator_does_not_wait_for_an_actor_that_is_being_made(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    Account.options(name="bob", num_cpus=10_000).remote(2)  # there is no room for it
    kill_coordinator(system)
    assert after_take_over(system.status).state == "running"
    alice.photograph.tell()  # the driver's own snapshot would wait for bob
    (taken,) = eventually(lambda: system.snapshots() or None)
    assert taken.states() == {"alice": {"balance": 1}}
