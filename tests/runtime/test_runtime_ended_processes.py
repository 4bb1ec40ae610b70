"""Processes of a system that are told to end, as by Kubernetes or `kill`."""

import os
import signal

import pytest
import ray

from rayshot.runtime.ray.naming import find_coordinator, named_actors, prefix
from tests.runtime.healed import goes_round, pid_of, report, started, until_it_runs
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def pid_behind(handle):
    return ray.get(handle.__ray_call__.remote(lambda _: os.getpid()))


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - no file, but the kernel's words
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def pid_of_kind(system, kind):
    return next(pid_behind(found) for name, found in named_actors(prefix(system.name)).items() if f"/{kind}/" in name)


@pytest.mark.acceptance("P2")
def test_each_process_of_a_system_that_is_told_to_end_is_dead_at_once_and_the_system_goes_on(new_system, tmp_path):
    system, posts = started(new_system, spares=1)
    eventually(lambda: report(system).get("spares") == 1, 60)
    posts[1].nap.tell(60, str(tmp_path / "napping"))
    eventually((tmp_path / "napping").exists)
    told = [
        pid_of(system, "post1"),
        pid_of_kind(system, "vault"),
        pid_of_kind(system, "spare"),
        pid_behind(find_coordinator(system.name)),
    ]
    for pid in told:
        os.kill(pid, signal.SIGTERM)
        eventually(lambda pid=pid: is_gone(pid))
    until_it_runs(system)
    system.wait_until_running(30)
    assert goes_round(system)
