"""Making actors: arguments of constructors, forms of classes, and where one may be made."""

import abc
import dataclasses
import functools
import signal
from typing import Generic, TypeVar

import ray

from tests.ports.behaviour import differs, refused, works
from tests.ports.classes import Counter, Echo, Keeper, Log, raised
from tests.waiting import eventually


@works("create")
def an_actor_is_made_and_called(port):
    return ray.get(port.actor(Counter).remote().add.remote())


@works("create")
def arguments_of_a_constructor(port):
    actor = port.actor(Keeper)
    keepers = [actor.remote(), actor.remote(1, "b"), actor.remote(1, name="x"), actor.remote(*range(5), k=[1])]
    return ray.get([keeper.all.remote() for keeper in keepers]), ray.get([k.all_named.remote() for k in keepers])


@works("create")
def defaults_of_a_constructor(port):
    @port.actor
    class Actor:
        def __init__(self, a, b=2, *rest, c="c"):
            self.all = a, b, rest, c

        def read(self):
            return self.all

    return ray.get([actor.read.remote() for actor in (Actor.remote(1), Actor.remote(1, 3, 4, 5), Actor.remote(1, c=0))])


@works("create")
def a_class_without_a_constructor(port):
    @port.actor
    class Actor:
        def read(self):
            return "read"

    return ray.get(Actor.remote().read.remote())


@works("create")
def many_actors_have_states_of_their_own(port):
    counters = [port.actor(Counter).remote(n) for n in range(5)]
    refs = [counter.add.remote() for _ in range(10) for counter in counters]
    return ray.get(refs)


@works("create")
def the_decorator_with_empty_state_and_a_call_at_once(port):
    return ray.get([port.actor(Echo).remote().echo.remote(n) for n in range(3)])


@works("class-forms")
def a_subclass_of_a_plain_class(port):
    @port.actor
    class More(Counter):
        def __init__(self, value):
            super().__init__(value)
            self.extra = 1

        def add_twice(self, amount):
            return self.add(amount) + self.add(amount) + self.extra

    return ray.get(More.remote(1).add_twice.remote(2))


@works("class-forms")
def class_attributes_and_class_methods(port):
    @port.actor
    class Actor:
        limit = 3

        @classmethod
        def of_class(cls):
            return cls.limit

        @staticmethod
        def static(value):
            return value + 1

        def read(self):
            return self.limit, self.of_class(), self.static(1)

    actor = Actor.remote()
    return ray.get([actor.read.remote(), actor.of_class.remote(), actor.static.remote(4)])


@works("class-forms")
def properties_and_private_methods_serve_the_class_itself(port):
    @port.actor
    class Actor:
        def __init__(self):
            self._value = 4

        @property
        def value(self):
            return self._value

        def _twice(self):
            return 2 * self.value

        def read(self):
            return self._twice()

    return ray.get(Actor.remote().read.remote())


@works("class-forms")
def a_private_method_is_called_from_outside(port):
    @port.actor
    class Actor:
        def _hidden(self):
            return "found"

    return ray.get(Actor.remote()._hidden.remote())


@works("class-forms")
def a_class_with_slots(port):
    @port.actor
    class Actor:
        __slots__ = ("value",)

        def __init__(self, value):
            self.value = value

        def read(self):
            return self.value

    return ray.get(Actor.remote(3).read.remote())


@works("class-forms")
def a_dataclass(port):
    @port.actor
    @dataclasses.dataclass
    class Actor:
        value: int = 5
        items: list = dataclasses.field(default_factory=list)

        def read(self):
            return self.value, self.items

    return ray.get(Actor.remote(value=6).read.remote())


@works("class-forms")
def an_abstract_base_and_a_generic_one(port):
    kind = TypeVar("kind")

    class Base(abc.ABC, Generic[kind]):
        @abc.abstractmethod
        def read(self): ...

        def read_twice(self):
            return [self.read(), self.read()]

    @port.actor
    class Actor(Base[int]):
        def read(self):
            return 1

    return ray.get(Actor.remote().read_twice.remote())


@works("class-forms")
def decorated_methods(port):
    def logged(method):
        @functools.wraps(method)
        def run(self, *args):
            self.calls = getattr(self, "calls", 0) + 1
            return method(self, *args), self.calls

        return run

    @port.actor
    class Actor:
        @logged
        def add(self, a, b):
            return a + b

    actor = Actor.remote()
    return ray.get([actor.add.remote(1, 2), actor.add.remote(3, 4)])


@works("class-forms")
def a_class_that_uses_what_is_around_it(port):
    factor, helper = 3, lambda value: value * 10

    @port.actor
    class Actor:
        def scale(self, value):
            return helper(value) * factor

    return ray.get(Actor.remote().scale.remote(2))


@works("class-forms")
def a_class_of_the_same_name_again(port):
    answers = []
    for number in range(3):

        @port.actor
        class Actor:
            value = number

            def read(self):
                return self.value

        answers.append(ray.get(Actor.remote().read.remote()))
    return answers


@works("class-forms")
def a_method_calls_a_task(port):
    @ray.remote
    def square(value):
        return value**2

    @port.actor
    class Actor:
        def squares(self, count):
            return ray.get([square.remote(n) for n in range(count)])

    return ray.get(Actor.remote().squares.remote(4))


@works("class-forms")
def a_private_generator_is_no_method_of_the_actor(port):
    @port.actor
    class Actor:
        def _numbers(self):
            yield from range(3)

        def total(self):
            return sum(self._numbers())

    return ray.get(Actor.remote().total.remote())


@works("class-forms")
def a_public_generator_that_only_the_class_itself_uses(port):
    @port.actor
    class Actor:
        def numbers(self):
            yield from range(3)

        def total(self):
            return sum(self.numbers())

    return ray.get(Actor.remote().total.remote())


@works("class-forms")
def a_lock_and_a_file_in_the_state(port):
    @port.actor
    class Actor:
        def __init__(self):
            import threading

            self.lock = threading.Lock()

        def use(self):
            with self.lock:
                return "used"

    return ray.get(Actor.remote().use.remote())


@works("create")
def an_actor_that_an_actor_makes(port):
    counter = port.actor(Counter)

    @port.actor
    class Maker:
        def make(self, value):
            return counter.remote(value)

    maker = Maker.remote()
    made = ray.get(maker.make.remote(5))
    return ray.get(made.add.remote())


@works("create")
def an_actor_that_a_constructor_makes_and_keeps(port):
    log = port.actor(Log)

    @port.actor
    class Owner:
        def __init__(self):
            self.log = log.remote()

        def write(self, line):
            self.log.write.remote(line)

        def get_log(self):
            return self.log

    owner = Owner.remote()
    owner.write.remote("a")
    made = ray.get(owner.get_log.remote())
    return eventually(lambda: ray.get(made.read.remote()))


@works("create")
def an_actor_that_a_task_makes(port):
    counter = port.actor(Counter)

    @ray.remote
    def work():
        made = counter.remote(4)
        return ray.get(made.add.remote())

    return ray.get(work.remote())


@works("create")
def a_class_that_a_task_defines(port):
    decorate = port.actor

    @ray.remote
    def work():
        @decorate
        class Inner:
            def read(self):
                return "inner"

        return ray.get(Inner.remote().read.remote())

    return ray.get(work.remote())


@works("create")
def an_actor_that_a_plain_actor_makes(port):
    counter = port.actor(Counter)

    @ray.remote
    class Plain:
        def make(self):
            self.counter = counter.remote(1)
            return ray.get(self.counter.add.remote())

    return ray.get(Plain.remote().make.remote())


@refused("method-names", "ConfigError", "rename", "rayshot help porting#method-names")
def a_method_that_is_called_name(port):
    @port.actor
    class Actor:
        def name(self):
            return "its own"

    return ray.get(Actor.remote().name.remote())


@works("create-wrong")
def wrong_arguments_of_a_constructor_are_an_error(port):
    actor = port.actor(Counter)
    errors = [raised(actor.remote, 1, 2, 3), raised(actor.options(num_cpus=0).remote, no_such_argument=1)]
    return [isinstance(error, TypeError) for error in errors]


@works("create-wrong")
def an_unknown_option_is_an_error(port):
    errors = [
        raised(lambda: port.actor(no_such_option=1)(Counter)),
        raised(lambda: port.actor(Counter).options(no_such_option=1).remote()),
    ]
    return ["no_such_option" in str(error) for error in errors]


@works("create-wrong")
def a_function_that_is_decorated_as_an_actor(port):
    return "decorat" in str(raised(port.actor, 3))


@differs("direct-instance", "TypeError", 7)
def a_decorated_class_is_called_like_a_class(port):
    @port.actor
    class Own(Counter):
        pass

    error = raised(Own, 6)
    return type(error).__name__ if error else Own(6).add()


@differs("direct-instance", "TypeError", True)
def a_method_that_asks_for_its_own_class(port):
    @port.actor
    class Own:
        def is_own(self):
            try:
                return isinstance(self, Own)
            except TypeError as error:
                return type(error).__name__

    return ray.get(Own.remote().is_own.remote())


@differs("main-thread", "set", "ValueError")
def a_signal_that_is_set_in_a_method(port):
    @port.actor
    class Actor:
        def set(self):
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
            except ValueError as error:
                return type(error).__name__
            return "set"

    return ray.get(Actor.remote().set.remote())


@differs("direct-instance", "ActorClassInheritanceException", 2)
def a_subclass_of_a_decorated_class(port):
    @port.actor
    class Own(Counter):
        pass

    def derive():
        class More(Own):
            def add_twice(self):
                return self.add() and self.add()

        return More

    error = raised(derive)
    return type(error).__name__ if error else ray.get(port.actor(derive()).remote().add_twice.remote())
