"""The workers of these tests are forks (tests/forks), and processes like any other."""

import os
import random
import signal
from pathlib import Path

import pytest
import ray

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
