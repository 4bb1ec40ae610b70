"""A message that kills an actor whose handlers run at once is found: it is the one whose handler has the turn."""

import asyncio
from typing import ClassVar

import pytest

import rayshot
from rayshot.errors import PoisonMessage
from rayshot.model.configuration import FailureConfig
from rayshot.runtime.door import door
from tests.fake.system import actor, await_life, await_stop, begin, coordinator, process_of, read
from tests.fake.test_fake_poison import await_letters
from tests.fake.threads import Present


@rayshot.actor(capture="inline", max_concurrency=8)
class Diner:
    """Eats what it is told, each behind a pause in which others go on. `waits` are all that were begun."""

    waits: ClassVar = []

    def __init__(self, rollouts=None):
        self.rollouts, self.eaten, self.event = rollouts, [], asyncio.Event()

    async def eat(self, what):
        await asyncio.sleep(0.1)
        if str(what).startswith("poison"):
            Present.cluster.end_here()
        self.eaten.append(what)

    async def eat_with_others(self, what):
        await asyncio.gather(*(self.eat(one) for one in what))

    @rayshot.waits_first
    async def wait_for_event(self):
        await self.event.wait()
        self.eaten.append("event")

    async def wait_long(self):
        self.eaten.append("begun")
        await self.event.wait()

    async def wait_for_others(self):
        await self.event.wait()
        return list(self.eaten)

    async def open(self):
        self.event.set()

    async def fit(self):
        async for what in rayshot.loop(self.rollouts.get):
            await self.eat(what)

    async def ask(self, other, depth):
        return depth and await other.ask.remote(self.me, depth - 1)

    async def meet(self, me):
        self.me = me

    async def raise_it(self, what):
        await asyncio.sleep(0.01)
        raise ValueError(what)

    def read(self):
        return list(self.eaten)


@rayshot.actor(capture="inline", max_concurrency=8, on_error="stop")
class Strict(Diner):
    pass


@pytest.fixture
def fed(cluster):
    """A system with a diner in its only snapshot, that goes back where it dies."""

    def make(on_poison="dead-letter", kind=Diner, *args):
        system = begin(failure=FailureConfig(backoff_s=0.0, on_poison=on_poison))
        diner = kind.options(name="diner").remote(*args)
        door.get(diner.read.remote())
        system.snapshot()
        return system, diner

    return make


def test_it_is_named_when_the_system_stops(cluster, fed):
    system, diner = fed("stop")
    for what in ("soup", "poison", "pie"):
        diner.eat.tell(what)
    why = await_stop(cluster, system)
    assert f"diner was lost twice in a row while it handled message 4 from {system._port.name} (.eat)" in why


@pytest.mark.parametrize("method", ["eat", "eat_with_others"])
def test_it_is_left_out_and_all_others_have_their_effect(cluster, fed, method):
    system, diner = fed()
    diner.eat.tell("soup")
    getattr(diner, method).tell("poison" if method == "eat" else ["poison", "salad"])
    diner.eat.tell("pie")
    await_letters(cluster, system, ("diner", 4, method))
    cluster.schedule.pass_s(1.0)
    assert sorted(read(diner)) == ["pie", "soup"]


def test_who_calls_it_gets_an_error(cluster, fed):
    system, diner = fed()
    called = diner.eat.remote("poison")
    await_letters(cluster, system, ("diner", 3, "eat"))
    with pytest.raises((PoisonMessage, door.Died)):
        door.get(called)


def test_a_handler_that_raises_in_a_class_that_stops_then_is_found_too(cluster, fed):
    system, diner = fed("dead-letter", Strict)
    diner.raise_it.tell("poison")
    diner.eat.tell("pie")
    await_letters(cluster, system, ("diner", 3, "raise_it"))
    cluster.schedule.pass_s(1.0)
    assert read(diner) == ["pie"]


def test_who_waits_while_it_is_killed_from_outside_is_never_named(cluster, fed):
    system, diner = fed("stop")
    diner.wait_long.tell()
    diner.wait_for_event.tell()
    cluster.settle()
    for life in (2, 3, 4):
        cluster.die(actor(cluster, "diner"))
        await_life(cluster, system, life)
        cluster.schedule.pass_s(0.5)
        poison = coordinator(cluster).run.instance._life.poison
        assert ("diner" in poison.cautions, poison.handled_by("diner")) == (life > 2, None)
    cluster.die(actor(cluster, "diner"))
    assert "while it handled" not in await_stop(cluster, system)


def test_handlers_that_wait_for_each_other_go_on_in_a_life_that_is_watched(cluster, fed):
    system, diner = fed()
    for life in (2, 3):
        cluster.die(actor(cluster, "diner"))
        await_life(cluster, system, life)
    assert "diner" in coordinator(cluster).run.instance._life.poison.cautions
    waits = diner.wait_for_others.remote()
    diner.wait_for_event.tell()
    diner.eat.tell("soup")
    diner.open.tell()
    assert door.get(waits) is not None
    for _ in range(2):
        system.snapshot()
    diner.eat.tell("pie")
    cluster.schedule.pass_s(1.0)
    assert sorted(door.get(diner.read.remote())) == ["event", "pie", "soup"]
    assert process_of(cluster, "diner").suspension is not None


def test_the_item_of_a_loop_that_kills_it_is_named_with_its_queue(cluster):
    system = begin(failure=FailureConfig(backoff_s=0.0, on_poison="stop"))
    rollouts = rayshot.Queue(actor_options={"name": "rollouts"})
    diner = Diner.options(name="diner").remote(rollouts)
    diner.fit.tell()
    rollouts.put("soup")
    cluster.settle()
    system.snapshot()
    rollouts.put("poison")
    why = await_stop(cluster, system)
    assert "diner was lost twice in a row while it handled message" in why
    assert "from rollouts (answer of .get)" in why
