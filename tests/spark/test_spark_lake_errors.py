"""What a pipeline refuses before Spark starts, and what it says of files that others have torn."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot.lake import writing
from pyspark_rayshot.lake.history import history, lake_table
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import FORMATS
from pyspark_rayshot.lake.writing import find_lake, open_lake
from pyspark_rayshot.running import SNAPSHOTS_MAX, check, pipeline
from rayshot.errors import ConfigError, Damaged
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.spark.lake_oracle import assert_exact, grow, rows

ROOT = Path(__file__).parents[2]
NO_SESSION: Any = None


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where there is no Java at all."""
    folders = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    return subprocess.run(
        [sys.executable, "-m", "pyspark_rayshot.pipeline", *arguments],
        check=False,
        cwd=ROOT,
        env={"PATH": "/nowhere", "PYTHONPATH": folders, "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        *({"interval_s": value} for value in (-1.0, float("inf"), float("nan"), 1e9, "5", None, True)),
        *({"snapshots_max": value} for value in (0, -1, 2.5, True, "5", None, 2**31)),
        {"format": "orc"},
        {"format": None},
        {"show_secrets": True},
        {"encryption_key_file": "/no/such/file"},
    ],
)
def test_an_option_that_cannot_work_is_refused_without_a_session(
    system: SystemView, lake: Path, wrong: dict[str, Any]
) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match="(?i)" + name.replace("_", "_?")):
        pipeline(NO_SESSION, system.url, lake, once=True, **wrong)
    assert not lake.exists()


def test_options_that_can_work_are_taken(system: SystemView, lake: Path) -> None:
    for interval_s in (0, 0.5, 7, 1_000_000):
        read = check(
            system.url,
            lake,
            format="delta",
            interval_s=interval_s,
            snapshots_max=SNAPSHOTS_MAX,
            options={"system": "bank"},
        )
        assert read.system == "bank"
    assert not lake.exists()


@pytest.mark.sampled("more cases of one kind", keeps=5)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "orc"], "config_error: the format must be one of parquet, delta, iceberg; it is 'orc'"),
        (["--interval", "inf"], "config_error: interval_s must be a number of seconds from 0 to 1,000,000; it is inf"),
        (["--interval", "nan"], "config_error: interval_s must be a number of seconds"),
        (["--max-snapshots", "0"], "config_error: snapshots_max must be a whole number from 1"),
        (["--system", "shop"], "system_not_found: "),
        (["--encryption-key-file", "/no/such"], "config_error: encryptionKeyFile is /no/such"),
        ([], "config_error: Spark needs Java"),
    ],
)
def test_the_command_refuses_what_cannot_work_before_it_looks_for_java(
    system: SystemView, lake: Path, arguments: list[str], said: str
) -> None:
    ended = command(system.url, str(lake), *arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"error: {said}"), ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not lake.exists()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("where", ["shots", "shots/lake", "shots/bank/lake", ".", "link/lake", "file"])
def test_a_destination_that_is_a_file_or_lies_in_the_storage_or_around_it_is_refused(
    system: SystemView, tmp_path: Path, form: str, where: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "shots")
    (tmp_path / "file").write_text("mine")
    said = "that is a file" if where == "file" else "neither may be inside the other"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=rf"a lake of {form} cannot be in .*: .*{said}; give another folder"):
        pipeline(NO_SESSION, system.url, tmp_path / where, format=form, once=True)
    with pytest.raises(ConfigError, match=said), open_lake(system, tmp_path / where, form):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_beside_the_storage_whose_name_begins_alike_is_taken(system: SystemView, tmp_path: Path) -> None:
    with open_lake(system, tmp_path / "shots-lake", "parquet") as writer:
        assert writer.write(system.log_end()).snapshots == 4


def write(system: SystemView, lake: Path, form: str, *upto: int) -> None:
    with open_lake(system, lake, form) as writer:
        for one in upto or (system.log_end(),):
            writer.write(one)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _overwrite(data: bytes) -> bytes:
    return data[:4] + bytes(len(data) // 2) + data[4 + len(data) // 2 :]


@pytest.mark.sampled("more cases of one kind", keeps=5)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("tear", [_cut, _overwrite, lambda _: b"", None])
@pytest.mark.parametrize("table", ["snapshots", "gaps", "channels", "actors", "state_changes"])
def test_a_torn_file_of_the_lake_is_damage_that_names_it(
    bank: Repository, system: SystemView, lake: Path, form: str, table: str, tear: Any
) -> None:
    write(system, lake, form, 2)
    delete_snapshot(bank.store, "bank", "1-coordinator-3")
    write(system, lake, form)
    grow(bank, 5)
    file = Path(find_lake(lake).files(table)[0])
    data = file.read_bytes()
    file.unlink()
    if tear is not None:
        file.write_bytes(tear(data))
    elif form == "parquet":
        pytest.skip("what is not there is not listed")
    with pytest.raises(Damaged, match=rf"{file.name}, of the table {table} of a lake, .*put the file back") as caught:
        write(system, lake, form)
    assert caught.value.evidence == {"file": str(file), "table": table}
    file.write_bytes(data)
    write(system, lake, form)
    assert [row["snapshot"] for row in rows(lake, "gaps")] == ["1-coordinator-3"]


@pytest.mark.sampled("more cases of one kind", keeps=7)
@pytest.mark.parametrize("tear", [_cut, lambda _: b"", lambda _: b"[]", None])
@pytest.mark.parametrize("name", ["batch.json", "messages.parquet", "snapshots.parquet"])
def test_a_batch_on_its_way_that_was_torn_is_damage_and_nothing_of_it_is_taken(
    system: SystemView, lake: Path, name: str, tear: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, "parquet", 2)
    before = {table: rows(lake, table) for table in TABLES}
    with monkeypatch.context() as patch:
        patch.setattr(writing, "carry_over", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write(system, lake, "parquet")
    (place,) = (lake / ".staging").glob("0*")
    data = (place / name).read_bytes()
    (place / name).unlink()
    if tear is not None:
        (place / name).write_bytes(tear(data))
    with pytest.raises(Damaged, match=rf"{place.name} is a batch on its way .*remove this folder"):
        write(system, lake, "parquet")
    assert {table: rows(lake, table) for table in TABLES} == before
    shutil.rmtree(place)
    write(system, lake, "parquet")
    assert_exact(lake, system)


def test_tables_for_spark_are_looked_at_before_it_reads_them(system: SystemView, lake: Path) -> None:
    write(system, lake, "parquet", 2, 4)
    file = min((lake / "actors").glob("*.parquet"))
    file.write_bytes(_cut(file.read_bytes()))
    for ask in (lambda: lake_table(NO_SESSION, lake, "actors"), lambda: find_lake(lake).check("actors")):
        with pytest.raises(Damaged, match=rf"{file.name}, of the table actors"):
            ask()
    find_lake(lake).check("messages")


@pytest.mark.spark
def test_history_in_spark_says_which_file_is_torn(spark: Any, system: SystemView, lake: Path) -> None:
    write(system, lake, "parquet", 2, 4)
    history(spark, lake)
    for table in ("actors", "state_changes"):
        file = max((lake / table).glob("*.parquet"))
        data = file.read_bytes()
        file.write_bytes(_cut(data))
        with pytest.raises(Damaged, match=rf"{file.name}, of the table {table}"):
            history(spark, lake)
        file.write_bytes(data)
