"""Who makes, keeps and takes items, several at once."""

import asyncio
from collections import deque

import rayshot


@rayshot.actor(max_concurrency=50)
class Samples:
    def __init__(self, size):
        self.items, self.size = deque(), size
        self.changed = asyncio.Condition()

    @rayshot.waits_first
    async def put(self, item):
        async with self.changed:
            while len(self.items) >= self.size:
                await self.changed.wait()
            self.items.append(item)
            self.changed.notify_all()

    @rayshot.waits_first
    async def get(self):
        async with self.changed:
            while not self.items:
                await self.changed.wait()
            self.changed.notify_all()
            return self.items.popleft()

    async def count_waiting(self):
        return len(self.changed._waiters)


@rayshot.actor(max_concurrency=4)
class Producer:
    def __init__(self, samples):
        self.samples, self.half = samples, 0

    async def make(self, number):
        self.half += 1
        await asyncio.sleep(0.01)
        await self.samples.put.remote(number)
        self.half -= 1


@rayshot.actor(max_concurrency=3)
class Consumer:
    def __init__(self, samples):
        self.samples, self.got = samples, []

    async def consume(self):
        async for number in rayshot.loop(self.samples.get):
            self.got.append(number)
