"""A rollouter: keeps so many long calls under way at a time, pauses when its queue is full, and goes on when told."""

import asyncio
from collections import deque

import ray


@ray.remote(num_cpus=0)
class MessageQueue:
    """Samples that wait for the trainer."""

    def __init__(self):
        self.queue, self.changed = deque(), asyncio.Condition()

    async def put(self, sample):
        """Add a sample."""
        async with self.changed:
            self.queue.append(sample)
            self.changed.notify()

    async def get(self):
        """Take the first sample; waits for one."""
        async with self.changed:
            while not self.queue:
                await self.changed.wait()
            return self.queue.popleft()

    async def qsize(self):
        """How many samples wait."""
        return len(self.queue)


@ray.remote(num_cpus=0)
class Worker:
    """Stands for an engine: its answer takes a while, some longer than others."""

    async def generate(self, prompt):
        """The answer to a prompt."""
        await asyncio.sleep(0.02 + 0.005 * (prompt % 5))
        return prompt, prompt**2


@ray.remote(num_cpus=0)
class Rollouter:
    """Feeds prompts to the workers, up to `concurrent` at a time."""

    def __init__(self, queue, workers, count, concurrent, limit):
        self.queue, self.workers, self.concurrent, self.limit = queue, workers, concurrent, limit
        self.prompts = iter(range(count))
        self.active, self.resumed = set(), asyncio.Event()
        self.generated = self.pauses = 0

    async def fit(self):
        """Generate until there are no more prompts; then a None follows."""
        while (prompt := next(self.prompts, None)) is not None:
            if await self.queue.qsize.remote() >= self.limit:
                self.pauses += 1
                self.resumed.clear()
                await self.resumed.wait()
            while len(self.active) >= self.concurrent:
                _, self.active = await asyncio.wait(self.active, return_when=asyncio.FIRST_COMPLETED)
            self.active.add(asyncio.create_task(self.one(prompt)))
        await asyncio.gather(*self.active)
        await self.queue.put.remote(None)

    async def one(self, prompt):
        """Let a worker answer a prompt, and put the sample into the queue."""
        worker = self.workers[prompt % len(self.workers)]
        sample = await worker.generate.remote(prompt)
        await self.queue.put.remote(sample)
        self.generated += 1

    async def resume(self):
        """Go on: the trainer has new weights."""
        self.resumed.set()


@ray.remote(num_cpus=0)
class Trainer:
    """Trains on batches of samples."""

    def __init__(self, queue, rollouter, batch):
        self.queue, self.rollouter, self.batch = queue, rollouter, batch
        self.waiting, self.trained = [], []

    def fit(self):
        """Train until a None comes; returns all samples, in the order of their training."""
        while True:
            sample = ray.get(self.queue.get.remote())
            if sample is None:
                break
            self.waiting.append(sample)
            if len(self.waiting) == self.batch:
                self.step()
        self.step()
        return self.trained

    def step(self):
        """Train on what waits."""
        self.trained += self.waiting
        self.waiting = []
        ray.get(self.rollouter.resume.remote())


@ray.remote(num_cpus=0)
class Main:
    """Makes all others, and starts the two that loop."""

    def __init__(self, count, concurrent, limit, batch):
        queue = MessageQueue.remote()
        workers = [Worker.remote() for _ in range(2)]
        self.rollouter = Rollouter.remote(queue, workers, count, concurrent, limit)
        self.trainer = Trainer.remote(queue, self.rollouter, batch)

    def fit(self):
        """Generate and train; returns what the trainer returns."""
        self.rollouter.fit.remote()
        return ray.get(self.trainer.fit.remote())


def run(count=240, concurrent=6, limit=10, batch=8):
    """Train on so many prompts; returns the samples in the order of their training."""
    return ray.get(Main.remote(count, concurrent, limit, batch).fit.remote())


if __name__ == "__main__":
    print(run())
