"""The README's first screen runs and prints what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.ray
def test_the_bank_of_the_readme_prints_what_the_readme_says(tmp_path):
    text = (ROOT / "README.md").read_text()
    code, printed = re.search(r"```python\n(import os.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    script = tmp_path / "bank.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}", "RAY_DEDUP_LOGS": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith(("\x1b[", "("))] == printed.splitlines()
