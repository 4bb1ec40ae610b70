"""Values of classes whose members or fields changed come back as what they were by name, or are refused."""

import copyreg
import pickle
import sys
import textwrap
import types

import cloudpickle
import pytest

from rayshot.format.outline import uses_of
from rayshot.format.pickling import dump_message, dump_names, dump_state, load_message, load_names, load_state
from rayshot.format.reshaping import LostPart, Reshaped
from rayshot.format.shapes import NotedTypes

pytestmark = pytest.mark.acceptance("S10")

NAME = "values_of_a_test"
HEAD = """
import dataclasses, enum, typing
import msgspec
frozen = dataclasses.dataclass(frozen=True, slots=True)
"""


@pytest.fixture
def module():
    """A module whose classes `define` defines anew, as a program with new code does."""
    made = sys.modules[NAME] = types.ModuleType(NAME)

    def define(source):
        exec(HEAD + textwrap.dedent(source), vars(made))
        return made

    yield define
    del sys.modules[NAME]


def shapes_of(state):
    return dump_state(state, "state").shapes


def reshaped(module, old, new, make):
    """The value that `make` makes of the old classes, loaded with the new ones, and what was renamed and lost."""
    pickled = dump_state(make(module(old)), "state")
    module(new)
    names = load_names(dump_names({name: Reshaped(name, shape) for name, shape in pickled.shapes.items()}))
    return load_state(pickled.stream, pickled.buffers, None, names)


LEVEL = "class Level(enum.Enum):\n    LOW = enum.auto()\n    HIGH = enum.auto()"


def test_a_member_is_the_one_of_its_name_when_a_new_one_moved_the_values(module):
    new = "class Level(enum.Enum):\n    NONE = enum.auto()\n    LOW = enum.auto()\n    HIGH = enum.auto()"
    levels = reshaped(module, LEVEL, new, lambda m: [*m.Level, {m.Level.HIGH: m.Level.LOW}])
    today = sys.modules[NAME].Level
    assert levels == [today.LOW, today.HIGH, {today.HIGH: today.LOW}]


def test_the_class_itself_stays_the_class(module):
    new = "class Level(enum.Enum):\n    HIGH = enum.auto()\n    LOW = enum.auto()"
    high, itself = reshaped(module, LEVEL, new, lambda m: [m.Level.HIGH, m.Level])
    assert (high.name, itself) == ("HIGH", sys.modules[NAME].Level)


@pytest.mark.parametrize("base", ["enum.IntEnum", "str, enum.Enum", "enum.StrEnum"])
def test_enums_that_are_numbers_or_texts_go_by_name_too(module, base):
    values = ["1", "2"] if base == "enum.IntEnum" else ["'a'", "'b'"]
    form = f"class Level({base}):\n    LOW = {{}}\n    HIGH = {{}}"
    high = reshaped(module, form.format(*values), form.format(*reversed(values)), lambda m: m.Level.HIGH)
    assert high is sys.modules[NAME].Level.HIGH


def test_a_renamed_member_keeps_its_value(module):
    new = "class Level(enum.Enum):\n    TINY = 3\n    CALM = 1\n    HIGH = 4"
    low, high = reshaped(module, LEVEL, new, lambda m: [m.Level.LOW, m.Level.HIGH])
    assert (low.name, high.name) == ("CALM", "HIGH")


@pytest.mark.parametrize("new", ["HIGH = 1", "HIGH = 3", "HIGH = 1\n    LATE = 3"])
def test_a_member_that_is_gone_is_refused_also_where_its_value_belongs_to_another_old_one(module, new):
    with pytest.raises(LostPart, match="does not have LOW any more"):
        reshaped(module, LEVEL, f"class Level(enum.Enum):\n    {new}", lambda m: m.Level.LOW)


def test_an_alias_counts_where_the_first_name_is_gone(module):
    old = "class Level(enum.Enum):\n    LOW = 1\n    CALM = 1\n    HIGH = 2"
    new = "class Level(enum.Enum):\n    HIGH = 1\n    CALM = 2"
    assert reshaped(module, old, new, lambda m: m.Level.LOW).name == "CALM"


def test_a_value_that_is_no_member_is_given_to_the_class_as_ever(module):
    old = """
        class Level(enum.Enum):
            LOW = 1
            @classmethod
            def _missing_(cls, value):
                made = object.__new__(cls)
                made._name_, made._value_ = "MADE", value
                return made
    """
    made = reshaped(module, old, old.replace("LOW = 1", "LOW = 2"), lambda m: m.Level(7))
    assert (made.name, made.value) == ("MADE", 7)


@pytest.mark.parametrize("kind", ["Flag", "IntFlag"])
def test_a_flag_goes_by_its_bits(module, kind):
    old = f"class Right(enum.{kind}):\n    READ = 1\n    WRITE = 2\n    BOTH = 3"
    new = f"class Right(enum.{kind}):\n    RUN = 1\n    READ = 2\n    WRITE = 4\n    BOTH = 6"
    rights = reshaped(module, old, new, lambda m: [m.Right.READ, m.Right.READ | m.Right.WRITE, m.Right(0)])
    today = sys.modules[NAME].Right
    assert rights == [today.READ, today.BOTH, today(0)]


def test_bits_of_a_flag_that_nobody_named_stay(module):
    old, new = "class Right(enum.IntFlag):\n    READ = 1", "class Right(enum.IntFlag):\n    READ = 2"
    assert reshaped(module, old, new, lambda m: m.Right.READ | 8) == 2 | 8


PAIRS = {
    "named tuple": "class Row(typing.NamedTuple):",
    "frozen dataclass with slots": "@frozen\nclass Row:",
    "struct": "class Row(msgspec.Struct):",
}


@pytest.mark.parametrize("kind", PAIRS)
def test_fields_go_by_name_and_new_ones_get_their_defaults(module, kind):
    old, new = (
        f"{PAIRS[kind]}\n    who: str\n    n: int",
        f"{PAIRS[kind]}\n    n: int\n    who: str\n    note: str = 'none'",
    )
    row = reshaped(module, old, new, lambda m: m.Row("w", 3))
    assert (type(row), row.who, row.n, row.note) == (sys.modules[NAME].Row, "w", 3, "none")


def test_a_default_may_be_made_anew_for_each(module):
    old, new = (
        "@frozen\nclass Row:\n    n: int",
        "@frozen\nclass Row:\n    n: int\n    tags: list = dataclasses.field(default_factory=list)",
    )
    one, other = reshaped(module, old, new, lambda m: [m.Row(1), m.Row(2)])
    assert (one.tags, other.tags, one.tags is other.tags) == ([], [], False)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_field_is_renamed_where_the_others_stay(module, kind):
    old, new = (f"{PAIRS[kind]}\n    who: str\n    {name}: int" for name in ("n", "count"))
    assert reshaped(module, old, new, lambda m: m.Row("w", 3)).count == 3


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize(
    "fields", ["who: str", "who: str\n    n: int\n    tax: int", "tax: int\n    n: int\n    who: str"]
)
def test_a_field_that_is_gone_or_that_nothing_fills_is_refused(module, kind, fields):
    old, new = (f"{PAIRS[kind]}\n    {those.replace('{}', chr(10) + '    ')}" for those in ("who: str{}n: int", fields))
    with pytest.raises(LostPart):
        reshaped(module, old, new, lambda m: m.Row("w", 3))


def test_what_goes_by_names_already_has_no_shape(module):
    made = module("""
        @dataclasses.dataclass
        class Plain:
            a: int
        class Own(enum.Enum):
            A = 1
            def __reduce_ex__(self, protocol):
                return getattr, (type(self), self.name)
        class Odd(enum.Enum):
            A = [1]
        class Pair(tuple):
            pass
    """)
    assert shapes_of([made.Plain(1), made.Own.A, made.Odd.A, made.Pair((1, 2))]) == {}


def test_noting_shapes_changes_no_byte(module):
    made = module(f"{LEVEL}\nclass Row(typing.NamedTuple):\n    a: int\n@frozen\nclass Price:\n    cents: int")
    state = {"l": made.Level.HIGH, "c": made.Level, "r": made.Row(1), "p": made.Price(1), "x": copyreg, "y": {1, 2.5}}
    state = {key: value for key, value in state.items() if key != "x"}
    assert dump_state(state, "state").stream == pickle.dumps(state, 5)
    assert [*dump_state(state, "state").shapes] == [f"{NAME}.{name}" for name in ("Level", "Row", "Price")]


def test_what_copyreg_learns_later_counts(module):
    made = module("class Late:\n    pass")
    dump_message("take", (made.Late(),), {})
    copyreg.pickle(made.Late, lambda _: (list, ()))
    try:
        _, payload, _ = dump_message("take", (made.Late(),), {})
    finally:
        del copyreg.dispatch_table[made.Late]
    assert load_message("", payload) == ("take", ([],), {})


def test_a_class_by_value_has_its_shape_too(module):
    made = module(LEVEL)
    cloudpickle.register_pickle_by_value(made)
    try:
        pickled = dump_state({"level": made.Level.HIGH, "code": lambda: 1}, "state")
    finally:
        cloudpickle.unregister_pickle_by_value(made)
    assert pickled.shapes[f"{NAME}.Level"].parts == (("LOW", 1), ("HIGH", 2))
    today = module("class Level(enum.Enum):\n    HIGH = 1\n    LOW = 2").Level
    names = {f"{NAME}.Level": Reshaped(f"{NAME}.Level", pickled.shapes[f"{NAME}.Level"], today)}
    assert load_state(pickled.stream, (), None, names)["level"] is today.HIGH
    assert uses_of(pickled.stream, [f"{NAME}.Level"]) == {f"{NAME}.Level": [(2,)]}


def test_the_uses_of_classes_are_read_without_them(module):
    made = module(f"{LEVEL}\nclass Row(typing.NamedTuple):\n    a: int\n@frozen\nclass Price:\n    cents: int")
    state = [made.Level.HIGH, made.Level.HIGH, {made.Level: 1}, made.Row(1), made.Price(5)]
    stream = dump_state(state, "state").stream
    module("class Level: pass\nclass Row: pass\nclass Price: pass")
    names = [f"{NAME}.{name}" for name in ("Level", "Row", "Price", "Other")]
    assert [*uses_of(stream, names).values()] == [[(2,)], [(1,)], [[5]], []]


def test_a_table_keeps_what_is_pickled_in_a_way_of_its_own():
    table = NotedTypes({int: str})
    assert table[int] is str
    assert table[type(pytest)] is not None
