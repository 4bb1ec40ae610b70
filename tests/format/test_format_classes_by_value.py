"""Classes by value: their names in pickles, and pickles that are read where such classes have moved."""

import dataclasses
import enum
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import FunctionType

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rayshot
from rayshot.errors import CodeMismatch
from rayshot.format.pickle_bytes import mentions
from rayshot.format.pickling import dump_class, dump_names, dump_state, load_class, load_names, load_state
from rayshot.inert import reader
from rayshot.model.versions import options_of

pytestmark = pytest.mark.acceptance("X2")


def of_main(cls, qualified_name=None):
    """As if a script had defined it."""
    cls.__module__ = "__main__"
    cls.__qualname__ = qualified_name or cls.__name__
    for member in vars(cls).values():
        if isinstance(member, FunctionType):
            member.__module__ = "__main__"
            member.__qualname__ = f"{cls.__qualname__}.{member.__name__}"
    return cls


def stamps():
    """A script's classes, made anew each time it runs."""

    @dataclasses.dataclass
    class Stamp:
        value: int = 0

    class Colour(enum.Enum):
        RED = 1

    class Page:
        pass

    class Torn(Exception):
        pass

    class Rare(Stamp):
        pass

    Stamp.Page = of_main(Page, "Stamp.Page")
    return [of_main(cls) for cls in (Stamp, Colour, Torn, Rare)]


def named(*classes):
    return {f"__main__.{cls.__qualname__}": cls for cls in classes}


def through(state, names):
    pickled = dump_state(state, "alice")
    return load_state(pickled.stream, pickled.buffers, names=names)


def test_classes_of_the_program_take_the_place_of_recorded_ones_and_are_left_as_they_are():
    stamp, colour, torn, rare = stamps()
    new_stamp, new_colour, new_torn, _ = stamps()
    new_stamp.__doc__ = "new"
    state = {
        "one": stamp(1),
        "red": colour.RED,
        "error": torn("x"),
        "class": stamp,
        "page": stamp.Page(),
        "rare": rare(2),
    }
    names = named(new_stamp, new_colour, new_torn, new_stamp.Page)
    loaded = through(state, names)
    assert loaded["one"] == new_stamp(1)
    assert loaded["red"] is new_colour.RED
    assert type(loaded["error"]) is new_torn
    assert loaded["class"] is new_stamp
    assert type(loaded["page"]) is new_stamp.Page
    assert type(loaded["rare"]) is rare, "the program has none of this name"
    assert new_stamp.__doc__ == "new"


def test_a_recorded_class_that_is_not_known_here_gets_the_bases_and_globals_of_today():
    code = (
        "import sys; sys.path.insert(0, '.'); from tests.format.test_format_classes_by_value import stamps\n"
        "from rayshot.format.pickling import dump_class; sys.stdout.buffer.write(dump_class(stamps()[3]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[2])
    new_stamp, *_ = stamps()
    rare = load_class(done.stdout, named(new_stamp))
    assert rare.__bases__ == (new_stamp,)
    assert rare.__name__ == "Rare"


def test_a_class_by_value_keeps_its_qualified_name_in_another_process():
    stamp, *_ = stamps()
    code = (
        "import sys; from rayshot.format.pickling import load_class\n"
        "print(load_class(sys.stdin.buffer.read()).__qualname__)"
    )
    read = [sys.executable, "-c", code]
    done = subprocess.run(read, input=dump_class(stamp.Page), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "Stamp.Page"


def test_a_class_that_came_without_its_qualified_name_has_it_from_its_methods():
    @dataclasses.dataclass
    class Inner:
        value: int = 0

    cls = of_main(Inner, "Outer.Inner")
    cls.__qualname__ = "Inner"  # as plain cloudpickle makes it elsewhere
    new = of_main(type("Inner", (), {}), "Outer.Inner")
    assert type(through(cls(), named(new))) is new
    assert type(through(cls(), {"__main__.Inner": new})) is cls


def test_local_classes_are_not_replaced_by_those_of_the_same_name():
    stamp, *_ = stamps()
    stamp.__qualname__ = "make.<locals>.Stamp"
    for member in vars(stamp).values():
        if isinstance(member, FunctionType):
            member.__qualname__ = f"{stamp.__qualname__}.{member.__name__}"
    assert type(through(stamp(), named(stamps()[0]))) is stamp


def test_pickles_of_before_qualified_names_were_written_are_read_by_the_plain_name():
    stamp, *_ = stamps()
    new_stamp, *_ = stamps()
    assert type(load_state(cloudpickle.dumps(stamp(3)), names=named(new_stamp))) is new_stamp


def test_a_decorated_class_stands_for_the_recorded_one():
    def decorated():
        class Account:
            pass

        return rayshot.actor(of_main(Account))

    old, new = decorated(), decorated()
    loaded, instance = through([old, old()], named(new))
    assert (loaded, type(instance)) == (new, new)


DECORATED = Path(__file__).parents[1] / "golden" / "decorated-1.pickle"
"""By a decorator that made a subclass: a script's class, the user's own of it, an instance of each, and one more class
whose metaclass is the user's."""


def test_a_recorded_subclass_of_the_decorators_is_the_users_class_again():
    account, own, *instances, listed = load_state(DECORATED.read_bytes())
    assert (account, {type(one) for one in instances}) == (own, {own})
    assert (options_of(account), account.__doc__, account.balance) == ({"num_cpus": 2}, "Of a script.", 3)
    assert {hasattr(one, "remote") for one in (account, listed)} == {True}
    assert type(listed).__name__ == "Registry"

    new, other = of_main(type("Account", (), {})), of_main(type("Listed", (), {}))
    account, own, *instances, listed = load_state(DECORATED.read_bytes(), names=named(new, other))
    assert [account, own, *map(type, instances), listed] == [new, new, new, new, other]
    assert options_of(new) is None


def test_a_class_that_is_false_by_its_metaclass_is_found_too():
    class Empty(type):
        def __len__(cls):
            return 0

    new = of_main(Empty("Stamp", (), {}))
    assert type(through(stamps()[0](), named(new))) is new


def test_an_inert_reader_shows_the_qualified_name():
    stamp, *_ = stamps()
    pickled = dump_state([stamp.Page(), stamp(1)], "alice")
    page, one = reader.read(pickled.stream)
    assert (page.class_name, one.class_name) == ("__main__.Stamp.Page", "__main__.Stamp")


def test_the_same_class_is_the_same_bytes_wherever_it_is_pickled():
    stamp, *_ = stamps()
    code = (
        "import sys; from rayshot.format.pickling import dump_class, load_class\n"
        "sys.stdout.buffer.write(dump_class(load_class(sys.stdin.buffer.read())))"
    )
    once = subprocess.run([sys.executable, "-c", code], input=dump_class(stamp), capture_output=True, check=True).stdout
    twice = subprocess.run([sys.executable, "-c", code], input=once, capture_output=True, check=True).stdout
    assert once == twice


def test_what_stands_for_classes_goes_to_other_processes_or_is_refused_by_its_name():
    stamp, colour, *_ = stamps()
    names = load_names(dump_names(named(stamp, colour)))
    assert names == named(stamp, colour)
    stamp.lock = threading.Lock()
    with pytest.raises(CodeMismatch, match=r"rename_classes\['__main__.Stamp'\]"):
        dump_names(named(colour, stamp))


NAMES = st.from_regex(r"[A-Za-zäß_][A-Za-z0-9ä_]{0,5}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=3), st.data())
def test_a_pickle_that_holds_a_class_mentions_it(parts, data):
    cls = of_main(type(parts[-1], (), {}), ".".join(parts))
    others = data.draw(st.lists(st.sampled_from([*parts, "__main__"])))
    for pickled in (dump_state([others, cls()], "alice").stream, dump_class(cls)):
        assert mentions(pickled, f"__main__.{cls.__qualname__}")
    assert mentions(pickle.dumps([others, pickle.Unpickler], protocol=5), "_pickle.Unpickler")
    assert not mentions(pickle.dumps(["__main__", "Stamps"], protocol=5), "__main__.Stamp")
