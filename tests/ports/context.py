"""What an actor may know of where it runs."""

import os

import ray

from tests.ports.behaviour import works
from tests.ports.classes import Counter


@works("context")
def the_ids_of_actor_node_and_job(port):
    @port.actor
    class Actor:
        def read(self):
            context = ray.get_runtime_context()
            return [len(context.get_actor_id()), len(context.get_node_id()), context.get_job_id() is not None]

    return ray.get(Actor.remote().read.remote())


@works("context")
def the_node_is_the_one_of_the_driver(port):
    @port.actor
    class Actor:
        def node(self):
            return ray.get_runtime_context().get_node_id()

    return ray.get(Actor.remote().node.remote()) == ray.get_runtime_context().get_node_id()


@works("context")
def an_actor_is_a_process_of_its_own(port):
    counters = [port.actor(Counter).remote() for _ in range(2)]
    pids = ray.get([counter.pid.remote() for counter in counters])
    return len({*pids, os.getpid()})


@works("context")
def the_process_stays_the_same(port):
    counter = port.actor(Counter).remote()
    return len(set(ray.get([counter.pid.remote() for _ in range(5)])))


@works("context")
def gpus_of_an_actor_without_one(port):
    @port.actor
    class Actor:
        def read(self):
            return ray.get_gpu_ids()

    return ray.get(Actor.remote().read.remote())


@works("context")
def globals_of_a_module_are_of_one_process(port):
    @port.actor
    class Actor:
        def put(self, key):
            os.environ[key] = "set"
            return os.environ[key]

        def look(self, key):
            return os.environ.get(key)

    first, second = Actor.remote(), Actor.remote()
    ray.get(first.put.remote("PORTS_LOCAL"))
    return ray.get([first.look.remote("PORTS_LOCAL"), second.look.remote("PORTS_LOCAL")])
