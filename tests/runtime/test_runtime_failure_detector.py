"""Processes that say nothing, and one that asks them and stood still itself."""

import os
import signal
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
import ray

from rayshot.errors import SnapshotAborted
from rayshot.runtime.door import notes
from rayshot.runtime.door.failure_detector import ASK_S, FailureDetector
from rayshot.runtime.door.naming import find_coordinator, named_actors, prefix
from rayshot.runtime.door.private_names import ends_stopped
from rayshot.runtime.door.state import runs_here
from rayshot.runtime.node import guard
from rayshot.runtime.node.guard import SILENT_S, Guard
from tests.processes import runs
from tests.runtime.healed import goes_round, pid_behind, started, until_it_runs
from tests.waiting import eventually

pytestmark = pytest.mark.ray
ENDS_STOPPED = pytest.mark.skipif(not ends_stopped(), reason="this Ray does not end a process that stands still")


@ray.remote(num_cpus=0)
class Greeter:
    def hello(self):
        return os.getpid()


@pytest.fixture
def silent(cluster):
    host = Greeter.remote()
    os.kill(ray.get(host.hello.remote()), signal.SIGSTOP)
    yield host
    ray.kill(host)


def test_who_stood_still_itself_asks_anew_before_it_takes_others_for_silent(silent):
    killed = []
    detector = FailureDetector(30.0, killed.append)
    detector.look({"greeter": silent}, 100.0)
    for now in range(500, 530):
        detector.look({"greeter": silent}, now)
    assert killed == []
    for now in (530.0, 531.0):  # it dies a while after it was killed
        detector.look({"greeter": silent}, now)
    assert killed == [silent]


@pytest.mark.parametrize("is_here", [True, False])
def test_a_silent_coordinator_is_killed_behind_the_limit_and_by_nobody_on_another_node(silent, monkeypatch, is_here):
    killed = []
    monkeypatch.setattr(guard, "find_coordinator", lambda _: silent)
    monkeypatch.setattr(guard, "runs_here", lambda _: is_here)
    monkeypatch.setattr(Guard, "_replace", lambda _, coordinator: killed.append(coordinator))
    one = Guard("bank")
    for now in range(100, 100 + int(SILENT_S)):
        one.look(now)
    assert killed == []
    one.look(100 + SILENT_S)
    assert killed == [silent] * is_here


def test_a_process_that_is_being_started_again_is_not_taken_for_one_that_runs(cluster, tmp_path):
    @ray.remote(num_cpus=0, max_restarts=1)
    class Waits:
        def __init__(self, gate):
            while not gate.exists():
                time.sleep(0.05)

    gate = tmp_path / "gate"
    gate.touch()
    waits = Waits.remote(gate)
    eventually(lambda: runs_here(waits))
    gate.unlink()
    ray.kill(waits, no_restart=False)
    eventually(lambda: not runs_here(waits))
    assert not ray.wait([waits.__ray_ready__.remote()], timeout=0.5)[0]
    assert not runs_here(waits)
    gate.touch()
    eventually(lambda: runs_here(waits))
    ray.kill(waits)


def test_an_actor_that_the_control_service_does_not_know_yet_runs_nowhere(cluster):
    assert not runs_here(SimpleNamespace(_actor_id=ray.ActorID.from_random()))


def test_a_coordinator_answers_while_all_of_its_other_calls_wait(new_system):
    system, _ = started(new_system)
    coordinator = find_coordinator(system.name)
    ray.get(coordinator.__ray_call__.remote(lambda one: one._life.lock.__enter__()))
    busy = [coordinator.status.remote() for _ in range(40)]
    assert ray.get(coordinator.hello.remote(), timeout=ASK_S) is None
    assert not ray.wait(busy, timeout=0)[0]
    ray.get(coordinator.__ray_call__.remote(lambda one: one._life.lock.__exit__(None, None, None)))
    ray.get(busy)


@ENDS_STOPPED
@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("P2")
@pytest.mark.parametrize("wakes", [False, True])
def test_a_coordinator_that_is_stopped_is_replaced_and_nothing_goes_back_also_if_it_wakes(new_system, wakes):
    system, posts = started(new_system)

    def shorten(vault):
        from rayshot.runtime.door import failure_detector
        from rayshot.runtime.node import guard

        guard.LOOK_S, failure_detector.ASK_S, vault._guard._detector._silent_s = 0.2, 0.5, 3.0

    (vault,) = (found for name, found in named_actors(prefix(system.name)).items() if "/vault/" in name)
    ray.get(vault.__ray_call__.remote(shorten))
    pid = pid_behind(find_coordinator(system.name))
    before = system.status().actors
    os.kill(pid, signal.SIGSTOP)
    for number in range(10):
        posts[0].hear.tell(number)
    assert ray.get(posts[0].told.remote()) == list(range(10))
    eventually(lambda: notes.of_silence(system.name).all(), 20)
    if wakes:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: not runs(pid), 20)
    until_it_runs(system, 1)
    posts[0].hear.tell(10)
    taken = system.snapshot()
    assert taken.id.incarnation == 1
    assert taken.states()["post0"]["heard"] == list(range(11))
    now = system.status()
    assert {name: one.pid for name, one in now.actors.items()} == {name: one.pid for name, one in before.items()}
    assert "its coordinator did not answer, and was started again at" in now.detail
    assert now.recoveries == ()
    assert goes_round(system)


@ENDS_STOPPED
@pytest.mark.wide("slow")
@pytest.mark.acceptance("P2")
def test_a_vault_that_is_stopped_is_replaced_and_snapshots_go_on(new_system):
    system, posts = started(new_system)

    def shorten(coordinator):
        from rayshot.runtime.door import failure_detector

        failure_detector.ASK_S, coordinator._healer._vault_detector._silent_s = 0.5, 3.0

    ray.get(find_coordinator(system.name).__ray_call__.remote(shorten))
    (vault,) = (found for name, found in named_actors(prefix(system.name)).items() if "/vault/" in name)
    pid = pid_behind(vault)
    os.kill(pid, signal.SIGSTOP)
    posts[0].hear.tell(1)
    eventually(lambda: not runs(pid), 30)

    def takes_one():
        with suppress(SnapshotAborted):
            return system.snapshot()

    taken = eventually(takes_one, 60)
    assert taken.states()["post0"]["heard"] == [1]
    assert system.status().recoveries == ()
