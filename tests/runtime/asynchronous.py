"""Async actors, in a module that Ray's workers can import."""

import asyncio
import threading
from pathlib import Path

import rayshot


@rayshot.actor
class Session:
    """Keeps a connection that its first handler opens, as a client of HTTP or of a database does."""

    def __init__(self, port):
        self.port = port
        self.connection = None
        self.opened = 0

    def __getstate__(self):
        return {"port": self.port, "opened": self.opened}

    def __setstate__(self, state):
        vars(self).update(state, connection=None)

    async def echo(self, text):
        if self.connection is None:
            self.connection = await asyncio.open_connection("127.0.0.1", self.port)
            self.opened += 1
        reader, writer = self.connection
        writer.write(text.encode() + b"\n")
        await writer.drain()
        return (await reader.readline()).decode().strip()

    def how_often_opened(self):
        return self.opened

    async def knows_that_it_is_closed(self):
        return self.connection[0].at_eof()


@rayshot.actor
class Holder:
    """Holds what cannot be captured."""

    async def hold_loop(self):
        self.inner = {"loop": asyncio.get_running_loop()}

    async def hold_connection(self, port):
        self.connection = await asyncio.open_connection("127.0.0.1", port)

    async def hold_semaphore(self):
        self.semaphore = asyncio.Semaphore(1)
        await asyncio.gather(self.use(), self.use())

    async def use(self):
        async with self.semaphore:
            await asyncio.sleep(0)

    def let_go(self):
        vars(self).clear()


@rayshot.actor
class Busy:
    """Leaves tasks behind, waits for itself, and runs loops of its own."""

    def __init__(self, file):
        self.file = file
        self.ticks = 0
        self.event = asyncio.Event()
        self.loop_of_constructor = asyncio.get_event_loop() is not None

    async def tick_in_background(self):
        self.task = asyncio.create_task(self.tick())
        del self.task

    async def tick(self):
        while True:
            await asyncio.sleep(0.001)
            self.ticks += 1

    async def nap(self):
        await asyncio.sleep(0.05)

    def ticked(self):
        return self.ticks

    async def wait(self):
        await self.event.wait()

    async def set(self):
        self.event.set()

    def run(self):
        return asyncio.run(self.where())

    def run_on_the_loop_of_the_thread(self):
        return asyncio.get_event_loop().run_until_complete(self.where())

    async def where(self):
        return rayshot.current().name, await asyncio.to_thread(lambda: threading.current_thread().name)

    async def begin_generator(self):
        self.generator = numbers(self.file)
        return await anext(self.generator)

    def leave(self):
        rayshot.current().exit()

    def __getstate__(self):
        return {"ticks": self.ticks}


async def numbers(file):
    try:
        yield 1
        yield 2
    finally:
        await asyncio.to_thread(Path(file).touch)
