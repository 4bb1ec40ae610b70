"""Handles: sent to tasks and actors, kept, compared."""

import pickle
import threading

import ray
from ray.util.queue import Queue

from tests.ports.behaviour import refused, works
from tests.ports.classes import Counter, Dial, Echo, Keeper, Log
from tests.waiting import eventually


@ray.remote
def add_in_task(counter, amount=1):
    return ray.get(counter.add.remote(amount))


@ray.remote
def add_to_all(counters):
    return ray.get([counter.add.remote() for counter in counters])


@works("handles-tasks")
def a_task_calls_an_actor(port):
    counter = port.actor(Counter).remote()
    return ray.get(add_in_task.remote(counter)), ray.get(counter.read.remote())


@works("handles-tasks")
def many_tasks_call_one_actor(port):
    counter = port.actor(Counter).remote()
    return sorted(ray.get([add_in_task.remote(counter) for _ in range(10)])), ray.get(counter.read.remote())


@works("handles-tasks")
def a_task_gets_handles_in_a_list(port):
    counters = [port.actor(Counter).remote(n) for n in range(3)]
    return ray.get(add_to_all.remote(counters))


@works("handles-tasks")
def a_task_uses_a_handle_that_is_around_it(port):
    counter = port.actor(Counter).remote()

    @ray.remote
    def work():
        return ray.get(counter.add.remote(5))

    return ray.get(work.remote())


@works("handles-tasks")
def a_task_in_a_task_calls_an_actor(port):
    @ray.remote
    def outer(counters):
        return ray.get(add_in_task.remote(counters[0]))

    return ray.get(outer.remote([port.actor(Counter).remote(6)]))


@works("handles-tasks")
def a_task_gives_a_handle_back(port):
    @ray.remote
    def same(counters):
        return counters[0]

    return ray.get(ray.get(same.remote([port.actor(Counter).remote(1)])).add.remote())


@works("handles-tasks")
def a_task_returns_the_reference_of_a_call(port):
    @ray.remote
    def begin(counter):
        return [counter.add.remote()]

    return ray.get(ray.get(begin.remote(port.actor(Counter).remote(2)))[0])


@works("handles-tasks")
def a_task_calls_without_waiting(port):
    counter = port.actor(Counter).remote()

    @ray.remote
    def work(counter):
        for _ in range(10):
            counter.add.remote()

    ray.get(work.remote(counter))
    return eventually(lambda: ray.get(counter.read.remote()) == 10)


@works("handles-tasks")
def progress_is_told_by_tasks(port):
    log = port.actor(Log).remote()

    @ray.remote
    def work(log, name):
        for step in range(3):
            log.write.remote((name, step))

    ray.get([work.remote(log, name) for name in "ab"])
    lines = eventually(lambda: len(found := ray.get(log.read.remote())) == 6 and found)
    return [[step for name, step in lines if name == which] for which in "ab"]


@works("handles")
def a_plain_actor_calls_an_actor(port):
    return ray.get(ray.remote(Dial).remote().ask.remote(port.actor(Counter).remote(1)))


@works("handles")
def a_plain_actor_keeps_a_handle(port):
    @ray.remote
    class Plain:
        def __init__(self, counter):
            self.counter = counter

        def add(self):
            return ray.get(self.counter.add.remote())

    plain = Plain.remote(port.actor(Counter).remote())
    return ray.get([plain.add.remote(), plain.add.remote()])


@works("handles")
def a_plain_async_actor_awaits_an_actor(port):
    return ray.get(ray.remote(Dial).remote().ask_async.remote(port.actor(Counter).remote(2)))


@works("handles")
def an_actor_calls_a_plain_actor(port):
    plain = ray.remote(Counter).remote()
    return ray.get(port.actor(Dial).remote().ask.remote(plain))


@works("handles")
def an_actor_awaits_a_plain_actor(port):
    plain = ray.remote(Counter).remote(4)
    return ray.get(port.actor(Dial).remote().ask_async.remote(plain))


@works("handles")
def threads_of_the_caller_use_a_handle(port):
    counter, found = port.actor(Counter).remote(), []
    threads = [threading.Thread(target=lambda: found.append(ray.get(counter.add.remote()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


@works("handles")
def an_actor_tells_others(port):
    counters = [port.actor(Counter).remote(n) for n in range(3)]
    ray.get(port.actor(Dial).remote().tell_all.remote(counters, 10))
    return eventually(lambda: ray.get([c.read.remote() for c in counters]) == [10, 11, 12])


@works("handles")
def an_actor_gives_back_a_handle_that_it_got(port):
    handle = ray.get(port.actor(Dial).remote().pass_on.remote(port.actor(Counter).remote(5)))
    return ray.get(handle.add.remote())


@works("handles")
def a_handle_goes_through_several_actors(port):
    handle = port.actor(Counter).remote(1)
    for _ in range(3):
        handle = ray.get(port.actor(Dial).remote().pass_on.remote(handle))
    return ray.get(handle.add.remote())


@works("handles")
def handles_in_containers_and_constructors(port):
    counter = port.actor(Counter).remote(3)
    keeper = port.actor(Keeper).remote({"a": [counter]}, named=counter)
    (first,), named = ray.get([keeper.all.remote(), keeper.all_named.remote()])
    return ray.get([first["a"][0].add.remote(), named["named"].add.remote()])


@works("handles")
def actors_that_know_each_other(port):
    @port.actor
    class Player:
        def __init__(self, name):
            self.name, self.other, self.heard = name, None, []

        def meet(self, other):
            self.other = other

        def ping(self, left):
            self.heard.append(left)
            if left:
                self.other.ping.remote(left - 1)

        def read(self):
            return self.heard

    ping, pong = Player.remote("ping"), Player.remote("pong")
    ray.get([ping.meet.remote(pong), pong.meet.remote(ping)])
    ping.ping.remote(5)
    eventually(lambda: len(ray.get(ping.read.remote())) + len(ray.get(pong.read.remote())) == 6)
    return ray.get([ping.read.remote(), pong.read.remote()])


@ray.remote
def report_in_task(report, line):
    return ray.get(report.remote(line))


@works("handles")
def a_method_of_a_handle_is_given_to_a_task(port):
    log = port.actor(Log).remote()
    ray.get(report_in_task.remote(log.write, "from a task"))
    return ray.get(log.read.remote())


@works("handles")
def a_method_of_a_handle_is_kept_by_an_actor(port):
    @port.actor
    class Publisher:
        def __init__(self):
            self.subscribers = []

        def subscribe(self, report):
            self.subscribers.append(report)

        def publish(self, line):
            for report in self.subscribers:
                report.remote(line)

    log, publisher = port.actor(Log).remote(), Publisher.remote()
    ray.get(publisher.subscribe.remote(log.write))
    ray.get(publisher.publish.remote("news"))
    return eventually(lambda: ray.get(log.read.remote()) == ["news"])


@works("plain-handles")
def an_actor_keeps_the_handle_of_a_plain_one(port):
    @port.actor
    class Foreman:
        def __init__(self, counter):
            self.counter = counter

        def count(self):
            self.counter.add.remote(2)

        def give(self):
            return self.counter

    made = ray.remote(Counter).remote(1)  # this handle keeps it alive
    foreman = Foreman.remote(made)
    ray.get(foreman.count.remote())
    counter = ray.get(foreman.give.remote())
    return eventually(lambda: ray.get(counter.read.remote()) == 3)


@works("plain-handles")
def actors_share_a_queue_of_ray(port):
    @port.actor
    class Putter:
        def put(self, queue, item):
            queue.put_nowait(item)

    putters, queue = [Putter.remote() for _ in range(2)], Queue()
    ray.get([putter.put.remote(queue, item) for item, putter in enumerate(putters)])
    return sorted(queue.get() for _ in putters)


@works("handles")
def handles_of_one_actor_are_equal(port):
    first, second = port.actor(Counter).remote(), port.actor(Counter).remote()
    back = ray.get(port.actor(Echo).remote().echo.remote(first))
    return back == first, back != second, hash(back) == hash(first), len({first, second, back})


@works("handles")
def handles_in_reference_and_pickle(port):
    counter = port.actor(Counter).remote(1)
    by_ref = ray.get(ray.put([counter]))[0]
    by_pickle = pickle.loads(ray.cloudpickle.dumps(counter))
    return ray.get([by_ref.add.remote(), by_pickle.add.remote()])


@works("handles")
def a_handle_is_shown_with_its_class_or_name(port):
    counter = port.actor(Counter).options(name="handles-shown").remote()
    return "Actor" in repr(counter)


@works("asks")
def an_actor_gets_the_result_of_another(port):
    return ray.get(port.actor(Dial).remote().ask.remote(port.actor(Counter).remote(1)))


@works("asks")
def an_actor_awaits_another(port):
    return ray.get(port.actor(Dial).remote().ask_async.remote(port.actor(Counter).remote(1)))


@refused("asks-wait", "NotAnObjectRef", "rayshot.wait")
def an_actor_waits_for_another_with_ray_wait(port):
    return ray.get(port.actor(Dial).remote().wait_for.remote(port.actor(Counter).remote(1)))


@refused("asks-reference", "NotAnObjectRef", "then")
def an_actor_returns_the_reference_of_its_call(port):
    dial, counter = port.actor(Dial).remote(), port.actor(Counter).remote(1)
    return ray.get(ray.get(dial.ref_of.remote(counter))[0])


@refused("asks-reference", "NotAnObjectRef", "then")
def an_actor_passes_the_reference_of_its_call_to_another(port):
    @port.actor
    class Chain:
        def run(self, first, second):
            second.add.remote(first.add.remote())
            return "sent"

    return ray.get(Chain.remote().run.remote(port.actor(Counter).remote(), port.actor(Counter).remote()))


@works("asks")
def a_constructor_gets_the_result_of_another_actor(port):
    @port.actor
    class Reader:
        def __init__(self, counter):
            self.value = ray.get(counter.add.remote())

        def read(self):
            return self.value

    return ray.get(Reader.remote(port.actor(Counter).remote(1)).read.remote())


@works("asks")
def an_actor_gathers_results_of_several(port):
    @port.actor
    class Gatherer:
        async def run(self, counters):
            import asyncio

            return await asyncio.gather(*(counter.add.remote() for counter in counters))

    return ray.get(Gatherer.remote().run.remote([port.actor(Counter).remote(n) for n in range(2)]))
