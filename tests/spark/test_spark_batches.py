import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_rayshot.options import parse_options
from pyspark_rayshot.source import SnapshotPartition
from rayshot.analysis import batches
from rayshot.analysis.planning import plan, read_items
from rayshot.analysis.views import VIEWS
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

NAMES = ["number", "args"]


def numbers(storage: Path) -> tuple[list[int], list[int]]:
    """All message numbers, and the sizes of the batches that they came in."""
    options = parse_options({"path": str(storage), "view": "messages"})
    system = options.open_system()
    (share,) = plan(options.query, system)
    columns = VIEWS["messages"].columns_named(NAMES)
    schema = batches.arrow_schema(columns, dict.fromkeys(NAMES, True))
    found = list(batches.to_batches(read_items(options.query, system, share.pieces), columns, schema))
    assert all(batch.schema == schema for batch in found)
    return [number for batch in found for number in batch["number"].to_pylist()], [batch.num_rows for batch in found]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    make_snapshot(open_bank(LocalStore(tmp_path)), Bank(flows={("alice", "bob"): Flow(sent=10_000)}))
    return tmp_path


def test_a_batch_has_a_bounded_number_of_rows(many: Path) -> None:
    found, sizes = numbers(many)
    assert found == list(range(1, 10_001))
    assert sizes == [4096, 4096, 10_000 - 2 * 4096]


def test_a_batch_has_a_bounded_length_of_text(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 1_000)
    found, sizes = numbers(many)
    assert found == list(range(1, 10_001))
    assert max(sizes) <= 1_000 / len("[10]")


def test_a_partition_travels_as_an_address_and_ids(many: Path) -> None:
    options = parse_options({"path": str(many), "view": "messages"})
    partition = SnapshotPartition(plan(options.query, options.open_system())[0])
    travelled = pickle.dumps(partition)
    assert pickle.loads(travelled) == partition
    assert partition.share.url == many.as_uri()
    assert b"LocalStore" not in travelled


@pytest.mark.spark
def test_every_column_has_the_arrow_type_that_spark_expects(spark: Any) -> None:
    for view in VIEWS.values():
        expected = to_arrow_schema(StructType.fromDDL(view.ddl), timezone="UTC")
        names = dict.fromkeys(expected.names, True)
        assert batches.arrow_schema(view.columns_named(names), names) == expected
