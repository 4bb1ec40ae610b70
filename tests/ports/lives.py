"""How actors end, and what their callers see."""

import os

import ray

from tests.ports.behaviour import differs, works
from tests.ports.classes import Counter, Log, eventually, raised


def _is_actor_error(error):
    return isinstance(error, ray.exceptions.RayActorError)


def _gone(call):
    return eventually(lambda: _is_actor_error(raised(lambda: ray.get(call.remote()))))


@works("exit-actor")
def calls_before_the_exit_are_answered(port):
    @port.actor
    class Actor:
        def add(self, value):
            return value + 1

        def leave(self):
            ray.actor.exit_actor()

    actor = Actor.remote()
    refs = [actor.add.remote(n) for n in range(5)]
    actor.leave.remote()
    return ray.get(refs)


@differs("process-death", "ActorDiedError", "SystemStopped", ends_system=True)
def a_process_that_dies(port):
    counter, other = port.actor(Counter).remote(), port.actor(Log).remote()
    pid = ray.get(counter.pid.remote())
    ray.get(other.write.remote("a"))
    os.kill(pid, 9)

    def fate():
        error = raised(lambda: ray.get((counter.add if port.actor is ray.remote else other.read).remote()))
        error = getattr(error, "cause", None) or error
        return type(error).__name__ if error else ""

    name = eventually(fate)
    return "SystemStopped" if name in {"ActorDied", "SystemDown", "SystemStopped"} else name


@works("drop")
def calls_in_flight_are_answered_though_the_handle_is_dropped(port):
    counter = port.actor(Counter).remote()
    refs = [counter.nap.remote(0.05) for _ in range(3)]
    del counter
    return ray.get(refs)


@works("drop")
def an_actor_that_another_one_knows_outlives_its_handle(port):
    @port.actor
    class Holder:
        def hold(self, handles):
            self.handle = handles[0]

        def give(self):
            return self.handle

    holder, counter = Holder.remote(), port.actor(Counter).remote(5)
    ray.get(holder.hold.remote([counter]))
    del counter
    return ray.get(ray.get(holder.give.remote()).add.remote())


@works("repr")
def a_class_that_says_how_it_is_shown(port):
    @port.actor
    class Actor:
        def __init__(self, number):
            self.number = number

        def __repr__(self):
            return f"Actor({self.number})"

        def shown(self):
            return repr(self)

    return ray.get(Actor.remote(3).shown.remote())


@works("handles-actors")
def an_actor_that_goes_says_so_to_another(port):
    log = port.actor(Log).remote()

    @port.actor
    class Actor:
        def leave(self, logs):
            logs[0].write.remote("gone")

    actor = Actor.remote()
    actor.leave.remote([log])
    return eventually(lambda: ray.get(log.read.remote()) == ["gone"])
