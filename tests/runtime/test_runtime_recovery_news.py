"""A program hears of each time that its system went back by itself."""

import asyncio
import threading

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError
from tests.runtime.healed import STOPS, die_at, kill_in, report, started, until_it_runs
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def committed(system):
    """Behind these, a rollback did not lead nowhere."""
    system.wait_until_running(30)
    for _ in range(2):
        system.snapshot()


def test_each_recovery_is_told_once_in_order_on_a_thread_of_its_own(new_system):
    system, _ = started(new_system)
    heard, threads = [], set()

    def hear(one):
        heard.append(one)
        threads.add(threading.current_thread())
        raise ValueError("it is logged")

    subscription = system.on_recovery(hear)
    for life in (2, 3):
        kill_in(report(system), "post1")
        until_it_runs(system, life)
        eventually(lambda life=life: len(heard) == life - 1, 10)
        committed(system)
    assert heard == list(system.status().recoveries)
    assert [(one.life, one.actor) for one in heard] == [(2, "post1"), (3, "post1")]
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    subscription.cancel()
    subscription.cancel()
    kill_in(report(system), "post0")
    until_it_runs(system, 4)
    committed(system)
    eventually(lambda: not threads.pop().is_alive() if threads else True, 10)
    assert len(heard) == 2


def test_a_slow_listener_keeps_no_other_from_hearing_and_one_that_came_later_hears_what_follows(new_system):
    system, posts = started(new_system)
    wait, slow, quick, later = threading.Event(), [], [], []
    system.on_recovery(lambda one: (wait.wait(60), slow.append(one.life)))
    system.on_recovery(lambda one: quick.append((one.life, ray.get(posts[0].read.remote()) is not None)))
    kill_in(report(system), "post1")
    until_it_runs(system)
    eventually(lambda: quick == [(2, True)], 20)
    system.on_recovery(lambda one: later.append(one.life))
    committed(system)
    kill_in(report(system), "post2")
    until_it_runs(system, 3)
    eventually(lambda: (len(quick), later) == (2, [3]), 20)
    assert not slow
    wait.set()
    eventually(lambda: slow == [2, 3], 20)


def test_a_coordinator_that_came_later_tells_of_the_life_that_runs(new_system):
    system, _ = started(new_system)
    heard = []
    system.on_recovery(heard.append)
    kill_in(report(system), "post1")
    until_it_runs(system)
    eventually(lambda: len(heard) == 1, 10)
    committed(system)
    kill_coordinator(system)
    now = until_it_runs(system)
    (found,) = now["recoveries"]
    assert (found.life, found.snapshot, found.actor) == (2, heard[0].snapshot, "post1")
    assert found.phases == {}
    kill_in(now, "post1")
    until_it_runs(system, 3)
    eventually(lambda: [one.life for one in heard] == [2, 3], 20)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("place", ["before_mark_life", "before_resume_life"])
def test_of_a_life_that_its_coordinator_did_not_outlive_only_the_next_is_told(new_system, place):
    system, _ = started(new_system)
    heard = []
    system.on_recovery(heard.append)
    die_at(system, place)
    kill_in(report(system), "post1")
    until_it_runs(system, 3)
    eventually(lambda: [one.life for one in heard] == [3], 20)


def test_after_the_end_of_the_system_no_thread_is_left(new_system):
    system, _ = started(new_system)
    system.on_recovery(print)
    system.shutdown()
    eventually(lambda: "rayshot-recoveries" not in {thread.name for thread in threading.enumerate()}, 10)


@pytest.mark.parametrize("callback", [None, 5, asyncio.sleep])
def test_what_cannot_be_called_with_a_report_is_refused(system, callback):
    with pytest.raises(ConfigError, match="give a function that takes a report"):
        system.on_recovery(callback)


def test_a_system_that_does_not_go_back_by_itself_refuses(new_system):
    system = new_system(failure=STOPS)
    with pytest.raises(ConfigError, match=r"does not go back .*scope='system'"):
        system.on_recovery(print)


def test_a_program_that_attached_hears_too(new_system):
    system, _ = started(new_system)
    heard = []
    rayshot.attach(system.name).on_recovery(heard.append)
    kill_in(report(system), "post1")
    until_it_runs(system)
    eventually(lambda: [one.life for one in heard] == [2], 10)
