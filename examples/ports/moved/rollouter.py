"""A rollouter: keeps so many long calls under way at a time, pauses when its queue is full, and goes on when told."""

import asyncio
from collections import deque

import ray

import rayshot


@rayshot.actor(num_cpus=0, max_concurrency=1000)
class MessageQueue:
    """Samples that wait for the trainer."""

    def __init__(self):
        self.queue, self.changed = deque(), asyncio.Condition()

    async def put(self, sample):
        """Add a sample."""
        async with self.changed:
            self.queue.append(sample)
            self.changed.notify()

    @rayshot.waits_first
    async def get(self):
        """Take the first sample; waits for one."""
        async with self.changed:
            while not self.queue:
                await self.changed.wait()
            return self.queue.popleft()

    async def qsize(self):
        """How many samples wait."""
        return len(self.queue)


@rayshot.actor(num_cpus=0)
class Worker:
    """Stands for an engine: its answer takes a while, some longer than others."""

    async def generate(self, prompt):
        """The answer to a prompt."""
        await asyncio.sleep(0.02 + 0.005 * (prompt % 5))
        return prompt, prompt**2


@rayshot.actor(num_cpus=0)
class Rollouter:
    """Feeds prompts to the workers, up to `concurrent` at a time."""

    def __init__(self, queue, workers, count, concurrent, limit):
        self.queue, self.workers, self.concurrent, self.limit = queue, workers, concurrent, limit
        self.prompts = iter(range(count))
        self.active, self.paused = 0, False
        self.generated = self.pauses = 0

    def fit(self):
        """Generate until there are no more prompts; then a None follows."""
        self.paused = ray.get(self.queue.qsize.remote()) >= self.limit
        if self.paused:
            self.pauses += 1
            return
        while self.active < self.concurrent and (prompt := next(self.prompts, None)) is not None:
            self.active += 1
            self.workers[prompt % len(self.workers)].generate.remote(prompt).then(self.one)
        if not self.active:
            self.queue.put.remote(None)

    def one(self, sample):
        """Put a sample into the queue, and go on."""
        self.queue.put.remote(sample)
        self.active -= 1
        self.generated += 1
        self.fit()

    def resume(self):
        """Go on: the trainer has new weights."""
        if self.paused:
            self.fit()


@rayshot.actor(num_cpus=0)
class Trainer:
    """Trains on batches of samples."""

    def __init__(self, queue, rollouter, batch):
        self.queue, self.rollouter, self.batch = queue, rollouter, batch
        self.waiting, self.trained = [], []

    def fit(self):
        """Train until a None comes; returns all samples, in the order of their training."""
        for sample in rayshot.loop(self.queue.get):
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


@rayshot.actor(num_cpus=0)
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
        return self.trainer.fit.remote()


def run(count=240, concurrent=6, limit=10, batch=8):
    """Train on so many prompts; returns the samples in the order of their training."""
    return ray.get(Main.remote(count, concurrent, limit, batch).fit.remote())


if __name__ == "__main__":
    with rayshot.init("rollouter", storage="./shots", fresh=True):
        print(run())
