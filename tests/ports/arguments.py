"""What arguments and results may be."""

import collections
import datetime as dt
import decimal
import math
import pathlib
import threading
import uuid

import numpy as np
import ray

from tests.ports.behaviour import differs, works
from tests.ports.classes import Colour, Counter, Echo, Keeper, Point, raised


def _through(port, *values):
    echo = port.actor(Echo).remote()
    return ray.get([echo.echo.remote(value) for value in values])


@works("arguments")
def numbers_and_texts(port):
    return _through(port, 0, -1, 2**70, -(2**64), 1.5, math.inf, 1 + 2j, True, None, "", "ä\0", b"", b"\xff")


@works("arguments")
def containers_in_containers(port):
    return _through(port, [], (), {}, [[1, (2, {"a": {3, 4}})]], {(1, 2): [3]}, frozenset({1}), [None] * 3)


@works("arguments")
def values_of_the_standard_library(port):
    return _through(
        port,
        dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        decimal.Decimal("1.10"),
        uuid.UUID(int=5),
        pathlib.PurePosixPath("/a/b"),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=3),
        range(3),
        slice(1, 2),
    )


@differs("as-given", ["bytes", "bytes", "bytes"], ["bytearray", "bytes", "bytes"])
def a_bytearray_stays_one(port):
    echo = port.actor(Echo).remote()
    return ray.get([echo.kind.remote(value) for value in (bytearray(b"ab"), b"ab", memoryview(b"ab"))])


@works("arguments")
def a_dataclass_and_an_enum_of_a_module(port):
    point, colour = _through(port, Point(1, 2), Colour.RED)
    return point == Point(1, 2), type(point) is Point, colour is Colour.RED


@works("arguments")
def a_value_of_a_class_inside_of_a_function(port):
    class Local:
        def __init__(self, x):
            self.x = x

    @port.actor
    class Actor:
        def same(self, value):
            return isinstance(value, Local), value.x

        def make(self):
            return Local(5)

    actor = Actor.remote()
    made = ray.get(actor.make.remote())
    return ray.get(actor.same.remote(Local(3))), isinstance(made, Local), made.x


@works("arguments")
def functions_and_lambdas(port):
    @port.actor
    class Actor:
        def apply(self, function, *args):
            return function(*args)

        def make(self, n):
            return lambda value: value + n

    actor = Actor.remote()
    return ray.get(actor.apply.remote(lambda a, b: a * b, 3, 4)), ray.get(actor.make.remote(2))(5)


@works("arguments")
def a_class_as_an_argument(port):
    return _through(port, Point, dict)


@works("arguments")
def an_exception_as_a_value(port):
    (value,) = _through(port, ValueError("a"))
    return type(value).__name__, value.args


@works("arguments")
def arrays(port):
    small, large = _through(port, np.arange(3), np.ones(300_000))
    return small.tolist(), large.sum(), large.dtype.name


@works("arguments")
def an_array_of_objects_and_a_structured_one(port):
    first, second = _through(port, np.array([1, "a", None], dtype=object), np.zeros(2, dtype=[("a", "i4")]))
    return first.tolist(), second.dtype.names


@differs("as-given", plain=False, rayshot=True)
def one_value_twice_in_an_argument_is_one_value(port):
    shared = [1]

    @port.actor
    class Actor:
        def same(self, pair):
            return pair[0] is pair[1]

    return ray.get(Actor.remote().same.remote([shared, shared]))


@works("arguments")
def a_value_that_contains_itself(port):
    cycle = [1]
    cycle.append(cycle)
    (value,) = _through(port, cycle)
    return value[1] is value


@works("arguments")
def arguments_are_copies(port):
    keeper, value = port.actor(Keeper).remote(), [1, [2]]
    ref = keeper.keep.remote(value)
    value[1].append(3)
    ray.get(ref)
    return ray.get(keeper.all.remote())


@works("arguments")
def results_are_copies(port):
    keeper = port.actor(Keeper).remote([1])
    ray.get(keeper.all.remote())[0].append(2)
    return ray.get(keeper.all.remote())


@works("arguments")
def a_default_that_a_method_changes(port):
    @port.actor
    class Actor:
        def grow(self, items=[]):  # noqa: B006 - that is the case
            items.append(1)
            return len(items)

    actor = Actor.remote()
    return ray.get([actor.grow.remote(), actor.grow.remote()])


@works("arguments")
def many_arguments(port):
    @port.actor
    class Actor:
        def count(self, *args, **kwargs):
            return len(args), len(kwargs)

    return ray.get(Actor.remote().count.remote(*range(300), **{f"k{n}": n for n in range(50)}))


@works("arguments")
def a_result_of_ten_megabytes(port):
    @port.actor
    class Actor:
        def make(self):
            return np.ones(10_000_000 // 8)

    return ray.get(Actor.remote().make.remote()).sum()


@works("arguments")
def an_argument_of_ten_megabytes_for_several(port):
    array = np.ones(10_000_000 // 8)
    actors = [port.actor(Echo).remote() for _ in range(2)]
    return [value.sum() for value in ray.get([actor.echo.remote(array) for actor in actors])]


@works("arguments")
def text_and_bytes_of_two_megabytes(port):
    return [len(value) for value in _through(port, "x" * 2_000_000, b"x" * 2_000_000, ["y" * 2_000_000])]


@works("arguments")
def an_arrow_table(port):
    import pyarrow as pa

    return _through(port, pa.table({"a": [1, 2]}))[0].to_pydict()


@differs("arguments-wrong", ("TypeError", 0), ("MessageNotSerializable", 0))
def an_argument_that_cannot_be_pickled(port):
    counter = port.actor(Counter).remote()
    return type(raised(lambda: counter.add.remote(threading.Lock()))).__name__, ray.get(counter.read.remote())


@works("errors")
def a_result_that_cannot_be_pickled(port):
    @port.actor
    class Actor:
        def make(self):
            return threading.Lock()

        def read(self):
            return "goes on"

    actor = Actor.remote()
    error = raised(lambda: ray.get(actor.make.remote()))
    told = isinstance(error, ray.exceptions.RayTaskError), "_thread.lock" in str(error)
    return told, ray.get(actor.read.remote())


@differs("writeable", "ValueError", "written")
def a_handler_writes_into_an_array_that_was_given_by_value(port):
    @port.actor
    class Actor:
        def write(self, array):
            try:
                array[0] = 5
            except ValueError:
                return "ValueError"
            return "written"

    return ray.get(Actor.remote().write.remote(np.zeros(300_000)))
