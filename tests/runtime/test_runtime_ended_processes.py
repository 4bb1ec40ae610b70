"""Processes of a system that are told to end, as by Kubernetes or `kill`; and programs that end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door.cluster import connected_to
from rayshot.runtime.door.naming import find_coordinator, named_actors, prefix
from tests.processes import runs, search_path
from tests.runtime.healed import NapsWhileItBegins, goes_round, kill, pid_behind, pid_of, report, started, until_it_runs
from tests.waiting import eventually

pytestmark = pytest.mark.ray


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
        eventually(lambda pid=pid: not runs(pid))
    until_it_runs(system)
    system.wait_until_running(30)
    assert goes_round(system)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("P2")
@pytest.mark.parametrize("place", ["__init__", "__setstate__", "on_restore"])
def test_an_actor_that_is_told_to_end_while_it_begins_is_dead_at_once_and_nothing_is_lost(new_system, tmp_path, place):
    system, _ = started(new_system)
    naps = NapsWhileItBegins.options(name="naps").remote(place, str(tmp_path / "pid"))
    for number in range(10):
        naps.hear.tell(number)
    if place != "__init__":
        assert ray.get(naps.told.remote()) == list(range(10))
        system.snapshot()
        kill(system, "naps")
    naps.hear.tell(10)
    pid = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not runs(pid))
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(naps.told.remote()) == list(range(11))


def told_to_the_end(how, storage):
    """What endless_teller prints: its last snapshot, and the error of its thread; and what is in the storage later."""
    program = Path(__file__).with_name("endless_teller.py")
    environment = {**os.environ, **search_path()}
    environment.pop("RAY_ADDRESS", None)  # so that Ray would start anew where it is asked behind its end
    ended = subprocess.run(
        [sys.executable, program, connected_to(), storage, how],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    try:
        assert "Started a local Ray instance" not in ended.stderr
        assert "no snapshot holds yet" not in ended.stderr
        newest, error = ended.stdout.splitlines()
        counter = SnapshotId.parse(newest).counter
        later = [s.id for s in rayshot.open(storage).system(how).snapshots() if s.id.counter > counter]
        return error, [snapshot.counter - counter for snapshot in later]
    finally:
        rayshot.attach(how).shutdown()


@pytest.mark.acceptance("P3")
def test_a_program_that_ends_while_a_thread_of_it_tells_asks_for_one_snapshot_and_waits_for_no_more(cluster, tmp_path):
    error, later = told_to_the_end("ends", str(tmp_path / "shots"))
    assert error.startswith("this program was a driver of system 'ends' until it ended: a thread that still tells")
    assert later == [1]


@pytest.mark.wide("slow")
def test_a_thread_that_tells_while_its_program_leaves_the_cluster_starts_no_other_one(cluster, tmp_path):
    error, later = told_to_the_end("leaves", str(tmp_path / "shots"))
    assert error.startswith("this program was a driver of system 'leaves' until it called ray.shutdown()")
    assert later == []
