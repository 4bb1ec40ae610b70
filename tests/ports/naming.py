"""Named actors."""

import ray

from tests.ports.behaviour import differs, refused, works
from tests.ports.classes import Counter, raised
from tests.waiting import eventually


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
    error = raised(port.get_actor, "names-nobody")
    return isinstance(error, ValueError), "names-nobody" in str(error)


@works("names")
def a_name_that_is_taken(port):
    first = port.actor(Counter).options(name="names-taken").remote()
    ray.get(first.add.remote())
    error = raised(lambda: ray.get(port.actor(Counter).options(name="names-taken").remote().add.remote()))
    return isinstance(error, ValueError), ray.get(first.add.remote())


@works("names")
def a_name_that_is_no_name(port):
    return [
        "name" in str(raised(lambda name=name: port.actor(Counter).options(name=name).remote())) for name in ("", 3)
    ]


@differs("name-again", "free", "taken")
def the_name_of_an_actor_that_was_killed(port):
    counter = port.actor(Counter).options(name="names-again").remote(5)
    ray.get(counter.add.remote())
    port.kill(counter)
    eventually(lambda: raised(lambda: ray.get(counter.add.remote())))
    made = []

    def again():
        try:
            made.append(port.actor(Counter).options(name="names-again").remote())
        except ValueError:
            return False
        return True

    try:
        eventually(again, 3.0)
    except AssertionError:
        return "taken"
    return "free"


@differs("name-again", "made", "NameTaken")
def an_actor_that_was_killed_is_made_or_found(port):
    actor = port.actor(Counter).options(name="names-ended", get_if_exists=True)
    counter = actor.remote(5)
    ray.get(counter.add.remote())
    port.kill(counter)
    eventually(lambda: raised(lambda: ray.get(counter.add.remote())))

    def lives():
        made = actor.remote()
        return raised(lambda: ray.get(made.add.remote())) is None

    error = raised(lambda: eventually(lives))
    return type(error).__name__ if error else "made"


@works("get-if-exists")
def an_actor_is_found_whatever_the_arguments(port):
    actor = port.actor(Counter).options(name="names-arguments", get_if_exists=True)
    wrong = raised(actor.remote, 1, 2, 3)
    counter = actor.remote(3)
    ray.get(counter.add.remote())
    return isinstance(wrong, TypeError), ray.get(actor.remote(1, 2, 3).add.remote())


@works("get-if-exists")
def an_actor_is_made_or_found(port):
    actor = port.actor(Counter).options(name="names-exists", get_if_exists=True)
    first, second = actor.remote(3), actor.remote(100)
    return ray.get([first.add.remote(), second.add.remote()])


@works("get-if-exists")
def several_tasks_make_or_find_one_actor(port):
    actor = port.actor(Counter)

    @ray.remote
    def work():
        handle = actor.options(name="names-tasks", get_if_exists=True).remote()
        return ray.get(handle.add.remote())

    keep = actor.options(name="names-tasks", get_if_exists=True).remote()
    return sorted(ray.get([work.remote() for _ in range(3)])), ray.get(keep.read.remote())


@refused("ray-get-actor", "ConfigError", "system.get_actor", "rayshot help porting#ray-get-actor")
def a_name_is_looked_up_with_ray_get_actor(port):
    name = f"names-ray-{port.world}"
    counter = port.actor(Counter).options(name=name).remote()
    ray.get(counter.add.remote())
    return ray.get(ray.get_actor(name).add.remote())


@refused("namespaces", "ConfigError", "rayshot help porting#namespaces")
def a_namespace(port):
    counter = port.actor(Counter).options(name="names-space", namespace="another").remote()
    return ray.get(counter.add.remote())


@refused("detached", "ConfigError", "rayshot help porting#detached")
def a_detached_actor(port):
    counter = port.actor(Counter).options(name="names-detached", lifetime="detached").remote()
    value = ray.get(counter.add.remote())
    ray.kill(counter)
    return value


@differs("list-names", True, False)
def names_are_listed_by_ray(port):
    name = f"names-listed-{id(port)}"  # both worlds are there at the same time
    counter = port.actor(Counter).options(name=name).remote()
    ray.get(counter.add.remote())
    return name in ray.util.list_named_actors()
