"""Handlers that wait for others in a simulated world: choices say which goes on, and whose time is up."""

import asyncio
import gc
from collections import Counter
from weakref import ref

import pytest

import rayshot
from rayshot.errors import ActorDied, AnswerTimedOut, ScheduleFailed, SnapshotAborted, WaitsForHandler
from rayshot.simulation import SimulatedSystem, explore
from rayshot.simulation.bodies import strand
from tests.simulation.asking_bank import play


@rayshot.actor
class Register:
    """A number that others read and write."""

    def __init__(self):
        self.value = 0

    def read(self):
        return self.value

    def write(self, value):
        self.value = value

    def fail(self):
        raise ValueError("no such luck")

    def leave(self):
        rayshot.current().exit()


@rayshot.actor
class Adder:
    def __init__(self, register):
        self.register, self.found, self.halves = register, [], 0

    def add(self):
        self.halves += 1
        value = rayshot.get(self.register.read.remote())
        rayshot.get(self.register.write.remote(value + 1))
        self.halves -= 1

    def add_and_say(self):
        rayshot.get(self.register.write.remote(rayshot.get(self.register.read.remote()) + 1))
        return "done"

    def read_for(self, seconds):
        try:
            self.found.append(rayshot.get(self.register.read.remote(), timeout=seconds))
        except AnswerTimedOut:
            self.found.append("late")

    def fail(self):
        try:
            rayshot.get(self.register.fail.remote())
        except ValueError as error:
            self.found.append(str(error))

    def ask(self, other):
        self.found.append(rayshot.get(other.give.remote()))

    def ask_each_other(self, other):
        rayshot.get(other.give.remote())

    def give(self):
        return len(self.found)


@rayshot.actor
class FailsBehindAQuestion:
    def __init__(self, register):
        raise ValueError(rayshot.get(register.read.remote()))


@rayshot.actor
class AsyncAdder(Adder):
    async def add(self):
        self.halves += 1
        value = await self.register.read.remote()
        await self.register.write.remote(value + 1)
        self.halves -= 1

    async def read_for(self, seconds):
        try:
            self.found.append(await asyncio.wait_for(self.register.read.remote(), seconds))
        except TimeoutError:
            self.found.append("late")

    async def fail(self):
        try:
            await self.register.fail.remote()
        except ValueError as error:
            self.found.append(str(error))

    async def gather(self, count):
        self.found += await asyncio.gather(*(self.register.read.remote() for _ in range(count)))


@pytest.fixture(params=[Adder, AsyncAdder], ids=["plain", "async"])
def adder_class(request):
    return request.param


def made(world, adder_class, count=2):
    register = world.create(Register, name="register")
    return register, [world.create(adder_class, register, name=f"adder{k}") for k in range(count)]


def test_a_handler_that_waits_goes_on_with_the_answer(adder_class):
    with SimulatedSystem(1) as world:
        _, (one, _) = made(world, adder_class)
        one.add.tell()
        one.fail.tell()
        world.run()
        assert world.state("register")["value"] == 1
        assert (world.state("adder0")["found"], world.state("adder0")["halves"]) == (["no such luck"], 0)
        assert not world.dead_letters


def adding_twice(adder_class, world):
    _, adders = made(world, adder_class)
    for adder in adders:
        adder.add.tell()
    world.run()
    assert world.state("register")["value"] == 2, "an update is lost"


def test_explore_finds_an_update_that_is_lost_between_two_questions_and_repeats_it(adder_class):
    with pytest.raises(ScheduleFailed, match="an update is lost") as caught:
        explore(lambda world: adding_twice(adder_class, world), schedules=50, snapshots=0)
    with (
        SimulatedSystem(choices=caught.value.evidence["choices"], snapshots=0) as world,
        pytest.raises(AssertionError, match="an update is lost"),
    ):
        adding_twice(adder_class, world)


def test_choices_say_whether_the_answer_comes_or_the_time_is_up_first(adder_class):
    outcomes = set()
    for seed in range(200):
        with SimulatedSystem(seed) as world:
            _, (one, _) = made(world, adder_class)
            one.read_for.tell(5.0)
            world.run()
            outcomes.add(world.state("adder0")["found"][0])
            assert not world.dead_letters  # a late answer counts for nothing
    assert outcomes == {0, "late"}


def test_many_questions_are_in_flight_at_once():
    with SimulatedSystem(3) as world:
        _, (one, _) = made(world, AsyncAdder)
        one.gather.tell(20)
        world.run()
        assert world.state("adder0")["found"] == [0] * 20


def test_handlers_that_wait_for_each_other_are_named_when_nothing_can_happen_any_more(adder_class):
    def ask_each_other(world):
        _, (one, two) = made(world, adder_class)
        one.ask_each_other.tell(two)
        two.ask_each_other.tell(one)
        world.run()

    with pytest.raises(ScheduleFailed) as failed:
        explore(ask_each_other, schedules=50, snapshots=0)
    choices = failed.value.evidence["choices"]
    with SimulatedSystem(choices=choices, snapshots=0) as world, pytest.raises(WaitsForHandler) as caught:
        ask_each_other(world)
    assert caught.value.evidence["waiting"] == {"adder0": ["adder1"], "adder1": ["adder0"]}


def test_who_asks_an_actor_that_has_ended_is_told_so():
    with SimulatedSystem(2) as world:
        register, (one, _) = made(world, Adder)
        world.run()
        register.leave.tell()
        world.run()
        one.fail.tell()
        world.run()
        assert "ActorExited" in world.dead_letters[-1].error


def schedule(seed, adder_class, **faults):
    """Adders work and photographs are taken; returns the world's snapshots."""
    with SimulatedSystem(seed, snapshots=4, **faults) as world:
        _, adders = made(world, adder_class, 3)
        for adder in adders * 3:
            adder.add.tell()
        world.run()
        assert world.state("register")["value"] >= 3
        assert all(world.state(f"adder{k}")["halves"] == 0 for k in range(3))
        for snapshot in world.snapshots:
            states = snapshot.states()
            assert all(states[name]["halves"] == 0 for name in states if name.startswith("adder")), "half a handler"
        return len(world.snapshots), len(world.aborted), world.rollbacks


@pytest.mark.parametrize(
    "faults", [{}, {"crashes": 2}, {"takeovers": 2}, {"crashes": 1, "takeovers": 1, "deadlines": 1}]
)
def test_no_snapshot_holds_half_a_handler_whatever_fails(adder_class, faults):
    results = [schedule(seed, adder_class, **faults) for seed in range(60)]
    assert sum(taken for taken, _, _ in results) > 60
    assert sum(aborted for _, aborted, _ in results) > 0
    assert sum(rollbacks for _, _, rollbacks in results) >= 10 * faults.get("crashes", 0)


def test_a_snapshot_that_is_asked_for_while_a_handler_waits_is_refused(adder_class):
    with SimulatedSystem(5, story=True) as world:
        _, (one, _) = made(world, adder_class)
        one.add.tell()
        world.run(until=lambda: "adder0 waits for register" in " ".join(world.story))
        with pytest.raises(SnapshotAborted, match="waits for the answer of register"):
            world.snapshot()
        world.run()
        assert world.snapshot().states()["adder0"]["halves"] == 0


def test_a_world_is_stepped_through_a_conversation():
    with SimulatedSystem(0) as world:
        _, (one, _) = made(world, Adder)
        one.add.tell()
        calls = []
        while (step := world.step()) is not None:
            calls.append(step.handled.method or step.handled.kind)
        assert calls.count("add") == 1
        assert world.state("register")["value"] == 1


def test_without_greenlets_a_handler_that_waits_says_what_to_install(monkeypatch):
    monkeypatch.setattr(strand, "greenlet", None)
    with SimulatedSystem(0) as world:
        _, (one, _) = made(world, Adder)
        one.add.tell()
        world.run()
        assert "rayshot[simulation]" in world.dead_letters[-1].error


def test_money_is_whole_in_each_cut_of_a_bank_whose_clerks_ask_under_all_faults():
    counts = Counter()
    for seed in range(150):
        counts.update(play(seed))
    assert counts["snapshots"] > 150
    assert min(counts["refused"], counts["rollbacks"]) > 20


def test_the_call_of_a_handler_that_waits_is_answered_by_the_life_that_goes_on(adder_class):
    with SimulatedSystem(3, story=True) as world:
        _, (one, _) = made(world, adder_class)
        world.snapshot()
        result = one.add_and_say.remote()
        world.run(until=lambda: "adder0 waits for register" in " ".join(world.story))
        world.crash()
        world.run()
        assert result.result() == "done"
        assert world.state("register")["value"] == 1


def test_a_constructor_that_asks_and_fails_then_is_a_failure_of_the_system():
    with SimulatedSystem(3) as world:
        register = world.create(Register, name="register")
        world.create(FailsBehindAQuestion, register)
        with pytest.raises(ActorDied, match="behind a question"):
            world.run()


def world_that_waits():
    """What holds the actors of a world in which handlers wait."""
    world = SimulatedSystem(3, snapshots=0)
    _, (one, two) = made(world, Adder)
    one.ask_each_other.tell(two)
    two.ask_each_other.tell(one)
    world.run(until=lambda: world._actors.waiting)
    assert world._actors.waiting
    return ref(world._actors)


def test_a_world_whose_handlers_wait_is_freed():
    actors = world_that_waits()
    gc.collect()
    assert actors() is None
