"""Rendering and comparing what the inert reader gave: both end for every value and say what they mean."""

import collections
import datetime as dt
import decimal
import functools
import json
import math
import pathlib
import pickle
import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.format.inert import HandleRecord, Inert, alike, jsonable, read


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
        (2**70, 2**70),
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
        (Inert("a.f", (1,), {"k": 2}), {"$class": "a.f", "args": [1], "kwargs": {"k": 2}}),
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
    assert jsonable(inert(Account(balance=3))) == {"$class": name, "attributes": {"balance": 3}}
    assert jsonable(inert(rows)) == {"$class": f"{__name__}.Rows", "attributes": {"tag": "t"}, "items": [1]}
    record = Inert("a.B", ())
    record.state = (1, 2)
    assert jsonable(record) == {"$class": "a.B", "state": [1, 2]}


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


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=20,
    )
)
def test_whatever_is_read_is_rendered_and_alike_to_itself(value):
    json.dumps(jsonable(inert(value)), allow_nan=False).encode()
    assert alike(inert(value), value)


ALIKE = [
    (math.nan, math.nan),
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
