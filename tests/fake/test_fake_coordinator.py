"""Coordinators that die, come later, or are not wanted any more; what actors tell them meanwhile counts once."""

import pytest

import rayshot
from rayshot.errors import ActorDied, ActorExited, SnapshotAborted, SystemStopped
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.places.kinds import open_store
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from rayshot.runtime.actor.spawning import RECORDS_AT_ONCE
from rayshot.runtime.coordinator.report_intake import Arrived
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door import door
from rayshot.runtime.wire.orders import Issuer
from rayshot.snapshots.repository import Repository
from tests.fake.account import Account, new_gate, photograph
from tests.fake.system import actor, await_stop, begin, coordinator


@rayshot.actor(on_error="stop")
class Strict:
    def fail(self):
        raise ValueError("never again")


@rayshot.actor
class Unfinished:
    def __init__(self):
        raise ValueError("it cannot be finished")

    def read(self):
        return 1


def bank(*names, **settings):
    """A system with these accounts, which have 1 and run."""
    system = begin(**settings)
    made = [Account.options(name=name).remote(1) for name in names]
    door.get([account.read.remote() for account in made])
    return system, *made


def take_over(cluster):
    """The coordinator dies, and another one takes over."""
    before = coordinator(cluster).run.instance
    cluster.die(coordinator(cluster))
    await_take_over(cluster, before)


def await_take_over(cluster, before):
    cluster.until(lambda: coordinator(cluster).works and coordinator(cluster).run.instance is not before)
    cluster.schedule.pass_s(5.0)


# What a new coordinator knows ----------------------------------------------------------------------------------


def test_a_new_coordinator_goes_on_with_the_snapshots_of_the_one_before(cluster):
    system, alice = bank("alice")
    first = system.snapshot()
    take_over(cluster)
    found = system.status()
    assert (found.state, found.last_snapshot, found.proofs) == ("running", first.id, {"plain": 1})
    alice.deposit.tell(1)
    second = system.snapshot()
    assert [snapshot.id for snapshot in system.snapshots()] == [first.id, second.id]
    assert second.id.counter > first.id.counter
    assert second.states() == {"alice": {"balance": 2}}


def test_an_actor_that_had_failed_before_the_coordinator_died_is_not_taken_for_one_that_works(cluster):
    system, _ = bank("alice", failure=FailureConfig(scope="stop"))
    actor(cluster, "alice").run.instance._process.failure = "its disk is full"
    take_over(cluster)
    found = system.status()
    assert found.state == "stopped"
    assert "actor 'alice' of system" in found.detail
    assert "(its disk is full)" in found.detail


def test_an_actor_that_dies_while_nobody_coordinates_is_missed(cluster):
    system, _, bob = bank("alice", "bob", failure=FailureConfig(scope="stop"))
    cluster.die(actor(cluster, "alice"))
    take_over(cluster)
    found = system.status()
    assert (found.state, "rayshot.restore(" in found.detail) == ("stopped", True)
    with pytest.raises(ActorDied, match="'alice'"):
        system.snapshot()
    with pytest.raises(ActorDied, match="'alice'"):
        door.get(bob.read.remote())


def test_a_snapshot_that_was_under_way_is_lost_with_its_coordinator_and_the_next_one_commits(cluster):
    system, alice, bob = bank("alice", "bob")
    gate = new_gate("gate")
    alice.wait_at.tell("gate")
    thread, found = photograph(system)
    cluster.until(lambda: system.status().snapshots)
    take_over(cluster)
    alice.transfer.tell(bob, 1)
    gate.set()
    thread.join()
    assert isinstance(found[0], SnapshotAborted)
    cluster.schedule.pass_s(1.0)
    snapshot = system.snapshot()
    assert snapshot.states() == {"alice": {"balance": 0}, "bob": {"balance": 2}}
    snapshot.verify()


def test_as_many_snapshots_as_an_actor_answers_at_once_are_lost_and_the_next_one_commits(cluster):
    config = SnapshotConfig(max_concurrent=RECORDS_AT_ONCE, timeout_s=15.0)
    system, alice = bank("alice", snapshots=config)
    gate = new_gate("gate")
    alice.wait_at.tell("gate")
    for _ in range(RECORDS_AT_ONCE):
        system._identity.coordinator.snapshot.remote(SnapshotRequest())
    participant = actor(cluster, "alice").run.instance._process.runner.participant
    cluster.until(lambda: len(participant.open_snapshots) == RECORDS_AT_ONCE)
    take_over(cluster)
    gate.set()
    assert system.snapshot().states() == {"alice": {"balance": 1}}
    assert system.status().aborted == 0  # no other one was waited for in vain


def test_a_new_coordinator_knows_who_had_ended(cluster):
    system, alice, gone = bank("alice", "gone")
    gone.transfer.tell(alice, 1)
    gone.leave.tell()
    cluster.until(lambda: list(system.actors()) == ["alice"])
    take_over(cluster)
    snapshot = system.snapshot()
    assert (snapshot.states(), snapshot.manifest.ended) == ({"alice": {"balance": 2}}, ("gone",))


# What actors tell a coordinator that dies, or is not up again yet ----------------------------------------------


def test_a_failure_that_the_coordinator_died_of_hearing_stops_the_system(cluster):
    system = begin(failure=FailureConfig(scope="stop"))
    strict = Strict.options(name="strict").remote()
    cluster.settle()
    before = coordinator(cluster).run.instance
    cluster.failpoints["notice_failed"] = 1
    strict.fail.tell()
    await_take_over(cluster, before)
    assert system.status().state == "stopped"
    assert "never again" in system.status().detail


def test_an_actor_that_could_not_start_while_the_coordinator_died_has_ended_and_the_others_go_on(cluster):
    system, alice = bank("alice")
    before = coordinator(cluster).run.instance
    cluster.failpoints["notice_ended"] = 1
    unfinished = Unfinished.options(name="unfinished").remote()
    with pytest.raises(ActorExited, match="cannot be finished"):
        door.get(unfinished.read.remote())
    await_take_over(cluster, before)
    assert system.snapshot().manifest.ended == ("unfinished",)
    assert (system.status().state, door.get(alice.read.remote())) == ("running", 1)


def test_an_actor_whose_coordinator_died_of_its_wish_to_join_is_a_member_of_the_next_one(cluster):
    system, _ = bank("alice")
    before = coordinator(cluster).run.instance
    cluster.failpoints["notice_join"] = 1
    bob = Account.options(name="bob").remote(2)
    assert door.get(bob.read.remote()) == 2
    await_take_over(cluster, before)
    assert system.snapshot().states() == {"alice": {"balance": 1}, "bob": {"balance": 2}}


def test_an_actor_that_had_joined_and_was_not_made_yet_is_brought_in(cluster):
    system, _, bob = bank("alice", "bob")
    life = coordinator(cluster).run.instance._life
    life.runner._collector._processes.discard("bob")
    handle = life.members.hosts.pop("bob")
    assert set(system.snapshot().actors) == {"alice"}
    door.get(handle.rejoin.remote(Issuer(1, life.term)))
    assert set(system.snapshot().actors) == {"alice"}, "the living coordinator had answered it"
    actor(cluster, "bob").run.instance._joined_term = life.term - 1
    door.get(handle.rejoin.remote(Issuer(1, life.term)))
    assert set(system.snapshot().actors) == {"alice", "bob"}
    bob.deposit.tell(1)
    assert system.snapshot().states()["bob"] == {"balance": 2}


@pytest.mark.parametrize("deed", ["photograph", "leave"])
def test_what_an_actor_does_while_nobody_coordinates_counts(cluster, deed):
    """A new coordinator has told alice to leave the old one, and waits."""
    system, alice, bob = bank("alice", "bob")
    gate = new_gate("gate")
    bob.wait_at.tell("gate")
    system._identity.coordinator.snapshot.remote(SnapshotRequest())
    deliveries = actor(cluster, "alice").run.instance._process.recording.deliveries
    cluster.until(lambda: deliveries._shares)
    late = cluster.withheld["abandon"] = []
    before = coordinator(cluster).run.instance
    cluster.die(coordinator(cluster))
    cluster.until(lambda: late and not deliveries._shares)
    getattr(alice, deed).tell()
    cluster.settle()
    gate.set()
    del cluster.withheld["abandon"]
    for answer in late:
        answer()
    await_take_over(cluster, before)
    if deed == "photograph":
        cluster.until(lambda: [one.id.initiator for one in system.snapshots()] == ["alice"])
    else:
        snapshot = system.snapshot()
        assert (set(snapshot.actors), snapshot.manifest.ended) == ({"bob"}, ("alice",))


def test_what_is_said_twice_counts_once(cluster):
    system, alice, bob = bank("alice", "bob")
    told = system._identity.coordinator
    alice.photograph.tell()
    cluster.until(lambda: system.snapshots() and not system.status().snapshots)
    (taken,) = system.snapshots()
    door.get(told.announce.remote(taken.id, taken.id.initiator, taken.id.counter))
    assert not system.status().snapshots
    bob.leave.tell()
    cluster.until(lambda: list(system.actors()) == ["alice"])
    last = system.snapshot()
    door.get(told.leaving.remote("bob", 1))
    door.get(told.refuse.remote(taken.id, "alice", "too late", AbortReason.CAPTURE_FAILED))
    assert coordinator(cluster).run.instance._life.runner._ends.leaving == set()
    assert (set(system.snapshot().actors), last.manifest.ended) == ({"alice"}, ("bob",))


@pytest.fixture
def asked_to_begin(cluster):
    """The system, what a request to it waits for, and its token. Alice is to begin, and a gate keeps her from it."""
    system, alice = bank("alice", snapshots=SnapshotConfig(timeout_s=60.0))
    new_gate("gate")
    alice.wait_at.tell("gate")
    cluster.settle()
    waiting = system._identity.coordinator.snapshot.remote(SnapshotRequest(initiators=("alice",)))
    asked = coordinator(cluster).run.instance._life.runner._admission.asked
    cluster.until(lambda: asked._waiting)
    (token,) = asked._waiting
    return system, waiting, token


def test_an_actor_that_refused_before_it_had_begun_keeps_nobody_waiting(cluster, asked_to_begin):
    system, waiting, token = asked_to_begin
    told, snapshot = system._identity.coordinator, SnapshotId(1, "alice", 9)
    behind = told.snapshot.remote(SnapshotRequest())
    cluster.settle()
    door.get(told.refuse.remote(snapshot, "alice", "it cannot be pickled", AbortReason.CAPTURE_FAILED))
    door.get(told.announce.remote(snapshot, "alice", 9, token))
    with pytest.raises(SnapshotAborted, match=r"capture_failed.*before the coordinator heard"):
        door.get(waiting)
    Account.gates["gate"].set()
    assert door.get(behind).record.snapshot.by_coordinator


def test_records_that_contradict_each_other_and_came_before_the_announcement_are_what_the_one_who_waits_hears_of(
    cluster, asked_to_begin
):
    system, waiting, token = asked_to_begin
    snapshot, sent, received = SnapshotId(1, "alice", 9), {"alice": 1}, {"alice": 5}
    record = Record(snapshot, "alice", True, sent, transported=sent, released=sent, received=received, arrived=received)
    coordinator(cluster).run.instance._life.runner._take([Arrived(record, 0.0, 0, None, False, b"")])
    door.get(system._identity.coordinator.announce.remote(snapshot, "alice", 9, token))
    with pytest.raises(SnapshotAborted, match=r"inconsistent.*5 received, 5 arrived, 1 sent"):
        door.get(waiting)


# Another life has the storage ----------------------------------------------------------------------------------


def begin_rival(system):
    """Another life takes the storage over; returns its repository."""
    rival = Repository(open_store(system.storage), system.name, create=False)
    rival.log.begin_epoch(rival.next_incarnation(), "rival")
    return rival


def test_a_system_whose_storage_another_life_took_over_commits_nothing_and_stops(cluster):
    system, alice = bank("alice")
    first = system.snapshot()
    begin_rival(system)
    with pytest.raises(SnapshotAborted) as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "fenced"
    assert "took over" in await_stop(cluster, system)
    with pytest.raises(SystemStopped):
        alice.deposit.tell(1)
    assert [snapshot.id for snapshot in rayshot.open(system.storage).systems["bank"].snapshots()] == [first.id]


def test_a_coordinator_that_is_started_anew_leaves_the_storage_to_a_later_life(cluster):
    system, _ = bank("alice")
    system.snapshot()
    rival = begin_rival(system)
    take_over(cluster)
    assert "may not write to the log" in await_stop(cluster, system)
    assert rival.log.refresh().epoch.writer == "rival"


def test_where_the_storage_was_taken_over_all_who_wait_hear_of_it_at_once(cluster):
    system, alice, _ = bank("alice", "bob", snapshots=SnapshotConfig(max_concurrent=2))
    gate = new_gate("gate")
    alice.wait_at.tell("gate")
    waiting = [photograph(system) for _ in range(2)]
    cluster.until(lambda: len(system.status().snapshots) == 2)
    begin_rival(system)
    gate.set()
    for thread, found in waiting:
        thread.join()
        assert found[0].evidence["reason"] == "fenced"
