"""Calls: order, results, and what a method may be called with."""

import functools

import ray

from tests.ports.behaviour import refused, works
from tests.ports.classes import Counter, Echo, Log, raised
from tests.waiting import eventually


@works("call")
def a_call_returns_a_reference(port):
    ref = port.actor(Counter).remote().add.remote()
    return isinstance(ref, ray.ObjectRef), ray.get(ref)


@works("call")
def calls_of_one_caller_keep_their_order(port):
    counter = port.actor(Counter).remote()
    return ray.get([counter.add.remote() for _ in range(200)])


@works("call")
def a_thousand_calls_at_once(port):
    counter = port.actor(Counter).remote()
    return sum(ray.get([counter.add.remote() for _ in range(1000)]))


@works("call")
def keyword_arguments_and_defaults(port):
    @port.actor
    class Actor:
        def mix(self, a, b=2, *args, c=3, **more):
            return a, b, args, c, more

    actor = Actor.remote()
    return ray.get(
        [actor.mix.remote(1), actor.mix.remote(1, 5, 6, c=7, d=8), actor.mix.remote(a=1, c=2), actor.mix.remote(1, b=0)]
    )


@works("call")
def a_method_that_returns_nothing(port):
    @port.actor
    class Actor:
        def nothing(self):
            pass

    return ray.get(Actor.remote().nothing.remote())


@works("call")
def a_bound_method_is_kept_and_called(port):
    add = port.actor(Counter).remote().add
    return ray.get([add.remote(n) for n in range(4)])


@works("call")
def getattr_by_name(port):
    return ray.get(getattr(port.actor(Counter).remote(5), "read").remote())  # noqa: B009 - as programs do


@works("call")
def calls_whose_results_nobody_wants(port):
    log = port.actor(Log).remote()
    for number in range(5):
        log.write.remote(number)
    return ray.get(log.read.remote())


@works("call")
def a_method_calls_others_of_its_own(port):
    @port.actor
    class Actor:
        def outer(self):
            return [self.inner(n) for n in range(3)]

        def inner(self, n):
            return n * n

    return ray.get(Actor.remote().outer.remote())


@works("call")
def recursion_in_a_method(port):
    @port.actor
    class Actor:
        def factorial(self, n):
            return 1 if n == 0 else n * self.factorial(n - 1)

    return ray.get(Actor.remote().factorial.remote(10))


@works("call")
def an_actor_calls_itself_later(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.left = 0

        def begin(self, me, count):
            self.left = count
            me.step.remote(me)

        def step(self, me):
            self.left -= 1
            if self.left:
                me.step.remote(me)

        def read(self):
            return self.left

    actor = Actor.remote()
    actor.begin.remote(actor, 3)
    return eventually(lambda: ray.get(actor.read.remote()) == 0)


@works("call-wrong")
def a_method_that_is_called_directly(port):
    return type(raised(port.actor(Counter).remote().add)).__name__


@works("call-wrong")
def a_method_that_is_not_there(port):
    counter = port.actor(Counter).remote()
    return isinstance(raised(lambda: counter.no_such_method), AttributeError), hasattr(counter, "add")


@works("call-wrong")
def wrong_arguments_of_a_method(port):
    counter = port.actor(Counter).remote()
    errors = [
        raised(counter.add.remote, 1, 2, 3),
        raised(counter.nap.remote),
        raised(counter.add.remote, no_such_argument=1),
        raised(counter.add.options(name="adding").remote, 1, amount=2),
    ]
    return [isinstance(error, TypeError) for error in errors], ray.get(counter.read.remote())


@works("call-wrong")
def wrong_arguments_of_a_method_of_an_actor_that_another_process_made(port):
    counter = port.actor(Counter)

    @port.actor
    class Maker:
        def make(self):
            return counter.remote()

    maker = Maker.remote()  # in plain Ray its actors end with it
    made = ray.get(maker.make.remote())
    return isinstance(raised(lambda: ray.get(made.add.remote(1, 2, 3))), TypeError), ray.get(made.read.remote())


@works("call")
def wait_for_the_first_of_several(port):
    fast, slow = (port.actor(Counter).remote() for _ in range(2))
    refs = [slow.nap.remote(1.0), fast.nap.remote(0)]
    ready, waiting = ray.wait(refs, num_returns=1, timeout=20)
    return [refs.index(ref) for ref in ready], len(waiting)


@works("call")
def wait_with_a_timeout(port):
    counter = port.actor(Counter).remote()
    ray.get(counter.add.remote())
    ready, waiting = ray.wait([counter.nap.remote(1.5)], timeout=0.05)
    return len(ready), len(waiting)


@works("call")
def get_with_a_timeout(port):
    counter = port.actor(Counter).remote()
    ray.get(counter.add.remote())
    error = raised(lambda: ray.get(counter.nap.remote(1.5), timeout=0.05))
    return type(error).__name__, ray.get(counter.read.remote())


@works("call")
def a_future_of_a_call(port):
    return port.actor(Counter).remote().add.remote(3).future().result(timeout=20)


@works("call")
def a_result_is_fetched_twice(port):
    ref = port.actor(Echo).remote().echo.remote([1, 2])
    return ray.get(ref), ray.get(ref), ray.get([ref, ref])


@works("call")
def a_result_outlives_the_handle(port):
    ref = port.actor(Echo).remote().echo.remote("kept")
    return ray.get(ref)


@works("call")
def a_method_with_one_return_by_decoration(port):
    @port.actor
    class Actor:
        @ray.method(num_returns=1)
        def one(self):
            return 1

    return ray.get(Actor.remote().one.remote())


@works("call")
def a_method_without_a_return_by_decoration(port):
    @port.actor
    class Actor:
        def __init__(self):
            self.done = 0

        @ray.method(num_returns=0)
        def do(self):
            self.done += 1

        def read(self):
            return self.done

    actor = Actor.remote()
    return actor.do.remote(), ray.get(actor.read.remote())


@works("call")
def a_method_without_a_return_of_an_actor_that_others_know(port):
    @port.actor
    class Noting:
        def __init__(self):
            self.noted = []

        @ray.method(num_returns=0)
        def note(self, word):
            self.noted.append(word)

        def read(self):
            return self.noted

        def me(self):
            return ray.get_runtime_context().current_actor

    @port.actor
    class Other:
        def note(self, handle, handles):
            return handle.note.remote("a"), handles[0].note.remote("b")

        def same(self, handle):
            return handle

    @ray.remote
    def task(handle, handles):
        return handle.note.remote("c"), handles[0].note.remote("d")

    noting, other = Noting.options(name="calling-noting").remote(), Other.remote()
    ray.get(noting.read.remote())
    back = [ray.get(other.same.remote(noting)), ray.get(noting.me.remote()), port.get_actor("calling-noting")]
    returned = [
        ray.get(other.note.remote(noting, [noting])),
        ray.get(task.remote(noting, [noting])),
        [handle.note.remote("e") for handle in back],
    ]
    return returned, eventually(lambda: len(ray.get(noting.read.remote())) == 7)


@works("call")
def a_call_without_a_return_by_option(port):
    counter = port.actor(Counter).remote()
    return counter.add.options(num_returns=0).remote(), ray.get(counter.read.remote())


@works("call")
def a_call_with_one_return_by_option(port):
    return ray.get(port.actor(Counter).remote().add.options(num_returns=1).remote())


@refused("num-returns", "ConfigError", "rayshot help porting#num-returns")
def a_method_with_two_returns_by_decoration(port):
    @port.actor
    class Actor:
        @ray.method(num_returns=2)
        def two(self):
            return 1, 2

    return ray.get(list(Actor.remote().two.remote()))


@refused("num-returns", "ConfigError", "rayshot help porting#num-returns")
def a_call_with_two_returns_by_option(port):
    echo = port.actor(Echo).remote()
    return ray.get(list(echo.pair.options(num_returns=2).remote(1, 2)))


class Numbers:
    """Yields."""

    def numbers(self):
        for number in range(3):  # noqa: UP028 - Ray sends into it
            yield number

    async def async_numbers(self):
        for number in range(3):
            yield number

    def count(self):
        return 3


@refused("generators", "UsageError", "rayshot help porting#generators")
def a_streaming_generator(port):
    return [ray.get(ref) for ref in port.actor(Numbers).remote().numbers.remote()]


@refused("generators", "UsageError", "rayshot help porting#generators")
def an_asynchronous_generator(port):
    return [ray.get(ref) for ref in port.actor(Numbers).remote().async_numbers.remote()]


@refused("generators", "ConfigError", "num_returns='streaming'", "rayshot help porting#generators")
def a_call_that_asks_for_streaming(port):
    actor = port.actor(Numbers).remote()
    ray.get(actor.count.remote())
    method = actor.numbers if port.world == "plain" else actor.count  # a handle of rayshot has no generators
    return [ray.get(ref) for ref in method.options(num_returns="streaming").remote()]


@refused("generators", "UsageError", "rayshot help porting#generators")
def a_generator_behind_a_decorator(port):
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    @port.actor
    class Actor:
        @logged
        def numbers(self):
            for number in range(3):  # noqa: UP028 - Ray sends into it
                yield number

    result = Actor.remote().numbers.remote()
    return ray.get(result if isinstance(result, ray.ObjectRef) else list(result))


@refused("dunder-methods", "UnknownMethod", "'__call__'", "rayshot help porting#dunder-methods")
def a_method_of_pythons_own(port):
    @port.actor
    class Actor:
        def __call__(self, value):
            return value

    return ray.get(Actor.remote().__call__.remote(2))


@refused("actor-id", "UnknownMethod", "handle.name", "rayshot help porting#actor-id")
def the_id_of_an_actor_from_its_handle(port):
    return len(port.actor(Counter).remote()._actor_id.hex())


@refused("cancel", "ConfigError", "rayshot help porting#cancel")
def a_call_that_is_cancelled(port):
    counter = port.actor(Counter).remote()
    busy, queued = counter.nap.remote(0.5), counter.nap.remote(0)
    ray.cancel(queued)
    return ray.get(busy), type(raised(ray.get, queued)).__name__


@refused("dag-bind", "ConfigError", "rayshot help porting#dag-bind")
def a_graph_that_is_bound(port):
    node = port.actor(Counter).bind(1).add.bind(2)
    return ray.get(node.execute())


@refused("dag-bind", "ConfigError", "rayshot help porting#dag-bind")
def a_method_that_is_bound(port):
    counter = port.actor(Counter).remote(1)
    return ray.get(counter.add.bind(2).execute())
