"""How actors end, and what their callers see."""

import os
import sys

import ray

from tests.ports.behaviour import differs, refused, works
from tests.ports.classes import Counter, Log, raised
from tests.waiting import eventually


def _is_actor_error(error):
    return isinstance(error, ray.exceptions.RayActorError)


def _gone(call):
    return eventually(lambda: _is_actor_error(raised(lambda: ray.get(call.remote()))))


@works("kill")
def a_killed_actor_answers_with_an_actor_error(port):
    counter = port.actor(Counter).remote()
    ray.get(counter.add.remote())
    port.kill(counter)
    return _gone(counter.add)


@works("kill")
def others_go_on_when_an_actor_is_killed(port):
    first, second = port.actor(Counter).remote(), port.actor(Counter).remote()
    ray.get([first.add.remote(), second.add.remote()])
    port.kill(first)
    return ray.get(second.add.remote())


@works("kill")
def a_killed_actor_makes_room_for_another(port):
    counter = port.actor(num_cpus=16)(Counter).remote()
    ray.get(counter.add.remote())
    port.kill(counter)
    return ray.get(port.actor(num_cpus=16)(Counter).remote().add.remote())


@differs("kill-turn", "ActorDiedError", 0.5)
def an_actor_that_is_killed_while_a_method_runs(port):
    counter = port.actor(Counter).remote()
    ref = counter.nap.remote(0.5)
    port.kill(counter)
    error = raised(ray.get, ref)
    return type(error).__name__ if error else ray.get(ref)


@refused("ray-kill", "ConfigError", "rayshot.kill", "rayshot help porting#ray-kill")
def an_actor_is_killed_with_ray_kill(port):
    counter = port.actor(Counter).remote()
    ray.get(counter.add.remote())
    ray.kill(counter)


@works("exit-actor")
def an_actor_that_exits(port):
    @port.actor
    class Actor:
        def leave(self):
            ray.actor.exit_actor()

        def read(self):
            return 1

    actor = Actor.remote()
    ray.get(actor.read.remote())
    actor.leave.remote()
    return _gone(actor.read)


@works("exit-actor")
def the_call_that_exits_fails(port):
    @port.actor
    class Actor:
        def leave(self):
            ray.actor.exit_actor()

    return _is_actor_error(raised(lambda: ray.get(Actor.remote().leave.remote())))


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


@works("exit-actor")
def sys_exit_in_a_method(port):
    @port.actor
    class Actor:
        def leave(self):
            sys.exit(0)

        def read(self): ...

    actor = Actor.remote()
    first = raised(lambda: ray.get(actor.leave.remote()))
    return _is_actor_error(first), _gone(actor.read)


@works("exit-actor")
def an_async_method_that_exits(port):
    @port.actor
    class Actor:
        async def leave(self):
            ray.actor.exit_actor()

        async def read(self): ...

    actor = Actor.remote()
    actor.leave.remote()
    return _gone(actor.read)


@works("exit-actor")
def an_actor_terminates_by_its_handle(port):
    counter = port.actor(Counter).remote()
    ray.get(counter.add.remote())
    counter.__ray_terminate__.remote()
    return _gone(counter.add)


@differs("process-death", "ActorDiedError", 2)
def a_process_that_dies(port):
    counter = port.actor(Counter).remote()
    pid = ray.get(counter.pid.remote())
    ray.get(counter.add.remote())
    os.kill(pid, 9)

    def fate():
        error = raised(lambda: ray.get(counter.pid.remote()))
        if error is None:
            return ray.get(counter.add.remote()) if ray.get(counter.pid.remote()) != pid else None
        return type(error).__name__ if port.world == "plain" else None

    return eventually(fate)


@works("drop")
def a_dropped_handle_ends_an_actor_without_a_name(port):
    counter = port.actor(Counter).remote()
    pid = ray.get(counter.pid.remote())
    del counter

    def is_gone():
        return isinstance(raised(os.kill, pid, 0), ProcessLookupError)

    return eventually(is_gone, 60.0)


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


@works("exit-actor")
def an_actor_says_that_it_is_ready(port):
    counter = port.actor(Counter).remote()
    ready, _ = ray.wait([counter.__ray_ready__.remote()], timeout=20)
    return len(ready), ray.get(counter.add.remote())


@works("exit-actor")
def the_readiness_of_several(port):
    counters = [port.actor(Counter).remote() for _ in range(3)]
    return len(ray.get([counter.__ray_ready__.remote() for counter in counters]))


@works("exit-actor")
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


@works("handles")
def an_actor_that_goes_says_so_to_another(port):
    log = port.actor(Log).remote()

    @port.actor
    class Actor:
        def leave(self, logs):
            logs[0].write.remote("gone")

    actor = Actor.remote()
    actor.leave.remote([log])
    return eventually(lambda: ray.get(log.read.remote()) == ["gone"])
