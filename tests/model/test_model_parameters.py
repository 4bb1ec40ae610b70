"""Wrong arguments are refused at the call, in the process that has the class at hand."""

import functools
import inspect
import pickle
import typing

import pytest

import rayshot
from rayshot.errors import WrongArguments
from rayshot.model.parameters import parameters_of

pytestmark = pytest.mark.acceptance("O8")


def injecting(function):
    """Gives an argument of its own: callers give one less."""

    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        return function(self, "injected", *args, **kwargs)

    return wrapper


def with_signature(function):
    function.__signature__ = inspect.Signature()  # as Ray does, with a parameter more
    return function


class Taking(typing.Generic[typing.TypeVar("T")]):
    def none(self):
        """Has no parameters."""

    def some(self, a, b=2, /, c=3):
        """Has one that is required."""

    def more(self, a, *args, key=None, **kwargs):
        """Takes nearly all."""

    def keyword(self, a=1, *, key):
        """Wants a keyword."""

    def starred(*args):
        """Has no `self` of its own."""

    async def later(self, a):
        """A coroutine."""

    def nobody():
        """Cannot be called on an instance."""

    @staticmethod
    def static(a, b):
        """Has no `self`."""

    @classmethod
    def of_class(cls, a):
        """Has a class."""

    @injecting
    def injected(self, session, a):
        """Its callers give `a`."""

    @with_signature
    def signed(self, a):
        """Says something else of itself."""

    partial = functools.partialmethod(some, 1)
    built_in = len


FITTING = [
    ("none", (), {}),
    ("some", (1,), {}),
    ("some", (1, 2, 3), {}),
    ("some", (1,), {"c": 4}),
    ("more", (1, 2, 3, 4), {}),
    ("more", (), {"a": 1, "b": 2, "key": 3}),
    ("keyword", (), {"key": 1}),
    ("keyword", (2,), {"key": 1}),
    ("starred", (1, 2, 3), {}),
    ("later", (1,), {}),
    ("static", (1, 2), {}),
    ("static", (1,), {"b": 2}),
    ("of_class", (1,), {}),
    ("injected", (1,), {}),
    ("signed", (1,), {}),
    ("partial", (), {"c": 3}),
    ("partial", (1, 2, 3, 4), {}),
    ("built_in", (), {}),
    ("__init__", (), {}),
]
WRONG = [
    ("none", (1,), {}, "too many positional arguments"),
    ("none", (), {"a": 1}, "unexpected keyword argument 'a'"),
    ("some", (), {}, "missing a required argument: 'a'"),
    ("some", (1, 2, 3, 4), {}, "too many positional arguments"),
    ("some", (), {"a": 1}, "positional.only.*'a'|'a' parameter is positional.only"),
    ("some", (1, 2, 3), {"c": 4}, "multiple values for argument 'c'"),
    ("more", (), {"key": 1}, "missing a required argument: 'a'"),
    ("keyword", (), {}, "missing a required argument: 'key'"),
    ("keyword", (1, 2), {}, "too many positional arguments"),
    ("later", (), {}, "missing a required argument: 'a'"),
    ("nobody", (), {}, "too many positional arguments"),
    ("static", (1,), {}, "missing a required argument: 'b'"),
    ("of_class", (1, 2), {}, "too many positional arguments"),
    ("signed", (), {}, "missing a required argument: 'a'"),
    ("__init__", (1,), {}, "too many positional arguments"),
]


@pytest.mark.parametrize(("method", "args", "kwargs"), FITTING, ids=repr)
def test_what_fits_is_sent(world, method, args, kwargs):
    handle = rayshot.actor(Taking).options(name="alice").remote()
    if method != "__init__":
        getattr(handle, method).remote(*args, **kwargs)
        assert [sent for sent, *_ in world.messages("alice")] == [method]


@pytest.mark.parametrize(("method", "args", "kwargs", "reason"), WRONG, ids=repr)
def test_what_does_not_fit_is_refused_and_nothing_is_sent(world, method, args, kwargs, reason):
    made = rayshot.actor(Taking)
    handle = made.options(name="alice").remote()
    call = made.remote if method == "__init__" else getattr(handle, method).remote
    with pytest.raises(TypeError, match=reason) as raised:
        call(*args, **kwargs)
    assert isinstance(raised.value, WrongArguments)
    assert ("Taking.remote(...)" if method == "__init__" else f".{method} of actor 'alice'") in str(raised.value)
    assert not any(world.sent.values())
    assert len(world.spawned) == 1


def test_options_and_a_method_without_a_result_change_nothing_of_it(world):
    def note(self, word):
        pass

    note.__ray_num_returns__ = 0
    handle = rayshot.actor(type("Noting", (), {"note": note})).remote()
    for method in (handle.note, handle.note.options(num_returns=1)):
        with pytest.raises(WrongArguments):
            method.remote()
    assert not any(world.sent.values())


def test_a_handle_that_came_from_elsewhere_leaves_the_check_to_the_receiver(world):
    handle = pickle.loads(pickle.dumps(rayshot.actor(Taking).options(name="alice").remote()))
    handle.none.remote(1)
    assert world.messages("alice") == [("none", (1,))]


def test_the_parameters_of_a_function_are_found_once():
    assert parameters_of(Taking, "some") is parameters_of(Taking, "some")


def test_one_function_may_be_a_method_here_and_a_static_method_there(world):
    def take(one, two=2):
        pass

    handle = rayshot.actor(type("Twice", (), {"bound": take, "free": staticmethod(take)})).remote()
    handle.free.remote(1, 2)
    handle.bound.remote(2)
    with pytest.raises(WrongArguments):
        handle.bound.remote(1, 2)
