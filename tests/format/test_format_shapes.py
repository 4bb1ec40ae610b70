"""Values of classes whose members or fields changed come back as what they were by name, or are refused."""

import copyreg
import pickle
import sys
import textwrap
import tracemalloc
import types

import cloudpickle
import pytest

from rayshot.format.outline import uses_of
from rayshot.format.pickling import dump_message, dump_names, dump_state, load_message, load_names, load_state
from rayshot.format.reshaping import LostPart, Reshaped, reshapings
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
LEVEL_THAT_MAKES = """
    class Level(enum.Enum):
        LOW = 1
        @classmethod
        def _missing_(cls, value):
            made = object.__new__(cls)
            made._name_, made._value_ = "MADE", value
            return made
"""


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
    old = LEVEL_THAT_MAKES
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
        class Plain:
            a = 1
        class Own(enum.Enum):
            A = 1
            def __reduce_ex__(self, protocol):
                return getattr, (type(self), self.name)
        class Odd(enum.Enum):
            A = [1]
        class Pair(tuple):
            pass
    """)
    assert shapes_of([made.Plain(), made.Own.A, made.Odd.A, made.Pair((1, 2))]) == {}


CARRIERS = {
    **PAIRS,
    "dataclass": "@dataclasses.dataclass\nclass Row:",
    "frozen dataclass": "@dataclasses.dataclass(frozen=True)\nclass Row:",
    "dataclass with slots": "@dataclasses.dataclass(slots=True)\nclass Row:",
}


DATACLASSES = [name for name in CARRIERS if "dataclass" in name]
FORMS = ["a: int = 1\n    b: int = 2", "new: int = 7\n    b: int = 2\n    a: int = 1"]


@pytest.mark.parametrize("fields", FORMS)
@pytest.mark.parametrize("today", DATACLASSES)
@pytest.mark.parametrize("was", CARRIERS)
def test_fields_go_by_name_into_every_kind_of_dataclass(module, was, today, fields):
    old, new = (f"{CARRIERS[kind]}\n    {those}" for kind, those in ((was, FORMS[0]), (today, fields)))
    one, other = reshaped(module, old, new, lambda m: [m.Row(5, 6), m.Row(b=8, a=7)])
    assert type(one) is sys.modules[NAME].Row
    assert (one.a, one.b, other.a, other.b, getattr(one, "new", 7)) == (5, 6, 7, 8, 7)


@pytest.mark.parametrize("fields", FORMS)
@pytest.mark.parametrize("today", ["named tuple", "struct"])
@pytest.mark.parametrize("was", DATACLASSES)
def test_a_dataclass_that_became_something_else_is_refused(module, was, today, fields):
    old, new = (f"{CARRIERS[kind]}\n    {those}" for kind, those in ((was, FORMS[0]), (today, fields)))
    with pytest.raises(LostPart, match="Row is another kind of class than it was"):
        reshaped(module, old, new, lambda m: m.Row(5, 6))


def test_a_named_tuple_does_not_become_an_object_without_its_fields(module):
    old, new = "class Row(typing.NamedTuple):\n    a: int", "class Row:\n    a = 1"
    with pytest.raises(LostPart):
        reshaped(module, old, new, lambda m: m.Row(5))


def test_a_dataclass_that_takes_what_was_recorded_by_itself_is_given_it(module):
    old = "@frozen\nclass Row:\n    a: int"
    own = "\n    def __setstate__(self, state):\n        self.a = [state]"
    new = f"@dataclasses.dataclass\nclass Row:\n    a: int{own}"
    assert reshaped(module, old, new, lambda m: m.Row(5)).a == [[5]]


def test_a_dataclass_that_stays_by_names_is_filled_as_ever(module):
    old, new = (f"@dataclasses.dataclass\nclass Row:\n    {fields}" for fields in ("a: int\n    b: int", "b: int"))
    row = reshaped(module, old, new, lambda m: m.Row(5, 6))
    assert vars(row) == {"a": 5, "b": 6}


def test_an_attribute_that_is_no_field_is_not_left_out_without_a_word(module):
    def make(m):
        row = m.Row(5)
        row.more = 1
        return row

    old, new = "@dataclasses.dataclass\nclass Row:\n    a: int", "@frozen\nclass Row:\n    a: int"
    with pytest.raises(AttributeError, match="'Row' object has no attribute 'more'"):
        reshaped(module, old, new, make)


def test_a_default_is_found_in_a_class_that_came_by_value(module):
    made = module(
        "@frozen\nclass Row:\n    n: int\n    tax: int = 9\n    tags: list = dataclasses.field(default_factory=list)"
    )
    cloudpickle.register_pickle_by_value(made)
    try:
        code = cloudpickle.dumps(made.Row)
    finally:
        cloudpickle.unregister_pickle_by_value(made)
    pickled = dump_state(module("@frozen\nclass Row:\n    n: int").Row(3), "state")
    tracker = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID
    kept, known = dict(tracker), [*tracker]
    for one in known:  # as in another process
        del tracker[one]
    try:
        today = pickle.loads(code)
    finally:
        tracker.update(kept)
    names = {name: Reshaped(name, shape, today) for name, shape in pickled.shapes.items()}
    row = load_state(pickled.stream, (), None, names)
    assert (type(row) is today, row.n, row.tax, row.tags) == (True, 3, 9, [])


@pytest.mark.parametrize(
    ("old", "new"), [("Enum", "Flag"), ("IntEnum", "IntFlag"), ("Flag", "Enum"), ("IntFlag", "IntEnum")]
)
def test_members_go_by_name_when_an_enum_becomes_a_flag_or_a_flag_an_enum(module, old, new):
    old, new = (f"class Level(enum.{base}):\n    {{}}" for base in (old, new))
    members = ["LOW = 1", "MID = 2", "HIGH = 4", "TOP = 3"]
    old, new = old.format("\n    ".join(members[:3])), new.format("\n    ".join(reversed(members)))
    new = new.replace("HIGH = 4", "HIGH = 8")
    levels = reshaped(module, old, new, lambda m: [m.Level.LOW, m.Level.MID, m.Level.HIGH])
    today = sys.modules[NAME].Level
    assert levels == [today.LOW, today.MID, today.HIGH]


@pytest.mark.parametrize(
    ("old", "new", "make"),
    [
        ("class Level(enum.IntEnum):\n    LOW = 1\n    TOP = 3", "class Level(enum.IntFlag):\n    LOW = 1", "TOP"),
        (
            "class Level(enum.Flag):\n    LOW = 1\n    TOP = 2",
            "class Level(enum.Enum):\n    LOW = 1\n    TOP = 2\n    ALL = 3",
            "LOW | m.Level.TOP",
        ),
        ("class Level(enum.Enum):\n    LOW = 1", "@dataclasses.dataclass\nclass Level:\n    a: int", "LOW"),
    ],
)
def test_a_value_without_a_name_in_another_kind_of_enum_is_refused(module, old, new, make):
    with pytest.raises(LostPart):
        reshaped(module, old, new, lambda m: eval(f"m.Level.{make}", {"m": m}))


def test_a_member_goes_by_name_whatever_its_class_calls_its_value(module):
    own = "\n    @property\n    def value(self):\n        {}"
    for body in ("return 'v-' + self.name", "raise RuntimeError('not now')"):
        old = LEVEL + own.format(body)
        new = old.replace("LOW =", "NONE = enum.auto()\n    LOW =")
        low, high = reshaped(module, old, new, lambda m: [m.Level.LOW, m.Level.HIGH])
        assert (low.name, high.name) == ("LOW", "HIGH")


def test_a_class_that_is_pickled_by_name_from_now_on_goes_by_name(module):
    own = "def __reduce_ex__(self, _):\n        return getattr, (Level, self.name)"
    new = f"class Level(enum.Enum):\n    HIGH = 1\n    LOW = 2\n    {own}"
    assert reshaped(module, LEVEL, new, lambda m: m.Level.HIGH).name == "HIGH"


def test_members_whose_values_cannot_be_compared_do_not_hinder_the_others(module):
    old = "class Level(enum.Enum):\n    LOW = 1\n    ROW = [1, 2]"
    low, row = reshaped(module, old, old.replace("LOW = 1", "NONE = 1\n    LOW = 2"), lambda m: [*m.Level])
    assert (low.name, row.name) == ("LOW", "ROW")


def test_a_value_of_no_member_that_means_a_moved_one_today_is_refused(module):
    old = LEVEL_THAT_MAKES
    with pytest.raises(LostPart, match="does not have the value 2 any more"):
        reshaped(module, old, old.replace("LOW = 1", "LOW = 2"), lambda m: m.Level(2))


MANY = "class Right(enum.Flag):\n    READ = {}\n    MODE = {}"


def test_a_member_of_many_bits_that_have_no_names_goes_as_a_whole(module):
    old, new = MANY.format(1, 6), MANY.format(2, 12)
    rights = reshaped(module, old, new, lambda m: [m.Right.READ, m.Right.MODE, m.Right.READ | m.Right.MODE])
    today = sys.modules[NAME].Right
    assert rights == [today.READ, today.MODE, today.READ | today.MODE]


def test_a_member_of_named_bits_goes_by_them_also_if_it_has_more_bits_today(module):
    form = "class Right(enum.Flag):\n    READ = {}\n    WRITE = {}\n    ALL = {}"
    old, new = form.format(1, 2, 3), form.format(2, 4, 7) + "\n    DROP = 1"
    right = reshaped(module, old, new, lambda m: m.Right.READ | m.Right.WRITE)
    assert right == sys.modules[NAME].Right.READ | sys.modules[NAME].Right.WRITE


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (MANY.format(1, 6), MANY.format(2, 12), 4),  # part of MODE, then and today
        (MANY.format(1, 6), "class Right(enum.Flag):\n    READ = 1", 6),
        ("class Right(enum.IntFlag):\n    READ = 1", "class Right(enum.IntFlag):\n    READ = 2", 2),
    ],
)
def test_bits_that_mean_something_else_today_are_refused(module, old, new, value):
    with pytest.raises(LostPart, match="Right does not have"):
        reshaped(module, old, new, lambda m: m.Right(value))


def test_asking_what_is_lost_keeps_no_values(module):
    shared = dict.fromkeys(range(10_000), "value")
    made = module("class Row(typing.NamedTuple):\n    a: int\n    shared: dict")
    pickled = dump_state([made.Row(n, shared) for n in range(300)], "state")
    module("class Row(typing.NamedTuple):\n    a: int")
    names = {name: Reshaped(name, shape) for name, shape in pickled.shapes.items()}
    (reshaping,) = reshapings(names).values()
    tracemalloc.start()
    try:
        assert uses_of(pickled.stream, {f"{NAME}.Row": reshaping.is_lost}) == {f"{NAME}.Row": {"shared"}}
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # the text of each row would be 50 MB
    finally:
        tracemalloc.stop()


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
    assert uses_of(pickled.stream, {f"{NAME}.Level": repr}) == {f"{NAME}.Level": {"(2,)"}}


def test_the_uses_of_classes_are_read_without_them(module):
    made = module(f"{LEVEL}\nclass Row(typing.NamedTuple):\n    a: int\n@frozen\nclass Price:\n    cents: int")
    state = [made.Level.HIGH, made.Level.HIGH, {made.Level: 1}, made.Row(1), made.Price(5)]
    stream = dump_state(state, "state").stream
    module("class Level: pass\nclass Row: pass\nclass Price: pass")
    names = [f"{NAME}.{name}" for name in ("Level", "Row", "Price", "Other")]
    assert [*uses_of(stream, dict.fromkeys(names, repr)).values()] == [{"(2,)"}, {"(1,)"}, {"[5]"}, set()]


def test_a_table_keeps_what_is_pickled_in_a_way_of_its_own():
    table = NotedTypes({int: str})
    assert table[int] is str
    assert table[type(pytest)] is not None
