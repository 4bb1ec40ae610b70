"""Answers that come later: a handler leaves the answer to its call to another one, and snapshots hold what is owed."""

import pytest

import rayshot
from rayshot.audit.proof import prove
from rayshot.errors import ActorExited
from rayshot.model.configuration import FailureConfig
from rayshot.model.later_answer import answer_later
from rayshot.runtime.actor import outcomes
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate
from tests.fake.system import actor, await_life, begin, read


@rayshot.actor(capture="inline")
class Shelf:
    """Who takes what is not there waits for it."""

    __rayshot_answers_late__ = True

    def __init__(self):
        self.things, self.takers = [], []

    def take(self):
        if self.things:
            return self.things.pop(0)
        self.takers.append(answer_later())
        return "ignored"

    def put(self, thing):
        while self.takers:
            taker = self.takers.pop(0)
            if taker.is_awaited:
                taker.give(thing)
                return
        self.things.append(thing)

    def spoil(self):
        self.takers.pop(0).fail(ValueError("spoilt"))

    def fall(self):
        answer_later()
        raise ValueError("it fell")

    def leave(self):
        rayshot.current().exit()

    def read(self):
        return self.things, len(self.takers)


@rayshot.actor(capture="inline")
class Agent:
    def __init__(self, shelf):
        self.shelf, self.found = shelf, []

    def take(self):
        return self.shelf.take.remote()

    def take_behind(self, gate):
        Account.gates[gate].wait()
        return self.shelf.take.remote()

    def bring_behind(self, gate, thing):
        Account.gates[gate].wait()
        self.shelf.put.tell(thing)

    def fetch(self):
        self.shelf.take.remote().then(self.note, on_error=self.note_error)

    def wait(self):
        self.note(rayshot.get(self.shelf.take.remote()))

    def note(self, thing):
        self.found.append(thing)

    def note_error(self, error):
        self.found.append(type(error))

    def read(self):
        return self.found


@pytest.fixture
def shelf(system):
    shelf = Shelf.options(name="shelf").remote()
    door.get(shelf.read.remote())
    return shelf


@pytest.fixture
def agent(shelf):
    agent = Agent.options(name="agent").remote(shelf)
    door.get(agent.read.remote())
    return agent


def is_there(reference):
    return bool(door.wait([reference], timeout=0)[0])


def test_calls_of_a_driver_are_answered_in_any_order(shelf):
    first, second = shelf.take.remote(), shelf.take.remote()
    assert read(shelf) == ([], 2), "a later call is answered first"
    shelf.put.tell("a")
    assert door.get(first) == "a"
    shelf.spoil.tell()
    with pytest.raises(ValueError, match="spoilt"):
        door.get(second)
    assert read(shelf) == ([], 0)
    with pytest.raises(ValueError, match="it fell"):
        door.get(shelf.fall.remote())


def test_actors_get_what_they_wait_for_or_continue_with(cluster, shelf, agent):
    agent.fetch.tell()
    read(agent)
    agent.wait.tell()
    for thing in "ab":
        shelf.put.tell(thing)
    cluster.settle()
    assert read(agent) == ["b", "a"], "what a handler waits for comes before its turn"


def test_a_snapshot_is_taken_while_answers_are_owed_and_names_them(cluster, system, shelf, agent):
    passed_on, taken = agent.take.remote(), shelf.take.remote()
    agent.fetch.tell()
    read(agent)
    assert read(shelf) == ([], 3)
    snapshot = system.snapshot()
    assert snapshot.verify().sound
    owed = {f"{of.sender[:6]}>{of.receiver}": one.entry.owed for of, one in snapshot.channels.items() if one.entry.owed}
    assert owed == {"driver>agent": (3,), "driver>shelf": (3,)}
    for thing in "abc":
        shelf.put.tell(thing)
    assert {door.get(passed_on), door.get(taken), *read(agent)} == {*"abc"}
    assert not any(one.entry.owed for one in system.snapshot().channels.values())


def test_what_is_owed_in_a_snapshot_is_answered_once_behind_a_rollback(cluster, system, shelf, agent):
    passed_on, taken = agent.take.remote(), shelf.take.remote()
    read(agent)
    assert read(shelf) == ([], 2)
    system.snapshot()
    bystander = Agent.options(name="bystander").remote(shelf)
    read(bystander)
    cluster.die(actor(cluster, "bystander"))
    await_life(cluster, system, 2)
    assert not is_there(passed_on)
    assert not is_there(taken)
    assert read(shelf) == ([], 2)
    shelf.put.tell("a")
    shelf.put.tell("b")
    assert {door.get(passed_on), door.get(taken)} == {"a", "b"}
    assert read(shelf) == ([], 0)


def test_a_durable_call_is_not_answered_before_a_snapshot_holds_its_answer(cluster, system, shelf):
    taken = shelf.take.options(durable=True).remote()
    assert read(shelf) == ([], 1)
    system.snapshot()
    shelf.put.tell("a")
    assert read(shelf) == ([], 0)
    cluster.settle()
    assert not is_there(taken), "the snapshot holds the call, but not its answer"
    bystander = Agent.options(name="bystander").remote(shelf)
    read(bystander)
    cluster.die(actor(cluster, "bystander"))
    await_life(cluster, system, 2)
    cluster.settle()
    assert not is_there(taken)
    system.snapshot()
    assert door.get(taken) == "a"


def takes(cluster):
    return len(actor(cluster, "shelf").run.instance._process.cell.instance.takers)


def roll_back_to_before_a_take(cluster, system, shelf, agent):
    """A program takes what the agent brings, and then puts something; in the next life the agent waits at its gate."""
    system.snapshot()
    gate = new_gate("gate")
    gate.set()
    taken = shelf.take.remote()
    agent.bring_behind.tell("gate", "a")
    assert door.get(taken) == "a"
    shelf.put.tell("made of a")
    assert read(shelf) == (["made of a"], 0)
    gate.clear()
    Agent.options(name="late").remote(shelf)
    cluster.settle()
    cluster.die(actor(cluster, "late"))
    await_life(cluster, system, 2)
    cluster.settle()
    assert takes(cluster) == 1
    return gate


def test_what_a_program_sent_behind_a_late_answer_waits_for_it_in_a_new_life(cluster, system, shelf, agent):
    """Otherwise the program's own thing would be what it took."""
    gate = roll_back_to_before_a_take(cluster, system, shelf, agent)
    gate.set()
    assert read(shelf) == (["made of a"], 0)


def test_an_answer_that_does_not_come_again_stops_a_program_only_for_a_while(cluster, system, shelf, agent):
    roll_back_to_before_a_take(cluster, system, shelf, agent)
    cluster.schedule.pass_s(outcomes.OWED_AGAIN_S - 2)
    assert takes(cluster) == 1
    cluster.schedule.pass_s(4)
    assert read(shelf) == (["made of a"], 0)


def test_who_waits_for_the_answer_of_an_actor_that_ends_learns_that(cluster, shelf, agent):
    passed_on, taken = agent.take.remote(), shelf.take.remote()
    agent.fetch.tell()
    read(agent)
    assert read(shelf) == ([], 3)
    shelf.leave.tell()
    for reference in (passed_on, taken):
        with pytest.raises(ActorExited, match="'shelf' ended"):
            door.get(reference)
    cluster.settle()
    assert read(agent) == [ActorExited]


def test_an_actor_that_ended_before_it_took_the_call_answers_nobody_and_the_caller_learns_that(cluster, shelf, agent):
    gate = new_gate("gate")
    passed_on = agent.take_behind.remote("gate")
    rayshot.kill(shelf)
    cluster.schedule.pass_s(1.0)
    gate.set()
    with pytest.raises(ActorExited, match="'shelf' ended"):
        door.get(passed_on)


def test_nobody_gets_what_was_for_a_driver_that_died(cluster, system, shelf):
    taken = shelf.take.remote()
    assert read(shelf) == ([], 1)
    process = actor(cluster, "shelf").run.instance._process
    ((caller, _),) = process.cell.owed.numbers
    with process.runner.lock:
        process.dead_drivers.close(caller)
    assert process.is_gone(caller)
    assert not is_there(taken)


@rayshot.actor(capture="inline")
class Keeper(Agent):
    def keep(self):
        self.kept = self.shelf.read.remote()

    def give_what_is_kept(self):
        return self.kept

    def wait_and_return(self):
        reply = self.shelf.read.remote()
        rayshot.wait([reply])
        return reply

    def leave(self):
        rayshot.current().exit()

    def ask_along(self, other):
        other.take.remote().then(self.note)


def test_a_reply_that_is_answered_is_returned_as_often_as_somebody_asks(cluster, shelf):
    keeper = Keeper.options(name="keeper").remote(shelf)
    keeper.keep.tell()
    read(keeper)
    given = [keeper.give_what_is_kept.remote() for _ in range(20)]
    assert [door.get(one) for one in given] == [([], 0)] * 20
    assert door.get(keeper.wait_and_return.remote()) == ([], 0)
    assert process_of_(cluster, "keeper").outcomes._kept == {}


def process_of_(cluster, name):
    return actor(cluster, name).run.instance._process


@pytest.mark.parametrize("gone", ["caller", "program"])
def test_what_is_passed_on_takes_nothing_when_nobody_needs_it_any_more(cluster, shelf, agent, gone):
    asker = Keeper.options(name="asker").remote(shelf)
    if gone == "caller":
        asker.ask_along.tell(agent)
        read(asker)
    else:
        agent.take.remote()
    cluster.settle()
    assert read(shelf) == ([], 1)
    if gone == "caller":
        asker.leave.tell()
    else:
        process = process_of_(cluster, "agent")
        ((caller, _),) = process.cell.owed.numbers
        with process.runner.lock:
            process.cell.owed.forget({caller})
    cluster.schedule.pass_s(3.0)
    agent.fetch.tell()
    cluster.settle()
    shelf.put.tell("a")
    cluster.settle()
    assert agent is not None
    assert process_of_(cluster, "agent").cell.instance.found == ["a"]
    assert process_of_(cluster, "agent").cell.owed.numbers == {}


@pytest.mark.parametrize("trace", [True, "full"])
def test_the_answers_of_an_actor_that_ends_are_in_its_trace(cluster, trace):
    system = begin(failure=FailureConfig(backoff_s=0.0), trace=trace)
    shelf = Shelf.options(name="shelf").remote()
    agent = Agent.options(name="agent").remote(shelf)
    agent.fetch.tell()
    read(agent)
    system.snapshot()
    agent.fetch.tell()
    cluster.settle()
    shelf.leave.tell()
    cluster.schedule.pass_s(2.0)
    system.snapshot()
    found = prove(system.snapshots()[-1], system.snapshots()).findings
    assert {one.name: one.holds for one in found} == {"cut equation": True, "vector clocks": True, "theorem 1": True}
