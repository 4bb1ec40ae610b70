"""Asynchronous reinforcement learning: one actor generates while another one trains on what was generated before."""

import asyncio
import json
import tempfile
import time
from pathlib import Path

import ray
from ray.util.queue import Queue


@ray.remote(num_cpus=0)
class Prompts:
    """The data: hands out each prompt once."""

    def __init__(self, count, folder):
        self.count, self.checkpoint = count, Path(folder, "checkpoint.json")
        self.position = json.loads(self.checkpoint.read_text())["position"] if self.checkpoint.exists() else 0

    def next_batch(self, size):
        """The next prompts; none at the end."""
        first, self.position = self.position, min(self.count, self.position + size)
        return list(range(first, self.position))

    def save(self, trained):
        """Write down where the data are, and what was trained: the next run begins there."""
        self.checkpoint.write_text(json.dumps({"position": self.position, "trained": trained}))


@ray.remote(num_cpus=0)
class Engine:
    """Stands for a model that generates: its answer follows from the prompt and the version of its weights."""

    def __init__(self):
        self.version, self.generated = 0, []

    def load(self, version):
        """Take new weights."""
        self.version = version

    def generate(self, prompt):
        """A sample: the prompt, the version, and the answer."""
        time.sleep(0.02)
        self.generated.append(prompt)
        return prompt, self.version, 1_000 * self.version + prompt


@ray.remote(num_cpus=0)
class Lock:
    """Who holds it has the engines: nobody generates while weights are loaded."""

    def __init__(self):
        self.lock = asyncio.Lock()

    async def acquire(self):
        """Wait until nobody holds it."""
        await self.lock.acquire()

    async def release(self):
        """Let the next one go on."""
        self.lock.release()


@ray.remote(num_cpus=0)
class Generator:
    """Generates as long as it finds a slot: so it is ahead of the trainer by a few batches, and no more."""

    def __init__(self, prompts, engines, lock, rollouts, slots):
        self.prompts, self.engines, self.lock = prompts, engines, lock
        self.rollouts, self.slots = rollouts, slots

    def fit(self):
        """Generate until there are no more prompts."""
        while True:
            self.slots.get()
            batch = ray.get(self.prompts.next_batch.remote(len(self.engines)))
            if not batch:
                break
            ray.get(self.lock.acquire.remote())
            samples = [engine.generate.remote(prompt) for engine, prompt in zip(self.engines, batch, strict=False)]
            samples = ray.get(samples)
            ray.get(self.lock.release.remote())
            self.rollouts.put(samples)
        self.rollouts.put(None)


@ray.remote(num_cpus=0)
class Trainer:
    """Trains on each batch, and gives the engines the new weights."""

    def __init__(self, prompts, engines, lock, rollouts, slots):
        self.prompts, self.engines, self.lock = prompts, engines, lock
        self.rollouts, self.slots = rollouts, slots
        self.trained, self.version = [], 0

    def fit(self):
        """Train until nothing more comes; returns the samples in the order in which they were trained."""
        while True:
            samples = self.rollouts.get()
            if samples is None:
                break
            time.sleep(0.02)
            self.trained += samples
            self.version += 1
            self.slots.put(self.version)
            self.broadcast()
            ray.get(self.prompts.save.remote(self.trained))
        return self.trained

    def broadcast(self):
        """Load the new weights into all engines."""
        ray.get(self.lock.acquire.remote())
        ray.get([engine.load.remote(self.version) for engine in self.engines])
        ray.get(self.lock.release.remote())


@ray.remote(num_cpus=0)
class PPO:
    """Makes all others, and starts the two that never return."""

    def __init__(self, count, ahead, folder):
        rollouts, slots = (Queue(actor_options={"num_cpus": 0}) for _ in range(2))
        for _ in range(ahead):
            slots.put(0)
        prompts, engines = Prompts.remote(count, folder), [Engine.remote() for _ in range(2)]
        shared = prompts, engines, Lock.remote(), rollouts, slots
        self.generator = Generator.remote(*shared)
        self.trainer = Trainer.remote(*shared)

    def fit(self):
        """Generate and train; returns what the trainer returns."""
        self.generator.fit.remote()
        return ray.get(self.trainer.fit.remote())


def run(folder, count=80, ahead=2):
    """Train on so many prompts, from the checkpoint in that folder on; returns samples: prompt, version, answer."""
    return ray.get(PPO.remote(count, ahead, folder).fit.remote())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(run(folder))
