"""Several calls at once: threads, groups, and what blocks whom."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ray

from tests.ports.behaviour import refused, works
from tests.ports.classes import Counter, Log
from tests.waiting import eventually


@works("one-at-a-time")
def methods_run_one_at_a_time(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.lines = []

        def work(self, n):
            self.lines.append(("begin", n))
            time.sleep(0.01)
            self.lines.append(("end", n))

        def read(self):
            return self.lines

    actor = Actor.remote()
    ray.get([actor.work.remote(n) for n in range(4)])
    return ray.get(actor.read.remote())


@works("one-at-a-time")
def a_busy_actor_keeps_nobody_else_waiting(port):
    busy, free = port.actor(Counter).remote(), port.actor(Counter).remote()
    ray.get([busy.add.remote(), free.add.remote()])
    slow = busy.nap.remote(1.0)
    quick = ray.get(free.add.remote())
    return quick, len(ray.wait([slow], timeout=0)[0]), ray.get(slow)


@works("one-at-a-time")
def max_concurrency_of_one(port):
    counter = port.actor(Counter).options(max_concurrency=1).remote()
    return ray.get([counter.add.remote() for _ in range(3)])


@works("one-at-a-time")
def the_order_of_two_callers_is_theirs(port):
    log = port.actor(Log).remote()

    def call(name):
        return [log.write.remote((name, n)) for n in range(20)]

    with ThreadPoolExecutor(2) as pool:
        refs = [ref for found in pool.map(call, "ab") for ref in found]
    ray.get(refs)
    lines = ray.get(log.read.remote())
    return [[n for name, n in lines if name == which] == list(range(20)) for which in "ab"]


@works("threads")
def a_pool_of_threads_inside_of_a_method(port):
    @port.actor
    class Actor:
        def squares(self, count):
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda n: n * n, range(count)))

    return ray.get(Actor.remote().squares.remote(5))


@works("threads")
def a_thread_in_the_background_of_an_actor(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.ticks = 0
            self.stop = threading.Event()
            self.thread = threading.Thread(target=self._run, daemon=True)
            self.thread.start()

        def _run(self):
            while not self.stop.wait(0.01):
                self.ticks += 1

        def read(self):
            return self.ticks

        def end(self):
            self.stop.set()
            self.thread.join()

    actor = Actor.remote()
    moving = eventually(lambda: ray.get(actor.read.remote()) > 1)
    ray.get(actor.end.remote())
    return moving


@works("threads")
def threads_of_the_caller_call_one_actor(port):
    counter = port.actor(Counter).remote()
    with ThreadPoolExecutor(4) as pool:
        return sorted(pool.map(lambda _: ray.get(counter.add.remote()), range(12)))


@works("threads")
def a_thread_of_an_actor_runs_tasks(port):
    @ray.remote
    def square(n):
        return n * n

    @port.actor
    class Actor:
        def run(self):
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(lambda n: ray.get(square.remote(n)), range(3)))

    return ray.get(Actor.remote().run.remote())


@works("threads")
def thread_locals_of_an_actor_stay(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.local = threading.local()
            self.local.value = 5

        def read(self):
            return self.local.value

    actor = Actor.remote()
    return ray.get([actor.read.remote(), actor.read.remote()])


@refused("max-concurrency", "ConfigError", "rayshot help porting#max-concurrency")
def an_actor_with_several_threads(port):
    @port.actor
    class Signal:
        def __init__(self):
            self.event = threading.Event()

        def wait(self):
            return self.event.wait(20)

        def send(self):
            self.event.set()

    signal = Signal.options(max_concurrency=2).remote()
    waiting = signal.wait.remote()
    ray.get(signal.send.remote())
    return ray.get(waiting)


@refused("max-concurrency", "ConfigError", "rayshot help porting#max-concurrency")
def an_actor_with_several_threads_by_decoration(port):
    return ray.get(port.actor(max_concurrency=4)(Counter).remote().add.remote())


@refused("concurrency-groups", "ConfigError", "rayshot help porting#concurrency-groups")
def groups_of_methods(port):
    @port.actor(concurrency_groups={"io": 2})
    class Actor:
        @ray.method(concurrency_group="io")
        def read(self):
            return 1

    return ray.get(Actor.remote().read.remote())


@refused("concurrency-groups", "ConfigError", "rayshot help porting#concurrency-groups")
def a_group_that_is_chosen_at_the_call(port):
    @port.actor(concurrency_groups={"io": 2})
    class Actor:
        def read(self):
            return 1

    return ray.get(Actor.remote().read.options(concurrency_group="io").remote())
