"""Async actors."""

import asyncio
import contextlib
import threading

import ray

from tests.ports.behaviour import differs, refused, works
from tests.ports.classes import Async, Counter, double, later, raised


@works("async")
def an_async_method(port):
    return ray.get(port.actor(Async).remote().echo.remote(3))


@works("async")
def async_and_plain_methods_in_one_class(port):
    actor = port.actor(Async).remote()
    ray.get(actor.work.remote())
    return ray.get([actor.read.remote(), actor.echo.remote(1)])


@works("async")
def an_async_method_that_raises(port):
    error = raised(lambda: ray.get(port.actor(Async).remote().fail.remote()))
    return isinstance(error, ValueError), "no such luck" in str(error)


@works("async")
def all_methods_of_an_async_actor_share_a_thread(port):
    actor = port.actor(Async).remote()
    return len(set(ray.get([actor.thread.remote(), actor.plain_thread.remote(), actor.thread.remote()])))


@works("async")
def gather_inside_of_a_method(port):
    return ray.get(port.actor(Async).remote().gather.remote())


@works("async")
def a_group_of_tasks_inside_of_a_method(port):
    @port.actor
    class Actor:
        async def run(self):
            async def one(n):
                await asyncio.sleep(0.01)
                return n

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(n)) for n in range(3)]
            return [task.result() for task in tasks]

    return ray.get(Actor.remote().run.remote())


@works("async")
def a_timeout_inside_of_a_method(port):
    @port.actor
    class Actor:
        async def run(self):
            try:
                await asyncio.wait_for(asyncio.sleep(60), 0.01)
            except TimeoutError:
                return "too late"

    return ray.get(Actor.remote().run.remote())


@works("async")
def a_queue_with_a_producer_and_a_consumer_in_one_method(port):
    @port.actor
    class Actor:
        async def run(self):
            queue, got = asyncio.Queue(2), []

            async def produce():
                for number in range(5):
                    await queue.put(number)
                await queue.put(None)

            async def consume():
                while (item := await queue.get()) is not None:
                    got.append(item)

            await asyncio.gather(produce(), consume())
            return got

    return ray.get(Actor.remote().run.remote())


@works("async")
def a_semaphore_in_the_state(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.semaphore = asyncio.Semaphore(2)
            self.most = self.now = 0

        async def use(self):
            async with self.semaphore:
                self.now += 1
                self.most = max(self.most, self.now)
                await asyncio.sleep(0)
                self.now -= 1

        async def run(self):
            await asyncio.gather(*(self.use() for _ in range(6)))
            return self.most

    return ray.get(Actor.remote().run.remote())


@works("async")
def an_async_context_manager(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.lines = []

        @contextlib.asynccontextmanager
        async def _session(self):
            self.lines.append("open")
            yield self
            self.lines.append("closed")

        async def run(self):
            async with self._session():
                await asyncio.sleep(0)
                self.lines.append("used")
            return self.lines

    return ray.get(Actor.remote().run.remote())


@works("async")
def an_async_generator_inside_of_a_method(port):
    @port.actor
    class Actor:
        async def _numbers(self):
            for number in range(3):
                await asyncio.sleep(0)
                yield number

        async def run(self):
            return [number async for number in self._numbers()]

    return ray.get(Actor.remote().run.remote())


@works("async")
def work_on_a_thread(port):
    @port.actor
    class Actor:
        async def run(self):
            here = threading.get_ident()
            there = await asyncio.to_thread(threading.get_ident)
            return here != there, await asyncio.get_running_loop().run_in_executor(None, sum, [1, 2])

    return ray.get(Actor.remote().run.remote())


@works("async")
def the_loop_is_the_same_in_all_methods(port):
    @port.actor
    class Actor:
        async def first(self):
            self.loop = asyncio.get_running_loop()
            self.future = self.loop.create_future()

        async def second(self):
            self.future.set_result(4)
            return self.loop is asyncio.get_running_loop(), await self.future

    actor = Actor.remote()
    ray.get(actor.first.remote())
    return ray.get(actor.second.remote())


@works("async")
def a_connection_that_lives_on(port):
    @port.actor
    class Actor:
        async def open(self):
            async def serve(reader, writer):
                while line := await reader.readline():
                    writer.write(line.upper())

            self.server = await asyncio.start_server(serve, "127.0.0.1", 0)
            await asyncio.sleep(0)

        async def port(self):
            return self.server.sockets[0].getsockname()[1] > 0

    actor = Actor.remote()
    ray.get(actor.open.remote())
    return ray.get(actor.port.remote())


@works("async")
def a_task_that_ends_with_its_method(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.done = 0

        async def _one(self):
            self.done += 1

        async def run(self):
            task = asyncio.create_task(self._one())
            await task
            return self.done

    return ray.get(Actor.remote().run.remote())


@works("async")
def a_plain_method_runs_a_coroutine_by_itself(port):
    @port.actor
    class Actor:
        def run(self):
            async def work():
                await asyncio.sleep(0)
                return 5

            return asyncio.run(work())

    actor = Actor.remote()
    return ray.get([actor.run.remote(), actor.run.remote()])


@works("async")
def a_plain_method_uses_the_loop_of_its_thread(port):
    @port.actor
    class Actor:
        def run(self):
            return asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, "done"))

    actor = Actor.remote()
    return ray.get([actor.run.remote(), actor.run.remote()])


@works("async")
def the_result_of_a_task_is_awaited(port):
    @port.actor
    class Actor:
        async def run(self):
            return await double.remote(4), await asyncio.gather(double.remote(1), later.remote(2))

    return ray.get(Actor.remote().run.remote())


@works("async")
def a_reference_in_an_argument_is_awaited(port):
    @port.actor
    class Actor:
        async def run(self, refs):
            return await refs[0]

    return ray.get(Actor.remote().run.remote([later.remote(3)]))


@works("async")
def a_reference_with_a_time_limit(port):
    @port.actor
    class Actor:
        async def run(self):
            try:
                await asyncio.wait_for(later.remote(1, 3), 0.05)
            except TimeoutError:
                return "too late"

    return ray.get(Actor.remote().run.remote())


@works("async")
def the_caller_awaits_a_call(port):
    counter = port.actor(Counter).remote()

    async def run():
        first = await counter.add.remote()
        return first, await asyncio.gather(*(counter.add.remote() for _ in range(3)))

    return asyncio.run(run())


@works("async")
def an_async_method_with_a_reference_as_an_argument(port):
    return ray.get(port.actor(Async).remote().echo.remote(later.remote(5)))


@differs(
    "async-turns",
    ["begins", "begins", "begins", "ends", "ends", "ends"],
    ["begins", "ends", "begins", "ends", "begins", "ends"],
)
def async_methods_interleave(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.lines = []
            self.waits = 300

        async def work(self):
            self.lines.append("begins")
            # A call waits until all three have begun. Of those that take turns only the first one waits in vain.
            while self.waits and self.lines.count("begins") < 3:
                self.waits -= 1
                await asyncio.sleep(0.01)
            self.lines.append("ends")

        def read(self):
            return self.lines

    actor = Actor.remote()
    ray.get([actor.work.remote() for _ in range(3)])
    return ray.get(actor.read.remote())


@works("max-concurrency-async")
def async_methods_interleave_as_many_as_the_class_says(port):
    @port.actor(max_concurrency=3)
    class Actor:
        def __init__(self):
            self.lines, self.all_there = [], asyncio.Event()

        async def work(self):
            self.lines.append("begins")
            if len(self.lines) == 3:
                self.all_there.set()
            await self.all_there.wait()
            self.lines.append("ends")

        def read(self):
            return self.lines

    actor = Actor.remote()
    ray.get([actor.work.remote() for _ in range(3)])
    return ray.get(actor.read.remote())


@refused("async-events", "WaitsForHandler", "continue in that other handler", "rayshot help porting#async")
def a_batch_that_is_complete_with_the_third_call(port):
    @port.actor
    class Batcher:
        def __init__(self):
            self.batch, self.event = [], asyncio.Event()

        async def add(self, value):
            self.batch.append(value)
            if len(self.batch) == 3:
                self.event.set()
            await self.event.wait()
            return sorted(self.batch)

    batcher = Batcher.remote()
    return ray.get([batcher.add.remote(n) for n in range(3)])


@refused("async-tasks", "TaskLeftBehind", "tick", "current().after", "rayshot help porting#async")
def a_task_that_goes_on_behind_its_method(port):
    @port.actor
    class Actor:
        async def begin(self):
            self.task = asyncio.create_task(self.tick())
            return "begun"

        async def tick(self):
            while True:  # noqa: ASYNC110 - it polls, as such tasks do
                await asyncio.sleep(0.01)

    return ray.get(Actor.remote().begin.remote())
