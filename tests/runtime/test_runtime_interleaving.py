"""Handlers that run at once, on real Ray: processes that die while some of them wait. See the fake."""

import pytest

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
