"""A real stream: each snapshot once, over restarts, kills and deletions."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from rayshot.places.local import LocalStore
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank
from tests.spark.stream_program import start, write_rows

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


@pytest.fixture
def bank(tmp_path: Path) -> Repository:
    repository = open_bank(LocalStore(tmp_path / "shots"))
    for counter in (1, 2, 3):
        make_snapshot(repository, Bank(), counter)
    return repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "written"
    made.mkdir()
    return made


@pytest.fixture
def run(spark: Any, tmp_path: Path, folder: Path) -> Iterator[Any]:
    """Runs the stream over what there is, from its checkpoint on."""

    def until_all_is_read(**options: str) -> None:
        def write(frame: Any, batch: int) -> None:
            write_rows(frame, batch, folder)

        query = start(spark, str(tmp_path / "shots"), str(tmp_path / "checkpoint"), write, **options)
        query.awaitTermination()

    yield until_all_is_read
    for query in spark.streams.active:
        query.stop()


def written(folder: Path) -> dict[int, list[str]]:
    """The rows of each batch."""
    return {int(path.name): path.read_text().splitlines() for path in sorted(folder.iterdir())}


def rows(counter: int) -> list[str]:
    """What the usual bank has in flight in one snapshot."""
    return [f"1-coordinator-{counter} alice {number}" for number in (3, 4, 5)]


def killed_while_reading(batch: int, storage: str, tmp_path: Path, folder: Path) -> None:
    """A driver of its own read all batches before `batch`, planned that, and was killed with its JVM."""
    places = [storage, str(tmp_path / "checkpoint"), str(folder)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.stream_program", *places, str(batch)],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=240,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def test_each_snapshot_is_one_batch_and_a_restart_reads_only_what_came(
    bank: Repository, run: Any, folder: Path
) -> None:
    run()
    assert written(folder) == {0: rows(1), 1: rows(2), 2: rows(3)}
    make_snapshot(bank, Bank(), 4)
    run()
    assert written(folder) == {0: rows(1), 1: rows(2), 2: rows(3), 3: rows(4)}
    run()
    assert len(written(folder)) == 4


def test_a_driver_killed_between_planning_and_reading_loses_and_doubles_nothing(
    bank: Repository, run: Any, folder: Path, tmp_path: Path
) -> None:
    killed_while_reading(1, bank.store.url, tmp_path, folder)
    assert written(folder) == {0: rows(1)}
    make_snapshot(bank, Bank(), 4)
    run()
    assert written(folder) == {0: rows(1), 1: rows(2), 2: rows(3), 3: rows(4)}


@pytest.mark.wide("slow")
def test_a_snapshot_deleted_between_planning_and_restart_fails_the_stream_until_it_is_told_to_go_on(
    bank: Repository, run: Any, folder: Path, tmp_path: Path
) -> None:
    killed_while_reading(0, bank.store.url, tmp_path, folder)
    delete_snapshot(bank.store, "bank", "1-coordinator-1")
    with pytest.raises(StreamingQueryException, match=r"SnapshotDeleted: .*1-coordinator-1.*failOnDataLoss=false"):
        run()
    assert written(folder) == {}
    run(failOnDataLoss="false")
    assert written(folder) == {0: [], 1: rows(2), 2: rows(3)}


def test_a_snapshot_that_goes_while_its_batch_is_read_fails_the_batch(
    spark: Any, bank: Repository, tmp_path: Path
) -> None:
    def delete_then_read(frame: Any, batch: int) -> None:
        planned = frame.rdd
        assert planned.getNumPartitions() == 1
        delete_snapshot(bank.store, "bank", "1-coordinator-1")
        planned.collect()

    query = start(spark, str(tmp_path / "shots"), str(tmp_path / "checkpoint"), delete_then_read)
    with pytest.raises(StreamingQueryException, match="SnapshotDeleted"):
        query.awaitTermination()


@pytest.mark.wide("slow")
def test_a_checkpoint_of_another_storage_is_refused_before_anything_is_read(
    spark: Any, bank: Repository, run: Any, folder: Path, tmp_path: Path
) -> None:
    run()
    other = open_bank(LocalStore(tmp_path / "others"), "w2")
    for counter in range(1, 7):
        make_snapshot(other, Bank(), counter)
    query = start(spark, other.store.url, str(tmp_path / "checkpoint"), lambda frame, _: frame.collect())
    with pytest.raises(StreamingQueryException, match="ConfigError: the checkpoint is of another storage"):
        query.awaitTermination()
    assert len(written(folder)) == 3


@pytest.mark.wide("slow")
def test_from_now_on_reads_what_comes(bank: Repository, run: Any, folder: Path) -> None:
    run(startingSnapshot="latest")
    make_snapshot(bank, Bank(), 4)
    run(startingSnapshot="latest")
    assert [row for batch in written(folder).values() for row in batch] == rows(4)


@pytest.mark.wide("slow")
def test_a_stream_that_goes_on_reads_what_comes_and_tells_how_far_it_is(
    spark: Any, bank: Repository, tmp_path: Path
) -> None:
    frame = spark.readStream.format("rayshot").option("startingSnapshot", "1-coordinator-2")
    query = frame.load(str(tmp_path / "shots")).writeStream.format("memory").queryName("came").start()
    try:
        query.processAllAvailable()
        make_snapshot(bank, Bank(), 4)
        query.processAllAvailable()
        assert [row.log_index for row in spark.table("came").orderBy("log_index").collect()] == [2, 3, 4]
        (source,) = query.lastProgress["sources"]
        assert source["latestOffset"] == '{"log": 5}'
    finally:
        query.stop()


@pytest.mark.wide("slow")
@pytest.mark.parametrize(
    ("options", "schema", "complaint"),
    [
        ({"snapshot": "latest"}, None, "ConfigError: the option 'snapshot' chooses snapshots, and a stream"),
        ({"asOf": "2"}, None, "ConfigError: the option 'asOf' chooses snapshots, and a stream"),
        ({"logEnd": "2"}, None, "ConfigError: the option 'logEnd' chooses snapshots, and a stream"),
        (
            {"view": "log"},
            None,
            "ConfigError: the view 'log' is not about snapshots, and a stream reads snapshots as they",
        ),
        ({"view": "systems"}, None, "ConfigError: the view 'systems' is not about snapshots, and a stream reads"),
        ({}, "sent bigint", r"ConfigError: the view 'snapshots' has no column 'sent' \(bigint\); it has system, "),
        ({"encryptionKeyFile": "/no/keys"}, None, "ConfigError: encryptionKeyFile is /no/keys, which cannot be read"),
    ],
)
def test_what_a_stream_cannot_do_is_said_and_nothing_else(
    spark: Any, bank: Repository, options: dict[str, str], schema: str | None, complaint: str
) -> None:
    reader = spark.readStream.format("rayshot").options(**options)
    frame = (reader if schema is None else reader.schema(schema)).load(bank.store.url)
    for trigger in ({"availableNow": True}, {"processingTime": "1 second"}):
        query = frame.writeStream.foreachBatch(lambda rows, _: rows.collect()).trigger(**trigger).start()
        with pytest.raises(StreamingQueryException, match=complaint) as refused:
            query.awaitTermination()
        assert "UnboundLocalError" not in str(refused.value)
