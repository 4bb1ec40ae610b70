"""The workers of these tests are forks (tests/forks), and processes like any other."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tests.pods import UNSHARE, name_spaces_can_be_made
from tests.processes import ROOT

pytestmark = pytest.mark.ray


@ray.remote(num_cpus=0)
class Probe:
    def pid(self):
        return os.getpid()

    def parent(self):
        return Path(f"/proc/{os.getppid()}/cmdline").read_text()

    def draw(self):
        return random.random()


def test_a_worker_is_a_fork_that_dies_alone_and_draws_other_numbers_than_the_next(cluster):
    one, other = Probe.remote(), Probe.remote()
    assert all("tests/forks/parent.py" in parent for parent in ray.get([one.parent.remote(), other.parent.remote()]))
    assert len(set(ray.get([one.draw.remote(), other.draw.remote()]))) == 2
    pids = ray.get([one.pid.remote(), other.pid.remote()])
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(one.pid.remote())
    assert ray.get(other.pid.remote()) == pids[1] != pids[0]


def test_a_worker_with_settings_of_its_own_starts_by_itself(cluster):
    own = Probe.options(runtime_env={"env_vars": {"RAYSHOT_OWN": "setting"}}).remote()
    assert "tests/forks/parent.py" not in ray.get(own.parent.remote())


@pytest.mark.skipif(not name_spaces_can_be_made(), reason="this user may make no name space of processes")
def test_a_raylet_with_the_pid_of_an_earlier_one_is_another():
    program = [sys.executable, "-c", "from tests.forks.sitecustomize import life; print(life('1'))"]
    one, other = (
        subprocess.run([*UNSHARE, *program], cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in "12"
    )
    assert [name.partition("-")[0] for name in (one, other)] == ["1", "1"]
    assert one != other
