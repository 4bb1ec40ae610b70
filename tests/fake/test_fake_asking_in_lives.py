"""Actors that ask in systems that go back: watched lives, bodies that do not end, first snapshots, full drivers."""

from typing import ClassVar

import pytest

import rayshot
from rayshot.errors import SnapshotAborted
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.channel import retained
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate, photograph
from tests.fake.looping import Trainer, instance
from tests.fake.system import actor, await_life, await_stop, begin, process_of, read
from tests.fake.threads import Present, Thread
from tests.fake.workers import Server, Worker, is_whole


@rayshot.actor(capture="inline")
class Asker:
    """Asks another one, which may ask on. `deadly` outlives it: these numbers kill who is asked last."""

    deadly: ClassVar = set()

    def __init__(self, other=None):
        self.other, self.found, self.born_with = other, [], None

    def ask(self, number):
        self.found.append(rayshot.get(self.other.answer.remote(number)))

    def answer(self, number):
        if self.other is not None:
            return rayshot.get(self.other.answer.remote(number))
        if number in Asker.deadly:
            Present.cluster.end_here()
        return number

    def read(self):
        return self.found


@rayshot.actor(capture="inline")
class BornByAsking:
    """Its constructor asks who made it, or another one."""

    def __init__(self, other, gate=None):
        self.found = rayshot.get(other.read.remote() if gate is None else other.wait_at.remote(gate, 5))

    def read(self):
        return self.found


@rayshot.actor(capture="inline")
class Parent:
    def __init__(self, server):
        self.server, self.done = server, 0

    def make_and_mention(self, me):
        """The server is asked with the child, and the child's constructor waits for the end of this handler."""
        self.child = BornByAsking.options(name="child").remote(me)
        rayshot.get(self.server.take.remote(self.child))
        self.done += 1

    def read(self):
        return self.done


@rayshot.actor(capture="inline")
class Taker:
    def __init__(self):
        self.taken = []

    def take(self, child):
        self.taken.append(child)


@rayshot.actor(capture="inline")
class Stuck(Trainer):
    def fit(self):
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)
            if rollout != "a":
                Account.gates["body"].wait()


@pytest.fixture
def chain(cluster):
    """A system in whose only snapshot three actors ask along a chain, and which is watched when it has gone back."""
    Asker.deadly.clear()

    def make(on_poison="dead-letter"):
        system = begin(failure=FailureConfig(backoff_s=0.0, on_poison=on_poison))
        last = Asker.options(name="last").remote()
        middle = Asker.options(name="middle").remote(last)
        first = Asker.options(name="first").remote(middle)
        assert [read(one) for one in (last, middle, first)] == [[], [], []]
        system.snapshot()
        return system, first

    return make


def watch_all(cluster, system):
    """Each of the three dies twice in lives without a commit, so that the next life watches it."""
    life = 1
    for name in ("first", "middle", "last") * 2:
        cluster.die(actor(cluster, name))
        life += 1
        await_life(cluster, system, life)
    assert {*process_of(cluster, "first").identity.cautions} == {"first", "middle", "last"}


def test_watched_actors_that_ask_each_other_handle_several_messages_at_once(cluster, chain):
    system, first = chain()
    watch_all(cluster, system)
    for number in (1, 2):
        first.ask.tell(number)
    assert read(first) == [1, 2]
    assert system.status().state == "running"


@pytest.mark.parametrize("on_poison", ["dead-letter", "stop"])
def test_of_watched_actors_that_wait_for_the_one_that_dies_none_is_to_blame(cluster, chain, on_poison):
    """A question is a call, so it can be left out: who asked gets the error."""
    Asker.deadly.add(7)
    system, first = chain(on_poison)
    first.ask.tell(7)
    first.ask.tell(8)
    if on_poison == "stop":
        assert "last was lost twice in a row while it handled message 1 from middle (.answer)" in await_stop(
            cluster, system
        )
        return
    cluster.until(lambda: system.status().state == "running" and system.status().incarnation >= 4)
    assert read(first) == [8]
    assert {(one.receiver, one.method) for one in system.dead_letters()} == {("last", "answer"), ("first", "ask")}


def test_the_call_of_a_loop_whose_process_dies_fails_as_any_and_the_loop_goes_on(cluster, system, rollouts):
    trainer = Trainer.options(name="trainer").remote(rollouts)
    fitted = trainer.fit.remote()
    cluster.settle()
    system.snapshot()
    cluster.die(actor(cluster, "trainer"))
    await_life(cluster, system, 2)
    with pytest.raises(door.Died):
        door.get(fitted)
    for item in ("a", "done"):
        rollouts.put(item)
    assert read(trainer) == ["a"]
    assert process_of(cluster, "trainer").cell.owed.numbers == {}


def test_a_program_that_may_keep_no_more_goes_on_though_a_conversation_waits_for_it(cluster, monkeypatch):
    """No snapshot comes before it says what a handler waits for, and it says that behind what it may not keep."""
    monkeypatch.setattr(retained, "RETAINED_BYTES_MAX", 2_000)
    system, gate = begin(snapshots=SnapshotConfig(interval_s=10.0)), new_gate("gate")
    server, account = Server.options(name="server").remote(), Account.options(name="account").remote(0)
    worker = Worker.options(name="w0").remote(server)
    assert read(account) == 0
    system.snapshot()
    worker.ask_at.tell("gate", 1)
    cluster.settle()
    told = []

    def tell_all():
        for number in range(3_000):
            account.deposit.tell(1)
            told.append(number)
        gate.set()

    thread = Thread(tell_all)
    thread.start()
    cluster.schedule.pass_s(30.0)
    assert not gate.is_set()
    assert process_of(cluster, "w0").runner.held
    cluster.until(gate.is_set, within_s=240.0)
    thread.join()
    cluster.schedule.pass_s(700.0)
    assert system.status().cannot_go_back_since is None
    states = system.snapshot().states()
    assert states["account"]["balance"] == len(told) == 3_000
    assert is_whole(states["w0"])


def test_the_first_snapshot_waits_for_a_constructor_that_asks_and_status_says_for_what(cluster, system):
    gate = new_gate("gate")
    born = BornByAsking.options(name="born").remote(Server.options(name="server").remote(), "gate")
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(3.0)
    assert not taken
    status = system.status()
    born_status = status.actors["born"]
    assert (status.last_snapshot, born_status.handler, born_status.waits_for) == (None, "__init__", ("server",))
    gate.set()
    thread.join()
    assert taken[0].states()["born"]["found"] == 5
    assert system.status().aborted == 0
    assert read(born) == 5


def test_what_an_actor_says_of_a_child_waits_for_no_constructor(cluster, system):
    """The child's constructor asks its parent, which waits for the one that it has told of the child."""
    parent = Parent.options(name="parent").remote(Taker.options(name="taker").remote())
    parent.make_and_mention.tell(parent)
    cluster.schedule.pass_s(5.0)
    assert (instance(cluster, "parent").done, instance(cluster, "child").found) == (1, 1)


def test_what_a_program_says_of_an_actor_waits_for_no_constructor(cluster, system):
    """The constructor waits for what the program does behind the answer of the one that it has told of the actor."""
    taker, gate = Taker.options(name="taker").remote(), new_gate("gate")
    child = BornByAsking.options(name="child").remote(Server.options(name="server").remote(), "gate")
    door.get(taker.take.remote(child))
    gate.set()
    assert read(child) == 5


def test_a_body_that_does_not_end_when_the_system_goes_back_ends_its_process_and_its_pass_is_made_again(
    cluster, system, rollouts
):
    gate = new_gate("body")
    trainer = Stuck.options(name="trainer").remote(rollouts)
    assert read(trainer) == []
    bystander = Account.options(name="bystander").remote(0)
    trainer.fit.tell()
    rollouts.put("a")
    cluster.settle()
    gate.clear()
    assert read(bystander) == 0
    system.snapshot()
    rollouts.put("b")
    cluster.settle()
    before = actor(cluster, "trainer")
    cluster.die(actor(cluster, "bystander"))
    cluster.until(lambda: not before.works)
    gate.set()
    await_life(cluster, system, 2)
    cluster.settle()
    assert actor(cluster, "trainer") is not before
    assert instance(cluster).trained == ["a", "b"]


def test_a_handler_that_waits_for_a_task_which_asks_a_held_actor_ends_the_request_and_all_go_on(cluster):
    """The circle exists only while conversations come to their end; nobody can see what a task waits for."""
    system = begin(snapshots=SnapshotConfig(conclude_timeout_s=5.0))
    task = new_gate("task")
    server = Server.options(name="server").remote()
    held, worker = (Worker.options(name=name).remote(server) for name in ("held", "w0"))
    door.get([held.ask.remote(), worker.ask.remote()])
    worker.wait_for_task.tell("task")
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)

    def task_asks():
        door.get(held.read.remote())
        task.set()

    asks = Thread(task_asks)
    asks.start()
    thread.join()
    (error,) = taken
    assert isinstance(error, SnapshotAborted)
    assert "wait_for_task of 'w0' runs" in error.message
    asks.join()
    assert is_whole(system.snapshot().states()["w0"])
