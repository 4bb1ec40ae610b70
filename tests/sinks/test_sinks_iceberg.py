import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from rayshot.errors import ConfigError, SinkBehind, SinkFenced, SinkRefused
from rayshot.sinks import Backend, Held
from rayshot.sinks.iceberg import Iceberg
from tests.sinks.conformance import A, B, BackendConformance, made
from tests.sinks.tables import numbers, token

ONE = pa.schema([("n", pa.int64())])


class Lake:
    """An empty table of Iceberg, in a catalog in SQLite."""

    def __init__(self, folder: Path, schema: pa.Schema = ONE) -> None:
        self.folder = folder
        folder.mkdir()
        catalog = self.catalog()
        catalog.create_namespace("shop")
        catalog.create_table("shop.visits", schema)

    def catalog(self) -> SqlCatalog:
        return SqlCatalog("tests", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}")

    def backend(self) -> Backend:
        return Iceberg(self.catalog(), "shop.visits")

    def table(self) -> Table:
        return self.catalog().load_table("shop.visits")

    def seen(self) -> list[int]:
        return list(self.table().scan().to_arrow()["n"].to_pylist())


class TestSqlCatalog(BackendConformance):
    rounds_quick = 10

    @pytest.fixture
    def place(self, tmp_path: Any) -> Lake:
        return Lake(tmp_path / "lake")


@pytest.fixture
def lake(tmp_path: Any) -> Lake:
    return Lake(tmp_path / "lake")


def taken(lake: Lake, life: int = 1) -> Iceberg:
    backend = made(lake)
    backend.take(token(life))
    assert isinstance(backend, Iceberg)
    return backend


def test_who_looked_before_a_later_life_took_it_writes_nothing(lake: Lake) -> None:
    """The table has no snapshot before the first life takes it, and pyiceberg would try again by itself."""
    early, zombie = made(lake), made(lake)
    assert isinstance(early, Iceberg)
    assert early._look() is None
    zombie.take(token(1))
    assert isinstance(zombie, Iceberg)
    there = zombie._look()
    assert there is not None
    late = taken(lake, 2)
    for backend in (early, zombie):
        for rows in (numbers(1, 9), None):
            assert not backend._write(there.moved(Held(1, A)), rows)
    late.publish(token(2), 1, A, numbers(1))
    with pytest.raises(SinkFenced):
        zombie.publish(token(1), 1, A, numbers(1, 9))
    assert lake.seen() == [0]


def test_another_writer_between_a_look_and_a_write_makes_the_sink_look_again(lake: Lake) -> None:
    backend = taken(lake)
    look, others = backend._look, [100, 101]

    def look_and_be_overtaken() -> Any:
        there = look()
        if others:
            lake.table().append(pa.table({"n": [others.pop()]}))
        return there

    backend._look = look_and_be_overtaken  # type: ignore[method-assign]
    backend.publish(token(1), 1, A, numbers(1))
    assert sorted(lake.seen()) == [0, 100, 101]


def test_the_table_keeps_its_own_properties(lake: Lake) -> None:
    with lake.table().transaction() as change:
        change.set_properties({"commit.retry.num-retries": "7"})
    backend = taken(lake)
    backend.publish(token(1), 1, A, numbers(1))
    found = lake.table().properties
    assert (found["commit.retry.num-retries"], [*found]) == ("7", ["commit.retry.num-retries", "rayshot/shop/sink"])


def test_expired_snapshots_deleted_rows_and_new_columns_leave_it_as_it_is(lake: Lake) -> None:
    backend = taken(lake)
    for sequence in range(1, 4):
        backend.publish(token(1), sequence, A, numbers(1, sequence))
    table = lake.table()
    table.delete("n == 1")
    with table.update_schema() as change:
        from pyiceberg.types import StringType

        change.add_column("person", StringType())
    gone = [one.snapshot_id for one in table.snapshots()][:-1]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    assert len(lake.table().snapshots()) == 1
    assert made(lake).look() == Held(3, A)
    assert taken(lake, 2).take(token(2)) == Held(3, A)
    with pytest.raises(SinkFenced):
        backend.publish(token(1), 4, A, numbers(1, 9))
    late = taken(lake, 2)
    late.publish(token(2), 4, B, [{"n": 4, "person": "ann"}])
    assert sorted(lake.seen()) == [2, 3, 4]


def test_a_table_that_came_back_from_a_backup_is_noticed_at_the_next_batch(lake: Lake, tmp_path: Path) -> None:
    backend = taken(lake)
    backend.publish(token(1), 1, A, numbers(1))
    shutil.copy(lake.folder / "catalog.db", tmp_path / "backup.db")
    backend.publish(token(1), 2, A, numbers(1, 1))
    shutil.copy(tmp_path / "backup.db", lake.folder / "catalog.db")
    with pytest.raises(SinkBehind, match="has batches up to 1, so batch 3 would leave a gap"):
        backend.publish(token(1), 3, A, numbers(1, 2))
    catalog = lake.catalog()
    catalog.drop_table("shop.visits")
    with pytest.raises(ConfigError, match=r"catalog 'tests' has no table 'shop.visits': create it"):
        backend.publish(token(1), 3, A, numbers(1, 2))
    catalog.create_table("shop.visits", ONE)
    with pytest.raises(SinkBehind, match="what was kept of shop/sink is not there any more"):
        backend.publish(token(1), 3, A, numbers(1, 2))


def test_a_table_has_room_for_several_sinks(lake: Lake) -> None:
    for sink in ("a", "b"):
        backend = made(lake, sink)
        backend.take(token(1, f"run of {sink}"))
        backend.publish(token(1, f"run of {sink}"), 1, f"line of {sink}", numbers(1))
    assert {sink: made(lake, sink).look().line for sink in ("a", "b")} == {"a": "line of a", "b": "line of b"}
    assert lake.seen() == [0, 0]


WIDE = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("person", pa.string())])


@pytest.mark.parametrize(
    ("rows", "row", "why"),
    [
        ([{"n": 1}, {"n": "x"}], 1, "x"),
        ([{"n": 1}, {"person": "ann"}], 1, "field 'n' may not be null"),
        ([{"n": 1}, {"n": 2, "more": 3}], 1, "field 'more' is in the rows or in the schema"),
        (pa.table({"n": [1]}), None, "field 'person' is in the rows or in the schema"),
    ],
)
def test_a_row_that_never_fits_is_refused_and_nothing_of_its_batch_is_there(
    tmp_path: Any, rows: Any, row: Any, why: str
) -> None:
    lake = Lake(tmp_path / "lake", WIDE)
    backend = taken(lake)
    backend.publish(token(1), 1, A, pa.table({"person": ["ann"], "n": pa.array([1], pa.int8())}))
    with pytest.raises(SinkRefused, match=why) as caught:
        backend.publish(token(1), 2, A, rows)
    assert caught.value.evidence == {"sink": "shop/sink", "sequence": 2, "row": row}
    assert made(lake).look() == Held(1, A)
    assert lake.seen() == [1]


def test_an_answer_that_is_lost_is_told_from_a_step_that_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = SqlCatalog.commit_table
    steps = [
        lambda backend: backend.take(token(1)),
        lambda backend: backend.publish(token(1), 1, A, numbers(2)),
        lambda backend: backend.publish(token(1), 2, A, numbers(2, 2)),
        lambda backend: backend.reset(token(1), 1, B),
        lambda backend: backend.publish(token(1), 2, A, numbers(2, 2)),
    ]
    for before in (True, False):
        backend = made(lake, f"sink {before}")

        def lost(*args: Any, before: bool = before) -> None:
            if not before:
                commit(*args)
            raise ConnectionError("the answer is lost")

        for step in steps:
            with monkeypatch.context() as patch:
                patch.setattr(SqlCatalog, "commit_table", lost)
                with pytest.raises(ConnectionError):
                    step(backend)
            step(backend)
        assert backend.take(token(1)) == Held(2, A)
    assert sorted(lake.seen()) == sorted(2 * [0, 1, 2, 2, 3, 3])
