"""What an actor may know of where it runs."""

import os

import ray

from tests.ports.behaviour import works
from tests.ports.classes import Counter
from tests.waiting import eventually


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
def the_handle_of_the_actor_itself(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.value = 1

        def me(self):
            return ray.get_runtime_context().current_actor

        def read(self):
            return self.value

    actor = Actor.remote()
    return ray.get(ray.get(actor.me.remote()).read.remote())


@works("context")
def an_actor_sends_to_itself_by_the_context(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.steps = 0

        def begin(self):
            ray.get_runtime_context().current_actor.step.remote()

        def step(self):
            self.steps += 1

        def read(self):
            return self.steps

    actor = Actor.remote()
    actor.begin.remote()
    return eventually(lambda: ray.get(actor.read.remote()) == 1)


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


@works("context")
def the_name_of_the_actor_itself(port):
    @port.actor
    class Actor:
        def read(self):
            return ray.get_runtime_context().get_actor_name()

    return ray.get(Actor.options(name="context-name").remote().read.remote())
