"""A gate that lets one in for each token: its loop gives away places for which handlers wait, and is parked at once."""

import asyncio
import random

import rayshot
from rayshot.primitives.queue import QueueActor
from rayshot.simulation import SimulatedSystem
from rayshot.simulation.world.networks import NETWORKS
from tests.simulation.at_once_play import LOOPS, MODES

VISITORS = 6


@rayshot.actor(max_concurrency=VISITORS + 1, prove=False)
class Gate:
    """Lets one in for each token that its loop gets."""

    def __init__(self, tokens):
        self.tokens, self.places, self.released, self.entered = tokens, asyncio.Semaphore(0), 0, []

    async def open(self):
        async for _ in rayshot.loop(self.tokens.get):
            await asyncio.sleep(1)
            if self.released % 2:
                rayshot.current().snapshot()
            self.released += 1
            self.places.release()

    @rayshot.waits_first
    async def enter(self, number):
        await self.places.acquire()
        self.entered.append(number)


def check_gate(snapshot):
    """Who was let in has entered: no place was given to one that a restore would begin anew."""
    if gate := snapshot.states().get("gate"):
        let_in = gate["released"] - gate["places"].state["_value"]
        assert len(gate["entered"]) == let_in, (
            f"{snapshot.id}: {let_in} were let in, and {gate['entered']} have entered"
        )


def play(seed):
    """One schedule; returns how often things happened in it."""
    chance = random.Random(seed)
    faults = {name: chance.randrange(3) for name in ("crashes", "takeovers", "deadlines")}
    mode, network, loops = chance.choice(MODES), chance.choice(sorted(NETWORKS)), chance.choice(LOOPS)
    with SimulatedSystem(seed, snapshots=3, mode=mode, network=network, loops=loops, **faults) as world:
        tokens = world.create(QueueActor, 0, name="tokens")
        gate = world.create(Gate, tokens, name="gate")
        gate.open.tell()
        for number in range(VISITORS):
            gate.enter.tell(number)
            tokens.put.tell(number)
        world.run()
        assert world.state("gate")["entered"] == [*range(VISITORS)], world.state("gate")
        for snapshot in world.snapshots:
            check_gate(snapshot)
        errors = {letter.error.strip().splitlines()[-1] for letter in world.dead_letters}
        assert not errors, errors
        return {"snapshots": len(world.snapshots), "rollbacks": world.rollbacks, "aborted": len(world.aborted)}
