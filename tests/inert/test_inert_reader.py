"""The inert reader: data comes as it was, everything else as records, and nothing of a pickle ever runs."""

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import math
import os
import pathlib
import pickle
import subprocess
import sys
import types
import uuid
from typing import NamedTuple

import cloudpickle
import numpy as np
import pytest

from rayshot.errors import BadState
from rayshot.format.pickling import load_state
from rayshot.inert.inert_object import HandleRecord, Inert
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read
from rayshot.inert.times import Zone, ZonedTime
from rayshot.model.dead_letter import DeadLetter

ROOT = pathlib.Path(__file__).parents[2]


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Order:
    number: int
    lines: list


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    number: int


class Slotted:
    __slots__ = ("left", "right")


class SlottedAndMore(Slotted):
    pass


class Plain:
    def method(self):
        return self


class MyList(list):
    pass


class MyDict(dict):
    pass


class MyInt(int):
    pass


class Failure(Exception):
    pass


class WithKeywords:
    def __getnewargs_ex__(self):
        return (1,), {"key": 2}

    def __new__(cls, one, *, key):
        return super().__new__(cls)


class Handle:
    def __reduce__(self):
        return rebind, ("bank", "alice", ("read",))


def rebind(system, name, methods):
    raise AssertionError("a reading calls nothing")


rebind.__module__, rebind.__qualname__ = "rayshot.model.handle", "_rebind"


def dumped(value, protocol=5):
    buffers = []
    callback = buffers.append if protocol == 5 else None
    stream = pickle.dumps(value, protocol=protocol, buffer_callback=callback)
    return stream, [buffer.raw() for buffer in buffers]


def through(value, protocol=5):
    return read(*dumped(value, protocol))


UTC2 = dt.timezone(dt.timedelta(hours=2), "summer")
DATA = [
    None, True, False, 0, -1, 255, 65535, 2**31, -(2**31), 2**63, 2**70, -(2**70), 2**3000,
    0.0, -0.0, 1.5, math.inf, math.nan, "", "a", "ü" * 300, "\ud800", "\n\\", b"", b"a", bytes(300), bytearray(b"xy"),
    bytearray(), 1 + 2j, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], list(range(2000)), {}, {1: 2},
    {(1, (2, "x")): 1, frozenset([1]): 2, None: 3, 2**70: 4}, set(), {1, 2}, {(1, 2)},
    frozenset(), frozenset([1, (2,)]),
    range(3), range(-5, 2**70, 7), slice(1, None, 2), ..., NotImplemented,
    collections.OrderedDict(a=1), collections.Counter("abca"), collections.deque([1, 2], 3), collections.deque(),
    collections.defaultdict(list, {1: [2]}), collections.defaultdict(None, {1: 2}), collections.defaultdict(int),
    dt.datetime.fromisoformat("2020-02-29T01:02:03.000004").replace(fold=1),
    dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=UTC2),
    dt.date(2024, 2, 29), dt.time(23, 59, 59, 999999, fold=1), dt.time(1, tzinfo=UTC2), dt.timedelta(-1, 5, 6), UTC2,
    decimal.Decimal("1.50"), decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("-1E+999999"),
    fractions.Fraction(-1, 3), uuid.UUID(int=2**127), pathlib.PurePosixPath("/a/b"), pathlib.PureWindowsPath("c:/x"),
    array.array("d", [1.0]), array.array("l", [-1, 2]), array.array("H"), array.array("f", [math.nan]),
]  # fmt: skip


@pytest.mark.acceptance("G28")
@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", DATA, ids=lambda value: repr(value)[:30])
def test_data_comes_as_it_was(value, protocol):
    back = through({"state": value}, protocol)["state"]
    by_python = pickle.loads(pickle.dumps(value, protocol=protocol))
    assert alike(back, by_python)
    assert repr(back) == repr(by_python)


def test_a_path_comes_without_the_power_to_touch_files():
    back = through(pathlib.Path("/etc/passwd"))
    assert back == pathlib.PurePosixPath("/etc/passwd")
    assert type(back) is pathlib.PurePosixPath


@pytest.mark.acceptance("G28")
def test_cycles_and_sharing_come_as_they_were():
    one = [1]
    value = {"a": one, "b": one, "t": (one,)}
    value["self"] = value
    one.append(one)
    back = through(value)
    assert back["self"] is back
    assert back["a"] is back["b"] is back["t"][0] is back["a"][1]
    assert alike(back, value)


@pytest.mark.acceptance("G28")
def test_a_cycle_through_a_tuple_and_an_object_comes_as_it_was():
    plain = Plain()
    plain.me = (plain, [plain])
    back = through(plain)
    assert back["me"][0] is back["me"][1][0] is back


def test_objects_come_as_records_of_their_class_and_state():
    plain = Plain()
    plain.name, plain.inner = "x", Order(1, [Order(2, [])])
    back = through(plain)
    assert isinstance(back, Inert)
    assert back.class_name == f"{__name__}.Plain"
    assert back["name"] == "x"
    assert back["inner"]["lines"][0]["number"] == 2
    assert back.attributes.keys() == {"name", "inner"}
    with pytest.raises(KeyError):
        back["missing"]


def test_slots_come_as_attributes():
    slotted, more = Slotted(), SlottedAndMore()
    slotted.left, more.left, more.extra = 1, 2, 3
    assert through(slotted).attributes == {"left": 1}
    assert through(slotted).state == (None, {"left": 1})
    assert through(more).attributes == {"left": 2, "extra": 3}
    assert through(Frozen(7)).state == [7]


def test_enums_named_tuples_and_exceptions_come_as_records_of_their_arguments():
    assert (through(Color.RED).class_name, through(Color.RED).args) == (f"{__name__}.Color", (1,))
    assert through(Level.HIGH).args == (3,)
    assert through(Point(1, 2)).args == (1, 2)
    failure = Failure("why", 3)
    failure.hint = "how"
    back = through(failure)
    assert (back.class_name, back.args, back["hint"]) == (f"{__name__}.Failure", ("why", 3), "how")
    assert through(KeyError("x")).class_name == "builtins.KeyError"


def test_subclasses_of_containers_come_as_records_with_their_content():
    listed, mapped = MyList([1, 2]), MyDict(a=1)
    listed.tag = "t"
    assert through(listed).items == [1, 2]
    assert through(listed)["tag"] == "t"
    assert through(mapped).entries == {"a": 1}
    assert through(mapped)["a"] == 1
    assert through(MyInt(5)).args == (5,)


def test_keyword_arguments_are_kept():
    back = through(WithKeywords(1, key=2))
    assert (back.args, back.kwargs) == ((1,), {"key": 2})


def test_records_can_be_keys_and_members():
    back = through({Color.RED: {Color.RED, Frozen(1)}})
    ((key, members),) = back.items()
    assert key in members
    assert len(members) == 2


def test_classes_functions_and_methods_come_by_name():
    for thing, name in (
        (Plain, f"{__name__}.Plain"),
        (len, "builtins.len"),
        (os.system, "posix.system"),
        (type, "builtins.type"),
    ):
        back = through(thing)
        assert (back.class_name, back.args) == (name, None)
    assert through(Plain().method).class_name == "builtins.getattr"
    assert through(functools.partial(print, 1)).class_name == "functools.partial"


def test_a_handle_comes_as_its_system_and_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "rayshot.model.handle", types.SimpleNamespace(_rebind=rebind))
    assert through([Handle()]) == [HandleRecord("bank", "alice")]


def test_a_default_factory_of_unknown_code_makes_a_record():
    back = read(cloudpickle.dumps(collections.defaultdict(lambda: 0, a=1), protocol=5))
    assert back.class_name == "collections.defaultdict"
    assert back.entries == {"a": 1}


def make_local_class():
    class Local:
        limit = 3

        def __init__(self):
            self.value = Color.RED

        def method(self):
            return self.limit

    return Local


def test_cloudpickle_streams_come_as_records():
    cls = make_local_class()
    cls.__module__ = "__main__"
    back = read(cloudpickle.dumps({"cls": cls, "one": cls(), "f": lambda: cls}, protocol=5))
    assert (back["cls"].class_name, back["cls"].args) == ("__main__.Local", None)
    assert back["cls"]["limit"] == 3
    assert back["one"].class_name == "__main__.Local"
    assert back["one"]["value"].args == (1,)
    assert back["f"].class_name == "cloudpickle.cloudpickle._make_function"


def test_an_enum_by_value_comes_as_a_record():
    local = enum.Enum("Local", "A B", module="__main__")
    back = read(cloudpickle.dumps([local.A, local.B, local], protocol=5))
    assert [record.class_name for record in back] == ["__main__.Local"] * 3
    assert [record.args for record in back] == [(1,), (2,), None]


STRUCTURED = np.dtype([("a", "i4"), ("b", [("c", "f8", (2, 3)), ("d", "S3")])])
ARRAYS = [
    np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([], dtype="f4"),
    np.zeros((0, 5)),
    np.array(7), np.array(["a", "bcd"]), np.array([b"xy"]), np.array([True]), np.array([1, 2], dtype=">i4"),
    np.array(["2020-01-01", "NaT"], dtype="M8[D]"), np.array([5], dtype="m8[25us]"), np.array([1], dtype="m8"),
    np.array([1 + 2j]), np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2), np.arange(10)[::2],
    np.array([1], dtype="f2"),
    np.array([[1, "a"], [None, [2]]], dtype=object), np.array([], dtype=object), np.zeros(2, STRUCTURED),
    np.zeros(3, [("x", "u1")]), np.array([math.nan, -0.0]), np.zeros(2, "V5"), np.zeros(1, "g"),
]  # fmt: skip


@pytest.mark.acceptance("G28")
@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype}{value.shape}"[:40])
def test_arrays_come_as_they_were(value, protocol):
    back = through({"state": value}, protocol)["state"]
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert alike(back, value)


def test_arrays_in_band_come_as_they_were():
    for value in ARRAYS:
        assert alike(read(pickle.dumps(value, protocol=5)), value)


def test_scalars_and_dtypes_come_as_they_were():
    for protocol in range(6):
        for value in (
            np.float64(1.5),
            np.int8(-1),
            np.bool_(1),
            np.datetime64("2020-01-01"),
            np.str_("x"),
            np.zeros(1, "i4,f8")[0],
        ):
            back = through(value, protocol)
            assert type(back) is type(value)
            assert back == value
        for kind in ("f8", ">i2", "U3", "M8[ns]", "O", STRUCTURED, ("i4", (2, 3)), np.dtype("i1,i8", align=True)):
            assert through(np.dtype(kind), protocol) == np.dtype(kind)


def test_the_names_of_numpy_1_are_known_too():
    for value in (np.arange(3), np.float32(2)):
        stream = pickle.dumps(value, protocol=3).replace(b"numpy._core", b"numpy.core")
        assert read(stream) == pytest.approx(value)


def test_out_of_band_arrays_are_views_on_their_buffers():
    value = np.arange(100_000)
    stream, (buffer,) = dumped(value)
    memory = bytearray(buffer)
    back = read(stream, [memoryview(memory)])
    memory[0] = 77
    assert back[0] == 77


def test_sharing_of_arrays_is_kept():
    value = np.arange(3)
    objects = np.array([value, value], dtype=object)
    back = through([value, value, objects])
    assert back[0] is back[1]


def test_an_object_array_inside_itself_ends():
    value = np.empty(1, dtype=object)
    value[0] = value
    back = through(value)
    assert back[0].state is back


def test_array_subclasses_stay_records():
    assert isinstance(through(np.ma.array([1])), Inert)
    assert isinstance(through(np.array([1]).view(np.recarray)), Inert)


def test_pandas_objects_stay_records():
    pd = pytest.importorskip("pandas")
    assert isinstance(through(pd.DataFrame({"a": [1, 2], "b": ["x", None]})), Inert)
    assert isinstance(through(pd.Timestamp("2020-01-01")), Inert)


def test_without_numpy_arrays_are_records_and_all_else_is_read():
    stream = pickle.dumps({"a": np.arange(3), "b": [np.float64(1), np.dtype("f8")], "c": 1}, protocol=5)
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from rayshot.inert.jsonable import jsonable\nfrom rayshot.inert.reader import read\n"
        "from rayshot.inert.inert_object import Inert\n"
        "back = read(sys.stdin.buffer.read())\n"
        "assert isinstance(back['a'], Inert) and all(isinstance(one, Inert) for one in back['b']) and back['c'] == 1\n"
        "print(jsonable(back['a'])['$class'])"
    )
    done = subprocess.run([sys.executable, "-c", code], input=stream, capture_output=True, check=True, cwd=ROOT)
    assert b"_frombuffer" in done.stdout


def test_reading_imports_neither_numpy_nor_the_classes():
    stream = pickle.dumps({"a": Color.RED, "b": Plain(), "c": decimal.Decimal(1)}, protocol=5)
    code = (
        "import sys\nfrom rayshot.inert.reader import read\nbefore = set(sys.modules)\n"
        "read(sys.stdin.buffer.read())\nassert set(sys.modules) == before\nassert 'numpy' not in before"
    )
    subprocess.run([sys.executable, "-c", code], input=stream, check=True, cwd=ROOT)


def test_the_repr_is_bounded_for_everything():
    loop = Plain()
    loop.me, loop.long, loop.bytes, loop.big = loop, list(range(10**6)), bytes(10**7), 2**100_000
    loop.laugh = functools.reduce(lambda inner, _: [inner, inner], range(100), [])
    loop.array, loop.map = np.zeros(10**6), collections.defaultdict(list, {i: i for i in range(10**5)})
    text = repr(through(loop))
    assert len(text) < 3000
    assert text.startswith(f"<{__name__}.Plain me=<{__name__}.Plain")
    assert repr(through(Color.RED)) == f"<{__name__}.Color 1>"
    assert repr(through(Color)) == f"<{__name__}.Color itself>"
    assert repr(Inert("a.b", (1,), {"k": 2})) == "<a.b 1 k=2>"


def test_no_bytes_and_other_bytes_are_refused():
    for stream in (
        b"",
        b".",
        b"N",
        b"N.N",
        b"NN.",
        b"(N.",
        b"\x80\x06N.",
        b"garbage",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
    ):
        with pytest.raises(BadState):
            read(stream)


def test_bytearrays_and_memoryviews_are_read():
    assert read(bytearray(b"N.")) is read(memoryview(b"N.")) is None


def test_a_memoryview_in_a_state_is_shown_by_its_bytes():
    assert read(cloudpickle.dumps([memoryview(b"abc"), b"abc"])) == [b"abc", b"abc"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rayshot.format.inert_record HandleRecord", HandleRecord),
        ("rayshot.format.inert_record Inert", Inert),
        ("rayshot.inert.record Inert", Inert),
        ("rayshot.format.inert_times Zone", Zone),
        ("rayshot.format.inert_times ZonedTime", ZonedTime),
        ("rayshot.model.dead_letters DeadLetter", DeadLetter),
    ],
)
def test_an_older_snapshot_finds_what_programs_have_got_by_its_old_name(name, kind):
    """A program may have sent to an actor what it read in a snapshot, and the actor may have kept it."""
    assert load_state(b"c" + name.replace(" ", "\n").encode() + b"\n.") is kind
