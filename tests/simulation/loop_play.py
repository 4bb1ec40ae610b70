"""A generator and a trainer that loop around two queues: each sample is made once, and trained once, in order."""

import random

import rayshot
from rayshot.primitives.queue import QueueActor
from rayshot.simulation import SimulatedSystem
from rayshot.simulation.world.networks import NETWORKS
from tests.simulation.queue_play import waiting

MODES = ("chandy-lamport", "aligned", "stop-the-world")
LOOPS = ("kept", "kept", "anew", "chosen")
SAMPLES = 8


@rayshot.actor
class Generator:
    def __init__(self, slots, rollouts):
        self.slots, self.rollouts, self.made = slots, rollouts, 0

    def fit(self):
        for _ in rayshot.loop(self.slots.get):
            self.made += 1
            rayshot.get(self.rollouts.put.remote(self.made))
            if self.made == SAMPLES:
                break
        return "made"

    async def fit_async(self):
        async for _ in rayshot.loop(self.slots.get):
            self.made += 1
            await self.rollouts.put.remote(self.made)
            if self.made == SAMPLES:
                break
        return "made"


@rayshot.actor
class Trainer:
    def __init__(self, slots, rollouts):
        self.slots, self.rollouts, self.trained, self.asked = slots, rollouts, [], 0

    def fit(self):
        for _, sample in rayshot.loop(self.rollouts.get):
            self.trained.append(sample)
            self.slots.put.tell(0)
            if sample == SAMPLES:
                break
        return self.trained

    async def fit_async(self):
        async for _, sample in rayshot.loop(self.rollouts.get):
            self.trained.append(sample)
            await self.slots.put.remote(0)
            if sample == SAMPLES:
                break
        return self.trained

    def poke(self):
        self.asked += 1


def check_samples(snapshot):
    """What was made is trained, in the queue, or on its way: in this order, without a gap."""
    states = snapshot.states()
    if not {"generator", "trainer", "rollouts"} <= states.keys():
        return
    queue = states["rollouts"]
    known = [*states["trainer"]["trained"], *queue["items"], *(sample for _, sample in waiting(queue["putters"]))]
    assert known == sorted(set(known)), f"{snapshot.id}: {known}"
    assert len(known) >= states["generator"]["made"] - 1, f"{snapshot.id}: {known} of {states['generator']['made']}"


def play(seed):
    """One schedule; returns how often things happened in it."""
    chance = random.Random(seed)
    faults = {name: chance.randrange(3) for name in ("crashes", "takeovers", "deadlines")}
    mode, network = chance.choice(MODES), chance.choice(sorted(NETWORKS))
    loops = chance.choice(LOOPS)
    with SimulatedSystem(seed, snapshots=5, mode=mode, network=network, loops=loops, **faults) as world:
        slots = world.create(QueueActor, 0, name="slots")
        rollouts = world.create(QueueActor, chance.choice((1, 2)), name="rollouts")
        generator = world.create(Generator, slots, rollouts, name="generator")
        trainer = world.create(Trainer, slots, rollouts, name="trainer")
        method = chance.choice(("fit", "fit_async"))
        made, trained = getattr(generator, method).remote(), getattr(trainer, method).remote()
        trainer.poke.tell()
        for _ in range(2):
            slots.put.tell(0)
        world.run()
        everything = [*range(1, SAMPLES + 1)]
        assert made.result() == "made"
        assert trained.result() == everything
        end = world.state("trainer")
        assert (end["trained"], end["asked"]) == (everything, 1)
        for snapshot in world.snapshots:
            check_samples(snapshot)
        errors = {letter.error.strip().splitlines()[-1] for letter in world.dead_letters if "ended" not in letter.error}
        assert not errors, errors
        refused = sum(why.startswith("suspended") for why in world.aborted.values())
        counts = {"snapshots": len(world.snapshots), "refused": refused, "rollbacks": world.rollbacks}
        return {**counts, f"loops {loops}": 1}
