"""What comes in between while conversations are brought to an end: other snapshots, requests, coordinators."""

import pytest

import rayshot
from rayshot.errors import ActorExited, SnapshotAborted
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.coordinator import concluder
from rayshot.runtime.coordinator.report_intake import ReportIntake
from rayshot.runtime.coordinator.requests import PendingRequest, SnapshotRequest
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate, photograph
from tests.fake.system import actor, await_life, begin, coordinator, process_of
from tests.fake.workers import Server, Stepper, Worker, end_of, is_whole, workers_at_work


def test_a_snapshot_of_another_actor_lets_nobody_go_who_is_held_for_something_else(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker, other = (Worker.options(name=name).remote(server) for name in ("w0", "other"))
    account = Account.options(name="account").remote(1)
    door.get(other.ask.remote())
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.3)
    account.photograph.tell()
    cluster.schedule.pass_s(0.3)
    assert process_of(cluster, "other").runner.held
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])


def test_who_waits_first_when_the_snapshot_is_on_its_way_is_not_held_afterwards(cluster, system):
    """It is answered before it learns of the snapshot, and the news that it asks comes late."""
    gate = new_gate("gate")
    server = Server.options(name="server").remote(0.01)
    known, slow, new = (Worker.options(name=name).remote(server) for name in ("known", "slow", "new"))
    door.get([known.ask.remote(), slow.ask.remote(), new.read.remote()])
    process = process_of(cluster, "new")
    life = coordinator(cluster).run.instance._life
    thread, _ = photograph(system)
    cluster.until(lambda: life.runner.pending)
    with life.lock:
        life.runner.concluder.asks("new")
    cluster.schedule.pass_s(1.0)
    thread.join()
    cluster.schedule.pass_s(1.0)
    assert not process.runner.held
    gate.set()


def test_who_is_held_learns_first_of_the_snapshot(cluster, system, monkeypatch):
    workers, told, fetch = workers_at_work(2), [], ReportIntake.fetch

    def noted(self, name, *more):
        told.append(name)
        fetch(self, name, *more)

    monkeypatch.setattr(ReportIntake, "fetch", noted)
    cluster.schedule.pass_s(0.5)
    system.snapshot()
    assert told == ["w0", "w1", "server"]
    end_of(workers)


def test_calls_whose_replies_nobody_holds_are_held_like_tells(cluster, system):
    """Each step makes the other one's next step, and asks the server: a ring that never ends by itself."""
    server = Server.options(name="server").remote()
    ring = [Stepper.options(name=name).remote(server) for name in ("s0", "s1")]
    door.get([one.meet.remote(other) for one, other in zip(ring, reversed(ring), strict=True)])
    ring[0].step.tell()
    ring[1].step.tell()
    cluster.schedule.pass_s(3.0)
    states = system.snapshot().states()
    assert [states[name]["begun"] - states[name]["done"] for name in ("s0", "s1")] == [0, 0]
    assert states["s0"]["done"] > 5


def test_an_actor_that_asked_and_answers_much_does_not_report_each_answer(cluster, system):
    class Counted:
        count = 0

    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    busy, worker, slow = (Worker.options(name=name).remote(server) for name in ("busy", "w0", "slow"))
    door.get([busy.ask.remote(), worker.ask.remote()])
    slow.ask_at.tell("gate", 1)
    worker.ask_often.tell(busy, 200)
    runner = coordinator(cluster).run.instance._life.runner
    rests = runner.rests

    def counting(*args):
        Counted.count += 1
        rests(*args)

    runner.rests = counting
    thread, taken = photograph(system)
    cluster.schedule.pass_s(5.0)
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])
    assert Counted.count < 20


def test_while_a_handler_waits_for_minutes_a_new_coordinator_does_not_try_again_all_the_time(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker = Worker.options(name="w0").remote(server)
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    cluster.die(coordinator(cluster))
    cluster.until(lambda: coordinator(cluster).works)
    cluster.schedule.pass_s(5.0)
    photograph(system)
    cluster.schedule.pass_s(10.0)
    assert process_of(cluster, "w0").runner.held
    counter = coordinator(cluster).run.instance._life.runner._collector._counter
    assert counter <= 3
    gate.set()
    cluster.schedule.pass_s(5.0)
    assert is_whole(system.snapshot().states()["w0"])


def test_requests_that_wait_together_fail_together_when_conversations_do_not_end(cluster):
    system = begin(snapshots=SnapshotConfig(conclude_timeout_s=5.0))
    gate = new_gate("gate")
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    waiting = [photograph(system) for _ in range(5)]
    cluster.schedule.pass_s(7.0)
    assert [error.evidence["reason"] for _, taken in waiting for error in taken] == ["suspended"] * 5
    gate.set()


def test_a_refusal_that_comes_before_the_announcement_of_its_snapshot_is_tried_again(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker, other = (Worker.options(name=name).remote(server) for name in ("w0", "other"))
    door.get(other.tell_note.remote(worker, "told"))
    runner = coordinator(cluster).run.instance._life.runner
    announce, late = runner.announce, []
    runner.announce = lambda *args: late.append(args)
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    with runner.lock:
        runner.concluder._asking.clear()  # nobody knows yet
    thread, taken = photograph(system, initiator="other")
    cluster.schedule.pass_s(1.0)
    del runner.announce
    for args in late:
        announce(*args)
    cluster.schedule.pass_s(1.0)
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])


def test_a_durable_result_is_given_up_that_a_handler_may_wait_for(cluster):
    """The program would let the handler go on behind its result, and that waits for a snapshot."""
    system = begin(snapshots=SnapshotConfig(conclude_timeout_s=3.0))
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker = Worker.options(name="w0").remote(server)
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    durable = Account.options(name="account").remote(1).read.options(durable=True).remote()
    for _ in range(concluder.FAILURES_MAX):
        assert not cluster.wait([durable], timeout=0.1)[0]
        with pytest.raises(SnapshotAborted):
            system.snapshot()
    with pytest.raises(SnapshotAborted, match="did not come to their end"):
        door.get(durable)
    gate.set()
    assert is_whole(system.snapshot().states()["w0"])


def test_an_initiator_that_ends_before_its_turn_holds_nobody(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker, other = (Worker.options(name=name).remote(server) for name in ("w0", "other"))
    door.get(other.read.remote())
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    requests = [photograph(system), photograph(system, initiator="other")]
    cluster.schedule.pass_s(0.3)
    rayshot.kill(other)
    cluster.schedule.pass_s(0.3)
    requests.append(photograph(system))
    gate.set()
    cluster.schedule.pass_s(2.0)
    first, second, third = (taken[0] for _, taken in requests)
    assert isinstance(second, ActorExited)
    assert is_whole(first.states()["w0"])
    assert is_whole(third.states()["w0"])


def test_a_request_with_little_time_left_fails_alone(cluster):
    system = begin(snapshots=SnapshotConfig(conclude_timeout_s=30.0))
    gate = new_gate("gate")
    worker = Worker.options(name="w0").remote(Server.options(name="server").remote())
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    brief = PendingRequest("chandy-lamport", SnapshotRequest(within_s=0.5), "request")
    coordinator(cluster).run.instance._life.runner.ask(brief)
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)
    assert isinstance(brief.error, SnapshotAborted)
    assert not taken
    gate.set()
    thread.join()
    assert is_whole(taken[0].states()["w0"])


def test_deaths_of_several_actors_with_no_snapshot_between_stop_nothing_while_conversations_take_long(cluster):
    system = begin(snapshots=SnapshotConfig(interval_s=10.0), failure=FailureConfig(backoff_s=0.0))
    server = Server.options(name="server").remote(60.0)
    workers = [Worker.options(name=f"w{number}").remote(server) for number in range(6)]
    system.snapshot()
    for worker in workers:
        worker.work.tell(worker)
    for life in range(2, 8):
        cluster.schedule.pass_s(40.0)
        cluster.die(actor(cluster, f"w{life - 2}"))
        await_life(cluster, system, life)
    assert len({back.snapshot for back in system.status().recoveries}) == 1  # no other one was taken
