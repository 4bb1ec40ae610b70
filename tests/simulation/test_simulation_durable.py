"""Results that are asked for with durable=True in a simulated world: they wait for a snapshot that holds them."""

import random

import pytest

from rayshot.errors import ConfigError, SystemStopped
from rayshot.simulation import SimulatedSystem
from tests.runtime.tills import Till

COUNT = 12


@pytest.fixture
def world():
    with SimulatedSystem(snapshots=0) as world:
        yield world


def test_a_durable_result_waits_for_a_snapshot_and_no_other_result_does(world):
    till = world.create(Till, name="till")
    durable = till.pay.options(durable=True).remote(1)
    assert till.pay.remote(2).result() == 2
    world.run()
    assert not durable.done()
    world.snapshot()
    assert durable.result() == 1


def test_who_waits_for_a_durable_result_where_no_snapshot_is_taken_hears_that_nothing_is_left_to_do(world):
    durable = world.create(Till).pay.options(durable=True).remote(1)
    with pytest.raises(SystemStopped, match="nothing is left to do"):
        durable.result()


def test_what_went_lost_in_a_crash_is_answered_when_a_snapshot_holds_it(world):
    till = world.create(Till, name="till")
    world.run()
    world.snapshot()
    durable = till.pay.options(durable=True).remote(1)
    world.run()
    world.crash()
    world.run()
    assert not durable.done()
    world.snapshot()
    assert durable.result() == 1
    assert world.state("till") == {"paid": [1]}


def test_a_handler_that_asks_for_a_durable_result_hears_why_it_gets_none(world):
    till, other = world.create(Till), world.create(Till)
    assert "would wait for itself" in till.ask.remote(other).result()
    with pytest.raises(ConfigError, match="durable"):
        till.note.options(durable=True)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_dies_nothing_is_undone_that_was_answered_durably(seed):
    chance = random.Random(seed)
    with SimulatedSystem(seed, snapshots=4, crashes=3, takeovers=seed % 3, network="hostile") as world:
        tills = [world.create(Till, name=name) for name in ("north", "south")]
        futures = {}
        for number in range(COUNT):
            till = chance.choice(tills)
            futures[number] = till.name, till.pay.options(durable=True).remote(number)
            steps = iter(range(chance.randrange(40)))
            world.run(until=lambda: has_all_that_was_given(world, futures) and next(steps, None) is None)  # noqa: B023
        world.run(until=lambda: has_all_that_was_given(world, futures) and False)
        world.snapshot()
        assert [future.result() for _, future in futures.values()] == list(range(COUNT))
        for name in ("north", "south"):
            assert world.state(name)["paid"] == [number for number in futures if futures[number][0] == name]


def has_all_that_was_given(world, futures):
    """What was answered durably is in the newest snapshot to which the world would go back."""
    given = {number: name for number, (name, future) in futures.items() if future.done()}
    if given:
        states = world._actors.target().states()
        for number, name in given.items():
            assert number in states[name]["paid"], f"{number} was given, and {name} may forget it"
    return True
