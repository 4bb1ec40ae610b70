"""Examples run as their readers run them: as programs of their own."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.runtime.test_runtime_messages import eventually

ROOT = Path(__file__).resolve().parents[2]
END_S = 5.0


@pytest.fixture(scope="session")
def run_program():
    """Runs a Python program from the project's folder; returns what it printed, when it ended well and left nothing."""

    def run(*arguments, timeout_s=300):
        mark = f"examples-{uuid.uuid4().hex}"
        path = os.pathsep.join([str(ROOT), str(ROOT / "integrations"), os.environ["PYTHONPATH"]])
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path, "EXAMPLE_MARK": mark},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        eventually(lambda: not processes_with(mark), END_S)  # the last ones end when they see that the cluster has
        return [line.strip() for line in done.stdout.splitlines() if line.strip()]

    return run


def processes_with(mark):
    """Living processes that were started, by whatever way, by the program with this mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            pass  # it ended, or belongs to somebody else
    return found
