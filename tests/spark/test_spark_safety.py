import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException

from rayshot.places.local import LocalStore
from rayshot.snapshots.snapshot import Snapshot
from tests.snapshots.snapshot_builder import Bank, committed, make_snapshot, open_bank

Table = Callable[..., Any]


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "executed")


def chunk_files(storage: Path, snapshot: Snapshot) -> list[Path]:
    return [storage / snapshot.system / chunk.key for chunk in snapshot.manifest.chunks]


@pytest.mark.spark
def test_a_hostile_pickle_is_shown_and_writes_nothing(table: Table, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    states = {"alice": {"bomb": Hostile(proof), "command": Command(proof)}, "bob": {}}
    make_snapshot(open_bank(LocalStore(tmp_path / "shots")), Bank(states=states))
    shown = {row.attribute: row for row in table(tmp_path / "shots", "state").collect()}
    assert "write_text" in shown["bomb"].type
    assert str(proof) in shown["bomb"].value
    assert shown["command"].type.endswith(".system")
    assert shown["bomb"].value_string is None
    assert not proof.exists()


class Command(Hostile):
    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.spark
@pytest.mark.parametrize("view", ["state", "messages"])
def test_a_damaged_chunk_fails_the_job_with_what_is_damaged(table: Table, storage: Path, view: str) -> None:
    for path in chunk_files(storage, committed(LocalStore(storage))[0]):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(PythonException, match=r"CorruptChunk: .*chunk"):
        table(storage, view).collect()
    assert table(storage, "snapshots").count() == 2


@pytest.mark.spark
def test_a_missing_chunk_and_a_damaged_manifest_fail_the_job(table: Table, storage: Path) -> None:
    first, second = committed(LocalStore(storage))
    for path in chunk_files(storage, first):
        path.unlink()
    with pytest.raises(PythonException, match=r"MissingChunk: .*`rayshot verify` shows"):
        table(storage, "messages", "method string").count()
    manifest = storage / "bank" / second.record.manifest_key
    manifest.write_bytes(manifest.read_bytes()[:-9])
    with pytest.raises(PythonException, match="BadManifest"):
        table(storage, "snapshots").collect()


@pytest.mark.spark
@pytest.mark.acceptance("X6")
@pytest.mark.parametrize("view", ["snapshots", "state", "messages"])
def test_a_storage_whose_log_is_gone_fails_the_job_instead_of_being_empty(
    table: Table, storage: Path, view: str
) -> None:
    shutil.rmtree(storage / "bank/log")
    with pytest.raises((AnalysisException, PythonException), match="LogLost: the commit log of 'bank' is incomplete"):
        table(storage, view).collect()


def test_importing_rayshot_imports_no_spark_and_the_source_needs_no_ray() -> None:
    program = (
        "import sys, rayshot, rayshot.snapshots.repository\n"
        "print(sorted({'ray', 'pyspark', 'pyarrow'} & set(sys.modules)))\n"
        "import pyspark_rayshot\n"
        "print(sorted({'ray', 'pyarrow', 'rayshot.runtime'} & set(sys.modules)))\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "integrations")])}
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment, cwd=root
    )
    assert ended.stdout == "[]\n[]\n"
