"""A rollouter whose handlers run at once, an engine that can be paused, and a trainer that loops, under all faults.

Each prompt is rolled once, and each sample trained once. A cut holds no half of a handler, and the messages of those
that wait first.
"""

import asyncio
import random
from collections import Counter, deque

import rayshot
from rayshot.format.codec import Frame, read_messages
from rayshot.inert import reader
from rayshot.simulation import SimulatedSystem
from rayshot.simulation.world.networks import NETWORKS

MODES = ("chandy-lamport", "aligned", "stop-the-world")
LOOPS = ("kept", "anew", "chosen")
PROMPTS, PLACES, TRAINERS = 7, 2, 2


@rayshot.actor(max_concurrency=100, prove=False)
class Samples:
    """A queue with a condition, as programs on Ray write it."""

    def __init__(self, size):
        self.items, self.size = deque(), size
        self.lock = asyncio.Lock()
        self.changed = asyncio.Condition(self.lock)

    @rayshot.waits_first
    async def put(self, item):
        async with self.lock:
            while len(self.items) >= self.size:
                await self.changed.wait()
            self.items.append(item)
            self.changed.notify_all()

    @rayshot.waits_first
    async def get(self):
        async with self.lock:
            while not self.items:
                await self.changed.wait()
            self.changed.notify_all()
            return self.items.popleft()


@rayshot.actor(max_concurrency=20, prove=False)
class Engine:
    """Generates while it is not paused."""

    def __init__(self):
        self.resumed, self.halves = asyncio.Event(), 0
        self.resumed.set()

    @rayshot.waits_first
    async def generate(self, prompt):
        await self.resumed.wait()
        self.halves += 1
        await asyncio.sleep(prompt % 3)
        self.halves -= 1
        return prompt

    async def pause(self):
        self.resumed.clear()

    async def resume(self):
        self.resumed.set()


@rayshot.actor(max_concurrency=4, prove=False)
class Rollouter:
    """Has several prompts under way, but no more of them at the engine than there are places."""

    def __init__(self, engine, samples):
        self.engine, self.samples = engine, samples
        self.places, self.halves, self.done, self.noted = asyncio.Semaphore(PLACES), 0, [], []

    @rayshot.waits_first
    async def roll(self, prompt):
        async with self.places:
            self.halves += 1
            sample = await self.engine.generate.remote(prompt)
            await self.samples.put.remote(sample)
            self.halves -= 1
            self.done.append(prompt)
        return prompt

    async def note(self, number):
        self.noted.append(number)


@rayshot.actor
class Feeder:
    """Has the prompts, and tells the rollouter one by one, with a note behind each."""

    def __init__(self, rollouter):
        self.rollouter, self.told = rollouter, 0

    def feed(self):
        self.told += 1
        if self.told == PLACES:
            rayshot.current().snapshot()
        self.rollouter.roll.tell(self.told)
        self.rollouter.note.tell(self.told)


@rayshot.actor(max_concurrency=TRAINERS + 1, prove=False)
class Trainer:
    """Several loops take from one queue."""

    def __init__(self, samples):
        self.samples, self.trained, self.halves = samples, [], 0

    async def fit(self):
        async for sample in rayshot.loop(self.samples.get):
            self.halves += 1
            await asyncio.sleep(sample % 2)
            self.halves -= 1
            self.trained.append(sample)

    async def read(self):
        return list(self.trained)


def parked_in(snapshot, actor):
    """The methods and arguments of the messages whose handlers a state has."""
    state = snapshot.actors[actor].state
    parked = reader.read(state.stream, state.buffers).get("parked", ())
    messages = [next(iter(read_messages(Frame(one["number"], 1, bytes(one["message"]))))) for one in parked]
    return [(message.method, *message.args) for message in messages]


def in_flight(snapshot, sender, receiver):
    """The methods and arguments of the messages of a channel that a cut has in flight."""
    channel = next((of for key, of in snapshot.channels.items() if (*key,) == (sender, receiver)), None)
    return [(message.method, *message.args) for message in (channel.messages if channel else ())]


def check_cut(snapshot):
    """No handler is half done; what was told is rolled, on its way, or waits first; what was rolled is in one place."""
    states = snapshot.states()
    assert not any(state.get("halves") for state in states.values()), f"{snapshot.id} holds half a handler"
    if not {"rollouter", "feeder", "samples", "trainer"} <= states.keys():
        return
    rollouter, told = states["rollouter"], [*range(1, states["feeder"]["told"] + 1)]
    known = [("roll", prompt) for prompt in rollouter["done"] if prompt > 0] + parked_in(snapshot, "rollouter")
    sent = in_flight(snapshot, "feeder", "rollouter")
    known += [one for one in sent if one[0] == "roll"]
    rolls = [("roll", prompt) for prompt in told]
    assert sorted(one for one in known if one[1] > 0) == rolls, f"{snapshot.id}: {known}"
    noted = [*rollouter["noted"], *(number for method, number in sent if method == "note")]
    assert noted == told, f"{snapshot.id}: {noted}"
    samples = [*states["trainer"]["trained"], *states["samples"]["items"]]
    assert len(samples) == len({*samples}), f"{snapshot.id}: {samples}"
    missing = {*rollouter["done"]} - {*samples}
    assert {*samples} <= {*rollouter["done"]}, f"{snapshot.id}: {samples} of {rollouter['done']}"
    assert len(missing) <= TRAINERS, f"{snapshot.id}: {missing} are nowhere"


def play(seed):
    """One schedule; returns how often things happened in it."""
    chance = random.Random(seed)
    faults = {name: chance.randrange(3) for name in ("crashes", "takeovers", "deadlines")}
    mode, network, loops = chance.choice(MODES), chance.choice(sorted(NETWORKS)), chance.choice(LOOPS)
    with SimulatedSystem(seed, snapshots=5, mode=mode, network=network, loops=loops, **faults) as world:
        samples = world.create(Samples, chance.choice((1, 3)), name="samples")
        engine = world.create(Engine, name="engine")
        rollouter = world.create(Rollouter, engine, samples, name="rollouter")
        trainer = world.create(Trainer, samples, name="trainer")
        feeder = world.create(Feeder, rollouter, name="feeder")
        for _ in range(TRAINERS):
            trainer.fit.tell()
        for _ in range(PROMPTS):
            if chance.randrange(3) == 0:
                engine.pause.tell()
            feeder.feed.tell()
            engine.generate.tell(2)
        mine = rollouter.roll.remote(0)
        engine.resume.tell()
        world.run()
        assert mine.result() == 0
        everything = [*range(PROMPTS + 1)]
        end = world.state("rollouter")
        assert sorted(end["done"]) == everything, end["done"]
        assert (end["noted"], end["places"]._value, end["halves"]) == (everything[1:], PLACES, 0)
        assert sorted(world.state("trainer")["trained"]) == everything, world.state("trainer")
        assert trainer.read.remote().result() == world.state("trainer")["trained"]
        counts = Counter(snapshots=len(world.snapshots), rollbacks=world.rollbacks)
        for snapshot in world.snapshots:
            check_cut(snapshot)
            counts["parked"] += sum(len(parked_in(snapshot, name)) for name in snapshot.states())
        errors = {letter.error.strip().splitlines()[-1] for letter in world.dead_letters}
        assert not errors, errors
        counts["refused"] = sum(why.startswith("suspended") for why in world.aborted.values())
        return counts
