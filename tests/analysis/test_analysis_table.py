"""Views as tables of Arrow, pandas, polars and DuckDB, without Spark and without Ray."""

import subprocess
import sys

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rayshot
from rayshot.analysis.views import VIEWS
from rayshot.errors import ActorNotFound, ConfigError, SnapshotNotFound
from rayshot.inert.redaction import hides
from rayshot.places.local import LocalStore
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

BANK = Bank(
    states={"alice": {"balance": 75, "token": "hidden"}, "bob": {"balance": 95, "owners": ["b"], "rates": np.ones(2)}},
    flows={("alice", "bob"): Flow(sent=7, received=5), ("bob", "alice"): Flow(sent=2, received=1)},
    calls={1: ("on_balance", None, ())},
    timers=[(2.5, "deposit", (1,))],
    dead_letters=[("bob", "alice", 3, "deposit", "Traceback\nValueError: no", 1)],
    files={"alice": {"shard.pt": b"x"}, "bob": {}},
)


@pytest.fixture
def storage(tmp_path):
    repository = open_bank(LocalStore(tmp_path / "shots"))
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, BANK, 2)
    return rayshot.open(tmp_path / "shots")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_the_same_in_arrow_pandas_polars_and_duckdb(view, storage):
    table = storage.table(view)
    arrow = table.to_arrow()
    assert arrow.schema.names == [column.name for column in VIEWS[view].columns]
    assert arrow.num_rows > 0
    assert table.to_pandas().equals(arrow.to_pandas())
    assert table.to_polars().equals(pl.DataFrame(arrow))
    assert pa.table(table) == arrow
    rows = table
    for _ in range(5):  # DuckDB asks for batches from several threads
        assert duckdb.sql("from rows").to_arrow_table().to_pylist() == pa.table(table).to_pylist()
    assert rows.to_arrow() == arrow


def test_duckdb_asks_a_table_in_sql(storage):
    messages = storage.table("messages", snapshot="latest").to_arrow()
    found = duckdb.sql("select sender, count(*) from messages group by all order by all").fetchall()
    assert found == [("alice", 2), ("bob", 1)]
    assert messages.schema.field("number").metadata[b"comment"] == b"its number on the channel"


def test_options_are_those_of_spark_with_names_of_python(storage):
    balance, token = storage.table("state", actor="alice", snapshot="latest").to_arrow()["value"].to_pylist()
    assert (balance, token) == ("75", '"<redacted>"')
    shown = storage.table("state", actor="alice", snapshot="latest", show_secrets=["token"]).to_arrow()
    assert shown["value_string"].to_pylist() == [None, "hidden"]
    with pytest.raises(ConfigError, match="has no option 'actr'"):
        storage.table("state", actr="alice")
    with pytest.raises(ActorNotFound, match="there is alice, bob"):
        storage.table("state", actor="zed")
    with pytest.raises(SnapshotNotFound):
        storage.table(snapshot="7-coordinator-7")


@pytest.mark.wide("slow")
def test_tables_that_are_read_in_turns_show_secrets_each_by_its_own_options():
    store = MemoryStore()
    states = {f"a{number}": {"password": "hunter2", "x": number} for number in range(9_000)}
    make_snapshot(open_bank(store), Bank(states=states, flows={}), 1)
    hidden, open_ = (Storage(store).table("state", **options).batches() for options in ({}, {"show_secrets": True}))
    for _ in range(2):
        for batches, count in ((hidden, 0), (open_, 2_048)):
            assert next(batches)["value"].to_pylist().count('"hunter2"') == count
        assert hides("password", "x")


def test_a_table_is_a_moment(storage, tmp_path):
    table = storage.table("snapshots")
    make_snapshot(open_bank(LocalStore(tmp_path / "shots")), BANK, 3)
    assert [table.to_arrow().num_rows, storage.table().to_arrow().num_rows] == [2, 3]


def test_a_store_that_no_other_process_can_open_is_read_too():
    store = MemoryStore()
    make_snapshot(open_bank(store), BANK)
    assert Storage(store).table("actors").to_arrow()["actor"].to_pylist() == ["alice", "bob"]


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, storage):
    code = (
        "import sys, rayshot, rayshot.errors; sys.modules['pyarrow'] = None\n"
        "try: rayshot.open(sys.argv[1]).table()\n"
        "except rayshot.errors.ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "shots"], capture_output=True, text=True, check=False)
    assert "tables need pyarrow: pip install 'rayshot[tables]'" in done.stdout + done.stderr, done.stderr
