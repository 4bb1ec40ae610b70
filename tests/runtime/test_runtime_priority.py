"""Who goes first on a busy machine."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray

from rayshot.runtime import priority
from rayshot.runtime.priority import BESIDE_PROGRAMS
from tests.runtime.test_runtime_messages import eventually
from tests.runtime.workloads import Ranked


@pytest.fixture(scope="module")
def privileged():
    """Only who may lower nice values sees any of this; for others nothing changes."""
    if sys.platform != "linux" or subprocess.run(["nice", "-n", "-1", "true"], check=False, capture_output=True).stderr:
        pytest.skip("lowering a nice value takes Linux and CAP_SYS_NICE")


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


def pickled_at(snapshot):
    return repr(snapshot.states()["ranked"]["pickled_at"])


@pytest.mark.ray
@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned"])
def test_a_handler_for_which_a_snapshot_waits_goes_beside_programs_until_it_is_recorded(
    privileged, system, gate, mode, tmp_path
):
    gate.touch()
    actor = Ranked.options(name="ranked", capture="inline").remote(gate)
    usual = ray.get(actor.be_nicer.remote())
    assert usual > BESIDE_PROGRAMS
    waiting = actor.await_rank.remote(BESIDE_PROGRAMS, tmp_path / "begun")
    eventually((tmp_path / "begun").exists)
    snapshot = system.snapshot(mode=mode)
    assert ray.get(waiting) == BESIDE_PROGRAMS
    assert ray.get(actor.await_rank.remote(usual, tmp_path / "again")) == usual
    assert pickled_at(snapshot) == f"<builtins.int {BESIDE_PROGRAMS}>"


@pytest.mark.ray
def test_a_handler_beside_which_a_child_pickles_waits_its_turn_as_the_child_does(privileged, system, gate, tmp_path):
    actor = Ranked.options(name="ranked", capture="fork").remote(gate)
    usual = ray.get(actor.rank.remote())
    with ThreadPoolExecutor(1) as photographer:
        waiting = actor.await_rank.remote(BESIDE_PROGRAMS, tmp_path / "begun")
        eventually((tmp_path / "begun").exists)
        taken = photographer.submit(system.snapshot)
        assert ray.get(waiting) == BESIDE_PROGRAMS
        assert ray.get(actor.await_rank.remote(usual, tmp_path / "again")) == usual
        assert not taken.done()
        gate.touch()
        assert pickled_at(taken.result()) == f"<builtins.int {usual}>"


@pytest.mark.ray
def test_the_threads_that_bring_the_coordinators_call_go_beside_programs(privileged, system, gate):
    gate.touch()
    actor = Ranked.options(name="ranked").remote(gate)
    usual = ray.get(actor.rank.remote())
    pid = system.status().actors["ranked"].pid

    def besides():
        return [rank(thread) for thread in ranked_threads(pid)].count(BESIDE_PROGRAMS)

    before = besides()
    assert rank(pid) == usual
    system.snapshot()
    assert rank(pid) == BESIDE_PROGRAMS
    assert besides() >= before + 2


def rank(thread):
    return os.getpriority(os.PRIO_PROCESS, thread)


def ranked_threads(pid):
    return [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]


def test_a_thread_that_several_wait_for_hurries_until_all_are_served_and_is_then_as_nice_as_before(privileged):
    entered, over, hurry, ids = threading.Event(), threading.Event(), priority.Hurry(), []

    def work():
        os.setpriority(os.PRIO_PROCESS, 0, 7)
        ids.append(threading.get_native_id())
        hurry.enter()
        entered.set()
        over.wait(60)
        hurry.leave()

    worker = threading.Thread(target=work, daemon=True)
    with hurry.until_done("before it is there"):
        worker.start()
        assert entered.wait(10)
        assert rank(ids[0]) == BESIDE_PROGRAMS
        with hurry.until_done("another"):
            hurry.done("before it is there")
            assert rank(ids[0]) == BESIDE_PROGRAMS
        assert rank(ids[0]) == 7
    over.set()
    worker.join(10)
    with hurry.until_done("nobody is there any more"):
        pass
