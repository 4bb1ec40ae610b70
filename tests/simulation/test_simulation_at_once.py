"""Handlers of one actor that run at once in simulated worlds: which goes on, what begins meanwhile, what cuts hold."""

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import rayshot
from rayshot.errors import (
    ActorDied,
    ActorExited,
    InconsistentCut,
    ScheduleFailed,
    SnapshotAborted,
    WaitsForHandler,
)
from rayshot.model import waits_first
from rayshot.model.handling import Handling, Parking
from rayshot.primitives.queue import QueueActor
from rayshot.simulation import SimulatedSystem, explore
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.simulation.bodies.interleaving import SimulatedInterleaving
from tests.simulation import at_once_play, gate_play
from tests.simulation.at_once_play import Samples


def test_each_prompt_is_rolled_and_trained_once_and_cuts_hold_whole_handlers_whatever_fails():
    counts = Counter()
    for seed in range(100):
        counts.update(at_once_play.play(seed))
    assert counts["snapshots"] > 200
    assert counts["parked"] > 300, "cuts hold handlers that wait first, and loops"
    assert min(counts["rollbacks"], counts["refused"]) > 40


def test_no_place_is_given_to_a_handler_that_a_cut_has_as_waiting():
    counts = Counter()
    for seed in range(100):
        counts.update(gate_play.play(seed))
    assert counts["snapshots"] > 300
    assert counts["rollbacks"] > 40


# Wrong systems ----------------------------------------------------------------------------------------------

begin_anew, next_senders = Handling.begin_anew, SimulatedActor.next_senders


def asks_again(self, loop):
    begin_anew(self, replace(loop, question=None))


def begins_what_is_there(self):
    there = [sender for sender, messages in self.mailbox.items() if messages]
    return there if self.interleaving.is_open else next_senders(self)


def has_it_parked(self):
    self._cell.park(self._now)


def none_runs(self):
    return self.is_open and len(self._running) == len(self._cell.parking.handlers)


MUTANTS = {
    "a parked handler is left out of the cut": (Parking, "recorded", lambda *_: []),
    "a handler that has done something counts as parked": (waits_first._Watched, "_stands", has_it_parked),
    "who goes on still counts as parked": (Parking, "go_on", lambda *_: None),
    "a message begins while the actor is held": (SimulatedActor, "next_senders", begins_what_is_there),
    "a record is made before all that can go on have done so": (
        SimulatedInterleaving,
        "is_at_rest",
        property(none_runs),
    ),
    "a record is made while handlers run": (SimulatedInterleaving, "is_at_rest", property(lambda self: self.is_open)),
    "a loop that begins anew asks again": (Handling, "begin_anew", asks_again),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_plays_notice_a_system_in_which(name):
    with mock.patch.object(*MUTANTS[name]):
        for seed in range(150):
            try:
                gate_play.play(seed)
                at_once_play.play(seed)
            except (AssertionError, InconsistentCut, WaitsForHandler):
                return
    pytest.fail("150 schedules, and nobody noticed")


# One actor ---------------------------------------------------------------------------------------------------


@rayshot.actor
class Register:
    def __init__(self):
        self.value = 0

    def read(self):
        return self.value

    def leave(self):
        rayshot.current().exit()


@rayshot.actor(max_concurrency=4)
class Desk:
    def __init__(self, register=None):
        self.register, self.total, self.seen, self.most, self.here = register, 0, [], 0, 0
        self.lock, self.opened, self.items = asyncio.Lock(), asyncio.Event(), asyncio.Queue()

    async def add(self):
        total = self.total
        await asyncio.sleep(0)
        self.total = total + 1

    async def add_asking(self):
        total = self.total
        await self.register.read.remote()
        self.total = total + 1

    async def add_locked(self):
        async with self.lock:
            await self.add_asking()

    async def stay(self, number):
        self.here += 1
        self.most = max(self.most, self.here)
        await asyncio.sleep(number)
        self.here -= 1
        self.seen.append(number)
        return number

    async def read_within(self, seconds):
        try:
            self.seen.append(await asyncio.wait_for(self.register.read.remote(), seconds))
        except TimeoutError:
            self.seen.append("late")

    async def wait(self):
        await self.opened.wait()

    @rayshot.waits_first
    async def wait_first(self, number):
        await self.opened.wait()
        self.seen.append(number)
        return number

    @rayshot.waits_first
    async def take_within(self, seconds):
        item = await asyncio.wait_for(self.items.get(), seconds)
        await self.opened.wait()
        self.seen.append(item)

    async def put(self, item):
        await self.items.put(item)

    async def open(self):
        self.opened.set()

    def read_plainly(self):
        self.seen.append(rayshot.get(self.register.read.remote()))

    async def know(self, me):
        self.me = me

    async def ask_itself(self):
        return await self.me.stay.remote(1)

    async def ask_itself_plainly(self):
        return rayshot.get(self.me.stay.remote(1))

    async def fail(self):
        await asyncio.sleep(1)
        raise ValueError("bad luck")

    async def leave(self):
        raise SystemExit

    async def hold(self):
        await self.lock.acquire()

    async def pump(self, queue):
        batch = []
        async for _, item in rayshot.loop(queue.get):
            batch.append(item)
            self.total = sum(batch)

    async def tick(self):
        async for _ in rayshot.loop(every=2.0):
            self.total += 1
            if self.total == 3:
                break
        return self.total


@rayshot.actor(max_concurrency=4, on_error="stop")
class Strict(Desk):
    pass


def made(world, desk_class=Desk):
    register = world.create(Register, name="register")
    return register, world.create(desk_class, register, name="desk")


def desk_of(world):
    return world.actors["desk"]


def test_no_more_handlers_run_at_once_than_the_class_says_and_each_answers_as_it_ends():
    for seed in range(30):
        with SimulatedSystem(seed) as world:
            _, desk = made(world)
            stays = [desk.stay.remote(number % 3) for number in range(9)]
            assert [one.result() for one in stays] == [number % 3 for number in range(9)]
            assert 1 <= desk_of(world).most <= 4
    assert desk_of(world).most > 1


@pytest.mark.parametrize("method", ["add", "add_asking"])
def test_explore_finds_an_update_that_is_lost_between_two_handlers_of_one_actor_and_repeats_it(method):
    def adding_twice(world):
        _, desk = made(world)
        for _ in range(2):
            getattr(desk, method).tell()

    with pytest.raises(ScheduleFailed) as failed:
        explore(adding_twice, check=lambda world: desk_of(world).total == 2, snapshots=0)
    with SimulatedSystem(choices=failed.value.evidence["choices"], snapshots=0) as world:
        adding_twice(world)
        world.run()
        assert desk_of(world).total == 1


def test_with_a_lock_no_update_is_lost():
    def adding_twice(world):
        _, desk = made(world)
        for _ in range(2):
            desk.add_locked.tell()

    explore(adding_twice, schedules=100, check=lambda world: desk_of(world).total == 2, crashes=1)


def test_the_same_seed_gives_the_same_run():
    def story(**of):
        with SimulatedSystem(snapshots=2, crashes=1, story=True, **of) as world:
            _, desk = made(world)
            for number in range(4):
                desk.stay.tell(number)
                desk.add_asking.tell()
            world.run()
            return world.story, world.choices

    told, choices = story(seed=7)
    assert story(seed=7) == (told, choices)
    assert story(choices=choices)[0] == told
    assert story(seed=8)[0] != told


def test_choices_say_whether_the_answer_comes_or_the_time_is_up_first():
    seen = set()
    for seed in range(60):
        with SimulatedSystem(seed) as world:
            _, desk = made(world)
            desk.read_within.tell(5.0)
            world.run()
            seen.update(desk_of(world).seen)
    assert seen == {0, "late"}


def test_a_plain_method_that_waits_keeps_the_others_waiting():
    with SimulatedSystem(1) as world:
        _, desk = made(world)
        desk.stay.tell(5)
        desk.read_plainly.tell()
        world.run()
        assert sorted(desk_of(world).seen) == [0, 5]


def test_an_actor_asks_itself_while_a_place_is_free_and_is_named_if_nobody_can_go_on():
    with SimulatedSystem(1) as world:
        _, desk = made(world)
        desk.know.tell(desk)
        assert desk.ask_itself.remote().result() == 1
        for _ in range(4):
            desk.ask_itself_plainly.tell()
        with pytest.raises(WaitsForHandler, match="desk waits for desk"):
            world.run()


def test_a_handler_that_raises_becomes_a_dead_letter_and_the_others_go_on():
    with SimulatedSystem(1) as world:
        _, desk = made(world)
        desk.fail.tell()
        desk.stay.tell(2)
        with pytest.raises(ValueError, match="bad luck"):
            desk.fail.remote().result()
        world.run()
        (letter,) = world.dead_letters
        assert (letter.method, letter.number, letter.sender) == ("fail", 2, "driver:main")
        assert desk_of(world).seen == [2]


def test_a_failure_of_a_class_that_stops_at_one_is_the_systems():
    with SimulatedSystem(1) as world:
        _, desk = made(world, Strict)
        desk.fail.tell()
        with pytest.raises(ActorDied, match="bad luck"):
            world.run()


def test_who_leaves_python_ends_its_actor_behind_the_others():
    with SimulatedSystem(2) as world:
        _, desk = made(world)
        stays = desk.stay.remote(3)
        desk.leave.tell()
        waits = desk.wait_first.remote(1)
        world.run()
        assert stays.result() == 3
        assert "desk" in world.ended
        with pytest.raises(ActorExited):
            waits.result()


@pytest.mark.parametrize("seed", range(20))
def test_an_order_to_end_comes_through_where_all_places_are_taken(seed):
    with SimulatedSystem(seed, snapshots=2, crashes=1) as world:
        _, desk = made(world)
        waits = [desk.wait_first.remote(number) for number in range(6)]
        rayshot.kill(desk)
        world.run()
        assert "desk" in world.ended
        for one in waits:
            with pytest.raises(ActorExited):
                one.result()


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_who_waits_first_is_in_the_snapshot_and_begins_anew_behind_a_crash(mode):
    with SimulatedSystem(3, snapshots=0, mode=mode) as world:
        _, desk = made(world)
        waits = [desk.wait_first.remote(number) for number in range(3)]
        world.run()
        snapshot = world.snapshot()
        assert at_once_play.parked_in(snapshot, "desk") == [("wait_first", number) for number in range(3)]
        branch = world.branch()
        world.crash()
        desk.open.tell()
        world.run()
        assert [one.result() for one in waits] == desk_of(world).seen == [0, 1, 2]
    branch.run()
    assert desk_of(branch).seen == []
    branch.get_actor("desk").open.tell()
    branch.run()
    assert desk_of(branch).seen == [0, 1, 2]


def test_a_snapshot_waits_for_handlers_that_sleep_and_is_given_up_if_one_never_ends():
    with SimulatedSystem(3, snapshots=0) as world:
        _, desk = made(world)
        desk.stay.tell(5)
        world.run(until=lambda: desk_of(world).here if "desk" in world.actors else False)
        assert world.snapshot().states()["desk"]["here"] == 0
        desk.wait.tell()
        world.run()
        with pytest.raises(SnapshotAborted, match="gave it up"):
            world.snapshot()
        desk.open.tell()
        world.run()
        assert world.snapshot().states()["desk"]["seen"] == [5]


def test_who_has_taken_an_item_within_a_time_is_not_begun_anew():
    with SimulatedSystem(1, snapshots=0) as world:
        _, desk = made(world)
        desk.put.tell("a")
        desk.take_within.tell(5)
        world.run()
        with pytest.raises(SnapshotAborted, match="gave it up"):
            world.snapshot()
        desk.open.tell()
        world.run()
        assert world.snapshot().states()["desk"]["seen"] == ["a"]


def test_a_snapshot_is_refused_while_a_handler_waits_for_an_answer():
    with SimulatedSystem(5, snapshots=0, story=True) as world:
        _, desk = made(world)
        desk.add_asking.tell()
        world.run(until=lambda: "desk waits for register" in " ".join(world.story))
        with pytest.raises(SnapshotAborted, match="waits for the answer of register"):
            world.snapshot()


def test_a_lock_that_is_locked_in_a_snapshot_is_warned_of(caplog):
    with SimulatedSystem(1, snapshots=0) as world:
        _, desk = made(world)
        desk.hold.tell()
        world.run()
        with caplog.at_level(logging.WARNING, "rayshot"):
            world.snapshot()
        assert "desk: lock is locked in this snapshot" in caplog.text


def test_who_asks_an_actor_that_has_ended_is_told_so():
    with SimulatedSystem(2) as world:
        register, desk = made(world)
        register.leave.tell()
        world.run()
        with pytest.raises(ActorExited):
            desk.add_asking.remote().result()


def pumping(world):
    _, desk = made(world)
    queue = world.create(QueueActor, 0, name="queue")
    desk.pump.tell(queue)
    for item in (1, 2, 4):
        queue.put.tell(item)


@pytest.mark.parametrize("loops", ["anew", "chosen"])
def test_a_local_list_that_collects_over_passes_is_found_without_any_crash(loops):
    explore(pumping, schedules=100, check=lambda world: desk_of(world).total == 7, loops="kept")
    with pytest.raises(ScheduleFailed, match="begins a handler anew"):
        explore(pumping, schedules=100, check=lambda world: desk_of(world).total == 7, loops=loops)


def test_passes_come_in_their_time():
    with SimulatedSystem(1) as world:
        _, desk = made(world)
        assert desk.tick.remote().result() == 3
        assert world.now >= 6.0


def test_a_world_is_stepped_through_handlers_that_run_at_once():
    with SimulatedSystem(1) as world:
        _, desk = made(world)
        world.run()
        for _ in range(2):
            desk.add_asking.tell()
        for number in range(6):
            desk.wait_first.tell(number)
        steps = []
        while (step := world.step()) is not None:
            steps.append(step.handled.method)
        assert steps.count("add_asking") == 2
        assert steps.count("wait_first") == 4, "so many have a place"
        assert desk_of(world).total in (1, 2)


def test_worlds_whose_handlers_run_at_once_leave_no_files_open():
    def scenario(world):
        samples = world.create(Samples, 1, name="samples")
        for number in range(3):
            samples.put.tell(number)
            samples.get.tell()
            samples.get.tell()

    files = len(list(Path("/proc/self/fd").iterdir()))
    seen = explore(scenario, schedules=30, check=lambda world: not world.actors["samples"].items, crashes=1)
    assert seen.rollbacks > 10
    assert len(list(Path("/proc/self/fd").iterdir())) <= files + 3
