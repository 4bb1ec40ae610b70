"""A program that is told to end leaves with a savepoint, or says that the last snapshot counts."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError
from rayshot.runtime.door.cluster import connected_to
from rayshot.runtime.door.naming import find_coordinator
from tests.processes import search_path

pytestmark = pytest.mark.ray


@pytest.fixture
def evict(new_system, tmp_path):
    """Starts the program, tells it to end when it is ready, and returns its exit code and what it said."""

    def run(within_s, busy_s, again=False, how="", before=lambda: None):
        program = Path(__file__).with_name("evicted.py")
        one = subprocess.Popen(
            [sys.executable, program, connected_to(), str(tmp_path / "shots"), str(within_s), str(busy_s), how],
            env={**os.environ, **search_path()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert one.stdout.readline() == "ready\n"
            before()
            one.send_signal(signal.SIGTERM)
            if again:
                time.sleep(0.3)  # two at once are one
                one.send_signal(signal.SIGTERM)
            _, said = one.communicate(timeout=60)
        finally:
            one.kill()
            one.wait()
        return one.returncode, said

    return run


def labels(storage):
    return [snapshot.label for snapshot in rayshot.open(storage).system("bank").snapshots()]


@pytest.mark.wide("slow")
def test_it_leaves_with_a_savepoint_and_a_second_signal_does_not_hurry_it(evict, tmp_path):
    code, said = evict(within_s=30, busy_s=1, again=True)
    assert "SIGTERM: system 'bank' is stopped with savepoint 1-stopped-2" in said
    assert "no savepoint" not in said
    assert code == signal.SIGTERM  # as Ray ends a program: who looks at it sees that it was ended
    assert labels(tmp_path / "shots") == [None, "evicted"]
    assert "SIGTERM: system 'bank' is stopped\n" in said  # by the first of two calls
    assert "bank" not in rayshot.runtime.door.naming.running_systems()


def test_where_it_does_not_fit_the_last_snapshot_counts(evict, tmp_path):
    code, said = evict(within_s=0.5, busy_s=15)
    assert "SIGTERM: no savepoint, so the last snapshot counts: " in said
    assert code == signal.SIGTERM
    assert labels(tmp_path / "shots") == [None]
    rayshot.attach("bank").shutdown()


def test_a_program_that_is_done_when_its_system_is_down_was_told_to_end_all_the_same(evict, tmp_path):
    code, said = evict(within_s=30, busy_s=0, how="watching")
    assert "SIGTERM: system 'bank' is stopped\n" in said
    assert code == signal.SIGTERM  # 0 would say that a job has succeeded, and is not to be tried again
    assert labels(tmp_path / "shots") == [None, "evicted"]


@pytest.mark.wide("slow")
def test_a_coordinator_that_hangs_holds_nobody_beyond_the_time_that_was_given(evict, tmp_path):
    hanging = []

    def hang():
        coordinator = find_coordinator("bank")
        hanging.append(ray.get(coordinator.__ray_call__.remote(lambda _: os.getpid())))
        os.kill(hanging[0], signal.SIGSTOP)
        hanging.append(time.monotonic())

    try:
        code, said = evict(within_s=1, busy_s=0, before=hang)
        took_s = time.monotonic() - hanging[1]
    finally:
        os.kill(hanging[0], signal.SIGCONT)
    assert "SIGTERM: no savepoint, so the last snapshot counts: " in said
    assert code == signal.SIGTERM
    assert took_s < 12  # of two calls; the coordinator alone would be given 15 s in each
    rayshot.attach("bank").shutdown()


def test_what_cannot_be_is_refused_at_once(system):
    for within_s in (0, -1, float("inf"), float("nan"), "soon"):
        with pytest.raises(ConfigError, match="within_s="):
            system.stop_on_sigterm("x", within_s)
    with pytest.raises(ConfigError, match="label"):
        system.stop_on_sigterm("", 5)
    raised = []

    def elsewhere():
        try:
            system.stop_on_sigterm("x", 5)
        except ConfigError as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])
