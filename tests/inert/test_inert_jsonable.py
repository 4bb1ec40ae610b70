"""Rendering and comparing what the inert reader gave: both end for every value and say what they mean."""

import array
import collections
import datetime as dt
import decimal
import enum
import functools
import http
import json
import math
import pathlib
import pickle
import struct
import uuid

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.inert.digest import content_digest
from rayshot.inert.inert_object import HandleRecord, Inert
from rayshot.inert.jsonable import jsonable, rendered
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read
from rayshot.inert.redaction import show_secrets


class Account:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Rows(list):
    pass


def inert(value):
    return read(pickle.dumps(value, protocol=5))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**63 - 1, 2**63 - 1),
        (2**63, "9223372036854775808"),
        (-(2**70), "-1180591620717411303424"),
        (2**5000, "(an integer of 5001 bits)"),
        (1.5, 1.5),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ("ü", "ü"),
        ("\ud800", "\\ud800"),
        ("x" * 20_000, "x" * 10_000 + "... (20000 characters)"),
        ((1, [2]), [1, [2]]),
        ({3, 1, 2}, {"$set": [1, 2, 3]}),
        ({"a": 1}, {"a": 1}),
        ({1: 2, (1, 2): 3}, {"$dict": [[1, 2], [[1, 2], 3]]}),
        ({"$class": 1}, {"$dict": [["$class", 1]]}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.deque([1, 2]), [1, 2]),
        (b"\x01\xff", {"$bytes": 2, "head": "01ff"}),
        (memoryview(bytes(100)), {"$bytes": 100, "head": "00" * 32}),
        (dt.datetime(2020, 1, 2, tzinfo=dt.UTC), "2020-01-02T00:00:00+00:00"),
        (dt.date(2020, 1, 2), "2020-01-02"),
        (dt.timedelta(1), "1 day, 0:00:00"),
        (decimal.Decimal("1.50"), "1.50"),
        (1 + 2j, "(1+2j)"),
        (range(3), "range(0, 3)"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a"), "/a"),
        (..., {"$global": "builtins.Ellipsis"}),
        (HandleRecord("bank", "alice"), {"$actor": "alice", "system": "bank"}),
        (Inert("a.f"), {"$global": "a.f"}),
        (Inert("a.f", (1,), {"k": 2}), {"$class": "a.f", "$args": [1], "$kwargs": {"k": 2}}),
        (object(), {"$class": "builtins.object"}),
        (np.arange(20), {"$array": "int64", "shape": [20], "head": list(range(16))}),
        (np.zeros((0, 3)), {"$array": "float64", "shape": [0, 3], "head": []}),
        (np.array(7), {"$array": "int64", "shape": [], "head": [7]}),
        (np.array([[1], "a"], dtype=object), {"$array": "object", "shape": [2], "head": [[1], "a"]}),
        (np.array([math.nan]), {"$array": "float64", "shape": [1], "head": ["NaN"]}),
        (np.array(["2020-01-01"], "M8[D]"), {"$array": "datetime64[D]", "shape": [1], "head": ["2020-01-01"]}),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), "NaN"),
        (np.bool_(True), True),
        (np.longdouble(1), "1.0"),
        (np.array([(1, 2.0)], "i4,f8")[0], [1, 2.0]),
        (np.zeros(1, "V2")[0], {"$bytes": 2, "head": "0000"}),
        (np.dtype("f8"), "float64"),
    ],
)
def test_values_are_rendered(value, shown):
    assert jsonable(value) == shown
    assert type(jsonable(value)) is type(shown)
    json.dumps(jsonable(value)).encode()


def test_records_are_rendered_with_what_they_have():
    rows = Rows([1])
    rows.tag = "t"
    name = f"{__name__}.Account"
    assert jsonable(inert(Account(balance=3))) == {"$class": name, "balance": 3}
    assert jsonable(inert(rows)) == {"$class": f"{__name__}.Rows", "tag": "t", "$items": [1]}
    assert jsonable(inert(Account(**{"$class": 1}))) == {"$class": name, "$dict": [["$class", 1]]}
    record = Inert("a.B", ())
    record.state = (1, 2)
    assert jsonable(record) == {"$class": "a.B", "$state": [1, 2]}


def test_a_member_of_an_enum_is_shown_by_its_name_where_the_pickle_holds_it():
    class Colour(enum.Enum):
        RED = 1
        BLUE = "b"
        WIDE = (1, 2)

    colour = f"{__name__}.{Colour.__qualname__}"
    red, blue, wide = (read(cloudpickle.dumps(one)) for one in Colour)
    assert jsonable(red) == {"$class": colour, "name": "RED", "value": 1}
    assert jsonable(blue) == {"$class": colour, "name": "BLUE", "value": "b"}
    assert jsonable(wide) == {"$class": colour, "$args": [[1, 2]]}
    assert jsonable(inert(http.HTTPMethod.GET)) == {"$class": "http.HTTPMethod", "$args": ["GET"]}


def test_what_changes_with_the_version_of_a_library_is_named_and_left_out():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    column = arrow.array([1])
    for value, name in [
        (pandas.DataFrame({"a": [1]}), "pandas.DataFrame"),
        (pandas.Series([1]), "pandas.Series"),
        (pandas.Index([1]), "pandas.Index"),
        (pandas.Categorical(["a"]), "pandas.Categorical"),
        (pandas.Timestamp("2020-01-01"), "pandas.Timestamp"),
        (arrow.table({"a": column}), "pyarrow.Table"),
        (arrow.record_batch({"a": column}), "pyarrow.RecordBatch"),
        (arrow.chunked_array([column]), "pyarrow.ChunkedArray"),
        (column, "pyarrow.Array"),
    ]:
        assert rendered(inert([value])) == ([{"$class": name, "$omitted": 1}], True)
    assert jsonable(inert(pandas.DataFrame)) == {"$global": "pandas.DataFrame"}


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        ({"a": [1, None, 2**70], "b": (b"12", "x" * 10_000, {1})}, True),
        (np.arange(16), True),
        (np.arange(17), False),
        (bytes(33), False),
        ("x" * 10_001, False),
        ({"x" * 10_001: 1}, False),
        (2**5000, False),
        (functools.reduce(lambda inner, _: [inner], range(40), 1), False),
        ([0] * 200_000, False),
        (object(), False),
    ],
)
def test_a_rendering_tells_whether_it_left_anything_out(value, whole):
    assert rendered([value])[1] is not whole


def test_long_texts_are_whole_as_far_as_there_is_room_for_them():
    long = "x" * 15_000
    assert rendered([long, long], long_texts_max=30_000) == ([long, long], False)
    assert rendered([long, long, "y"], long_texts_max=20_000) == ([long, "x" * 10_000, "y"], True)


def test_cycles_are_marked_and_sharing_is_not():
    loop = [1]
    loop.append({"again": loop})
    shared = [0]
    assert jsonable(loop) == [1, {"again": {"$cycle": 2}}]
    assert jsonable([shared, shared]) == [[0], [0]]


def test_a_rendering_is_bounded_in_size_and_depth():
    assert jsonable(list(range(100)), nodes_max=4) == [0, 1, 2, {"$omitted": 97}]
    assert jsonable({str(i): i for i in range(100)}, nodes_max=3) == {"0": 0, "1": 1, "$omitted": 98}
    assert jsonable([[[[]]]], depth_max=2) == [[{"$omitted": 1}]]
    family = functools.reduce(lambda inner, _: [inner, inner], range(1000), [])
    assert len(json.dumps(jsonable(family))) < 10_000_000
    arrays = np.zeros(16)
    for _ in range(3):
        inner, arrays = arrays, np.empty(16, object)
        for at in range(16):
            arrays[at] = inner
    assert json.dumps(jsonable(arrays, nodes_max=100)).count("$array") < 100


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(ANY)
def test_whatever_is_read_is_rendered_and_alike_to_itself(value):
    json.dumps(jsonable(inert(value)), allow_nan=False).encode()
    assert alike(inert(value), value)


(OTHER_NAN,) = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))
NOON = dt.datetime(2026, 11, 24, 12, tzinfo=dt.UTC)
ALIKE = [
    (math.nan, math.nan),
    (math.nan, OTHER_NAN),
    ({"a": math.nan}, {"a": OTHER_NAN}),
    ([1, {"a": (2,)}], [1, {"a": (2,)}]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1, 2}, {2, 1}),
    (np.array([math.nan]), np.array([math.nan])),
    (inert(Account(a=[1])), inert(Account(a=[1]))),
    ({Inert("a.B", (1,)), Inert("a.B", (2,))}, {Inert("a.B", (2,)), Inert("a.B", (1,))}),
    ({Inert("a.B", (1,)): 1}, {Inert("a.B", (1,)): 1}),
    (decimal.Decimal("sNaN"), decimal.Decimal("sNaN")),
    (np.zeros((2, 3), np.dtype("i1,i8", align=True)).T, np.zeros((3, 2), np.dtype("i1,i8", align=True))),
]
UNLIKE = [
    (0.0, -0.0),
    ({"a": [0.0]}, {"a": [-0.0]}),
    ({0.0: 1}, {-0.0: 1}),
    ({0.0}, {-0.0}),
    ({1: 2}, {True: 2}),
    ({(1, "a"): 2}, {(1.0, "a"): 2}),
    ({frozenset([1])}, {frozenset([1.0])}),
    (complex(0.0, 1), complex(-0.0, 1)),
    (complex(math.nan, 1), complex(math.nan, 2)),
    (NOON, NOON.astimezone(dt.timezone(dt.timedelta(hours=1)))),
    (dt.timezone(dt.timedelta(0), "summer"), dt.UTC),
    (array.array("i", [1]), array.array("l", [1])),
    (array.array("d", [0.0]), array.array("d", [-0.0])),
    (range(0), range(1, 1)),
    (1, 1.0),
    (1, True),
    ([1], (1,)),
    ([1], [1, 2]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({1}, {2}),
    (np.zeros(2), np.zeros(3)),
    (np.zeros(2, "i4,i4"), np.ones(2, "i4,i4")),
    (np.zeros(2), np.zeros(2, "f4")),
    (np.zeros(2), np.ones(2)),
    (np.array([[1]], dtype=object), np.array([[2]], dtype=object)),
    (inert(Account(a=1)), inert(Account(a=2))),
    (Inert("a.B"), Inert("a.C")),
    (Inert("a.B", ()), Inert("a.B")),
    ({Inert("a.B", (1,)): 1}, {Inert("a.B", (2,)): 1}),
    (collections.deque([1], 2), collections.deque([1], 3)),
    (collections.defaultdict(list), collections.defaultdict(dict)),
    (HandleRecord("a", "b"), HandleRecord("a", "c")),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_values_with_the_same_content_are_alike(one, other):
    assert alike(one, other)
    assert alike([one], [other])


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_values_with_other_content_are_not_alike(one, other):
    assert not alike(one, other)
    assert not alike(other, one)
    assert not alike([0, one], [0, other])


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_values_with_the_same_content_have_one_digest(one, other):
    assert content_digest(one) == content_digest(other)
    assert content_digest([one]) == content_digest([other])


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_values_with_other_content_have_other_digests(one, other):
    assert content_digest(one) != content_digest(other)
    assert content_digest([0, one]) != content_digest([0, other])


@pytest.mark.wide("slow")
@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(ANY, min_size=2, max_size=2))
def test_digests_agree_where_values_are_alike_and_nowhere_else(pair):
    one, other = map(inert, pair)
    assert content_digest(one) == content_digest(pair[0])
    assert (content_digest(one) == content_digest(other)) is alike(one, other)


@pytest.mark.wide("slow")
def test_a_digest_ends_for_cycles_and_deep_and_shared_values():
    loop, other = [1], [1]
    loop.append(loop)
    other.append([1, other])
    deep = functools.reduce(lambda inner, _: [inner], range(100_000), 1)
    family = functools.reduce(lambda inner, _: [inner, inner], range(1000), [])
    digests = {content_digest(one) for one in (loop, other, deep, [deep], family)}
    assert len(digests) == 5
    half = "\udc80"
    assert content_digest({half: half}) == content_digest({half: half}) != content_digest({})
    shared = [0, {}]
    assert content_digest([shared, shared]) == content_digest([[0, {}], [0, {}]])


def test_what_is_held_many_times_is_digested_once():
    text, data, wide = "x" * 10_000_000, bytes(10_000_000), 1 << 10_000_000
    many = [list(range(1_000_000))] * 100_000
    for shared in (text, data, wide, many):
        assert content_digest([shared] * 100_000) != content_digest([shared] * 99_999)
        assert content_digest({str(n): shared for n in range(10_000)})


def test_a_digest_tells_nothing_of_what_is_redacted():
    assert content_digest({"pin": 1234, "n": 1}) == content_digest({"pin": 4321, "n": 1})
    assert content_digest(inert(Account(password="a"))) == content_digest(inert(Account(password="b")))
    secrets = np.zeros(2, [("password", "U8")])
    assert content_digest(secrets) == content_digest(np.full(2, "x", secrets.dtype))
    with show_secrets():
        assert content_digest({"pin": 1234}) != content_digest({"pin": 4321})


def test_cycles_are_compared():
    one, other, longer = [1], [1], [1]
    one.append(one)
    other.append(other)
    longer.append([2, longer])
    assert alike(one, other)
    assert not alike(one, longer)


def test_long_chains_of_records_are_compared_without_recursion():
    def chain(length, end):
        record = Inert("a.End", (end,))
        for _ in range(length):
            record = Inert("a.Node", (record,))
        return record

    assert alike(chain(20_000, 1), chain(20_000, 1))
    assert not alike(chain(20_000, 1), chain(20_000, 2))


LONG = "x" * 10_000


@pytest.mark.parametrize(
    "keys",
    [
        ("a\ud800", "a\\ud800"),
        (LONG + "1", LONG + "2"),
        (LONG, LONG + "1"),
        ("x" * 9_999 + "\ud800", "x" * 9_999 + "\\ud800"),
        (LONG + "1", f"{LONG}... (10001 characters)"),
    ],
)
def test_two_keys_that_are_one_text_are_both_there(keys):
    mapping = {key: number for number, key in enumerate(["before", *keys, "behind"])}
    for document in (jsonable(mapping), rendered(mapping)[0], rendered(mapping, long_texts_max=10**6)[0]):
        assert [value for _, value in document["$dict"]] == [0, 1, 2, 3]
    (entry,) = jsonable([inert(Account(**mapping))])
    assert [value for _, value in entry["$dict"]] == [0, 1, 2, 3]


def test_a_key_that_is_cut_or_odd_alone_stays_a_key():
    assert list(jsonable({LONG + "1": 1, "ü": 2, "\ud800": 3})) == [f"{LONG}... (10001 characters)", "ü", "\\ud800"]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.dictionaries(st.text("a\\d8 0\ud800ü$", max_size=9), st.integers(0, 99), max_size=6))
def test_no_key_is_lost(mapping):
    document = jsonable(mapping)
    values = [value for _, value in document["$dict"]] if "$dict" in document else list(document.values())
    assert values == list(mapping.values())
