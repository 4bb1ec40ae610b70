"""Errors: of methods, of constructors, and what a caller can catch."""

import dataclasses
import sys

import ray

from tests.ports.behaviour import works
from tests.ports.classes import Counter, Echo, Model, Refusal, raised


def _error(port, method, *args):
    actor = port.actor(method) if isinstance(method, type) else None
    return raised(lambda: ray.get(actor.remote(*args).fail.remote()))


@works("errors")
def an_error_keeps_its_class_and_text(port):
    error = raised(lambda: ray.get(port.actor(Counter).remote().fail.remote("here")))
    return isinstance(error, ValueError), isinstance(error, ray.exceptions.RayTaskError), "here" in str(error)


@works("errors")
def the_cause_of_an_error(port):
    error = raised(lambda: ray.get(port.actor(Counter).remote().fail.remote("here")))
    return type(error.cause).__name__, error.cause.args


@works("errors")
def the_traceback_names_the_line_of_the_method(port):
    error = raised(lambda: ray.get(port.actor(Counter).remote().fail.remote()))
    return "in fail" in str(error), "raise ValueError(text)" in str(error)


@works("errors")
def an_actor_goes_on_after_an_error(port):
    counter = port.actor(Counter).remote()
    refs = [counter.add.remote(), counter.fail.remote(), counter.add.remote()]
    return ray.get(refs[0]), isinstance(raised(ray.get, refs[1]), ValueError), ray.get(refs[2])


@works("errors")
def an_error_with_fields(port):
    class Actor:
        def fail(self):
            raise Refusal("no", 42)

    error = _error(port, Actor)
    return isinstance(error, Refusal), error.cause.code


@works("errors")
def an_error_whose_constructor_wants_arguments(port):
    class Wanting(Exception):
        def __init__(self, name, *, limit):
            super().__init__(f"{name} is over {limit}")
            self.limit = limit

    class Actor:
        def fail(self):
            raise Wanting("a", limit=3)

    error = _error(port, Actor)
    return "a is over 3" in str(error)


@works("errors")
def a_frozen_dataclass_as_an_error(port):
    @dataclasses.dataclass(frozen=True)
    class Frozen(Exception):
        code: int

    class Actor:
        def fail(self):
            raise Frozen(7)

    error = _error(port, Actor)
    return isinstance(error, ray.exceptions.RayError), "Frozen" in str(error)


@works("errors")
def an_error_of_pydantic(port):
    class Actor:
        def fail(self):
            Model(count="no number")

    return "valid integer" in str(_error(port, Actor))


@works("errors")
def a_group_of_errors(port):
    class Actor:
        def fail(self):
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])

    error = _error(port, Actor)
    return "several" in str(error)


@works("errors")
def an_error_that_was_raised_from_another(port):
    class Actor:
        def fail(self):
            try:
                {}["missing"]
            except KeyError as error:
                raise RuntimeError("outer") from error

    text = str(_error(port, Actor))
    return "outer" in text, "missing" in text


@works("errors")
def errors_of_the_language(port):
    class Actor:
        def __init__(self, which):
            self.which = which

        def fail(self):
            if self.which == "key":
                {}["x"]
            if self.which == "assert":
                raise AssertionError("not so")
            if self.which == "stop":
                raise StopIteration
            return 1 / 0

    return [
        isinstance(_error(port, Actor, "key"), KeyError),
        isinstance(_error(port, Actor, "assert"), AssertionError),
        isinstance(_error(port, Actor, "stop"), StopIteration),
        isinstance(_error(port, Actor, "zero"), ZeroDivisionError),
    ]


@works("errors")
def an_error_that_cannot_be_pickled(port):
    class Unpicklable(Exception):
        def __reduce__(self):
            raise TypeError("not this one")

    class Actor:
        def fail(self):
            raise Unpicklable("secret")

    error = _error(port, Actor)
    return isinstance(error, ray.exceptions.RayTaskError), "Unpicklable: secret" in str(error)


@works("errors")
def an_error_of_a_task_inside_of_a_method(port):
    @ray.remote
    def bad():
        raise ValueError("of the task")

    class Actor:
        def fail(self):
            ray.get(bad.remote())

    error = _error(port, Actor)
    return isinstance(error, ValueError), "of the task" in str(error)


@works("errors")
def an_error_is_caught_in_the_method(port):
    @ray.remote
    def bad():
        raise ValueError("of the task")

    @port.actor
    class Actor:
        def careful(self):
            try:
                ray.get(bad.remote())
            except ValueError:
                return "caught"

    return ray.get(Actor.remote().careful.remote())


@works("errors")
def one_error_among_many_results(port):
    counter = port.actor(Counter).remote()
    refs = [counter.add.remote(), counter.fail.remote(), counter.add.remote()]
    return isinstance(raised(ray.get, refs), ValueError)


@works("errors")
def the_result_of_a_failed_call_as_an_argument(port):
    counter, echo = port.actor(Counter).remote(), port.actor(Echo).remote()
    return isinstance(raised(lambda: ray.get(echo.echo.remote(counter.fail.remote()))), ValueError)


@works("errors")
def the_user_may_return_an_error(port):
    @port.actor
    class Actor:
        def give(self):
            return ValueError("as a value")

    return ray.get(Actor.remote().give.remote()).args


@works("constructor-raises")
def a_constructor_that_raises_fails_every_call(port):
    class Broken:
        def __init__(self):
            raise ValueError("oops")

        def fail(self):
            return 1

    error = _error(port, Broken)
    return isinstance(error, ray.exceptions.RayActorError), "oops" in str(error)


@works("constructor-raises")
def a_constructor_that_raises_leaves_others_alone(port):
    @port.actor
    class Broken:
        def __init__(self):
            raise ValueError("oops")

        def read(self): ...

    broken, counter = Broken.remote(), port.actor(Counter).remote()
    failed = raised(lambda: ray.get(broken.read.remote()))
    return isinstance(failed, ray.exceptions.RayError), ray.get(counter.add.remote())


@works("constructor-raises")
def a_constructor_that_leaves(port):
    class Leaving:
        def __init__(self):
            sys.exit(1)

        def fail(self): ...

    return isinstance(_error(port, Leaving), ray.exceptions.RayActorError)


@works("errors")
def a_method_that_raises_keyboard_interrupt(port):
    class Actor:
        def fail(self):
            raise KeyboardInterrupt

    return isinstance(_error(port, Actor), ray.exceptions.RayTaskError)
