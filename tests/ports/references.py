"""ObjectRefs as arguments, in values, as results and in states."""

import numpy as np
import ray

from tests.ports.behaviour import works
from tests.ports.classes import Counter, Echo, Keeper, break_off, double, later, raised
from tests.waiting import eventually


@works("refs")
def a_reference_as_an_argument_gives_its_value(port):
    return ray.get(port.actor(Counter).remote().add.remote(ray.put(5)))


@works("refs")
def the_result_of_a_task_as_an_argument(port):
    return ray.get(port.actor(Counter).remote().add.remote(double.remote(4)))


@works("refs")
def the_result_of_another_actor_as_an_argument(port):
    first, second = port.actor(Counter).remote(1), port.actor(Counter).remote(10)
    return ray.get(second.add.remote(first.add.remote()))


@works("refs")
def the_result_of_the_same_actor_as_an_argument(port):
    counter = port.actor(Counter).remote(1)
    return ray.get(counter.add.remote(counter.add.remote(counter.add.remote())))


@works("refs")
def a_reference_as_a_keyword_argument(port):
    return ray.get(port.actor(Echo).remote().pair.remote(first=ray.put(1), second=double.remote(3)))


@works("refs")
def a_reference_for_a_constructor(port):
    return ray.get(port.actor(Counter).remote(later.remote(6)).read.remote())


@works("refs")
def a_reference_that_is_not_ready_blocks_nobody(port):
    counter, gate = port.actor(Counter).remote(), later.remote(7, 2.0)
    ref = counter.add.remote(gate)
    return len(ray.wait([gate], timeout=0)[0]), ray.get(ref)


@works("refs")
def another_actor_answers_while_a_reference_is_not_ready(port):
    waiting, other = port.actor(Counter).remote(), port.actor(Counter).remote()
    ref = waiting.add.remote(later.remote(7, 2.0))
    first = ray.get(other.add.remote())
    return first, len(ray.wait([ref], timeout=0)[0]), ray.get(ref)


@works("refs")
def a_reference_that_the_caller_itself_makes_ready(port):
    gate, counter = port.actor(Counter).remote(3), port.actor(Counter).remote()
    ref = counter.add.remote(double.remote(gate.read.remote()))
    return ray.get(ref)


@works("refs")
def a_reference_to_a_large_array_for_several_actors(port):
    ref = ray.put(np.ones(2_000_000))

    @port.actor
    class Summing:
        def total(self, array):
            return float(array.sum()), array.flags.writeable

    return ray.get([Summing.remote().total.remote(ref) for _ in range(3)])


@works("refs")
def the_same_reference_twice_in_a_call(port):
    ref = ray.put([1])
    return ray.get(port.actor(Echo).remote().pair.remote(ref, ref))


@works("refs")
def one_reference_for_many_calls(port):
    ref, counter = ray.put(2), port.actor(Counter).remote()
    return ray.get([counter.add.remote(ref) for _ in range(20)])


@works("refs")
def references_in_a_chain_of_actors(port):
    stages = [port.actor(Counter).remote(n) for n in range(4)]
    refs = []
    for item in range(3):
        ref = ray.put(item)
        for stage in stages:
            ref = stage.add.remote(ref)
        refs.append(ref)
    return ray.get(refs)


@works("refs")
def a_reference_of_a_task_that_failed(port):
    counter = port.actor(Counter).remote()
    error = raised(lambda: ray.get(counter.add.remote(break_off.remote("lost"))))
    return isinstance(error, ValueError), "lost" in str(error), ray.get(counter.add.remote())


@works("refs")
def calls_behind_one_whose_reference_failed(port):
    counter = port.actor(Counter).remote()
    refs = [counter.add.remote(), counter.add.remote(break_off.remote()), counter.add.remote()]
    return [raised(ray.get, ref) is None for ref in refs], ray.get(counter.read.remote())


@works("refs-nested")
def references_in_a_list_stay_references(port):
    return ray.get(port.actor(Echo).remote().kinds.remote([ray.put(1), double.remote(2)]))


@works("refs-nested")
def references_in_a_list_are_fetched_by_the_method(port):
    return ray.get(port.actor(Echo).remote().total.remote([ray.put(1), double.remote(2), later.remote(3)]))


@works("refs-nested")
def references_in_dictionaries_and_objects(port):
    @port.actor
    class Actor:
        def read(self, config, box):
            return ray.get(config["a"]["b"]), ray.get(box.ref)

    class Box:
        def __init__(self, ref):
            self.ref = ref

    return ray.get(Actor.remote().read.remote({"a": {"b": ray.put(1)}}, Box(ray.put(2))))


@works("refs-nested")
def a_nested_reference_that_is_not_ready(port):
    echo, ref = port.actor(Echo).remote(), later.remote(3, 1.0)
    return ray.get(echo.kinds.remote([ref])), ray.get(echo.total.remote([ref]))


@works("refs-nested")
def a_nested_reference_of_another_call(port):
    counter, echo = port.actor(Counter).remote(), port.actor(Echo).remote()
    return ray.get(echo.total.remote([counter.add.remote(), counter.add.remote()]))


@works("refs-nested")
def a_reference_in_a_reference(port):
    return ray.get(ray.get(port.actor(Echo).remote().echo.remote([ray.put("inner")]))[0])


@works("refs-nested")
def a_method_returns_a_reference(port):
    @port.actor
    class Actor:
        def make(self):
            return ray.put([1, 2])

    actor = Actor.remote()
    return ray.get(ray.get(actor.make.remote()))


@works("refs-nested")
def a_method_returns_references_of_tasks(port):
    @port.actor
    class Actor:
        def begin(self, count):
            return [double.remote(n) for n in range(count)]

    actor = Actor.remote()
    return ray.get(ray.get(actor.begin.remote(3)))


@works("refs-nested")
def a_reference_that_an_actor_returned_goes_to_another(port):
    @port.actor
    class Actor:
        def make(self):
            return [ray.put(4)]

    actor = Actor.remote()
    (ref,) = ray.get(actor.make.remote())
    return ray.get(port.actor(Counter).remote().add.remote(ref))


@works("refs-state")
def references_are_kept_in_the_state(port):
    keeper = port.actor(Keeper).remote()
    keeper.keep.remote([ray.put("kept")])

    return ray.get(ray.get(keeper.all.remote())[0][0])


@works("refs-state")
def a_constructor_puts_and_begins_tasks(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.refs = [ray.put(1), double.remote(2)]

        def read(self):
            return ray.get(self.refs)

    return ray.get(Actor.remote().read.remote())


@works("refs-state")
def results_are_collected_in_the_background(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.waiting, self.done = [], []

        def begin(self, value):
            self.waiting.append(double.remote(value))

        def collect(self):
            ready, self.waiting = ray.wait(self.waiting, num_returns=len(self.waiting), timeout=0.1)
            self.done += ray.get(ready)
            return sorted(self.done)

    actor = Actor.remote()
    for number in range(3):
        actor.begin.remote(number)
    return eventually(lambda: ray.get(actor.collect.remote()) == [0, 2, 4])


@works("refs-nested")
def put_in_one_actor_and_get_in_another(port):
    keeper, echo = port.actor(Keeper).remote(), port.actor(Echo).remote()
    keeper.keep.remote(ray.put(np.arange(5)))
    (array,) = ray.get(keeper.all.remote())
    return ray.get(echo.echo.remote(ray.put(array))).tolist()


@works("refs-nested")
def the_results_of_an_actor_go_to_a_task(port):
    return ray.get(double.remote(port.actor(Counter).remote(4).add.remote()))


@works("refs-nested")
def the_results_of_actors_go_to_a_task_in_a_list(port):
    @ray.remote
    def total(refs):
        return sum(ray.get(refs))

    counters = [port.actor(Counter).remote(n) for n in range(3)]
    return ray.get(total.remote([counter.add.remote() for counter in counters]))
