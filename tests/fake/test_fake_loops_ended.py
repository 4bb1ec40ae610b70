"""An actor is ended whose method loops over a queue: what was on its way to it is trained, or stays in the queue."""

import random

import pytest

import rayshot
from rayshot.errors import ActorExited
from rayshot.model.handling import LAST_ANSWER_S
from rayshot.runtime.door import door
from tests.fake.door import fake
from tests.fake.looping import Trainer
from tests.fake.system import actor, await_life, begin, read

ITEMS = 10


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dies", [False, True], ids=["all live", "the queue dies"])
def test_no_item_is_lost_that_was_on_its_way(seed, dies):
    rng = random.Random(seed)
    with fake(nodes=3, choices=rng.choices(range(100), k=20_000)) as cluster:
        system = begin()
        rollouts = rayshot.Queue(actor_options={"name": "rollouts"})
        trained = rayshot.Queue(actor_options={"name": "trained"})
        trainer = Trainer.options(name="trainer").remote(rollouts, trained)
        read(trainer)
        trainer.fit.tell()
        cluster.settle()
        for number in range(ITEMS):
            if number == ITEMS // 2:
                rayshot.kill(trainer)
            rollouts.actor.put.tell(number)
        if dies:
            system.snapshot()
            cluster.die(actor(cluster, "rollouts"))
            await_life(cluster, system, 2)
        cluster.settle()
        cluster.schedule.pass_s(LAST_ANSWER_S)
        assert trained.qsize() + rollouts.qsize() == ITEMS
        assert "trainer" not in system.actors()
        assert system.dead_letters() == []


def test_who_is_asked_and_loops_itself_is_not_waited_for_for_ever(cluster, system, rollouts):
    busy, trainer = (Trainer.options(name=name).remote(rollouts) for name in ("busy", "trainer"))
    busy.fit.tell()
    fitted = trainer.fit_with.remote(busy)
    cluster.settle()
    rayshot.kill(trainer)
    cluster.schedule.pass_s(LAST_ANSWER_S - 1)
    assert "trainer" in system.actors()
    cluster.schedule.pass_s(2.0)
    assert "trainer" not in system.actors()
    with pytest.raises(ActorExited):
        door.get(fitted)
