"""A system whose snapshots fail: programs that may keep no more go on, and it stops rather than lose what they told."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import SnapshotAborted, SystemDown
from tests.processes import search_path
from tests.runtime.healed import HEALS, Till, die_at, kill, pid_of, report, until_it_runs, until_it_stops
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray
KEPT_MAX = 50_000
COUNT = 3_000


@pytest.fixture
def system(new_system, monkeypatch):
    """A system of two tills. One has a first snapshot, and cannot record any more."""
    monkeypatch.setattr("rayshot.runtime.channel.retained.RETAINED_BYTES_MAX", KEPT_MAX)
    system = new_system(failure=HEALS, snapshots=SnapshotConfig(interval_s=0.2, timeout_s=5.0))
    tills = [Till.options(name=name).remote() for name in ("kept", "killed")]
    ray.get([till.read.remote() for till in tills])
    system.snapshot()
    ray.get(tills[0].hold_lock.remote())
    return system


def tell(system, count=COUNT, name="kept"):
    """Tell much more than this program may keep; returns the seconds that this takes until all is handled."""
    till, began = system.get_actor(name), time.monotonic()
    for _ in range(count):
        till.add.tell("x" * 100)
    ray.get(till.read.remote())
    return time.monotonic() - began


def until_it_can_roll_back(system):
    """The state can be recorded again."""
    ray.get(system.get_actor("kept").drop_lock.remote())
    eventually(lambda: system.status().cannot_go_back_since is None, 30)
    assert system.status().detail == ""


def test_a_program_goes_on_while_snapshots_fail_and_when_one_succeeds_nothing_is_lost_any_more(system):
    assert tell(system) < 20
    status = system.status()
    assert status.state == "running"
    assert "it cannot go back to a snapshot, until one succeeds" in status.detail
    assert status.cannot_go_back_since is not None
    with pytest.raises(SnapshotAborted):
        system.snapshot()
    seconds = tell(system)
    assert seconds < 10, "nothing waits for snapshots"
    until_it_can_roll_back(system)
    tell(system, 10)
    kill(system, "kept")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(system.get_actor("kept").read.remote(), timeout=30) == 2 * COUNT + 10


def test_if_anything_dies_meanwhile_it_stops_and_says_why_and_what_to_do(system, tmp_path):
    tell(system)
    kill(system, "killed")
    why = until_it_stops(system)
    assert "it cannot go back since" in why
    assert "rayshot.resume and rayshot.restore go on from there, and lose what came behind it" in why
    with pytest.raises(SystemDown, match="cannot go back since"):
        eventually(lambda: tell(system, 1) < 0, 30)
    system.shutdown()
    restored = rayshot.restore(storage=tmp_path / "shots")
    try:
        assert ray.get(restored.get_actor("kept").read.remote()) == 0
    finally:
        restored.shutdown()


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("also_dies", [False, True])
def test_a_coordinator_that_takes_over_knows_it(system, also_dies):
    tell(system)
    pid = pid_of(system, "killed")
    kill_coordinator(system)
    if also_dies:
        os.kill(pid, signal.SIGKILL)
        assert "it cannot go back since" in until_it_stops(system)
        return
    until_it_runs(system, life=1)
    assert "it cannot go back to a snapshot, until one succeeds" in report(system)["let_go"][1]
    until_it_can_roll_back(system)
    kill(system, "kept")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(system.get_actor("kept").read.remote(), timeout=30) == COUNT


def test_a_coordinator_that_dies_before_it_decides_leaves_the_decision_to_the_next_one(system):
    tell(system)
    die_at(system, "before_rollback")
    kill(system, "killed")
    assert "it cannot go back since" in until_it_stops(system)


@pytest.mark.wide("slow")
@pytest.mark.parametrize("together", [False, True])
def test_what_a_program_evicted_that_is_gone_keeps_no_system_from_going_back(system, together):
    program = f"""
        import sys
        import ray, rayshot
        from rayshot.runtime.channel import retained
        retained.RETAINED_BYTES_MAX = {KEPT_MAX}
        ray.init({ray.get_runtime_context().gcs_address!r}, log_to_driver=False)
        till = rayshot.attach({system.name!r}).get_actor("kept")
        for _ in range({COUNT}):
            till.add.tell("x" * 100)
        print("told", flush=True)
        sys.stdin.read()
    """
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **search_path()},
    )  # fmt: skip
    with running:
        assert running.stdout.readline() == "told\n"
        eventually(lambda: system.status().cannot_go_back_since is not None, 30)
        if together:
            kill_coordinator(system, running.pid, pid_of(system, "killed"))
        else:
            running.kill()
            eventually(lambda: system.status().cannot_go_back_since is None, 30)
            kill(system, "killed")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(system.get_actor("kept").read.remote(), timeout=30) == 0


def test_where_nobody_asks_for_snapshots_a_program_that_may_keep_no_more_gets_one(new_system, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.channel.retained.RETAINED_BYTES_MAX", KEPT_MAX)
    system = new_system()
    Till.options(name="kept").remote()
    assert tell(system) < 60
    assert system.snapshots()
    assert system.status().cannot_go_back_since is None
