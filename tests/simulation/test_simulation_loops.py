"""Methods that loop in simulated systems."""

from collections import Counter

import pytest

import rayshot
from rayshot.errors import ConfigError, ScheduleFailed
from rayshot.primitives.queue import QueueActor
from rayshot.simulation import SimulatedSystem, explore
from tests.simulation.loop_play import play


def test_each_sample_is_made_and_trained_once_in_order_wherever_a_snapshot_cuts_and_whatever_is_lost():
    counts = Counter()
    for seed in range(100):
        counts.update(play(seed))
    assert counts["snapshots"] > 200
    assert counts["rollbacks"] > 50
    assert min(counts["loops anew"], counts["loops chosen"]) > 15


@rayshot.actor
class Clock:
    def __init__(self):
        self.ticks = 0

    def run(self):
        for _ in rayshot.loop(every=2.0):
            self.ticks += 1
            if self.ticks == 3:
                rayshot.current().exit()

    def turn(self):
        for _ in rayshot.loop():
            self.ticks += 1
            if self.ticks == 5:
                break
        return self.ticks


def test_a_loop_in_virtual_time_ends_with_its_actor():
    with SimulatedSystem(1) as world:
        clock = world.create(Clock, name="clock")
        clock.run.tell()
        world.run()
        assert world.now >= 6.0
        assert "clock" in world.ended


def test_passes_without_a_call_come_one_after_the_other():
    with SimulatedSystem(1) as world:
        assert world.create(Clock, name="clock").turn.remote().result() == 5


@rayshot.actor
class Collector:
    def __init__(self, queue):
        self.queue, self.batches, self.batch = queue, [], []

    def collect(self):
        batch = []
        for _, item in rayshot.loop(self.queue.get):
            batch.append(item)
            if len(batch) == 2:
                self.batches.append(tuple(batch))
                batch.clear()

    def collect_rightly(self):
        size = 2
        for _, item in rayshot.loop(self.queue.get):
            self.batch.append(item)
            if len(self.batch) == size:
                self.batches.append(tuple(self.batch))
                self.batch.clear()


def collecting(method):
    def scenario(world):
        queue = world.create(QueueActor, 0, name="queue")
        getattr(world.create(Collector, queue, name="collector"), method).tell()
        for item in range(4):
            queue.put.tell(item)

    return scenario


def both_batches(world):
    return world.actors["collector"].batches == [(0, 1), (2, 3)]


@pytest.mark.parametrize("loops", ["kept", "anew", "chosen"])
def test_a_method_that_keeps_what_it_needs_in_its_state_gives_the_same_results_wherever_it_is_begun_anew(loops):
    explore(collecting("collect_rightly"), schedules=200, check=both_batches, crashes=1, loops=loops)


@pytest.mark.parametrize("loops", ["anew", "chosen"])
def test_a_local_list_that_collects_over_passes_is_found_without_any_crash(loops):
    explore(collecting("collect"), schedules=100, check=both_batches, loops="kept")
    with pytest.raises(ScheduleFailed, match="both_batches is False") as failed:
        explore(collecting("collect"), schedules=100, check=both_batches, loops=loops)
    assert "collector begins its loop anew" in str(failed.value)


def test_a_schedule_that_fails_as_a_method_is_begun_anew_is_repeated_by_its_choices():
    with pytest.raises(ScheduleFailed) as failed:
        explore(collecting("collect"), check=both_batches)
    with SimulatedSystem(choices=failed.value.evidence["choices"]) as world:
        collecting("collect")(world)
        world.run()
    assert not both_batches(world)
    assert str(failed.value).count("begins its loop anew") == 1, "the shortest list has one that matters"


def test_another_word_for_what_becomes_of_frames_in_a_world_is_refused():
    with pytest.raises(ConfigError, match=r"give 'kept' or 'anew' or 'chosen'.*Did you mean 'chosen'"):
        SimulatedSystem(loops="choosen")


@rayshot.actor
class Photographer:
    def __init__(self, queue):
        self.queue, self.passes = queue, 0

    def run(self):
        for _ in rayshot.loop(self.queue.get):
            self.passes += 1
            rayshot.current().snapshot()


@pytest.mark.parametrize("loops", ["kept", "anew"])
def test_a_snapshot_that_a_pass_asks_for_is_taken_at_the_top_of_the_next_one(loops):
    with SimulatedSystem(1, snapshots=0, loops=loops) as world:
        queue = world.create(QueueActor, 0, name="queue")
        world.create(Photographer, queue, name="photographer").run.tell()
        queue.put.tell(1)
        world.run()
    (taken,) = world.snapshots
    assert taken.states()["photographer"]["passes"] == 1


class Forwarder:
    """Puts each item of a queue into another one, until it is ended."""

    def __init__(self, source, target):
        self.source, self.target = source, target

    def run(self):
        for _, item in rayshot.loop(self.source.get):
            self.target.put.tell(item)


@pytest.mark.parametrize("loops", ["kept", "anew", "chosen"])
def test_an_actor_that_is_ended_takes_no_item_with_it(loops):
    def scenario(world):
        source, target = (world.create(QueueActor, 0, name=name) for name in ("source", "target"))
        forwarder = world.create(Forwarder, source, target, name="forwarder")
        forwarder.run.tell()
        rayshot.kill(forwarder)
        for item in range(3):
            source.put.tell(item)

    def all_items(world):
        return sorted(item for name in ("target", "source") for item in world.actors[name].items) == [0, 1, 2]

    explore(scenario, schedules=300, check=all_items, crashes=1, loops=loops)
