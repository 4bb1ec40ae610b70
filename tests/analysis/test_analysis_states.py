"""What states hold, in tables: cells that say what they leave out."""

import decimal
import json
from collections import deque

import numpy as np
import pytest

from rayshot.analysis import element_views
from rayshot.errors import ConfigError
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.analysis.orders import Order, Rows
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank


def storage_of(*banks):
    store = MemoryStore()
    repository = open_bank(store)
    for counter, bank in enumerate(banks, 1):
        make_snapshot(repository, bank, counter)
    return Storage(store)


def rows_of(view, *states, **options):
    banks = [Bank(states={"alice": state}, flows={}) for state in states]
    return storage_of(*banks).table(view, **options).to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("value", "json", "truncated"),
    [
        (decimal.Decimal("1.50"), '"1.50"', False),
        (2**70, f'"{2**70}"', False),
        ("x" * 20_000, f'"{"x" * 20_000}"', False),
        (np.arange(3), '{"$array": "int64", "shape": [3], "head": [0, 1, 2]}', False),
        (bytes(40), f'{{"$bytes": 40, "head": "{"00" * 32}"}}', True),
        ([[0] * 200_000], None, True),
    ],
)
def test_a_cell_that_leaves_something_out_is_marked_beside_it(value, json, truncated):
    (row,) = rows_of("state", {"value": value})
    assert row["truncated"] is truncated
    if json is not None:
        assert row["value"] == json


def test_numbers_wider_than_64_bits_are_decimals():
    rows = rows_of("state", {"wide": 2**70, "wider": 10**40, "usual": 7})
    assert [(row["value_long"], row["value_decimal"]) for row in rows] == [(None, 2**70), (None, None), (7, None)]


def test_a_digest_is_the_same_where_a_value_is_and_tells_nothing_of_a_secret():
    first = {"book": {"a": 1, "b": [2]}, "count": 1, "pin": 1234}
    second = {"count": 2, "book": {"b": [2], "a": 1}, "pin": 4321}
    one, other = ({row["attribute"]: row["digest"] for row in rows_of("state", state)} for state in (first, second))
    assert one["book"] == other["book"]
    assert one["count"] != other["count"]
    assert one["pin"] is other["pin"] is None
    (shown,) = rows_of("state", first, attribute="pin", show_secrets=True)
    assert shown["digest"]


def test_one_attribute_of_all_actors_in_all_snapshots():
    states = [{"alice": {"balance": 1, "owner": "a"}, "bob": {"balance": 2}, "eve": [1]}, {"alice": {"owner": "a"}}]
    storage = storage_of(*(Bank(states=state, flows={}) for state in states))
    rows = storage.table("state", attribute="balance").to_arrow().to_pylist()
    assert [(row["actor"], row["value_long"]) for row in rows] == [("alice", 1), ("bob", 2)]
    (whole,) = storage.table("state", attribute="(state)").to_arrow().to_pylist()
    assert (whole["actor"], whole["value"]) == ("eve", "[1]")
    with pytest.raises(ConfigError, match="the view 'actors' has no option 'attribute'"):
        storage.table("actors", attribute="balance")


def test_an_actor_with_a_state_is_an_object():
    bank = Bank(states={"alice": {"balance": 7, "pin": 1234, "order": Order(5)}, "bob": [1, 2]}, unborn=["carol"])
    alice, bob = storage_of(bank).table("objects").to_arrow().to_pylist()
    order = {"$class": "tests.analysis.orders.Order", "amount": 5, "password": "", "values": None}
    assert json.loads(alice["state"]) == {"balance": 7, "pin": "<redacted>", "order": order}
    assert (alice["class_name"], alice["truncated"], bob["state"]) == ("bank.Account", False, "[1, 2]")
    assert rows_of("objects", {"many": [0] * 200_000})[0]["truncated"]


def cells(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def test_entries_are_the_elements_of_containers_one_level_down():
    rows_with_name = Rows([7])
    rows_with_name.name = "n"
    state = {
        "book": {"a": 1, 2: [3], (1, 2): None, "\udc80": True},
        "line": deque(["x", 1.5]),
        "pair": (b"12", {4}),
        "tags": {"t"},
        "order": Order(2**70),
        "rows": rows_with_name,
        "plain": 7,
        "text": "abc",
    }
    rows = rows_of("entries", state)
    assert cells(rows, "path", "key", "key_type", "index", "type", "value") == [
        ("book['a']", "a", "str", None, "int", "1"),
        ("book[2]", "2", "int", None, "list", "[3]"),
        ("book[[1, 2]]", "[1, 2]", "tuple", None, "NoneType", "null"),
        ("book['\\\\udc80']", "\\udc80", "str", None, "bool", "true"),
        ("line[0]", None, None, 0, "str", '"x"'),
        ("line[1]", None, None, 1, "float", "1.5"),
        ("pair[0]", None, None, 0, "bytes", '{"$bytes": 2, "head": "3132"}'),
        ("pair[1]", None, None, 1, "set", '{"$set": [4]}'),
        ('tags{"t"}', None, None, None, "str", '"t"'),
        ("order.amount", "amount", "attribute", None, "int", f'"{2**70}"'),
        ("order.password", "password", "attribute", None, "str", '""'),
        ("order.values", "values", "attribute", None, "NoneType", "null"),
        ("rows.name", "name", "attribute", None, "str", '"n"'),
        ("rows[0]", None, None, 0, "int", "7"),
    ]
    typed = cells(rows, "value_long", "value_double", "value_string", "value_bool")
    assert typed[0] == (1, None, None, None)
    assert typed[5] == (None, 1.5, None, None)
    assert typed[3:5] == [(None, None, None, True), (None, None, "x", None)]
    assert cells(rows_of("entries", state, attribute="tags"), "attribute", "value_string") == [("tags", "t")]


def test_entries_show_no_secrets():
    many = {f"k{number}": number for number in range(3_000)} | {"api_key": 7, b"token": "t"}
    state = {"order": Order(1, password="hunter2"), "many": many, "password": {"a": 1}}
    rows = rows_of("entries", state)
    hidden = [row["path"] for row in rows if row["value"] == '"<redacted>"']
    assert hidden == ["order.password", "many['api_key']", 'many[{"$bytes": 5, "head": "746f6b656e"}]']
    assert not any(row["value_long"] or row["value_string"] for row in rows if row["path"] in hidden)
    assert [row["attribute"] for row in rows].count("many") == 3_002
    assert len(rows_of("entries", state, attribute="password")) == 0
    (shown,) = rows_of("entries", state, attribute="password", show_secrets=True)
    assert shown["value_long"] == 1


def test_arrays_come_with_their_numbers_wherever_they_are():
    state = {
        "weights": np.arange(6, dtype="i2").reshape(2, 3).T,
        "layers": {"one": [np.array([0.5, np.nan]), {"two": np.array(True)}]},
        "order": Order(1, values=np.array(["a"])),
        "password": np.zeros(2),
        "count": 1,
    }
    rows = rows_of("arrays", state)
    assert cells(rows, "path", "dtype", "shape") == [
        ("weights", "int16", [3, 2]),
        ("layers['one'][0]", "float64", [2]),
        ("layers['one'][1]['two']", "bool", []),
        ("order.values", "<U1", [1]),
    ]
    assert rows[0]["values"] == [0, 3, 1, 4, 2, 5]
    assert (rows[1]["values"][0], rows[2]["values"], rows[3]["values"]) == (0.5, [1.0], None)
    assert cells(rows_of("arrays", state, attribute="order"), "attribute") == [("order",)]


def test_arrays_of_too_many_values_and_cycles_end(monkeypatch):
    monkeypatch.setattr(element_views, "VALUES_MAX", 10)
    loop = [np.zeros(10), np.zeros(11)]
    loop.append(loop)
    rows = rows_of("arrays", {"loop": loop})
    assert [row["values"] for row in rows] == [[0.0] * 10, None]


class Refused(Exception):
    """Makes its argument itself."""

    def __init__(self, *, code):
        super().__init__(f"code {code}")


def test_an_error_has_the_errors_before_it_as_attributes():
    error = RuntimeError("order lost")
    error.__cause__, error.__context__ = Refused(code=5), KeyError("stock")
    error.__context__.__context__ = error
    refused = {"$class": f"{__name__}.Refused", "$args": ["code 5"]}
    (row,) = rows_of("objects", {"last": error})
    assert json.loads(row["state"])["last"] == {
        "$class": "builtins.RuntimeError",
        "$args": ["order lost"],
        "__cause__": refused,
        "__context__": {"$class": "builtins.KeyError", "$args": ["stock"], "__context__": {"$cycle": 2}},
    }
    found = {row["path"]: row["type"] for row in rows_of("entries", {"last": error})}
    assert found["last.__cause__"] == refused["$class"]
