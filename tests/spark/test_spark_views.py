import json
import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from rayshot.analysis.view import EVERY
from rayshot.analysis.views import VIEWS
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import TAKEN_AT, Bank, make_snapshot, open_bank

pytestmark = pytest.mark.spark
Table = Callable[..., Any]


ONLY_IN_THE_SECOND = {"entries", "arrays", "calls", "timers", "dead_letters", "outside"}
"""Views of what the first snapshot has nothing of."""


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_every_view_has_the_columns_it_promises_and_says_which_snapshot_each_row_is_of(
    table: Table, storage: Path
) -> None:
    for name, view in VIEWS.items():
        frame = table(storage, name)
        assert frame.dtypes == [(column.name, column.type) for column in view.columns]
        assert [field.metadata["comment"] for field in frame.schema] == [column.about for column in view.columns]
        found = frame.collect()
        assert found
        if view.subject != "snapshot":
            continue
        ids = {
            (row.system, row.snapshot, row.position, row.taken_at.timestamp(), row.log_index, row.life) for row in found
        }
        both = {
            ("bank", "1-coordinator-1", 1, TAKEN_AT + 1, 1, 1),
            ("bank", "1-coordinator-2", 2, TAKEN_AT + 2, 2, 1),
        }
        assert ids == both if name not in ONLY_IN_THE_SECOND else both - ids == {min(both)}


def test_a_snapshot_is_a_row(table: Table, storage: Path) -> None:
    first, second = table(storage, "snapshots").orderBy("position").collect()
    assert isinstance(first.taken_at, datetime)
    assert (first.label, second.label) == (None, "payday")
    assert (second.mode, second.actors, second.channels, second.in_flight) == ("chandy-lamport", 3, 3, 4)
    assert (first.new_bytes, first.restored_from) == (first.bytes, None)
    assert second.bytes > first.bytes > 0


def test_a_file_that_an_actor_wrote_is_a_row(table: Table, storage: Path) -> None:
    named = "snapshot string, actor string, payload string, file string, bytes bigint"
    assert rows(table(storage, "outside", named).orderBy("actor")) == [
        ("1-coordinator-2", "alice", '{"step": 3}', "shard.pt", 1),
        ("1-coordinator-2", "bob", '{"step": 3}', None, None),
    ]


def test_a_figure_is_a_row_with_its_unit(table: Table, storage: Path) -> None:
    metrics = table(storage, "metrics", "snapshot string, name string, value double, unit string")
    assert rows(metrics) == [(f"1-coordinator-{n}", "duration_ms", 12.5, "ms") for n in (1, 2)]


def test_an_actor_is_a_row_born_or_not(table: Table, storage: Path) -> None:
    actors = table(storage, "actors", snapshot="latest")
    assert rows(actors.select("actor", "status", "class_name")) == [
        ("alice", "born", "bank.Account"),
        ("bob", "born", "bank.Account"),
        ("carol", "unborn", "bank.Account"),
    ]
    sizes = {row.actor: row.state_bytes for row in actors.collect()}
    assert sizes["alice"] > 8 * 50_000
    assert sizes["carol"] == 0
    assert actors.first().methods == ["deposit", "read", "transfer"]


def test_an_attribute_is_a_row_with_its_type_its_size_and_its_value_in_typed_columns(
    table: Table, storage: Path
) -> None:
    alice = {row.attribute: row for row in table(storage, "state", snapshot="latest", actor="alice").collect()}
    assert {name: row.type for name, row in alice.items()} == {
        "wide": "int",
        "nan": "float",
        "array": "numpy.ndarray",
        "count": "numpy.int64",
        "name": "str",
        "open": "bool",
        "nothing": "NoneType",
        "nested": "dict",
    }
    wide = alice["wide"]
    assert (wide.value, wide.value_long, wide.value_double) == (f'"{2**70}"', None, 2.0**70)
    assert wide.value_decimal == Decimal(2**70)
    assert {name for name, row in alice.items() if row.truncated} == {"array"}
    assert alice["nan"].value == '"NaN"'
    assert math.isnan(alice["nan"].value_double)
    assert alice["array"].bytes == 8 * 50_000
    assert json.loads(alice["array"].value)["shape"] == [50_000]
    assert (alice["count"].value, alice["count"].value_long, alice["count"].value_double) == ("-4", -4, None)
    assert (alice["name"].value, alice["name"].value_string) == ('"Zoë"', "Zoë")
    assert (alice["open"].value_bool, alice["open"].value_long) == (True, None)
    assert alice["nothing"].value == "null"
    assert json.loads(alice["nested"].value) == {"history": [1, [2, 3]]}


def test_a_state_that_is_no_dict_is_one_row(table: Table, storage: Path) -> None:
    (row,) = table(storage, "state", snapshot="latest", actor="bob").collect()
    assert (row.attribute, row.type, row.value) == ("(state)", "list", "[1, 2]")


def test_a_channel_is_a_row_with_its_counters(table: Table, storage: Path) -> None:
    channels = table(storage, "channels", snapshot="1-coordinator-1").drop(*(column.name for column in EVERY))
    assert [row[:6] for row in rows(channels)] == [
        ("alice", "bob", 5, 4, 2, 3),
        ("driver:main", "alice", 3, 3, 3, 0),
    ]
    assert [row.bytes > 0 for row in channels.collect()] == [True, False]


def test_a_message_in_flight_is_a_row(table: Table, storage: Path) -> None:
    messages = table(storage, "messages", snapshot="latest", sender="alice")
    assert rows(messages.drop(*(column.name for column in EVERY))) == [
        ("alice", "bob", 3, "mailbox", "tell", None, "deposit", "[30]", "{}", False),
        ("alice", "bob", 4, "mailbox", "tell", None, "deposit", "[40]", "{}", False),
        ("alice", "bob", 5, "outbox", "tell", None, "deposit", "[50]", "{}", False),
    ]


def test_what_was_done_between_two_snapshots_is_rows_or_an_error(table: Table, storage: Path) -> None:
    moves = table(storage, "channel_diff", "relation string, sender string, sent long, waited long", snapshot="latest")
    assert rows(moves) == [("before", "alice", 0, 3), ("before", "bob", 1, 0), ("before", "driver:main", 0, 0)]
    make_snapshot(open_bank(LocalStore(storage), writer="another"), Bank(), 1)
    pairs = table(storage, "state_diff", "relation string, actor string").distinct()
    assert sorted(rows(pairs), key=str) == [
        ("before", "alice"),
        ("before", "bob"),
        ("before", "carol"),
        ("other life", None),
    ]
    with pytest.raises(AnalysisException, match="1-coordinator-2 and 2-coordinator-1 are of different lives"):
        table(storage, "state_diff", snapshot="latest").collect()
    assert rows(table(storage, "lineage", "relation string, actors_back array<string>")) == [
        ("before", []),
        ("other life", ["bob", "carol"]),
    ]


def test_the_systems_of_a_storage_and_the_records_of_a_log_are_rows(table: Table, storage: Path) -> None:
    open_bank(LocalStore(storage), system="shop")
    systems = table(storage, "systems", "system string, snapshot string, snapshots long, lives long")
    assert rows(systems) == [("bank", "1-coordinator-2", 2, 1), ("shop", None, 0, 1)]
    log = table(storage, "log", "log_index long, kind string, counts boolean", system="bank")
    assert rows(log) == [(0, "epoch", True), (1, "commit", True), (2, "commit", True)]


def test_what_a_state_holds_and_waits_for_are_rows(table: Table, storage: Path) -> None:
    def of_alice(view: str, *names: str) -> list[tuple[Any, ...]]:
        return rows(table(storage, view, snapshot="latest", actor="alice").select(*names))

    (state,) = of_alice("objects", "state")
    assert json.loads(state[0])["nested"] == {"history": [1, [2, 3]]}
    assert of_alice("entries", "path", "key", "type", "value") == [
        ("nested['history']", "history", "list", "[1, [2, 3]]")
    ]
    ((path, shape, numbers),) = of_alice("arrays", "path", "shape", "values")
    assert (path, shape, numbers[:2], len(numbers)) == ("array", [50_000], [0.0, 1.0], 50_000)
    assert of_alice("calls", "call_id", "callee", "method", "context") == [(1, "bob", "on_balance", "[]")]
    assert of_alice("timers", "method", "in_s", "args") == [("deposit", 2.5, "[1]")]
    assert of_alice("dead_letters", "place", "came_in_life", "sender", "receiver", "number", "method", "reason") == [
        (0, 1, "alice", "bob", 3, "deposit", "ValueError: no")
    ]


def test_the_tables_join_in_sql(spark: Any, table: Table, storage: Path) -> None:
    table(storage, "state").createOrReplaceTempView("state")
    table(storage, "messages").createOrReplaceTempView("messages")
    found = spark.sql(
        "SELECT actor, first(value_long) + sum(get_json_object(args, '$[0]')) AS later FROM state JOIN messages "
        "ON messages.snapshot = state.snapshot AND receiver = actor WHERE attribute = 'balance' GROUP BY actor"
    )
    assert rows(found.selectExpr("actor", "cast(later AS int)")) == [("bob", 10 + 30 + 40 + 50)]


def test_a_schema_of_the_users_own_prunes_columns(table: Table, storage: Path) -> None:
    state = table(storage, "state", "attribute string, value_long long", snapshot="1-coordinator-1")
    assert rows(state) == [("balance", 90), ("balance", 10)]
    assert rows(table(storage, "state", "value_long long, actor string", actor="bob").na.drop()) == [(10, "bob")]


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (
            "attribute string, price double",
            r"the view 'state' has no column 'price' \(double\); it has system, .* value",
        ),
        ("value_long int", "the column 'value_long' of the view 'state' is bigint, not int"),
        ("actor string, actor string", "the schema names a column twice: actor, actor"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_with_the_columns_there_are(
    table: Table, storage: Path, schema: str, complaint: str
) -> None:
    with pytest.raises(AnalysisException, match=f"ConfigError: {complaint}"):
        table(storage, "state", schema).collect()
