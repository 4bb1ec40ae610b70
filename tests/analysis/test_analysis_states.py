"""What states hold, in tables: cells that say what they leave out."""

import decimal

import numpy as np
import pytest

from rayshot.errors import ConfigError
from rayshot.store.catalog import Storage
from rayshot.store.memory import MemoryStore
from tests.store.snapshot_builder import Bank, make_snapshot, open_bank


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
