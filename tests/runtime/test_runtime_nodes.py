"""Systems on several nodes, of which one dies."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray
SCRIPT = Path(__file__).with_name("several_nodes.py")


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("X12")
@pytest.mark.parametrize(
    "case",
    [
        *("left", "replaced", "coordinator", "drained", "heals", "heals, coordinator", "heals, coordinator, drained"),
        *("heals, told to end", "heals, coordinator, drained, told to end"),
        pytest.param("busy", marks=pytest.mark.acceptance("B10")),
    ],
)
def test_a_system_that_lost_a_node_is_restored_at_once_on_those_there_are(tmp_path, case):
    """`left`: on the nodes that are left; `replaced`: an actor waits for another one; its `coordinator` died too.

    `drained`: the snapshot that it goes back to was taken by itself when Ray said that the node would go. Then Ray
    calls the coordinator dead, though it starts it again. `told to end`: the node's processes got SIGTERM. `heals`: the
    system goes back by itself; `busy`: in the midst of a snapshot, while numbers are told.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.several_nodes", case, str(tmp_path / "shots")],
        capture_output=True, text=True, timeout=180, check=False, cwd=SCRIPT.parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"restored {case}" in done.stdout.splitlines()
