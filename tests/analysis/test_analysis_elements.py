"""Elements of containers column by column: the same rows as one by one."""

import math
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.analysis import element_blocks
from rayshot.analysis.batches import arrow_schema, read_batches, to_batches
from rayshot.analysis.planning import plan, read_items
from rayshot.analysis.query import parse_query
from rayshot.inert.redaction import show_secrets
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

FLAT = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**63 - 1, 2**63, -(2**63)])
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "é" * 10_001, '", "'])
)
VALUES = FLAT | st.lists(FLAT, max_size=2) | st.binary(max_size=40)
KEYS = st.sampled_from(["a", "token", "max_tokens", "$x", "\udc80", "it's"]) | st.integers() | st.tuples(st.integers())
CONTAINERS = (
    st.dictionaries(KEYS | st.text(max_size=3), FLAT)
    | st.dictionaries(KEYS, VALUES)
    | st.lists(FLAT)
    | st.lists(VALUES).map(deque)
    | st.lists(FLAT).map(tuple)
    | st.frozensets(st.integers() | st.text())
    | FLAT
)


def rows_both_ways(state, **options):
    """The rows column by column, and then one by one."""
    store = MemoryStore()
    make_snapshot(open_bank(store), Bank(states={"alice": state}, flows={}))
    system = Storage(store).system("bank")
    query = parse_query({"view": "entries"} | options)
    pieces = [piece for share in plan(query, system) for piece in share.pieces]
    columns = query.view.columns
    schema = arrow_schema(columns, {column.name: True for column in columns})
    columnwise = [row for batch in read_batches(query, system, pieces) for row in batch.to_pylist()]
    with show_secrets(query.show_secrets):
        batches = list(to_batches(read_items(query, system, pieces), columns, schema))
    return columnwise, [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.dictionaries(st.sampled_from(["book", "line", "password"]), CONTAINERS), st.booleans())
def test_rows_are_the_same_as_one_by_one(state, shows):
    columnwise, one_by_one = rows_both_ways(state, showsecrets=str(shows).lower())
    assert list(map(_comparable, columnwise)) == list(map(_comparable, one_by_one))


def _comparable(row):
    """NaN is itself."""
    return {name: "NaN" if isinstance(cell, float) and math.isnan(cell) else cell for name, cell in row.items()}


def test_keys_of_any_size_are_cut():
    text = "x" * 100_000
    state = {"book": {text: 1, (text, text): 2}, "tags": {(text,)}}
    columnwise, one_by_one = rows_both_ways(state)
    assert columnwise == one_by_one
    assert [len(row["key"]) for row in columnwise[:2]] == [10_000, 10_000]
    assert all(len(row["path"]) < 10_100 for row in columnwise)


@pytest.mark.parametrize("odd", [None, 2**63, [1], "x" * 5_000])
def test_many_elements_are_several_blocks(monkeypatch, odd):
    monkeypatch.setattr(element_blocks, "ROWS", 100)
    monkeypatch.setattr(element_blocks, "TEXT_LENGTH", 5_000)
    state = {"book": {f"k{number}": number / 7 for number in range(250)} | {"odd": odd, "pin": 1234, "n": 7}}
    columnwise, one_by_one = rows_both_ways(state)
    assert columnwise == one_by_one
    assert [row["key"] for row in columnwise] == list(state["book"])
    assert columnwise[-2]["value"] == '"<redacted>"'
