"""Who goes first on a busy machine."""

import os
import subprocess
import threading

import pytest
import ray

from rayshot.runtime import priority
from tests.runtime.workloads import Ranked


@pytest.fixture(scope="module")
def privileged():
    """Only who may lower nice values sees any of this; for others nothing changes."""
    if subprocess.run(["nice", "-n", "-1", "true"], check=False, capture_output=True).stderr:
        pytest.skip("lowering a nice value takes CAP_SYS_NICE")


@pytest.mark.parametrize("how", ["inline", "fork"])
def test_a_handler_for_which_a_snapshot_waits_goes_before_its_like_until_it_is_recorded(privileged, system, how):
    actor = Ranked.options(name="ranked", capture=how).remote()
    usual = ray.get(actor.rank.remote())
    assert usual > priority.LIKE_OTHERS
    waiting = actor.await_rank.remote(priority.LIKE_OTHERS)
    snapshot = system.snapshot()
    assert ray.get(waiting) == priority.LIKE_OTHERS
    assert ray.get(actor.await_rank.remote(usual)) == usual
    pickled_at = usual if how == "fork" else priority.LIKE_OTHERS
    assert repr(snapshot.states()["ranked"]["pickled_at"]) == f"<builtins.int {pickled_at}>"


def test_a_thread_that_several_wait_for_hurries_until_all_are_served(privileged, monkeypatch):
    monkeypatch.setattr(priority, "usual", lambda: 5)
    entered, over, hurry, ids = threading.Event(), threading.Event(), priority.Hurry(), []

    def work():
        os.setpriority(os.PRIO_PROCESS, 0, 5)
        hurry.enter()
        ids.append(threading.get_native_id())
        entered.set()
        over.wait()

    def rank():
        return os.getpriority(os.PRIO_PROCESS, ids[0])

    worker = threading.Thread(target=work)
    with hurry.until_done("before it is there"):
        worker.start()
        entered.wait()
        assert rank() == priority.LIKE_OTHERS
        with hurry.until_done("another"):
            hurry.done("before it is there")
            assert rank() == priority.LIKE_OTHERS
        assert rank() == 5
    assert rank() == 5
    over.set()
    worker.join()
