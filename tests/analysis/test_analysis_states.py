"""What states hold, in tables: cells that say what they leave out."""

import decimal

import numpy as np
import pytest

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
