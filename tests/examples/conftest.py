"""Examples run as their readers run them: as programs of their own."""

import os
import subprocess
import sys
import uuid

import pytest

from tests.processes import ROOT, marked, search_path
from tests.waiting import eventually

END_S = 5.0


@pytest.fixture(scope="session")
def run_program():
    """Runs a Python program from the project's folder; returns what it printed, when it ended well and left nothing."""

    def run(*arguments, timeout_s=300):
        mark = f"examples-{uuid.uuid4().hex}"
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | search_path(ROOT / "integrations") | {"EXAMPLE_MARK": mark},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        eventually(lambda: not marked(mark), END_S)  # the last ones end when they see that the cluster has
        return [line.strip() for line in done.stdout.splitlines() if line.strip()]

    return run
