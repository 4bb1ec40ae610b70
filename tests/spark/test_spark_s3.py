"""Every view and the stream from a real S3 server, with no jar of Hadoop's for it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot import tables
from rayshot.analysis.views import VIEWS
from rayshot.places.kinds import open_store
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.places.s3_server import CREDENTIALS, S3Server, running_s3_server
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank
from tests.spark.conftest import SECOND
from tests.spark.stream_program import start, write_rows
from tests.spark.test_spark_stream import killed_while_reading

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3_server() as server:
        yield server


@pytest.fixture
def bank(s3: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Repository:
    """The storage of the other tests, in a bucket."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    repository = open_bank(open_store(s3.address(request.node.name.partition("[")[0])))
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, SECOND, 2)
    return repository


def without_place(rows: Any) -> list[dict[str, Any]]:
    """The rows without the address of a folder, which says in which storage it is."""
    return [{name: value for name, value in row.asDict().items() if name != "folder"} for row in rows]


def test_every_view_has_the_same_rows_as_on_disk(
    table: Callable[..., Any], bank: Repository, storage: Path, spark: Any
) -> None:
    assert spark.sparkContext._jsc.sc().listJars().isEmpty()
    for view in VIEWS:
        there, here = (table(place, view).collect() for place in (bank.store.url, storage))
        assert len(there) == len(here) > 0
        assert sorted(map(str, without_place(there))) == sorted(map(str, without_place(here)))


def test_tables_and_their_functions(spark: Any, bank: Repository) -> None:
    tables(spark, bank.store.url)
    assert spark.sql("select count(*) from messages where args:[0]::long = 50").first()[0] == 2


@pytest.mark.wide("slow")
def test_a_stream_is_exact_over_a_kill_between_planning_and_reading_and_a_restart(
    spark: Any, bank: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "written"
    folder.mkdir()

    def read() -> list[str]:
        def write(frame: Any, batch: int) -> None:
            write_rows(frame, batch, folder)

        start(spark, bank.store.url, str(tmp_path / "checkpoint"), write).awaitTermination()
        return [path.read_text().split()[0] for path in sorted(folder.iterdir())]

    killed_while_reading(1, bank.store.url, tmp_path, folder)
    assert [path.name for path in folder.iterdir()] == ["0"]
    assert read() == ["1-coordinator-1", "1-coordinator-2"]
    delete_snapshot(bank.store, "bank", "1-coordinator-1")
    make_snapshot(bank, Bank(), 3)
    assert read() == ["1-coordinator-1", "1-coordinator-2", "1-coordinator-3"]
