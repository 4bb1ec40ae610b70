"""Options of actors and of methods."""

import os

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from tests.ports.behaviour import refused, works
from tests.ports.classes import Counter, raised


def _asked(port, actor, **options):
    return ray.get(actor.options(**options).remote().add.remote())


@works("resources")
def processors_and_memory(port):
    actor = port.actor(Counter)
    return [_asked(port, actor, **one) for one in ({"num_cpus": 1}, {"num_cpus": 0.5}, {"memory": 10_000_000})]


@works("resources")
def resources_with_the_decorator(port):
    return ray.get(port.actor(num_cpus=2, num_gpus=0)(Counter).remote().add.remote())


@works("resources")
def resources_that_an_actor_has(port):
    @port.actor(num_cpus=2)
    class Actor:
        def read(self):
            return ray.get_runtime_context().get_assigned_resources().get("CPU")

    return ray.get(Actor.remote().read.remote())


@works("resources")
def an_actor_for_which_there_is_no_room_waits_and_the_caller_does_not(port):
    counter = port.actor(num_cpus=1000)(Counter).remote()
    ready, _ = ray.wait([counter.add.remote()], timeout=0.2)
    return len(ready), ray.get(port.actor(Counter).remote().add.remote())


@works("resources")
def a_resource_that_nobody_has(port):
    counter = port.actor(resources={"no_such_thing": 1})(Counter).remote()
    refs = [counter.add.remote() for _ in range(20)]
    return len(ray.wait(refs, timeout=0.2)[0])


@works("resources")
def options_of_one_actor_leave_the_class_alone(port):
    actor = port.actor(num_cpus=1)(Counter)
    other = actor.options(num_cpus=2)
    return ray.get([actor.remote(1).add.remote(), other.remote(2).add.remote(), actor.remote(3).add.remote()])


@works("resources")
def the_scheduling_strategies_spread_and_default(port):
    actor = port.actor(Counter)
    return [_asked(port, actor, scheduling_strategy=one) for one in ("SPREAD", "DEFAULT")]


@works("placement")
def an_actor_on_a_node_that_is_named(port):
    node = ray.get_runtime_context().get_node_id()
    return _asked(port, port.actor(Counter), scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))


@works("placement")
def an_actor_in_a_placement_group(port):
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready(), timeout=20)
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    counter = port.actor(num_cpus=1)(Counter).options(scheduling_strategy=strategy).remote()
    value = ray.get(counter.add.remote())
    port.kill(counter)
    raised(lambda: ray.get(counter.add.remote()))  # a group that goes takes its actors along, and a system with them
    remove_placement_group(group)
    return value


@works("runtime-env")
def variables_of_the_environment(port):
    @port.actor
    class Actor:
        def read(self):
            return os.environ.get("PORTS_VALUE")

    actor = Actor.options(runtime_env={"env_vars": {"PORTS_VALUE": "given"}}).remote()
    return ray.get(actor.read.remote())


@works("max-restarts")
def an_actor_that_may_be_restarted(port):
    return _asked(port, port.actor(Counter), max_restarts=3)


@works("max-restarts")
def an_actor_whose_methods_may_be_retried(port):
    return _asked(port, port.actor(Counter), max_restarts=-1, max_task_retries=-1)


@works("max-restarts")
def no_restarts_and_no_retries(port):
    return _asked(port, port.actor(Counter), max_restarts=0, max_task_retries=0)


@works("max-restarts")
def restarts_with_the_decorator(port):
    return ray.get(port.actor(max_restarts=2, max_task_retries=2)(Counter).remote().add.remote())


@refused("retry-exceptions", "ConfigError", "rayshot help porting#retry-exceptions")
def errors_that_are_retried_by_decoration(port):
    @port.actor
    class Actor:
        @ray.method(max_task_retries=2, retry_exceptions=True)
        def read(self):
            return 1

    return ray.get(Actor.remote().read.remote())


@refused("retry-exceptions", "ConfigError", "rayshot help porting#retry-exceptions")
def errors_that_are_retried_by_option(port):
    counter = port.actor(Counter).remote()
    return ray.get(counter.add.options(max_task_retries=1, retry_exceptions=[ValueError]).remote())


@works("call")
def a_bound_on_calls_that_wait(port):
    counter = port.actor(max_pending_calls=3)(Counter).remote()
    ray.get(counter.add.remote())
    refs = [counter.nap.remote(0.5) for _ in range(3)]
    error = raised(lambda: [counter.nap.remote(0) for _ in range(3)])
    return type(error).__name__, len(ray.get(refs))


@works("call")
def a_call_that_is_named(port):
    return ray.get(port.actor(Counter).remote().add.options(name="counting").remote())


@works("call")
def an_unknown_option_of_a_call(port):
    counter = port.actor(Counter).remote()
    return "no_such_option" in str(raised(lambda: counter.add.options(no_such_option=1).remote()))


@works("call")
def options_of_a_call_are_kept_and_used_again(port):
    add = port.actor(Counter).remote().add.options(num_returns=1)
    return ray.get([add.remote(), add.remote(5)])


@refused("task-events", "ConfigError", "rayshot help porting#task-events")
def events_of_tasks(port):
    return _asked(port, port.actor(Counter), enable_task_events=True)


@works("resources")
def no_events_of_tasks(port):
    return _asked(port, port.actor(Counter), enable_task_events=False)


@refused("out-of-order", "ConfigError", "rayshot help porting#out-of-order")
def calls_out_of_order(port):
    counter = port.actor(Counter).options(allow_out_of_order_execution=True).remote()
    return ray.get([counter.add.remote() for _ in range(3)])


@refused("placement-options", "ConfigError", "rayshot help porting#placement-options")
def a_placement_group_as_an_option_of_its_own(port):
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())
    try:
        return _asked(port, port.actor(Counter), placement_group=group, placement_group_bundle_index=0)
    finally:
        remove_placement_group(group)


@works("resources")
def options_that_ask_for_what_is_the_default(port):
    return _asked(port, port.actor(Counter), lifetime="non_detached", placement_group="default")
