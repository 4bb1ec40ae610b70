"""Actors that wait for the answers of others, with what Ray's users write."""

import asyncio

import ray

import rayshot
from rayshot.errors import NotAnObjectRef


@rayshot.actor
class Server:
    """Gives numbers, each once."""

    def __init__(self):
        self.given = 0

    def give(self):
        self.given += 1
        return self.given

    async def nap(self, seconds):
        await asyncio.sleep(seconds)

    def read(self):
        return self.given


@rayshot.actor
class Worker:
    """Asks a server with what Ray's users write."""

    def __init__(self, server):
        self.server, self.began = server, 0
        self.got = [ray.get(server.give.remote())]

    def ask(self):
        self.began += 1
        self.got.append(ray.get(self.server.give.remote()))

    def go_on(self, me, until):
        """Asks until the server has given so many: somebody always waits."""
        self.ask()
        if self.got[-1] < until:
            me.go_on.tell(me, until)

    def ask_two(self):
        return ray.get([self.server.give.remote(), self.server.give.remote()])

    def ask_in_time(self, seconds):
        try:
            ray.get(self.server.nap.remote(seconds), timeout=0.2)
        except TimeoutError as error:
            return type(error).__name__

    def misuse(self, name):
        function = {"wait": lambda reply: ray.wait([reply]), "cancel": ray.cancel, "put": ray.put}[name]
        try:
            function(self.server.give.remote())
        except NotAnObjectRef as error:
            return "rayshot.wait" in str(error)

    def read(self):
        return self.got, self.began


@rayshot.actor
class AsyncWorker:
    """Asks a server in `async def` handlers."""

    def __init__(self, server):
        self.server = server

    async def gather(self, count):
        return await asyncio.gather(*(self.server.give.remote() for _ in range(count)))

    async def in_a_group(self, count):
        async def ask():
            return await self.server.give.remote()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask()) for _ in range(count)]
        return [task.result() for task in tasks]

    async def as_they_come(self, count):
        return [await one for one in asyncio.as_completed([self.server.give.remote() for _ in range(count)])]

    async def in_time(self, seconds):
        try:
            await asyncio.wait_for(self.server.nap.remote(seconds), 0.2)
        except TimeoutError:
            return "late"
