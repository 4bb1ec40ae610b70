"""The README's first screen runs and prints what it says."""

import os
import subprocess
import sys

import pytest

from tests import readme
from tests.processes import search_path


@pytest.mark.ray
@pytest.mark.acceptance("X5")
def test_the_bank_of_the_readme_prints_what_the_readme_says(tmp_path):
    code, printed = readme.bank()
    script = tmp_path / "bank.py"
    script.write_text(code)
    for _ in ("the first time", "again, over its own snapshots"):
        done = subprocess.run(
            [sys.executable, script],
            capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
            env={**os.environ, **search_path(), "RAY_DEDUP_LOGS": "0"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert readme.said(done.stdout) == printed
