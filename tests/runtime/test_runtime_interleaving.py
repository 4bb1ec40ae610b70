"""Handlers that run at once, on real Ray: processes that die while some of them wait. See the fake."""

import pytest
import ray

from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.runtime.interleaving import Consumer, Producer, Samples
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray
COUNT = 60


def test_whoever_is_killed_each_item_comes_once_and_no_snapshot_has_half_of_a_handler(new_system):
    system = new_system(failure=HEALS)
    samples = Samples.options(name="samples").remote(2)
    producer = Producer.options(name="producer").remote(samples)
    consumer = Consumer.options(name="consumer").remote(samples)
    for _ in range(2):
        consumer.consume.tell()
    for number in range(COUNT):
        producer.make.tell(number)

    def got():
        states = system.snapshot().states()
        assert states["producer"]["half"] == 0
        return states["consumer"]["got"]

    life = 1
    for victim in ("producer", "samples", "coordinator", "consumer"):
        found = got()
        assert len({*found}) == len(found), victim
        if victim == "coordinator":
            kill_coordinator(system)
        else:
            kill(system, victim)
            life += 1
        until_it_runs(system, life)
    eventually(lambda: sorted(got()) == [*range(COUNT)], 60)


def test_references_inside_the_argument_of_a_message_that_waits_first_come_back(new_system):
    system = new_system(failure=HEALS)
    samples = Samples.options(name="samples").remote(1)
    ray.get(samples.put.remote("first"))
    samples.put.tell({"large": bytes(2 << 20), "inside": [ray.put("a")]})
    eventually(lambda: ray.get(samples.count_waiting.remote()) == 1, 30)
    system.snapshot()
    kill(system, "samples")
    until_it_runs(system)
    for _ in range(2):
        system.snapshot()
    kill(system, "samples")
    until_it_runs(system, 3)
    assert ray.get(samples.get.remote()) == "first"
    found = ray.get(samples.get.remote())
    assert (len(found["large"]), ray.get(found["inside"][0])) == (2 << 20, "a")
