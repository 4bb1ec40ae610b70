"""Methods that loop in simulated systems."""

from collections import Counter

import rayshot
from rayshot.simulation import SimulatedSystem
from tests.simulation.loop_play import play


def test_each_sample_is_made_and_trained_once_in_order_wherever_a_snapshot_cuts_and_whatever_is_lost():
    counts = Counter()
    for seed in range(100):
        counts.update(play(seed))
    assert counts["snapshots"] > 200
    assert counts["rollbacks"] > 50


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
