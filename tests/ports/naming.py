"""Named actors."""

import ray

from tests.ports.behaviour import differs, works
from tests.ports.classes import Counter, raised


@works("names")
def an_actor_is_found_by_its_name(port):
    counter = port.actor(Counter).options(name="names-found").remote()
    ray.get(counter.add.remote())
    return ray.get(port.get_actor("names-found").add.remote())


@works("names")
def a_name_given_with_the_decorator(port):
    actor = port.actor(num_cpus=0)(Counter)
    counter = actor.options(name="names-decorated").remote(4)
    return ray.get(port.get_actor("names-decorated").add.remote()), ray.get(counter.read.remote())


@works("names")
def a_name_of_any_text(port):
    counter = port.actor(Counter).options(name="größe / 7 (a)").remote()
    return ray.get(counter.add.remote()), ray.get(port.get_actor("größe / 7 (a)").add.remote())


@works("names")
def a_name_that_nobody_has(port):
    return raised(port.get_actor, "names-nobody") is not None


@works("names")
def a_name_that_is_taken(port):
    first = port.actor(Counter).options(name="names-taken").remote()
    ray.get(first.add.remote())
    error = raised(lambda: ray.get(port.actor(Counter).options(name="names-taken").remote().add.remote()))
    return error is not None, ray.get(first.add.remote())


@works("names")
def a_name_that_is_no_name(port):
    return [raised(lambda name=name: port.actor(Counter).options(name=name).remote()) is not None for name in ("", 3)]


@differs("list-names", True, False)
def names_are_listed_by_ray(port):
    counter = port.actor(Counter).options(name="names-listed").remote()
    ray.get(counter.add.remote())
    return "names-listed" in ray.util.list_named_actors()
