"""Snapshots of actors that ask all the time: their conversations are brought to an end first."""

import pytest

import rayshot
from rayshot.audit.proof import prove, trace_of
from rayshot.audit.segment import Resumed, Suspended
from rayshot.errors import SnapshotAborted
from rayshot.model.configuration import SnapshotConfig
from rayshot.runtime.actor.channels import ActorChannel
from rayshot.runtime.coordinator import concluder
from rayshot.runtime.door import door
from tests.fake.account import new_gate, photograph
from tests.fake.system import actor, await_life, begin, coordinator, process_of
from tests.fake.workers import Server, Worker, end_of, is_whole, workers_at_work

# Busy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_system_in_which_somebody_always_waits_has_snapshots_and_each_holds_whole_handlers(cluster, system, mode):
    workers = workers_at_work(8)
    cluster.schedule.pass_s(5.0)
    for _ in range(3):
        snapshot = system.snapshot(mode=mode)
        states = snapshot.states()
        assert all(is_whole(states[f"w{number}"]) for number in range(8))
        assert states["server"]["asked"] >= sum(states[f"w{number}"]["done"] for number in range(8))
        assert snapshot.verify().sound
        cluster.schedule.pass_s(2.0)
    assert system.status().aborted == 0
    begun_now = [begun for begun, _, _ in end_of(workers)]
    assert all(now > states[f"w{number}"]["begun"] for number, now in enumerate(begun_now))


def test_traces_say_where_handlers_waited_and_prove_every_cut(cluster):
    system = begin(trace=True)
    workers_at_work(4)
    for _ in range(3):
        cluster.schedule.pass_s(1.0)
        system.snapshot()
    taken = system.snapshots()
    for snapshot in taken:
        found = {finding.name: finding.holds for finding in prove(snapshot, taken).findings}
        assert found == {"cut equation": True, "vector clocks": True, "theorem 1": True}
    events = trace_of(taken[0], taken).histories["w0"].events
    waits = [index for index, event in enumerate(events) if isinstance(event, Suspended)]
    assert waits
    for index in waits:
        assert events[index].receivers == ("server",)
        assert events[index + 1].sender == "server"
        assert isinstance(events[index + 1], Resumed)
        assert events[index + 2][:2] == (events[index].sender, ("w0",))  # it goes on, and tells itself to work again


def test_a_question_that_a_state_keeps_is_found_on_its_way(cluster):
    system, gate = begin(), new_gate("gate")
    server = Server.options(name="server").remote(0.01)
    keeper, other = (Worker.options(name=name).remote(server) for name in ("keeper", "other"))
    other.ask_at.tell("gate", 1)
    keeper.keep_question.tell(other, 5)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    gate.set()
    thread.join()
    found = prove(taken[0]).finding("questions")
    assert (found.holds, found.detail) == (True, "each of 1 questions whose answers states await is on its way once")
    cluster.schedule.pass_s(1.0)
    assert [one.name for one in prove(system.snapshot()).findings] == ["cut equation", "trace"]  # it is answered


def test_a_timer_that_fires_while_its_actor_is_held_is_traced_once(cluster):
    system, gate = begin(trace=True), new_gate("gate")
    server = Server.options(name="server").remote(0.01)
    timed, worker = (Worker.options(name=name).remote(server) for name in ("timed", "w0"))
    door.get([timed.ask.remote(), worker.ask.remote()])
    timed.fire_after.tell(0.3)
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    timed.ask.remote()
    for number in range(5):
        timed.note.tell(number)
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)
    gate.set()
    thread.join()
    assert process_of(cluster, "timed").cell.instance.notes == [0, 1, 2, 3, 4, "fired"]
    assert all(finding.holds for finding in prove(taken[0]).findings)


def test_snapshots_at_an_interval_hold_the_actors_back_for_a_small_part_of_the_time(cluster):
    system = begin(snapshots=SnapshotConfig(interval_s=1.0))
    workers = workers_at_work(8, Server.options(name="server").remote(0.02))
    cluster.schedule.pass_s(60.0)
    taken = len(system.snapshots())
    assert 10 <= taken <= 60
    done = sum(done for _, done, _ in end_of(workers))
    assert done >= 0.8 * 60.0 / 0.02


def test_a_server_that_asks_nobody_is_not_held(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker, other = Worker.options(name="w0").remote(server), Server.options(name="other").remote()
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    other.hear.tell(1)
    cluster.schedule.pass_s(0.2)
    assert process_of(cluster, "other").cell.instance.told == 1
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])


def test_what_an_actor_has_begun_of_a_batch_is_all_that_it_handles_while_it_is_held(cluster, system):
    gate = new_gate("gate")
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    door.get(worker.ask.remote())
    for number in range(50):
        worker.note.tell(number)
        if number == 25:
            worker.ask_at.tell("gate", 1)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    gate.set()
    thread.join()
    state = taken[0].states()["w0"]
    assert is_whole(state)
    assert state["notes"] == list(range(26))
    assert door.get(worker.read.remote())[2] == list(range(50))


def test_a_timer_does_not_fire_while_its_actor_is_held(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    timed, worker = (Worker.options(name=name).remote(server) for name in ("timed", "w0"))
    door.get(timed.ask.remote())
    worker.ask_at.tell("gate", 1)
    timed.fire_after.tell(0.3)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.9)
    assert not taken
    assert process_of(cluster, "timed").cell.instance.notes == []
    gate.set()
    thread.join()
    assert taken[0].states()["timed"]["notes"] == []
    assert door.get(timed.read.remote())[2] == ["fired"]


# What somebody waits for is handled ------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_chain_of_questions_comes_to_its_end_through_actors_that_are_held(cluster, system, length):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    chain = [Worker.options(name=f"w{number}").remote(server) for number in range(length + 1)]
    door.get([one.ask.remote() for one in chain])
    chain[1].ask_at.tell("gate", 1)
    chain[0].ask_along.tell(chain[1:])
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    gate.set()
    thread.join()
    assert all(is_whole(taken[0].states()[f"w{number}"]) for number in range(length + 1))
    assert taken[0].states()["w0"]["done"] == 1


def test_what_stands_before_an_answer_is_in_flight_in_the_cut(cluster, system):
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    door.get(worker.ask.remote())
    worker.be_told.tell(worker, 10)
    thread, taken = photograph(system)
    thread.join()
    assert is_whole(taken[0].states()["w0"])
    assert taken[0].verify().sound
    assert door.get(worker.read.remote())[2] == list(range(10))


@pytest.mark.parametrize("waits", ["before it is held", "when it is held"])
def test_a_question_that_left_before_anybody_waited_for_it_is_let_through_too(cluster, system, waits):
    gate, own = new_gate("gate"), new_gate("own")
    server = Server.options(name="server").remote()
    one, two = (Worker.options(name=name).remote(server) for name in ("one", "two"))
    door.get([one.ask.remote(), two.ask.remote()])
    two.ask_at.tell("gate", 1)
    one.keep_question.tell(two, 1)
    one.wait_for_kept.tell("own")
    cluster.settle()
    if waits == "before it is held":
        own.set()
        cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.1)
    own.set()
    gate.set()
    cluster.schedule.pass_s(0.5)
    assert taken  # no breath was needed
    thread.join()
    assert [taken[0].states()[name]["done"] for name in ("one", "two")] == [1, 1]


def test_a_held_message_that_somebody_waits_for_begins_although_nobody_said_so(cluster, system, monkeypatch):
    """The packet got lost that says that the question of the kept reply is waited for."""
    monkeypatch.setattr(ActorChannel, "say_asked", lambda _: None)
    gate, own = new_gate("gate"), new_gate("own")
    server = Server.options(name="server").remote()
    one, two = (Worker.options(name=name).remote(server) for name in ("one", "two"))
    door.get([one.ask.remote(), two.ask.remote()])
    two.ask_at.tell("gate", 1)
    for number in range(3):
        two.note.tell(number)
    one.keep_question.tell(two, "last")
    one.wait_for_kept.tell("own")
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.1)
    own.set()
    gate.set()
    cluster.schedule.pass_s(6.0)
    assert taken
    thread.join()
    assert [taken[0].states()[name]["done"] for name in ("one", "two")] == [1, 1]


def test_what_says_where_an_actor_waits_is_said_again_if_it_was_lost(cluster, system):
    gate, own = new_gate("gate"), new_gate("own")
    server = Server.options(name="server").remote()
    one, two = (Worker.options(name=name).remote(server) for name in ("one", "two"))
    door.get([one.ask.remote(), two.ask.remote()])
    two.ask_at.tell("gate", 1)
    one.keep_question.tell(two, 1)
    one.wait_for_kept.tell("own")
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.1)
    cluster.faulty, cluster.fates_of_calls = {"receive"}, ("lost",)
    own.set()
    cluster.settle()
    cluster.fates_of_calls = ("arrives",)
    gate.set()
    cluster.schedule.pass_s(0.8)
    assert taken  # no breath was needed
    thread.join()
    assert [taken[0].states()[name]["done"] for name in ("one", "two")] == [1, 1]


# It ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.acceptance("A6")
def test_a_conversation_without_end_ends_the_request_with_the_chain_and_everybody_goes_on(cluster):
    system = begin(snapshots=SnapshotConfig(conclude_timeout_s=5.0))
    gate = new_gate("gate")
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    worker.ask_at.tell("gate", 1)
    worker.note.tell("behind")
    cluster.settle()
    with pytest.raises(SnapshotAborted) as caught:
        system.snapshot()
    assert "did not come to their end within 5 s" in caught.value.message
    assert "has waited for 'server'" in caught.value.message
    assert caught.value.evidence["reason"] == "suspended"
    gate.set()
    assert door.get(worker.read.remote()) == (1, 1, ["behind"])
    assert is_whole(system.snapshot().states()["w0"])


def test_after_a_long_hold_the_next_snapshot_by_itself_comes_ten_times_as_long_later(cluster):
    system = begin(snapshots=SnapshotConfig(interval_s=2.0, conclude_timeout_s=3.0))
    gate = new_gate("gate")
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    worker.ask_at.tell("gate", 1)
    cluster.schedule.pass_s(6.0)
    held = process_of(cluster, "w0").runner
    assert not held.held
    assert system.status().aborted == 1
    gate.set()
    cluster.schedule.pass_s(20.0)
    assert len(system.snapshots()) <= 1  # the one before the question
    cluster.schedule.pass_s(20.0)
    assert len(system.snapshots()) >= 3


def test_a_member_that_joins_meanwhile_is_born_and_begins_nothing_else(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker = Worker.options(name="w0").remote(server)
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.3)
    late = Worker.options(name="late").remote(server)
    late.work.tell(late)
    cluster.schedule.pass_s(0.4)
    assert process_of(cluster, "late").cell.instance.begun == 0
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])
    late.rest.tell()
    begun, done, _ = door.get(late.read.remote())
    assert begun == done >= 1


def test_an_actor_that_ends_meanwhile_is_not_waited_for(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker, other = (Worker.options(name=name).remote(server) for name in ("w0", "other"))
    door.get(other.ask.remote())
    worker.ask_at.tell("gate", 1)
    other.ask_at.tell("gate", 1)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.3)
    rayshot.kill(other)
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])


@pytest.mark.parametrize("victim", ["server", "w0", "w1"])
def test_a_rollback_ends_the_conclusion_and_the_next_life_has_its_own(cluster, system, victim):
    workers = workers_at_work(2)
    system.snapshot()
    gate = new_gate("gate")
    workers[0].ask_at.tell("gate", 1)
    cluster.schedule.pass_s(1.0)
    thread, _ = photograph(system)
    cluster.schedule.pass_s(0.5)
    cluster.die(actor(cluster, victim))
    await_life(cluster, system, 2)
    gate.set()
    thread.join()
    assert all(is_whole(system.snapshot().states()[name]) for name in ("w0", "w1"))
    end_of(workers)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_successor_of_the_coordinator_lets_all_go_and_learns_anew_who_asks(cluster, system, is_over):
    workers = workers_at_work(3)
    gate = new_gate("gate")
    workers[0].ask_at.tell("gate", 1)
    cluster.schedule.pass_s(1.0)
    photograph(system)
    cluster.schedule.pass_s(0.5)
    assert process_of(cluster, "w1").runner.held
    cluster.die(coordinator(cluster))
    if is_over:
        gate.set()
    cluster.until(lambda: coordinator(cluster).works and not process_of(cluster, "w1").runner.held)
    gate.set()
    cluster.schedule.pass_s(5.0)
    assert all(is_whole(system.snapshot().states()[f"w{number}"]) for number in range(3))
    end_of(workers)


def test_an_actor_that_hears_no_more_goes_on_by_itself(cluster):
    begin(snapshots=SnapshotConfig(conclude_timeout_s=5.0))
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    door.get(worker.ask.remote())
    process = process_of(cluster, "w0")
    with process.runner.lock:
        process.concluding.begin(concluder.ConclusionId(10**6, 1), 5.0)
    worker.note.tell(1)
    cluster.schedule.pass_s(4.0)
    assert process.cell.instance.notes == []
    cluster.schedule.pass_s(2.0)
    assert process.cell.instance.notes == [1]


def test_who_has_never_waited_refuses_once_and_the_request_tries_again(cluster, system):
    """It waits for the first time when the snapshot is on its way to it."""
    server = Server.options(name="server").remote(2.0)
    worker = Worker.options(name="w0").remote(server)
    door.get(worker.read.remote())
    gate = new_gate("gate")
    worker.ask_at.tell("gate", 1)
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.3)
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])
    assert system.status().aborted == 0


def test_an_initiator_begins_when_the_conversations_have_ended(cluster, system):
    workers = workers_at_work(3)
    cluster.schedule.pass_s(1.0)
    snapshot = system.snapshot(initiator="w1")
    assert snapshot.id.initiator == "w1"
    assert all(is_whole(snapshot.states()[f"w{number}"]) for number in range(3))
    end_of(workers)


def test_a_savepoint_stops_a_system_that_asks_all_the_time(cluster, system):
    workers_at_work(3)
    cluster.schedule.pass_s(1.0)
    savepoint = system.stop_with_savepoint("done")
    assert all(is_whole(savepoint.states()[f"w{number}"]) for number in range(3))
