"""What a pipeline refuses before Spark starts, and what it says of files that others have torn."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot.lake.places import FORMATS
from pyspark_rayshot.lake.writing import open_lake
from pyspark_rayshot.running import SNAPSHOTS_MAX, check, pipeline
from rayshot.errors import ConfigError
from rayshot.store.catalog import SystemView
from rayshot.store.local import LocalStore
from rayshot.store.repository import Repository
from tests.spark.lake_oracle import grow
from tests.store.snapshot_builder import open_bank

ROOT = Path(__file__).parents[2]
NO_SESSION: Any = None


@pytest.fixture
def bank(tmp_path: Path) -> Repository:
    repository = open_bank(LocalStore(tmp_path / "shots"))
    for counter in (1, 2, 3, 4):
        grow(repository, counter)
    return repository


@pytest.fixture
def system(bank: Repository) -> SystemView:
    return SystemView(bank.store, "bank")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


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
    with pytest.raises(ConfigError, match=name.replace("_", "_?") if name != "encryption_key_file" else ""):
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
    said = "that is a file" if where == "file" else "neither may be inside of the other"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=rf"a lake of {form} cannot lie in .*: .*{said}; give another folder"):
        pipeline(NO_SESSION, system.url, tmp_path / where, format=form, once=True)
    with pytest.raises(ConfigError, match=said), open_lake(system, tmp_path / where, form):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_beside_the_storage_whose_name_begins_alike_is_taken(system: SystemView, tmp_path: Path) -> None:
    with open_lake(system, tmp_path / "shots-lake", "parquet") as writer:
        assert writer.write(system.log_end()).snapshots == 4
