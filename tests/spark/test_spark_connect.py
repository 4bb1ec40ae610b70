import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.wide("a server of Spark of its own")
@pytest.mark.spark
def test_tables_functions_and_streams_work_under_spark_connect(storage: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_program", str(storage), str(tmp_path / "checkpoint")],
        check=True,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "kind": "pyspark.sql.connect.session",
        "read": 2,
        "function": [90],
        "variant": 30 + 40 + 50 + 30 + 40 + 50 + 10,
        "stream": ["1-coordinator-1", "1-coordinator-2"],
    }
