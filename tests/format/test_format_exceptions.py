"""Exceptions that their classes do not make again: they come through messages, states and results all the same."""

import dataclasses
import pickle

import pytest

from rayshot.format.pickling import carry, dump_message, dump_state, load_exception, load_message, load_state

pytestmark = [pytest.mark.acceptance("O4"), pytest.mark.usefixtures("nothing_learned")]


class Requiring(Exception):
    def __init__(self, what, *, times):
        super().__init__(f"{what} happened {times} times")
        self.what = what
        self.times = times


class Rewording(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Missing(FileNotFoundError):
    def __init__(self, path, *, why):
        super().__init__(2, f"gone: {why}", path)
        self.why = why


class Reading(Exception):
    def __init__(self, response):
        super().__init__(f"status {response.real}")


MADE = [
    lambda: Requiring("rain", times=3),
    lambda: Rewording(5),
    lambda: Frozen(7),
    lambda: Missing("shots", why="rain"),
    lambda: Reading(503),
    lambda: ValueError("no", 1),
    lambda: KeyError("name"),
]
RAISES = MADE[:1] + MADE[2:5]
"""What a plain pickle of raises when it is loaded."""


@pytest.fixture(params=MADE, ids=lambda make: type(make()).__name__)
def error(request):
    return request.param()


def assert_same(again, error):
    assert type(again) is type(error)
    assert (again.args, vars(again), str(again)) == (error.args, vars(error), str(error))


def test_an_exception_that_was_raised_comes_to_its_caller_as_it_was(error):
    try:
        raise error
    except type(error) as raised:
        pickled = carry(raised)
    assert_same(load_exception(pickled), error)
    assert_same(pickle.loads(pickle.dumps(error)), error)  # Ray's pickles ask the same table


@pytest.mark.parametrize("error", [make() for make in RAISES], ids=lambda error: type(error).__name__)
def test_an_exception_inside_of_a_message_or_a_state_comes_through(error):
    with pytest.raises((TypeError, AttributeError)):
        pickle.loads(pickle.dumps(error))
    _, args, kwargs = load_message(*dump_message("keep", ([error],), {"why": error}))
    assert_same(args[0][0], error)
    assert args[0][0] is kwargs["why"]
    state = dump_state({"last": error}, "alice")
    assert_same(load_state(state.stream, state.buffers)["last"], error)
    assert_same(pickle.loads(pickle.dumps(args[0][0])), error)


def test_an_exception_that_cannot_be_pickled_is_not_carried():
    error = ValueError("no")
    error.lock = lambda: (yield)
    error.frame = error.lock()
    assert carry(error) is None


def test_a_type_error_of_other_code_stays_what_it_is():
    class Broken:
        def __reduce__(self):
            return int, ("seven", "eight", "nine")

    with pytest.raises(TypeError, match="int"):
        load_message(*dump_message("keep", (Broken(),), {}))
