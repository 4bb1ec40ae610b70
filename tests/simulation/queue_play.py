"""Producers and takers around a queue with little room: each thing that is put is taken once, by one of them."""

import random

import rayshot
from rayshot.primitives.queue import QueueActor
from rayshot.simulation import SimulatedSystem
from rayshot.simulation.world.networks import NETWORKS

MODES = ("chandy-lamport", "aligned", "stop-the-world")
THINGS = 6


@rayshot.actor
class Producer:
    def __init__(self, queue, name, count):
        self.queue, self.name, self.left, self.late = queue, name, count, 0

    def bring(self, *_):
        """Puts one thing, and the next one when there was room; the state has what waits for room."""
        if self.left:
            self.left -= 1
            self.queue.put.remote((self.name, self.left)).then(self.bring)

    def bring_all(self):
        while self.left:
            self.left -= 1
            assert rayshot.get(self.queue.put.remote((self.name, self.left)))


@rayshot.actor
class Taker:
    def __init__(self, queue):
        self.queue, self.taken = queue, []

    def take(self, count):
        self.queue.get.remote().then(self.note, count)

    def note(self, answer, count):
        self.taken.append(answer[1])
        if count > 1:
            self.take(count - 1)

    def take_now(self, count):
        for _ in range(count):
            self.taken.append(rayshot.get(self.queue.get.remote())[1])

    async def take_in_time(self, count):
        for _ in range(count):
            is_there, thing = await self.queue.get.remote(0.5)
            if not is_there:
                _, thing = await self.queue.get.remote()
            self.taken.append(thing)

    def pass_on(self):
        return self.queue.get.remote()


def waiting(waiters):
    return waiters._waiting if hasattr(waiters, "_waiting") else waiters.state["_waiting"]


def things_in(snapshot):
    """Every thing of a cut that no program has: made and not taken, taken, or on its way to who takes it."""
    states = snapshot.states()
    found = [tuple(thing) for name, state in states.items() if name.startswith("taker") for thing in state["taken"]]
    queue = states["queue"]
    found += [tuple(thing) for thing in (*queue["items"], *(value for _, value in waiting(queue["putters"])))]
    for channel in snapshot.channels.values():
        for message in channel.messages:
            if message.kind == "call" and message.method == "put":
                found.append(tuple(message.args[0]))
    return found


def play(seed):
    """One schedule; returns how often things happened in it."""
    chance = random.Random(seed)
    faults = {name: chance.randrange(3) for name in ("crashes", "takeovers", "deadlines")}
    mode, network = chance.choice(MODES), chance.choice(sorted(NETWORKS))
    with SimulatedSystem(seed, snapshots=4, mode=mode, network=network, **faults) as world:
        queue = world.create(QueueActor, chance.choice((0, 1, 2)), name="queue")
        producers = [world.create(Producer, queue, name, THINGS, name=f"producer {name}") for name in "ab"]
        takers = [world.create(Taker, queue, name=f"taker {number}") for number in range(3)]
        for producer in producers:
            getattr(producer, chance.choice(("bring", "bring_all"))).tell()
        shares = chance.choice(((4, 4, 3), (6, 4, 1), (9, 1, 1)))
        for taker, share in zip(takers, shares, strict=True):
            getattr(taker, chance.choice(("take", "take_now", "take_in_time"))).tell(share)
        asked = (queue.get.remote, takers[0].pass_on.remote, queue.get.options(durable=True).remote)
        mine = chance.choice(asked)()
        world.run()
        taken = [thing for number in range(3) for thing in world.state(f"taker {number}")["taken"]]
        made = {(name, number) for name in "ab" for number in range(THINGS)}
        assert len(taken) == len(set(taken)) == sum(shares), taken
        assert set(taken) <= made
        view = world.state("queue")
        assert not view["items"], view
        assert not waiting(view["putters"]), view
        if mine.done():
            is_there, thing = mine.result()
            assert is_there
            assert tuple(thing) in made
            if world.rollbacks == 0:
                assert {*taken, tuple(thing)} == made
        for snapshot in world.snapshots:
            if {"queue", "producer a", "producer b", *(f"taker {number}" for number in range(3))} <= set(
                snapshot.states()
            ):
                found = things_in(snapshot)
                assert len(found) == len(set(found)), f"{snapshot.id} has a thing twice: {found}"
        errors = {letter.error.strip().splitlines()[-1] for letter in world.dead_letters if "ended" not in letter.error}
        assert not errors, errors
        refused = sum(why.startswith("suspended") for why in world.aborted.values())
        return {"snapshots": len(world.snapshots), "refused": refused, "rollbacks": world.rollbacks}
