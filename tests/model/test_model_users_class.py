"""The decorated class is the user's own: what Python, libraries and registries see of it is what they saw before."""

import abc
import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import pydoc
import subprocess
import sys
import types
import typing
from pathlib import Path

import attrs
import cloudpickle
import pydantic
import pytest
import ray

import rayshot
from rayshot.errors import ConfigError
from rayshot.format.pickling import dump_class, load_class
from rayshot.model.fit import read_renamed_classes
from rayshot.model.handle import ActorHandle
from rayshot.model.versions import options_of, version_of
from rayshot.simulation import SimulatedSystem
from tests.model.workloads import Account, Registered

OURS = ("remote", "options", "bind")
T = typing.TypeVar("T")


def made_of(cls, world, *args, **kwargs):
    """Make actors of the class, in each way; returns its options."""
    del world.spawned[:]
    assert isinstance(cls.remote(*args, **kwargs), ActorHandle)
    assert cls.options(name="bob", capture="inline").remote(*args, **kwargs).name == "bob"
    assert {one.class_name for one, *_ in world.spawned} == {cls.__qualname__}
    with pytest.raises(ConfigError, match="dag-bind"):
        cls.bind()
    return world.spawned[0][0].options


def plain_class():
    class Plain:
        def read(self):
            return 1

    return Plain


# Identity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decorate", [rayshot.actor, rayshot.actor(num_cpus=1, version=2)], ids=["bare", "options"])
def test_the_decorator_returns_the_class_itself_and_adds_no_class(decorate):
    class Base:
        pass

    class Plain(Base):
        """Words."""

    before = {**vars(Plain)}
    assert decorate(Plain) is Plain
    assert type(Plain) is type
    assert (Base.__subclasses__(), Plain.__subclasses__(), Plain.__mro__) == ([Plain], [], (Plain, Base, object))
    assert {**vars(Plain), **before} == {**vars(Plain)}
    assert vars(Plain).keys() - before == {*OURS, "__init_subclass__", "__rayshot_options__"}


def test_a_handler_finds_its_own_class_by_its_name(world):
    class Base:
        def read(self):
            return "base"

    @rayshot.actor
    class Own(Base):
        made = 0

        def __new__(cls, *args):
            Own.made += 1
            return super(Own, cls).__new__(cls)  # noqa: UP008 - as programs do

        def __init__(self, number):
            self.number = number

        def read(self):
            return isinstance(self, Own), type(self) is Own, super(Own, self).read()  # noqa: UP008

        def another(self):
            return type(self)(self.number + 1), Own(self.number + 2)

    own = world.construct(Own, 3)
    assert Own.made == 1
    assert own.read() == (True, True, "base")
    assert [one.number for one in own.another()] == [4, 5]
    assert isinstance(Own(1), Own)


def test_registries_see_a_class_once_with_its_keywords(world):
    seen = []

    class Base:
        def __init_subclass__(cls, /, tag=None, **keywords):
            super().__init_subclass__(**keywords)
            seen.append((cls.__name__, tag))

    @rayshot.actor
    class First(Base, tag=1):
        pass

    @rayshot.actor(num_cpus=1)
    class Second(First, tag=2):
        def __init_subclass__(cls, **keywords):
            super().__init_subclass__(**keywords)
            seen.append((cls.__name__, "by Second"))

    class Third(Second, tag=3):
        pass

    assert seen == [("First", 1), ("Second", 2), ("Third", 3), ("Third", "by Second")]
    with pytest.raises(TypeError, match="takes no keyword"):
        type("Fourth", (plain_class(), rayshot.actor(type("Bare", (), {}))), {}, unexpected=1)
    assert made_of(Second, world) == {"num_cpus": 1}


def test_a_final_class_is_decorated_as_any_other(world):
    @rayshot.actor
    class Final:
        def __init_subclass__(cls):
            raise TypeError("it is final")

    assert made_of(Final, world) == {}
    with pytest.raises(TypeError, match="it is final"):
        type("More", (Final,), {})


def test_descriptors_are_told_their_names_once(world):
    told = []

    class Told:
        def __set_name__(self, owner, name):
            told.append((owner.__name__, name))

    @rayshot.actor
    class Plain:
        here = Told()

    assert told == [("Plain", "here")]
    made_of(Plain, world)


def test_python_describes_the_class_as_before():
    assert str(inspect.signature(Account)) == "(balance=0)"
    assert (Account.__doc__, Account.__qualname__, Account.__module__) == (
        "Plain bookkeeping.", "Account", "tests.model.workloads",
    )  # fmt: skip
    assert inspect.getsource(Account).startswith("@rayshot.actor\nclass Account")
    assert "deposit(self, amount)" in pydoc.plain(pydoc.render_doc(Account))

    @rayshot.actor
    class Annotated:
        balance: int = 0
        options: dict

    assert typing.get_type_hints(Annotated) == {"balance": int, "options": dict}
    assert {name for name, _ in inspect.getmembers(Account(1), callable)} >= {"deposit", "note"}


def test_classes_and_instances_are_copied_and_pickled_by_their_name():
    for dump in (pickle.dumps, cloudpickle.dumps):
        assert pickle.loads(dump(Account)) is Account
        assert type(pickle.loads(dump(Account(3)))) is Account
        assert len(dump(Account(3))) < 120
    assert copy.copy(Account) is copy.deepcopy(Account) is Account
    assert copy.deepcopy(Account(3)).balance == 3


# Subclasses -----------------------------------------------------------------------------------------------------


def test_a_subclass_has_neither_the_options_nor_the_version_of_its_base(world):
    decorate = rayshot.actor(num_cpus=2, version=3)
    base = decorate(plain_class())
    undecorated, other, same = (type(name, (base,), {}) for name in ("Undecorated", "Other", "Same"))
    assert rayshot.actor(num_cpus=1)(other) is other
    assert decorate(same) is same
    assert (options_of(undecorated), version_of(undecorated)) == (None, 1)
    assert (options_of(other), version_of(other)) == ({"num_cpus": 1}, 1)
    assert (made_of(base, world), made_of(other, world)) == ({"num_cpus": 2}, {"num_cpus": 1})
    for name in OURS:
        assert not hasattr(undecorated, name)
        assert not hasattr(base(), name)
    with pytest.raises(AttributeError, match="Undecorated is not decorated"):
        undecorated.remote()
    with pytest.raises(AttributeError, match="'Plain' object has no attribute 'remote'"):
        base().remote()


class Late:
    """Its module has been imported when it is decorated."""

    def __init__(self, number=0):
        self.number = number


def test_a_class_of_an_imported_module_stays_as_other_processes_import_it(world):
    makers = [rayshot.actor(Late), rayshot.actor(num_cpus=1)(Late), rayshot.actor(num_cpus=2)(ray.remote(Late))]
    assert rayshot.actor(num_gpus=1)(makers[1]).given == {"num_cpus": 1, "num_gpus": 1}
    assert not {*OURS, "__rayshot_options__"} & vars(Late).keys()
    for maker in (*makers, *pickle.loads(pickle.dumps(makers))):
        maker.remote(3)
    assert [(one.resolve(), one.options.get("num_cpus")) for one, *_ in world.spawned] == 2 * [
        (Late, None), (Late, 1), (Late, 2),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"Late has version 1 already: write @rayshot\.actor\(version=2\) where"):
        rayshot.actor(version=2)(Late)
    assert type(ray.remote(Late)).remote is ray.actor.ActorClass.remote
    with pytest.raises(AttributeError):
        makers[0](3).remote  # noqa: B018
    for maker in makers:
        assert type(maker(3)) is Late
        assert isinstance(maker(3), maker)
        assert not isinstance(3, maker)
        assert type("Later", (Late,), {}).__mro__[1:] == types.new_class("Later", (maker,)).__mro__[1:]
    with SimulatedSystem() as simulated:
        handle = simulated.create(rayshot.actor(on_error="stop")(Late), 7)
        simulated.run()
    assert simulated.state(handle.name)["number"] == 7
    assert read_renamed_classes({"old.Late": makers[0]}) == {"old.Late": Late}


def test_a_class_is_decorated_by_a_call_while_its_module_is_imported(tmp_path, monkeypatch):
    text = "import rayshot\nclass Plain: pass\nNamed = rayshot.actor(version=2)(Plain)\nassert Named is Plain\n"
    (tmp_path / "calls_the_decorator.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    plain = importlib.import_module("calls_the_decorator").Plain
    assert (version_of(plain), rayshot.actor(version=2)(plain)) == (2, plain)


def test_a_class_that_is_decorated_again_keeps_its_options_and_the_others_are_those_of_one_more(world):
    plain = plain_class()
    assert rayshot.actor(num_cpus=1)(plain) is plain
    assert rayshot.actor(num_cpus=1)(plain) is plain is rayshot.actor(plain)
    other = rayshot.actor(num_gpus=1)(plain)
    for made in (plain.remote, other.remote, other.options(num_gpus=2).remote):
        made()
    assert [one.options for one, *_ in world.spawned] == [
        {"num_cpus": 1}, {"num_cpus": 1, "num_gpus": 1}, {"num_cpus": 1, "num_gpus": 2},
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="version 1 already"):
        rayshot.actor(num_cpus=1, version=2)(plain)


def test_a_class_that_is_decorated_again_keeps_its_version_unless_another_one_is_given(world):
    decorated = rayshot.actor(version=3)(plain_class())
    assert rayshot.actor(decorated) is decorated
    rayshot.actor(num_cpus=1)(decorated).remote()
    assert (world.spawned[0][0].version, world.spawned[0][0].options) == (3, {"num_cpus": 1})
    with pytest.raises(ConfigError, match="version 3 already"):
        rayshot.actor(version=2)(decorated)


# Other decorators and metaclasses -------------------------------------------------------------------------------


def above(library):
    """Ours is the upper one, as the documentation says."""
    return lambda cls: rayshot.actor(num_cpus=1, version=2)(library(cls))


def below(library):
    return lambda cls: library(rayshot.actor(num_cpus=1, version=2)(cls))


LIBRARIES = {
    "dataclass": dataclasses.dataclass,
    "frozen": dataclasses.dataclass(frozen=True),
    "slots": dataclasses.dataclass(slots=True),
    "frozen slots": dataclasses.dataclass(slots=True, frozen=True, kw_only=True),
    "attrs": attrs.define,
    "attrs without slots": attrs.define(slots=False),
    "frozen attrs": attrs.frozen,
}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=[*LIBRARIES])
@pytest.mark.parametrize("order", [above, below])
def test_dataclasses_and_attrs_are_decorated_in_either_order(order, library, world):
    @order(library)
    class Point:
        x: int = 1
        y: list = (
            dataclasses.field(default_factory=list) if library.__module__ == "dataclasses" else attrs.Factory(list)
        )

        def read(self):
            return self.x

    assert Point(x=3) == Point(x=3) != Point(x=4)
    assert made_of(Point, world) == {"num_cpus": 1}
    assert version_of(Point) == 2
    assert world.construct(Point, x=5).read() == 5
    there = world.moved().cell.instance
    assert (type(there), there) == (Point, Point(x=5))


@pytest.mark.parametrize("library", [*LIBRARIES.values(), pydantic.dataclasses.dataclass], ids=[*LIBRARIES, "pydantic"])
def test_a_field_whose_default_would_be_ours_is_refused_where_an_actor_is_made(library):
    @rayshot.actor
    @library
    class Above:
        options: int = 1

    assert Above().options == 1

    @library
    @rayshot.actor
    class Below:
        options: int = 1

    with pytest.raises(ConfigError, match=r"default of \S+Below\.options .* above @dataclass or attrs"):
        Below.remote()


@rayshot.actor(num_cpus=1)
class Model(pydantic.BaseModel):
    x: int
    options: dict = {}

    def read(self):
        return self.x, self.options


class MoreOfAModel(Model):
    y: int = 2


def test_pydantic_models_are_decorated(world):
    assert made_of(Model, world, x=1) == {"num_cpus": 1}
    assert Model(x="3", options={"a": 1}).model_dump() == {"x": 3, "options": {"a": 1}}
    assert MoreOfAModel(x=1).model_dump() == {"x": 1, "options": {}, "y": 2}
    model = world.construct(Model, x=4)
    model.options = {"b": 2}
    assert world.moved().cell.instance.read() == (4, {"b": 2})
    with pytest.raises(pydantic.ValidationError):
        Model(x="no number")


def test_abstract_classes_are_refused_by_python_where_they_are_made(world):
    @rayshot.actor
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def options(self):
            """Of the user's own."""

    class Half(Abstract):
        pass

    @rayshot.actor
    class Whole(Half):
        def options(self):
            return "mine"

    for abstract in (Abstract, Half):
        with pytest.raises(TypeError, match="abstract"):
            abstract()
    assert Abstract.__abstractmethods__ == Half.__abstractmethods__ == {"options"}
    made_of(Whole, world)
    assert Whole().options() == "mine"


def test_generic_classes_make_actors_by_their_aliases_too(world):
    @rayshot.actor
    class Box(typing.Generic[T]):
        def __init__(self, value: T = None) -> None:
            self.value = value

    assert Box[int](3).value == 3
    assert isinstance(Box[int].remote(), ActorHandle)
    assert Box[int].options(name="bob").remote().name == "bob"
    assert [one.resolve() for one, *_ in world.spawned] == [Box, Box]


def test_a_class_that_implements_a_protocol_still_does(world):
    @typing.runtime_checkable
    class Reads(typing.Protocol):
        def read(self): ...

    @rayshot.actor
    @functools.total_ordering
    class Reader(Reads):
        number = 1

        def __eq__(self, other):
            return self.number == other.number

        def __lt__(self, other):
            return self.number < other.number

        __hash__ = None

        def read(self):
            return 1

    assert isinstance(Reader(), Reads)
    assert Reader() >= Reader()
    made_of(Reader, world)
    with pytest.raises(ConfigError, match="is a Protocol"):  # its members would be ours, too
        rayshot.actor(Reads)


class Closed(type):
    def __setattr__(cls, name, value):
        raise TypeError(f"{name} cannot be set")


@rayshot.actor
class OfClosed(metaclass=Closed):
    pass


def test_a_metaclass_that_lets_nobody_set_an_attribute_does_not_mind(world):
    assert made_of(OfClosed, world) == {}
    assert type(OfClosed) is Closed


def test_a_metaclass_sees_its_class_once_and_stays_as_it_is(world):
    before = type(Registered).made.count("Registered")
    assert before == 1
    made_of(rayshot.actor(Registered), world, 3)
    assert type(Registered).made.count("Registered") == 1


class Taken(type):
    @property
    def remote(cls):
        return "the metaclass's"


def test_a_metaclass_that_has_our_attributes_itself_is_refused():
    cls = Taken("Plain", (), {"__qualname__": "here.<locals>.Plain"})
    with pytest.raises(ConfigError, match="its metaclass has a 'remote'"):
        rayshot.actor(cls)
    assert "__rayshot_options__" not in vars(cls)


# By value -------------------------------------------------------------------------------------------------------


def test_a_class_by_value_is_decorated_in_another_process_too():
    """As of a script or a notebook."""
    decorate = rayshot.actor(num_cpus=2, version=3)

    @decorate
    class Own:
        def options(self):
            return "own"

        def __init_subclass__(cls, tag=None):
            cls.tag = tag

    @decorate
    class More(Own, tag=1):
        __slots__ = ("bind",)

    class Undecorated(More, tag=2):
        pass

    code = (
        "import sys; from rayshot.format.pickling import load_class; from rayshot.model.versions import *\n"
        "for cls in load_class(sys.stdin.buffer.read()).classes:\n"
        "    one = cls(); one.bind = 5\n"
        "    print(cls.__qualname__.split('.')[-1], options_of(cls), version_of(cls), hasattr(cls, 'remote'),\n"
        "        one.options(), one.bind, getattr(cls, 'tag', None))\n"
        "print(type('Last', (cls,), {}, tag=7).tag)"
    )
    holder = type("Holder", (), {"classes": [Own, More, Undecorated]})
    read, here = [sys.executable, "-c", code], Path(__file__).parents[2]
    done = subprocess.run(read, input=dump_class(holder), capture_output=True, check=False, cwd=here)
    assert done.stdout.decode().splitlines() == [
        "Own {'num_cpus': 2} 3 True own 5 None",
        "More {'num_cpus': 2} 3 True own 5 1",
        "Undecorated None 1 False own 5 2",
        "7",
    ], done.stderr.decode()


def test_a_class_that_is_read_again_here_is_the_same_class(world):
    cls = rayshot.actor(plain_class())
    assert load_class(dump_class(cls)) is cls
    assert load_class(dump_class(cls), {f"{__name__}.{cls.__qualname__}": Account}) is Account
