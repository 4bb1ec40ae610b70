"""The pipeline as it is run: kills of driver and JVM behind each commit, its command line, and how it ends."""

import os
import re
import signal
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot import pipeline
from pyspark_rayshot.lake.history import history, lake_table
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import FORMATS
from pyspark_rayshot.lake.writing import open_lake
from rayshot.errors import ConfigError, ForeignLake, SystemNotFound
from rayshot.keys.encryption import EncryptionKey
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.snapshots.snapshot_builder import open_bank
from tests.spark.lake_oracle import assert_exact, grow, rows
from tests.spark.lake_workers import make_all_large
from tests.spark.pipeline_program import BY_EXECUTORS

ROOT = Path(__file__).parents[2]
KILLED_WITH_SPARK = [("parquet", "messages"), ("delta", "state_changes"), ("iceberg", "snapshots"), ("parquet", "none")]
"""Of each format one; the others take minutes: `make kills`."""
OTHERS = [case for case in product(FORMATS, [*TABLES, "none"]) if case not in KILLED_WITH_SPARK]


@pytest.fixture
def bank(tmp_path: Path) -> Repository:
    repository = open_bank(LocalStore(tmp_path / "shots"))
    for counter in range(1, 6):
        grow(repository, counter)
    return repository


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")])}


def program(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.pipeline_program", *arguments],
        check=False,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=240,
    )


@pytest.mark.sampled("one more format of a lake", keeps=1)
@pytest.mark.parametrize("form", FORMATS)
def test_writers_killed_behind_each_commit_leave_what_the_next_one_makes_exact(
    system: SystemView, lake: Path, form: str
) -> None:
    ended = program(system.url, str(lake), form)
    assert ended.returncode == 0, ended.stderr.decode()
    with open_lake(system, lake, form) as writer:
        writer.write(system.log_end())
    assert_exact(lake, system)


@pytest.mark.sampled("one more format or table", keeps=1)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("form", "table"),
    [
        *KILLED_WITH_SPARK,
        *(
            pytest.param(*case, marks=pytest.mark.long("a kill behind each commit to each table: `make kills`"))
            for case in OTHERS
        ),
    ],
)
def test_a_driver_killed_with_its_jvm_behind_a_commit_loses_and_doubles_nothing(
    spark: Any,
    bank: Repository,
    system: SystemView,
    lake: Path,
    form: str,
    table: str,
) -> None:
    ended = program(system.url, str(lake), form, table)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    by_executors = [path for path in lake.glob("messages/**/*.parquet") if re.search(r"-[0-9]{1,3}$", path.stem)]
    assert bool(by_executors) == (table in BY_EXECUTORS)
    grow(bank, 6)
    total = pipeline(spark, system.url, lake, format=form, once=True, snapshots_max=3)
    assert total.newest == "1-coordinator-6"
    assert_exact(lake, system)
    assert pipeline(spark, system.url, lake, format=form, once=True)[:3] == (0, 0, 0)
    assert_exact(lake, system)


@pytest.mark.spark
def test_what_runs_on_writes_what_comes_counts_gaps_and_stops_between_batches(
    spark: Any, bank: Repository, system: SystemView, lake: Path
) -> None:
    stop, seen = threading.Event(), []

    def note(one: Any) -> None:
        seen.append(one)
        if one.newest == "1-coordinator-5":
            grow(bank, 6)
            delete_snapshot(bank.store, "bank", "1-coordinator-6")
            grow(bank, 7)
        else:
            stop.set()

    total = pipeline(spark, system.url, lake, interval_s=0.1, progress=note, stop=stop, system="bank")
    assert (total.snapshots, total.gaps, total.newest) == (6, 1, "1-coordinator-7")
    assert [row["snapshot"] for row in rows(lake, "gaps")] == ["1-coordinator-6"]
    assert_exact(lake, system)
    assert spark.streams.active == []


@pytest.mark.sampled("one more way in which a storage is another one", keeps=1)
@pytest.mark.spark
@pytest.mark.parametrize("instead", [0, 5, 9])
def test_a_storage_that_is_gone_or_another_one_ends_a_pipeline_that_runs_with_a_typed_error(
    spark: Any, system: SystemView, lake: Path, tmp_path: Path, instead: int
) -> None:
    other = open_bank(LocalStore(tmp_path / "other"), "another")
    for counter in range(1, instead + 1):
        grow(other, counter)

    def replace(_: Any) -> None:
        (tmp_path / "shots").rename(tmp_path / "old")
        if instead:
            (tmp_path / "other").rename(tmp_path / "shots")
            grow(open_bank(LocalStore(tmp_path / "shots"), "third"), 1)

    with pytest.raises((ForeignLake, SystemNotFound), match=r"another one|holds no system"):
        pipeline(spark, system.url, lake, interval_s=0.1, progress=replace, system="bank")
    assert len(rows(lake, "snapshots")) == 5


@pytest.mark.wide("slow")
@pytest.mark.spark
def test_errors_keep_their_types_and_history_is_a_view_in_spark(
    spark: Any, system: SystemView, lake: Path, tmp_path: Path
) -> None:
    pipeline(spark, system.url, lake, format="delta", once=True)
    history(spark, lake)
    found = spark.sql("select value, valid_from, valid_to from history where actor = 'bob' and attribute = 'balance'")
    assert sorted(tuple(row) for row in found.collect())[:2] == [("1", 1, 2), ("2", 2, 3)]
    assert lake_table(spark, lake, "snapshots").count() == 5
    other = open_bank(LocalStore(tmp_path / "other"))
    with pytest.raises(ForeignLake):
        pipeline(spark, other.store.url, lake, format="delta", once=True)
    for wrong in ({"interval_s": -1.0}, {"snapshots_max": 0}, {"show_secrets": True}, {"format": "orc"}):
        with pytest.raises(ConfigError):
            pipeline(spark, system.url, lake, once=True, **wrong)
    with pytest.raises(ConfigError, match="a folder of this machine"):
        pipeline(spark, system.url, "s3://bucket/lake", once=True)


@pytest.mark.wide("slow")
@pytest.mark.spark
def test_no_key_of_an_encrypted_snapshot_goes_through_a_file_on_its_way_to_executors(
    spark: Any, tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = EncryptionKey(bytes(range(32)))
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", key.text)
    repository = open_bank(LocalStore(tmp_path / "sealed"), keys=[key])
    grow(repository, 1)
    make_all_large(monkeypatch)
    unlink, written = os.unlink, []

    def look(path: str, **where: Any) -> None:
        if not where:  # else what Python itself removes
            written.append(Path(path).read_bytes())
        unlink(path, **where)

    monkeypatch.setattr("pyspark.core.context.os.unlink", look)
    assert pipeline(spark, repository.store.url, lake, once=True).snapshots == 1
    assert written, "what tasks work on goes through files of the driver"
    assert not [data for data in written if key.secret in data or key.secret.hex().encode() in data]


@pytest.mark.wide("slow")
@pytest.mark.spark
def test_a_spark_that_is_killed_is_one_line_and_the_lake_is_whole(
    bank: Repository, system: SystemView, lake: Path
) -> None:
    command = [sys.executable, "-u", "-m", "pyspark_rayshot.pipeline", system.url, str(lake), "--interval", "0.5"]
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert running.stdout is not None
    assert "5 snapshots" in running.stdout.readline()
    found = subprocess.run(["pgrep", "-P", str(running.pid)], check=True, capture_output=True, text=True)
    for child in found.stdout.split():
        os.kill(int(child), signal.SIGKILL)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 1, said
    assert said.splitlines()[-1].startswith("error: no_answer: Spark failed, or is gone"), said
    assert "Traceback" not in said
    grow(bank, 6)
    with open_lake(system, lake, "parquet") as writer:
        writer.write(system.log_end())
    assert_exact(lake, system)


@pytest.mark.wide("slow")
@pytest.mark.spark
def test_the_command_ends_cleanly_at_ctrl_c(system: SystemView, lake: Path) -> None:
    command = [sys.executable, "-u", "-m", "pyspark_rayshot.pipeline", system.url, str(lake), "--interval", "0.5"]
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert running.stdout is not None
    lines = [running.stdout.readline()]
    running.send_signal(signal.SIGINT)
    lines += running.communicate(timeout=60)[0].splitlines()
    assert running.returncode == 0, lines
    assert "5 snapshots" in lines[0]
    assert lines[-1].startswith("stopped: 5 snapshots, 0 gaps")
    assert_exact(lake, system)
