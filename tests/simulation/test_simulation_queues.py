"""Queues in simulated systems: things are taken once, whatever is lost and wherever a snapshot cuts."""

from collections import Counter

import pytest

import rayshot
from rayshot.primitives.queue import QueueActor
from rayshot.simulation import SimulatedSystem
from tests.simulation.queue_play import play


def test_each_thing_in_a_queue_is_taken_once_in_every_cut_and_at_the_end():
    counts = Counter()
    for seed in range(100):
        counts.update(play(seed))
    assert counts["snapshots"] > 150
    assert counts["rollbacks"] > 40


@pytest.mark.parametrize("kind", [rayshot.Queue, rayshot.Lock, rayshot.Semaphore, rayshot.Event])
def test_an_actor_of_a_world_makes_one_itself(kind):
    with SimulatedSystem(1) as world:
        maker = world.create(Maker, name="maker")
        assert maker.use.remote(kind).result() in ("used", True, None)


def test_a_test_waits_in_a_queue_as_a_program_does():
    with SimulatedSystem(1) as world:
        queue = world.create(QueueActor, 0, name="queue")
        got = queue.get.remote()
        queue.put.tell("a")
        assert got.result() == (True, "a")


@rayshot.actor
class Maker:
    def use(self, kind):
        made = kind()
        if kind is rayshot.Queue:
            made.put("used")
            return made.get()
        if kind is rayshot.Event:
            made.set()
            return made.wait()
        made.acquire()
        return made.release()
