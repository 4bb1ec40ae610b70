"""Conditions on a query's rows leave out snapshots and entries before anything of them is read."""

import operator
from pathlib import Path
from typing import Any

import pytest

from rayshot.analysis.planning import plan, read_items
from rayshot.analysis.query import Condition, Query, parse_query
from rayshot.errors import NotFound
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import Storage, SystemView
from tests.snapshots.snapshot_builder import committed
from tests.spark.test_spark_options import lose_chunks


def query(view: str, *conditions: Condition, **options: str) -> Query:
    return parse_query({"view": view, **options}).narrowed(conditions)


def rows(system: SystemView, asked: Query) -> list[tuple[str, Any]]:
    shares = plan(asked, system)
    return [(str(snapshot.id), row) for s in shares for snapshot, row in read_items(asked, system, s.pieces)]


def test_conditions_choose_snapshots_by_their_records_and_entries_by_their_names(storage: Path) -> None:
    system = Storage(LocalStore(storage)).system("bank")
    for column, value in (("snapshot", "1-coordinator-2"), ("position", 2), ("log_index", 2)):
        found = rows(system, query("actors", Condition(column, operator.eq, value)))
        assert [(snapshot, row.name) for snapshot, row in found] == [
            ("1-coordinator-2", name) for name in ("alice", "bob", "carol")
        ]
    assert rows(system, query("actors", Condition("life", operator.ne, 1))) == []
    found = rows(system, query("channels", Condition("receiver", operator.eq, "bob"), snapshot="latest"))
    assert [(row.sender, row.receiver) for _, row in found] == [("alice", "bob")]
    unknown = query("channels", Condition("in_flight", operator.eq, 1))
    assert unknown.conditions == ()


def test_conditions_that_nothing_fits_are_an_empty_table_and_options_an_error_as_before(storage: Path) -> None:
    system = Storage(LocalStore(storage)).system("bank")
    nowhere = Condition("snapshot", operator.eq, "1-coordinator-9")
    assert rows(system, query("actors", nowhere, actor="alice")) == []
    with pytest.raises(NotFound, match="actor 'zed'"):
        rows(system, query("actors", nowhere, actor="zed"))


def test_nothing_of_what_conditions_leave_out_is_read(storage: Path) -> None:
    store = LocalStore(storage)
    first, second = committed(store)
    lose_chunks(store, first, second)
    store.delete(f"bank/{first.record.manifest_key}")
    system = Storage(store).system("bank")
    latest = Condition("log_index", operator.gt, 1)
    assert {snapshot for snapshot, _ in rows(system, query("state", latest))} == {"1-coordinator-2"}
    assert len(rows(system, query("messages", latest))) == 4
