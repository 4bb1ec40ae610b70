"""Errors in a state keep their causes and contexts, as far as these can be stored; nothing is refused for one."""

import dataclasses
import enum
import pickle
import sys
import threading
import types

import pytest

from rayshot.errors import StateNotSerializable
from rayshot.format.error_links import LINKS_MAX, VALUES_MAX
from rayshot.format.exceptions import learn
from rayshot.format.pickling import dump_message, dump_state, load_message, load_state
from rayshot.inert import reader
from rayshot.inert.digest import content_digest
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from tests.format.test_format_exceptions import Frozen, Missing, Requiring, Rewording

pytestmark = [pytest.mark.acceptance("O4"), pytest.mark.usefixtures("nothing_learned")]


class Kind(enum.Enum):
    FULL = 1


@dataclasses.dataclass
class Order:
    number: int


class Holding(Exception):
    """Holds what no pickle holds."""

    def __init__(self, text="holds a lock"):
        super().__init__(text)
        self.lock = threading.Lock()


class Arming:
    """Says itself how it is made again."""

    def __setstate__(self, state):
        raise AssertionError("code of a class that only a context holds")


def raised(error, cause=None, context=None):
    """The error as `raise error from cause` leaves it, where `context` is being handled."""
    if cause is not None:
        BaseException.__cause__.__set__(error, cause)
    BaseException.__context__.__set__(error, context)
    return error


def chain(count):
    """An error with a context, which has one ..., and the last of `count`."""
    error = ValueError(0)
    for number in range(1, count):
        error, error.__context__ = ValueError(number), error
    return error


def survived(state):
    pickled = dump_state({"state": state}, "alice")
    return load_state(pickled.stream, pickled.buffers)["state"]


def links(error):
    return error.__cause__, error.__context__, error.__suppress_context__


def texts(error):
    found = []
    while error is not None:
        found.append(str(error))
        error = error.__context__
    return found


def test_cause_context_and_notes_of_a_stored_error_survive_and_tracebacks_do_not():
    with pytest.raises(RuntimeError) as caught:
        try:
            int("slow")
        except ValueError:
            raise RuntimeError("order lost") from KeyError("stock")
    error = caught.value
    error.add_note("while it rained")
    error.__context__.add_note("for a second")
    again = survived(error)
    assert (type(again), str(again), again.__notes__) == (RuntimeError, "order lost", ["while it rained"])
    assert (type(again.__cause__), again.__cause__.args) == (KeyError, ("stock",))
    assert (type(again.__context__), again.__context__.args) == (ValueError, error.__context__.args)
    assert again.__context__.__notes__ == ["for a second"]
    assert again.__suppress_context__ is True
    assert again.__traceback__ is again.__context__.__traceback__ is None


@pytest.mark.parametrize("suppress", [True, False])
@pytest.mark.parametrize("cause", [None, KeyError("stock")])
def test_what_a_traceback_shows_survives(cause, suppress):
    error = raised(RuntimeError("order lost"), cause, TimeoutError("slow"))
    error.__suppress_context__ = suppress
    again = survived(error)
    assert again.__suppress_context__ is suppress
    assert (type(again.__cause__), type(again.__context__)) == (type(cause), TimeoutError)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Requiring("rain", times=3),
        lambda: Frozen(7),
        lambda: Missing("shots", why="rain"),
        lambda: KeyError("name"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_errors_with_constructors_of_their_own_keep_links_and_are_links(make, known):
    if known:
        learn(type(make()))
    again = survived(raised(make(), raised(make(), None, KeyError("first"))))
    expected = make()
    for error in (again, again.__cause__):
        assert (type(error), str(error), vars(error)) == (type(expected), str(expected), vars(expected))
    assert type(again.__cause__.__context__) is KeyError


def test_a_link_is_exactly_what_it_was_though_its_class_rewords_its_arguments():
    again = survived(raised(ValueError("no"), Rewording(5)))
    assert (again.__cause__.args, again.__cause__.code) == (("code 5",), 5)


def test_cycles_and_errors_that_occur_twice_stay_what_they_are():
    first, second = ValueError("first"), Requiring("rain", times=3)
    first.__cause__, second.__context__ = second, first
    again = survived([first, second, first, {"last": second}])
    assert again[0].__cause__ is again[1] is again[3]["last"]
    assert again[1].__context__ is again[0] is again[2]
    alone = ValueError("alone")
    BaseException.__context__.__set__(alone, alone)
    again = survived(alone)
    assert again.__context__ is again


def test_groups_keep_links_and_are_links():
    inner = raised(KeyError("inner"), None, TimeoutError("slow"))
    group = raised(ExceptionGroup("both", [inner, ValueError("other")]), OSError("disk"))
    again = survived({"group": group, "inner": inner})
    assert again["group"].exceptions[0] is again["inner"]
    assert type(again["group"].__cause__) is OSError
    assert type(again["inner"].__context__) is TimeoutError
    again = survived(raised(ValueError("no"), ExceptionGroup("some", [KeyError("a"), KeyError("b")])))
    assert [error.args for error in again.__cause__.exceptions] == [("a",), ("b",)]


@pytest.mark.parametrize("known", [False, True])
def test_what_an_error_is_made_of_loses_only_the_links_to_that_error(known):
    if known:
        learn(ExceptionGroup)
    inner = raised(KeyError("inner"), None, TimeoutError("slow"))
    group = ExceptionGroup("both", [inner])
    inner.__cause__, group.__context__ = group, inner
    for state in ({"group": group, "inner": inner}, {"inner": inner, "group": group}):
        again = survived(state)
        assert again["group"].exceptions[0] is again["inner"] is again["group"].__context__
        assert [type(link) for link in links(again["inner"])[:2]] == [type(None), TimeoutError]
    kept = [ValueError("first")]
    kept[0].__context__ = ExceptionGroup("all", kept)
    assert [str(error) for error in survived(kept)] == ["first"]
    wrapping = raised(KeyError(inner), inner)
    again = survived(wrapping)
    assert again.__cause__ is again.args[0]


@pytest.mark.parametrize(
    "unfit",
    [
        Holding(),
        ValueError(threading.Lock()),
        ValueError(Arming()),
        ValueError(lambda: None),
        ValueError({Order(1).__class__: 1}),
        ValueError(list(range(VALUES_MAX))),
        ValueError("x" * (1 << 20), "y"),
        ExceptionGroup("some", [KeyError("a"), Holding()]),
        type("Local", (Exception,), {})("not found by its name"),
        type("Dropped", (Exception,), {"__del__": lambda self: None, "__module__": "__main__"})("runs code"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_stored_as_before_without_the_link_that_cannot_be_and_without_those_behind_it(unfit):
    unfit = raised(unfit, None, KeyError("behind"))
    before = raised(TimeoutError("before"), None, OSError("near"))
    again = survived(raised(RuntimeError("order lost"), before, unfit))
    assert again.args == ("order lost",)
    assert again.__context__ is None
    assert again.__suppress_context__ is True
    assert type(again.__cause__.__context__) is OSError
    assert survived(raised(RuntimeError("order lost"), unfit)).__cause__ is None


def test_a_link_may_hold_plain_objects_members_and_times():
    cause = ValueError(Order(7), Kind.FULL, {"tags": ("a", b"b", 1.5, None)})
    again = survived(raised(RuntimeError("order lost"), cause))
    assert again.__cause__.args == cause.args


def test_a_state_that_would_be_refused_for_a_link_is_stored_without_any():
    by_value = type("Late", (Exception,), {"__module__": "__main__", "lock": threading.Lock()})
    error = raised(RuntimeError("order lost"), by_value("pickles its class"))
    again = survived([error, raised(KeyError("a"), KeyError("b"))])
    assert [links(one) for one in again] == [(None, None, False)] * 2


def test_a_state_that_is_refused_anyhow_names_the_same_path():
    state = {"errors": [raised(ValueError("no"), KeyError("a"))], "held": Holding()}
    with pytest.raises(StateNotSerializable) as refused:
        dump_state(state, "alice")
    assert "alice['held'].lock cannot be captured" in str(refused.value)


def test_an_error_keeps_the_nearest_of_many_links_and_long_chains_are_no_recursion():
    assert texts(survived(chain(10_000))) == [str(number) for number in range(9_999, 9_998 - LINKS_MAX, -1)]
    assert texts(survived(chain(LINKS_MAX + 1)))[-1] == "0"
    wide = chain(3)
    for error in (wide, wide.__context__):
        error.__cause__ = chain(40)
    again = survived(wide)
    assert len(texts(again)) + len(texts(again.__cause__)) + len(texts(again.__context__.__cause__)) == LINKS_MAX + 1


def test_errors_of_classes_by_value_keep_links_and_are_links(monkeypatch):
    main = types.ModuleType("__main__")
    exec("class Own(Exception):\n    def __init__(self, *, code):\n        super().__init__(code)", vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    pickled = dump_state([raised(main.Own(code=1), main.Own(code=2)), raised(KeyError("a"), main.Own(code=3))], "alice")
    assert pickled.codec == "cloudpickle"
    own, plain = load_state(pickled.stream, pickled.buffers)
    assert (own.args, own.__cause__.args, plain.__cause__.args) == ((1,), (2,), (3,))
    assert type(own) is type(own.__cause__) is type(plain.__cause__)


def test_errors_without_links_and_messages_cost_no_byte():
    state = {"plain": ValueError("no", 1), "noted": KeyError("a")}
    assert dump_state(state, "alice").stream == pickle.dumps(state, 5)
    error = raised(ValueError("no"), KeyError("a"))
    _, args, _ = load_message(*dump_message("keep", (error,), {}))
    assert links(args[0]) == (None, None, False)


def test_the_inert_reader_shows_links_and_learned_errors_by_their_class():
    error = raised(Requiring("rain", times=3), raised(Rewording(5), None, KeyError("first")))
    error.__cause__.__context__.__context__ = error
    for known in (False, True):
        if known:
            learn(Requiring)
        pickled = dump_state({"last": error}, "alice")
        last = reader.read(pickled.stream)["last"]
        name = Requiring.__module__
        assert last.class_name == f"{name}.Requiring"
        cause = last.attributes["__cause__"]
        assert (cause.class_name, cause.args, cause.kwargs) == (f"{name}.Rewording", ("code 5",), {"code": 5})
        assert cause.attributes["__context__"].args == ("first",)
        assert cause.attributes["__context__"].attributes["__context__"] is last
        assert "rain" in str(jsonable(last))
        assert content_digest(last) == content_digest(reader.read(pickled.stream)["last"])
        assert alike(last, reader.read(pickled.stream)["last"])
