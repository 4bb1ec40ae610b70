"""A system that goes back by itself: how often it does so, to what, and what everybody hears where it stops."""

import pytest

from rayshot.errors import SystemDown
from rayshot.model.configuration import FailureConfig
from rayshot.places.kinds import open_store
from rayshot.runtime.actor import loading
from rayshot.runtime.door import door
from tests.fake.account import NAMES, Account, accounts
from tests.fake.system import actor, await_life, await_stop, begin, process_of
from tests.fake.workers import Worker


def bank(**failure):
    """A system whose snapshot has all accounts."""
    system, made = begin(failure=FailureConfig(backoff_s=0.0, **failure)), accounts()
    system.snapshot()
    return system, made


def test_calls_that_wait_for_their_turn_do_not_delay_the_answers_that_come_before_them(cluster):
    system, made = bank()
    for _ in range(20):
        for name in "bc":  # each call may follow from the answer before it
            door.get(made[name].read.remote())
    cluster.die(actor(cluster, "a"))
    cluster.until(lambda: process_of(cluster, "b").runner.down is not None)
    waiting = [made[name].read.remote() for name in "bc" * 60]
    await_life(cluster, system, 2)
    began_s = cluster.schedule.now_s
    assert door.get(waiting) == [100] * len(waiting)
    assert cluster.schedule.now_s - began_s < 1


def test_without_a_snapshot_it_stops_and_says_so(cluster):
    system, _ = begin(), accounts()
    cluster.die(actor(cluster, "a"))
    assert "has no committed snapshot to go back to" in await_stop(cluster, system)


def test_a_snapshot_that_is_gone_stops_it_and_it_goes_no_further_back(cluster):
    system, _ = bank()
    lost = system.snapshot()
    store = open_store(system.storage)
    for key in [one.key for one in store.list("") if str(lost.id) in one.key]:
        store.delete(key)
    cluster.die(actor(cluster, "a"))
    assert f"{lost.id}, which cannot be used" in await_stop(cluster, system)


def test_more_failures_than_the_settings_allow_stop_it_and_every_caller_hears_why(cluster):
    system, _ = bank(max_failures=1)
    cluster.die(actor(cluster, "a"))
    await_life(cluster, system, 2)
    cluster.die(actor(cluster, "b"))
    assert "the system has gone back 1 times, the most that it may" in await_stop(cluster, system)
    with pytest.raises(SystemDown, match="the most that it may"):
        system.snapshot()


def test_an_actor_that_is_killed_again_with_one_snapshot_in_each_life_stops_it_and_every_caller_hears_why(cluster):
    system, made = bank()
    waiting = made["a"].read.options(durable=True).remote()
    for life in (2, 3, 4):
        cluster.die(actor(cluster, "d"))
        await_life(cluster, system, life)
        system.snapshot()
    assert door.get(waiting) == 100
    waiting = made["a"].read.options(durable=True).remote()
    cluster.die(actor(cluster, "d"))
    assert "going back 3 times led nowhere" in await_stop(cluster, system)
    for ask in (
        system.snapshot,
        lambda: system.wait_until_running(30),
        lambda: made["a"].deposit.tell(1),
        lambda: made["d"].deposit.tell(1),
        lambda: door.get(made["a"].read.remote()),
        lambda: door.get(made["d"].read.remote()),
        lambda: door.get(waiting),
        lambda: system.get_actor("a"),
        lambda: Account.options(name="late").remote(1),
    ):
        with pytest.raises(SystemDown, match="led nowhere"):
            ask()


def test_actors_that_each_die_as_soon_as_the_system_runs_again_stop_nothing(cluster):
    system, _ = bank()
    victims = [*NAMES, NAMES[0]]
    for life, name in enumerate(victims, 2):
        cluster.die(actor(cluster, name))
        await_life(cluster, system, life)
    assert [one.actor for one in system.status().recoveries] == victims


def fail(*_):
    raise RuntimeError("a defect")


def test_a_load_that_fails_for_a_reason_that_nobody_expects_replaces_the_process_and_is_not_tried_for_ever(
    cluster, monkeypatch
):
    system, _ = bank()
    monkeypatch.setattr(loading, "load_process", fail)
    cluster.die(actor(cluster, "a"))
    assert "a defect (RuntimeError)" in await_stop(cluster, system)


def test_a_class_can_ask_for_a_new_process_each_time(cluster):
    system, _ = bank()
    fresh = Account.options(name="fresh", reload="process").remote(1)
    system.snapshot()
    before = {name: actor(cluster, name) for name in ("fresh", "b")}
    cluster.die(actor(cluster, "a"))
    await_life(cluster, system, 2)
    assert actor(cluster, "fresh") is not before["fresh"]
    assert actor(cluster, "b") is before["b"]
    assert door.get(fresh.read.remote()) == 1


def test_an_actor_with_a_due_timer_sleeps_while_others_are_loaded(cluster):
    system = begin(failure=FailureConfig(backoff_s=0.0))
    timed, other = (Worker.options(name=name).remote(None) for name in ("timed", "other"))
    timed.fire_after.tell(0.1)
    door.get([one.read.remote() for one in (timed, other)])
    system.snapshot()
    loads = cluster.withheld["load"] = []
    cluster.die(actor(cluster, "other"))
    cluster.until(lambda: loads)
    cluster.schedule.pass_s(5.0)
    process = process_of(cluster, "timed")
    assert process.runner.loading
    assert process.cell.timers[0].due < cluster.schedule.now_s
    del cluster.withheld["load"]
    for load in loads:
        load()
    await_life(cluster, system, 2)
    cluster.schedule.pass_s(1.0)
    assert door.get(timed.read.remote())[2] == ["fired"]
