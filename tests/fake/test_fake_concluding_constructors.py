"""Snapshots while actors begin that wait for others in their constructors: nobody is held for these."""

import pytest

import rayshot
from rayshot.model.configuration import SnapshotConfig
from rayshot.runtime.coordinator import concluder
from rayshot.runtime.door import door
from tests.fake.account import new_gate, photograph
from tests.fake.system import actor, begin, coordinator, process_of
from tests.fake.workers import Server, Worker, pass_in_handler

KIDS, KID_S = 9, 0.3
INTERVAL_S = 0.3


@rayshot.actor(capture="inline")
class Kid:
    def __init__(self):
        pass_in_handler(KID_S)

    def put(self, results, number):
        results.put(number)

    def answer(self):
        return 1


@rayshot.actor(capture="inline")
class Parent:
    """Its constructor makes many actors, and waits until all are there, or until each has done something."""

    def __init__(self, how):
        results = rayshot.Queue()
        self.kids, self.found = [], []
        for number in range(KIDS):
            self.kids.append(Kid.options(name=f"kid{number}").remote())
            if how == "puts":
                self.kids[-1].put.tell(results, number)
                self.found.append(results.get())
        if how == "answers":
            self.found = rayshot.get([kid.answer.remote() for kid in self.kids])


@rayshot.actor(capture="inline")
class Waiting:
    def __init__(self, server):
        self.got = 0
        self.got = rayshot.get(server.wait_at.remote("gate", 5))


@pytest.mark.parametrize(("how", "takes_s"), [("answers", KID_S), ("puts", KIDS * KID_S)])
def test_a_snapshot_of_actors_that_begin_comes_when_they_are_there_and_the_next_ones_at_their_interval(
    cluster, how, takes_s
):
    system, began_s = begin(snapshots=SnapshotConfig(interval_s=INTERVAL_S)), cluster.schedule.now_s
    Parent.options(name="parent").remote(how)
    snapshot = system.snapshot()
    assert takes_s <= cluster.schedule.now_s - began_s <= takes_s + 0.1
    assert len(snapshot.states()["parent"]["found"]) == KIDS
    cluster.schedule.pass_s(5.0)
    assert len(system.snapshots()) >= 0.8 * 5.0 / INTERVAL_S
    assert system.status().aborted == 0


def test_nobody_is_held_while_a_constructor_waits(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    worker = Worker.options(name="w0").remote(server)
    door.get(worker.ask.remote())
    Waiting.options(name="new").remote(server)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)
    worker.note.tell(1)
    cluster.schedule.pass_s(0.1)
    assert process_of(cluster, "w0").cell.instance.notes == [1]
    gate.set()
    thread.join()
    assert taken[0].states()["new"]["got"] == 5


def test_a_constructor_that_waits_for_long_is_held_for_like_a_handler_and_the_snapshot_comes_at_its_end(
    cluster, system
):
    gate = new_gate("gate")
    Waiting.options(name="new").remote(Server.options(name="server").remote())
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(4 * concluder.CONSTRUCTOR_S)
    assert not taken
    gate.set()
    cluster.schedule.pass_s(0.1)
    thread.join()
    assert taken[0].states()["new"]["got"] == 5


def test_a_coordinator_that_takes_over_while_a_constructor_waits_takes_the_snapshot_at_its_end(cluster, system):
    gate = new_gate("gate")
    Waiting.options(name="new").remote(Server.options(name="server").remote())
    cluster.settle()
    photograph(system)
    cluster.schedule.pass_s(0.5)
    cluster.die(coordinator(cluster))
    cluster.until(lambda: coordinator(cluster).works)
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    gate.set()
    cluster.schedule.pass_s(0.1)
    thread.join()
    assert taken[0].states()["new"]["got"] == 5


def test_an_actor_that_dies_as_its_constructor_waits_keeps_no_snapshot_away(cluster, system):
    new_gate("gate")
    door.get(Worker.options(name="w0").remote(None).read.remote())
    system.snapshot()
    Waiting.options(name="new").remote(Server.options(name="server").remote())
    cluster.settle()
    photograph(system)
    cluster.schedule.pass_s(0.5)
    cluster.die(actor(cluster, "new"))
    cluster.schedule.pass_s(1.0)
    assert system.status().state == "running"
