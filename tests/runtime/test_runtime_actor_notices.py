"""What an actor tells a coordinator that dies now, or is not up again yet, arrives all the same, and counts once."""

import pytest
import ray

from rayshot import SnapshotConfig
from rayshot.errors import ActorExited, SnapshotAborted, SystemStopped
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from rayshot.runtime.coordinator.report_intake import Arrived
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door import failpoints
from rayshot.runtime.wire.orders import Issuer
from tests.runtime.healed import STOPS
from tests.runtime.hostile import Slow, Strict
from tests.runtime.take_over import after_take_over, kill_coordinator
from tests.runtime.workloads import Account, Unfinished
from tests.waiting import eventually

pytestmark = pytest.mark.ray
TAKE_OVER_S = 4.0


def die_at(system, failpoint):
    """The coordinator that lives now, not the next one, dies when it passes `failpoint`."""
    coordinator = system._identity.coordinator
    ray.get(coordinator.__ray_call__.remote(lambda _: failpoints._table.update({failpoint: 1})))


def state_after_take_over(system, expected):
    def try_now():
        try:
            return system.status().state == expected or None
        except SystemStopped:  # it is not up again
            return None

    return eventually(try_now, 30)


def test_a_failure_that_the_coordinator_died_of_hearing_stops_the_system(new_system):
    system = new_system(failure=STOPS)
    strict = Strict.options(name="strict").remote()
    assert ray.get(strict.read.remote()) == 1
    die_at(system, "notice_failed")
    strict.fail.tell()
    assert state_after_take_over(system, "stopped")
    assert "never again" in system.status().detail


def test_an_actor_that_could_not_start_while_the_coordinator_died_has_ended_and_the_others_go_on(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    die_at(system, "notice_ended")
    unfinished = Unfinished.options(name="unfinished").remote(0.0)
    with pytest.raises(ActorExited, match="cannot be finished"):
        ray.get(unfinished.read.remote(), timeout=20)
    assert after_take_over(system.snapshot).manifest.ended == ("unfinished",)
    assert system.status().state == "running"
    assert ray.get(alice.read.remote()) == 1


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


def test_an_actor_that_had_joined_and_was_not_made_yet_is_brought_in(system):
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(2)
    assert ray.get([alice.read.remote(), bob.read.remote()]) == [1, 2]

    def forget(coordinator):
        coordinator._life.runner._collector._processes.discard("bob")
        return coordinator._life.members.hosts.pop("bob")

    coordinator = system._identity.coordinator
    handle = ray.get(coordinator.__ray_call__.remote(forget))
    assert set(system.snapshot().actors) == {"alice"}
    term = ray.get(coordinator.__ray_call__.remote(lambda self: self._life.term))
    ray.get(handle.rejoin.remote(Issuer(1, term)))
    assert set(system.snapshot().actors) == {"alice"}, "the living coordinator had answered it"
    ray.get(handle.__ray_call__.remote(lambda self: setattr(self, "_joined_term", term - 1)))
    ray.get(handle.rejoin.remote(Issuer(1, term)))
    assert set(system.snapshot().actors) == {"alice", "bob"}
    bob.deposit.tell(1)
    assert ray.get(bob.read.remote()) == 3
    assert system.snapshot().states()["bob"] == {"balance": 3}


@pytest.fixture
def while_nobody_coordinates(new_system):
    """Alice, of a system whose new coordinator has heard of her and still waits for another one."""
    system = new_system(snapshot=SnapshotConfig(timeout_s=20.0))
    alice = Account.options(name="alice").remote(1)
    bob = Slow.options(name="bob").remote(TAKE_OVER_S)
    ray.get([alice.read.remote(), bob.read.remote()])
    system._identity.coordinator.snapshot.remote(SnapshotRequest())
    hosts = ray.get(system._identity.coordinator.actors.remote())
    question = lambda self: self._process.recording.deliveries._shares  # noqa: E731
    open_at_alice = lambda: ray.get(hosts["alice"].__ray_call__.remote(question))  # noqa: E731
    eventually(open_at_alice)
    kill_coordinator(system)
    eventually(lambda: not open_at_alice() or None)
    return system, alice


@pytest.mark.wide("slow")
def test_a_snapshot_that_an_actor_begins_while_nobody_coordinates_is_taken(while_nobody_coordinates):
    system, alice = while_nobody_coordinates
    alice.photograph.tell()
    (taken,) = eventually(lambda: system.snapshots() or None, 30)
    assert taken.id.initiator == "alice"
    assert taken.states()["alice"] == {"balance": 1}


@pytest.mark.wide("slow")
def test_an_actor_that_ends_while_nobody_coordinates_is_waited_for_by_nobody(while_nobody_coordinates):
    system, alice = while_nobody_coordinates
    alice.leave.tell()
    snapshot = after_take_over(system.snapshot)
    assert (set(snapshot.actors), snapshot.manifest.ended) == ({"bob"}, ("alice",))


def test_what_is_said_twice_counts_once(new_system):
    system = new_system(snapshot=SnapshotConfig(timeout_s=10.0))
    coordinator = system._identity.coordinator
    alice, bob = (Account.options(name=name).remote(1) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    alice.photograph.tell()
    (taken,) = eventually(lambda: system.snapshots() or None)
    eventually(lambda: not system.status().snapshots)  # the storage shows it a moment before the coordinator does
    ray.get(coordinator.announce.remote(taken.id, taken.id.initiator, taken.id.counter))
    assert not system.status().snapshots
    bob.leave.tell()
    eventually(lambda: list(system.actors()) == ["alice"] or None)
    last = system.snapshot()
    ray.get(coordinator.leaving.remote("bob", 1))
    ray.get(coordinator.refuse.remote(taken.id, "alice", "too late", AbortReason.CAPTURE_FAILED))
    assert ray.get(coordinator.__ray_call__.remote(lambda self: self._life.runner._ends.leaving)) == set()
    assert (set(system.snapshot().actors), last.manifest.ended) == ({"alice"}, ("bob",))


def tokens_at(coordinator):
    return ray.get(coordinator.__ray_call__.remote(lambda self: [*self._life.runner._admission.asked._waiting]))


def keep_busy(system, alice, file):
    """Return when her handler runs, which goes on until there is `file`: until then she begins no snapshot."""
    alice.pause_until.tell(str(file))
    host = ray.get(system._identity.coordinator.actors.remote())["alice"]
    running = lambda: ray.get(host.__ray_call__.remote(lambda self: (self._worker.handling or [""])[0]))  # noqa: E731
    eventually(lambda: running() == "pause_until" or None)


def test_an_actor_that_was_asked_to_begin_and_refused_before_it_had_begun_keeps_nobody_waiting(new_system, tmp_path):
    system = new_system(snapshot=SnapshotConfig(timeout_s=60.0))
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    keep_busy(system, alice, tmp_path / "go on")
    coordinator = system._identity.coordinator
    waiting = coordinator.snapshot.remote(SnapshotRequest(initiators=("alice",)))
    (token,) = eventually(lambda: tokens_at(coordinator))
    behind = coordinator.snapshot.remote(SnapshotRequest())
    eventually(lambda: ray.get(coordinator.__ray_call__.remote(lambda self: len(self._life.runner._admission._wanted))))
    snapshot = SnapshotId(system.incarnation, "alice", 9)
    ray.get(coordinator.refuse.remote(snapshot, "alice", "its state cannot be pickled", AbortReason.CAPTURE_FAILED))
    ray.get(coordinator.announce.remote(snapshot, "alice", 9, token))
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(waiting, timeout=20)
    assert isinstance(caught.value.cause, SnapshotAborted)
    (tmp_path / "go on").touch()
    assert ray.get(behind, timeout=20).record.snapshot.by_coordinator


def test_records_that_contradict_each_other_and_came_before_the_announcement_are_what_the_one_who_waits_hears_of(
    system, tmp_path
):
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    keep_busy(system, alice, tmp_path / "go on")
    coordinator = system._identity.coordinator
    waiting = coordinator.snapshot.remote(SnapshotRequest(initiators=("alice",)))
    (token,) = eventually(lambda: tokens_at(coordinator))
    snapshot, sent, received = SnapshotId(system.incarnation, "alice", 9), {"alice": 1}, {"alice": 5}
    record = Record(snapshot, "alice", True, sent, transported=sent, released=sent, received=received, arrived=received)
    arrived = Arrived(record, 0.0, 0, b"")
    ray.get(coordinator.__ray_call__.remote(lambda self: self._life.runner._take([arrived])))
    ray.get(coordinator.announce.remote(snapshot, "alice", 9, token))
    with pytest.raises(ray.exceptions.RayTaskError, match=r"inconsistent.*5 received, 5 arrived, 1 sent"):
        ray.get(waiting, timeout=20)
    (tmp_path / "go on").touch()
