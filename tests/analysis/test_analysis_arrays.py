"""Elements and arrays of values that are neither lists nor dicts: each is found, under a path that leads to it."""

import json
import warnings
from typing import NamedTuple

import numpy as np
import pytest

from tests.analysis.test_analysis_states import rows_of

ARRAY = np.arange(3)


class Login(NamedTuple):
    """Pickled by place, of a module that can be imported."""

    user: str
    password: object


class ByValue(NamedTuple):
    """The same in a script."""

    user: str
    password: object
    rows: object = None


ByValue.__module__ = "__main__"


class Listed:
    """Its state has no names."""

    def __init__(self, state):
        self.state = state

    def __getstate__(self):
        return self.state

    def __setstate__(self, state):
        self.state = state


class Called:
    """Made by a call with names."""

    def __reduce__(self):
        return dict.fromkeys, ([], ARRAY)


class Units(np.ndarray):
    """An array of a class of its own."""


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is not recommended any more
    MATRIX = np.matrix([[0, 1, 2]])
MASKED = np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]], fill_value=9)
RECORDS = np.rec.array([(1, 0.5)], dtype=[("n", "i4"), ("price", "f8")])
FOUND = {
    "named tuple": (Login("alice", ARRAY), [".$args[1]"]),
    "named tuple by value": (ByValue("alice", None, [ARRAY]), [".rows[0]"]),
    "object array": (objects(7, ARRAY, {"a": ARRAY}), ["", "[1]", "[2]['a']"]),
    "object array of two dimensions": (objects(ARRAY, 1, 2, [ARRAY]).reshape(2, 2), ["", "[0, 0]", "[1, 1][0]"]),
    "state of a tuple": (Listed((ARRAY, 7)), [".$state[0]"]),
    "state of a dict of numbers": (Listed({7: ARRAY}), [".$state[7]"]),
    "state of an array": (Listed(ARRAY), [".$state"]),
    "state of an object": (Listed(Listed([ARRAY])), [".$state.$state[0]"]),
    "call": (Called(), [".$args[1]"]),
    "matrix": (MATRIX, [".$args[0]"]),
    "records": (RECORDS, [".$args[0]"]),
    "masked": (MASKED, [".data", ".mask", ".fill_value"]),
    "masked in Fortran's order": (MASKED.copy(order="F"), [".data", ".mask", ".fill_value"]),
    "masked records": (np.ma.array(RECORDS), [".data", ".mask", ".fill_value"]),
    "masked objects": (np.ma.array(objects(ARRAY, 1)), [".data", ".data[0]", ".mask"]),
    "of a class": (ARRAY.view(Units), [".$args[0]"]),
}


@pytest.mark.parametrize("where", FOUND)
def test_an_array_is_found_wherever_it_is(where):
    value, paths = FOUND[where]
    rows = rows_of("arrays", {"it": value})
    assert [row["path"] for row in rows] == [f"it{path}" for path in paths]
    for row in rows:
        if row["shape"] == [3] and row["dtype"] == "int64":
            assert row["values"] == [0, 1, 2]


def test_a_masked_array_has_its_numbers_and_its_holes():
    for value in (MASKED, MASKED.copy(order="F")):
        data, mask, fill = rows_of("arrays", {"it": value})
        assert (data["values"], data["shape"]) == ([1, 2, 3, 4], [2, 2])
        assert (mask["values"], fill["values"]) == ([0, 1, 0, 0], [9])


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (MATRIX, "numpy.matrix", {"$args": [{"$array": "int64", "shape": [1, 3], "head": [0, 1, 2]}]}),
        (ARRAY.view(Units), f"{__name__}.Units", {"$args": [{"$array": "int64", "shape": [3], "head": [0, 1, 2]}]}),
        (
            np.ma.array([1, 2], mask=[0, 1]),
            "numpy.ma.MaskedArray",
            {
                "data": {"$array": "int64", "shape": [2], "head": [1, 2]},
                "mask": {"$array": "bool", "shape": [2], "head": [False, True]},
                "fill_value": None,
            },
        ),
    ],
)
def test_an_array_of_a_class_is_shown_by_its_class(value, name, shown):
    (row,) = rows_of("state", {"it": value})
    assert row["type"] in {name, name.replace("numpy.ma.", "numpy.ma.core.")}
    assert json.loads(row["value"]) == {"$class": row["type"], **shown}


def test_secret_fields_of_records_are_hidden():
    records = np.rec.array([(1, "hunter2")], dtype=[("n", "i4"), ("password", "U7")])
    for value in (records, np.ma.array(records)):
        (row,) = rows_of("state", {"it": value})
        assert "hunter2" not in row["value"]
        assert b"hunter2".hex() not in row["value"]
        assert "<redacted>" in row["value"]
        assert not [row for row in rows_of("arrays", {"it": value}) if "password', '<U7" in row["dtype"]]


def entries(value, **options):
    rows = rows_of("entries", {"it": value}, **options)
    return [(row["path"], row["key"], row["key_type"], row["index"], row["value"]) for row in rows]


def test_what_has_no_name_in_its_pickle_is_an_element_by_its_place():
    assert entries(Login("alice", 7)) == [
        ("it.$args[0]", None, None, 0, '"alice"'),
        ("it.$args[1]", None, None, 1, "7"),
    ]
    assert entries(Listed((1, "x"))) == [("it.$state[0]", None, None, 0, "1"), ("it.$state[1]", None, None, 1, '"x"')]
    assert entries(Listed({7: 1, "pin": 2})) == [("it.pin", "pin", "attribute", None, '"<redacted>"')]
    assert entries(Listed(7)) == [("it.$state", None, None, None, "7")]
    assert entries(objects(1, "x")) == [("it[0]", None, None, 0, "1"), ("it[1]", None, None, 1, '"x"')]


def test_fields_of_a_named_tuple_of_a_script_are_its_attributes():
    hidden = entries(ByValue("alice", "hunter2"))
    assert hidden == [
        ("it.user", "user", "attribute", None, '"alice"'),
        ("it.password", "password", "attribute", None, '"<redacted>"'),
        ("it.rows", "rows", "attribute", None, "null"),
    ]
    assert entries(ByValue("alice", "hunter2"), show_secrets=True)[1][-1] == '"hunter2"'


def test_an_array_that_holds_itself_is_one_row():
    loop = np.empty(1, dtype=object)
    loop[0] = [loop]
    assert [row["path"] for row in rows_of("arrays", {"it": loop})] == ["it"]
