"""Programs in small: what actors are used for."""

import asyncio
import collections
import time

import numpy as np
import ray
from ray.util.actor_pool import ActorPool
from ray.util.queue import Queue

from tests.ports.behaviour import refused, works
from tests.ports.classes import Counter, Echo, Log, double
from tests.waiting import eventually


@works("patterns")
def a_parameter_server_with_workers_as_tasks(port):
    @port.actor
    class Server:
        def __init__(self, size):
            self.weights = np.zeros(size)

        def push(self, gradient):
            self.weights += gradient

        def pull(self):
            return self.weights

    @ray.remote
    def worker(server, steps):
        for _ in range(steps):
            ray.get(server.push.remote(np.ones_like(ray.get(server.pull.remote()))))

    server = Server.remote(10)
    ray.get([worker.remote(server, 3) for _ in range(2)])
    return ray.get(server.pull.remote()).tolist()


@works("patterns")
def a_parameter_server_that_the_driver_steps(port):
    @port.actor
    class Server:
        def __init__(self):
            self.weights = np.zeros(4)

        def apply(self, *gradients):
            self.weights = self.weights + np.sum(gradients, axis=0)
            return self.weights

    @port.actor
    class Worker:
        def __init__(self, number):
            self.number = number

        def gradient(self, weights):
            return np.full_like(weights, self.number)

    server, workers = Server.remote(), [Worker.remote(n) for n in (1, 2)]
    weights = server.apply.remote(np.zeros(4))
    for _ in range(3):
        weights = server.apply.remote(*[worker.gradient.remote(weights) for worker in workers])
    return ray.get(weights).tolist()


@works("patterns")
def a_pipeline_of_actors(port):
    stages = [port.actor(Counter).remote(n) for n in (1, 10)]
    out = []
    for item in range(4):
        ref = item
        for stage in stages:
            ref = stage.add.remote(ref)
        out.append(ref)
    return ray.get(out)


@works("patterns")
def map_and_reduce(port):
    @port.actor
    class Mapper:
        def count(self, text):
            return collections.Counter(text.split())

    mappers = [Mapper.remote() for _ in range(2)]
    texts = ["a b a", "b c", "a"]
    counts = ray.get([mappers[n % 2].count.remote(text) for n, text in enumerate(texts)])
    return sorted(sum(counts, collections.Counter()).items())


@works("patterns")
def a_pool_of_actors(port):
    pool = ActorPool([port.actor(Echo).remote() for _ in range(2)])
    return list(pool.map(lambda actor, value: actor.echo.remote(2 * value), range(5)))


@works("patterns")
def a_pool_of_actors_without_order(port):
    pool = ActorPool([port.actor(Echo).remote() for _ in range(2)])
    return sorted(pool.map_unordered(lambda actor, value: actor.echo.remote(2 * value), range(5)))


@works("patterns")
def a_queue_of_ray_between_driver_and_actor(port):
    queue = Queue()

    @port.actor
    class Consumer:
        def take(self, queue, count):
            return [queue.get(timeout=20) for _ in range(count)]

    for number in range(3):
        queue.put(number)
    found = ray.get(Consumer.remote().take.remote(queue, 3))
    queue.shutdown()
    return found


@works("patterns")
def a_queue_of_ray_that_an_actor_fills(port):
    queue = Queue()

    @port.actor
    class Producer:
        def fill(self, queue, count):
            for number in range(count):
                queue.put(number)

    Producer.remote().fill.remote(queue, 3)
    found = [queue.get(timeout=20) for _ in range(3)]
    queue.shutdown()
    return found


@works("patterns")
def a_queue_as_an_actor(port):
    @port.actor
    class Items:
        def __init__(self):
            self.items = collections.deque()

        def put(self, item):
            self.items.append(item)

        def get(self):
            return self.items.popleft() if self.items else None

    items = Items.remote()
    for number in range(3):
        items.put.remote(number)
    return ray.get([items.get.remote() for _ in range(4)])


@works("patterns")
def workers_that_are_given_work_as_they_get_free(port):
    workers, jobs, done = [port.actor(Echo).remote() for _ in range(2)], list(range(6)), []
    under_way = {worker.echo.remote(jobs.pop()): worker for worker in workers}
    while under_way:
        (ready,), _ = ray.wait(list(under_way), num_returns=1)
        worker = under_way.pop(ready)
        done.append(ray.get(ready))
        if jobs:
            under_way[worker.echo.remote(jobs.pop())] = worker
    return sorted(done)


@works("patterns")
def a_cache(port):
    @port.actor
    class Cache:
        def __init__(self):
            self.known, self.misses = {}, 0

        def get(self, key):
            if key not in self.known:
                self.misses += 1
                self.known[key] = ray.get(double.remote(key))
            return self.known[key], self.misses

    cache = Cache.remote()
    return ray.get([cache.get.remote(key) for key in (1, 2, 1)])


@works("patterns")
def an_actor_that_publishes(port):
    @port.actor
    class Topic:
        def __init__(self):
            self.subscribers = []

        def subscribe(self, subscriber):
            self.subscribers.append(subscriber)

        def publish(self, item):
            for subscriber in self.subscribers:
                subscriber.write.remote(item)

    topic, logs = Topic.remote(), [port.actor(Log).remote() for _ in range(2)]
    ray.get([topic.subscribe.remote(log) for log in logs])
    topic.publish.remote("news")
    return eventually(lambda: ray.get([log.read.remote() for log in logs]) == [["news"], ["news"]])


@works("patterns")
def a_lock_as_an_actor(port):
    @port.actor
    class Lock:
        def __init__(self):
            self.holder = None

        def try_acquire(self, who):
            if self.holder is None:
                self.holder = who
            return self.holder == who

        def release(self, who):
            if self.holder == who:
                self.holder = None

    lock = Lock.remote()
    first = ray.get([lock.try_acquire.remote("a"), lock.try_acquire.remote("b")])
    ray.get(lock.release.remote("a"))
    return first, ray.get(lock.try_acquire.remote("b"))


@works("patterns")
def a_bound_on_what_is_under_way(port):
    counter, refs, most = port.actor(Counter).remote(), [], 0
    for _ in range(20):
        if len(refs) >= 5:
            _, refs = ray.wait(refs, num_returns=1)
        refs.append(counter.add.remote())
        most = max(most, len(refs))
    ray.get(refs)
    return most, ray.get(counter.read.remote())


@works("patterns")
def statistics_of_a_stream(port):
    @port.actor
    class Statistics:
        def __init__(self):
            self.count, self.total = 0, 0.0

        def add(self, batch):
            self.count += len(batch)
            self.total += float(np.sum(batch))

        def mean(self):
            return self.total / self.count

    statistics = Statistics.remote()
    for start in range(0, 100, 10):
        statistics.add.remote(np.arange(start, start + 10))
    return ray.get(statistics.mean.remote())


@works("patterns")
def shards_by_key(port):
    @port.actor
    class Shard:
        def __init__(self):
            self.values = {}

        def put(self, key, value):
            self.values[key] = value

        def items(self):
            return sorted(self.values.items())

    shards = [Shard.remote() for _ in range(3)]
    for key in range(9):
        shards[key % 3].put.remote(key, key * key)
    return ray.get([shard.items.remote() for shard in shards])


@works("patterns")
def a_game_of_life_in_stripes(port):
    @port.actor
    class Stripe:
        def __init__(self, rows):
            self.rows = np.array(rows)

        def edge(self):
            return self.rows[0], self.rows[-1]

        def step(self, above, below):
            grid = np.vstack([above[1], self.rows, below[0]])
            near = sum(
                np.roll(np.roll(grid, dy, 0), dx, 1) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)
            )
            self.rows = ((near == 3) | ((grid == 1) & (near == 2))).astype(int)[1:-1]

        def read(self):
            return self.rows.tolist()

    grid = np.zeros((6, 6), dtype=int)
    grid[2, 1:4] = 1
    stripes = [Stripe.remote(grid[:3]), Stripe.remote(grid[3:])]
    for _ in range(2):
        edges = [stripe.edge.remote() for stripe in stripes]
        ray.get([stripes[0].step.remote(edges[1], edges[1]), stripes[1].step.remote(edges[0], edges[0])])
    return ray.get([stripe.read.remote() for stripe in stripes])


@works("patterns")
def a_coordinator_that_is_told_of_results(port):
    @port.actor
    class Boss:
        def __init__(self):
            self.results = []

        def done(self, result):
            self.results.append(result)

        def read(self):
            return sorted(self.results)

    @port.actor
    class Worker:
        def work(self, boss, n):
            boss.done.remote(n * n)

    boss, workers = Boss.remote(), [Worker.remote() for _ in range(2)]
    for n in range(4):
        workers[n % 2].work.remote(boss, n)
    return eventually(lambda: ray.get(boss.read.remote()) == [0, 1, 4, 9])


@works("patterns")
def a_counter_that_is_polled_until_it_is_there(port):
    counter = port.actor(Counter).remote()

    @ray.remote
    def work(counter):
        time.sleep(0.02)
        ray.get(counter.add.remote())

    refs = [work.remote(counter) for _ in range(5)]
    seen = eventually(lambda: ray.get(counter.read.remote()) == 5)
    ray.get(refs)
    return seen


@works("asks")
def a_tree_of_actors_that_gathers(port):
    worker = port.actor(Counter)

    @port.actor
    class Supervisor:
        def __init__(self, count):
            self.workers = [worker.remote(n) for n in range(count)]

        def work(self):
            return sum(ray.get([one.add.remote() for one in self.workers]))

    return ray.get(Supervisor.remote(3).work.remote())


@works("asks")
def a_trainer_that_asks_a_server(port):
    @port.actor
    class Trainer:
        def __init__(self, server):
            self.server = server

        def step(self):
            return ray.get(self.server.add.remote(1)) * 2

    return ray.get(Trainer.remote(port.actor(Counter).remote()).step.remote())


@works("asks")
def a_router_that_awaits_replicas(port):
    @port.actor
    class Router:
        def __init__(self, replicas):
            self.replicas, self.next = replicas, 0

        async def route(self, value):
            self.next += 1
            return await self.replicas[self.next % len(self.replicas)].echo.remote(value)

    return ray.get(Router.remote([port.actor(Echo).remote() for _ in range(2)]).route.remote("x"))


@refused("async-events", "WaitsForHandler", "rayshot help porting#async")
def a_signal_that_tasks_wait_for(port):
    @port.actor
    class Signal:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "go"

        async def send(self):
            self.event.set()

    signal = Signal.remote()
    waiting = signal.wait.remote()
    signal.send.remote()
    return ray.get(waiting)


@refused("async-tasks", "TaskLeftBehind", "rayshot help porting#async")
def a_loop_that_runs_beside_the_methods(port):
    @port.actor
    class Poller:
        def __init__(self):
            self.seen = 0

        async def start(self):
            asyncio.get_running_loop().create_task(self.poll())

        async def poll(self):
            while True:
                self.seen += 1
                await asyncio.sleep(0.01)

    return ray.get(Poller.remote().start.remote())
