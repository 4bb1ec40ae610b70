"""Who uses queues and locks: an actor, a plain task, a plain actor."""

import ray

import rayshot


@rayshot.actor
class Squarer:
    def __init__(self, given, squared):
        self.given, self.squared = given, squared

    def work(self, count):
        for _ in range(count):
            self.squared.put(self.given.get() ** 2)


@ray.remote(num_cpus=0)
def take(queue):
    return queue.get()


@ray.remote(num_cpus=0)
class Plain:
    def __init__(self, queue, lock):
        self.queue, self.lock = queue, lock

    def bring(self, item):
        with self.lock:
            self.queue.put(item)
