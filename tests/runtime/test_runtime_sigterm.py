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
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture
def evict(new_system, tmp_path):
    """Starts the program, tells it to end when it is ready, and returns its exit code and what it said."""

    def run(within_s, busy_s, scope="system", again=False, how="", before=lambda: None):
        program = Path(__file__).with_name("evicted.py")
        arguments = [connected_to(), str(tmp_path / "shots"), scope, str(within_s), str(busy_s), how]
        one = subprocess.Popen(
            [sys.executable, program, *arguments],
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
@pytest.mark.parametrize("scope", ["system", "stop"])
def test_it_leaves_with_a_savepoint_and_a_second_signal_does_not_hurry_it(evict, tmp_path, scope):
    code, said = evict(within_s=30, busy_s=1, scope=scope, again=True)
    assert "SIGTERM: system 'bank' is stopped with savepoint 1-stopped-2" in said
    assert "no savepoint" not in said
    assert "no snapshot" not in said
    assert code == signal.SIGTERM  # as Ray ends a program: who looks at it sees that it was ended
    assert labels(tmp_path / "shots") == [None, "evicted"]
    assert rayshot.open(tmp_path / "shots").system("bank").latest().state("worker")["worked_s"] == 1.0
    assert "SIGTERM: system 'bank' is stopped\n" in said  # by the first of two calls
    assert "bank" not in rayshot.runtime.door.naming.running_systems()


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("scope", ["system", "stop"])
def test_where_it_does_not_fit_the_program_ends_all_the_same_and_says_what_it_knows(evict, tmp_path, scope):
    code, said = evict(within_s=0.5, busy_s=25, scope=scope)
    assert rayshot.attach("bank").status().actors["worker"].handler  # so no snapshot can hold what the program told
    assert labels(tmp_path / "shots") == [None]
    assert "SIGTERM: it is open whether there is a savepoint; if not, the last snapshot counts: " in said
    assert ("no snapshot holds yet what this program told" in said) == (scope == "system")
    assert code == signal.SIGTERM
    rayshot.attach("bank").shutdown()


@pytest.mark.wide("slow")
def test_a_savepoint_that_is_not_recorded_in_time_does_not_stop_the_system_under_the_next_program(evict, tmp_path):
    evict(within_s=0.5, busy_s=4)
    system = rayshot.attach("bank")
    eventually(lambda: not system.status().actors["worker"].handler, 30)
    assert system.snapshot().state("worker")["worked_s"] == 4.0
    assert labels(tmp_path / "shots") == [None, None]
    system.shutdown()


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
    assert "SIGTERM: it is open whether there is a savepoint; if not, the last snapshot counts: " in said
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
