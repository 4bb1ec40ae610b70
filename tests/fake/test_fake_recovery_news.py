"""A program hears of each time that its system went back by itself."""

import asyncio

import pytest

from rayshot.errors import ConfigError
from rayshot.model.configuration import FailureConfig
from rayshot.runtime.door import door
from tests.fake.play import Till
from tests.fake.system import actor, begin, coordinator
from tests.fake.threads import Event, Present

NAMES = ("alice", "bob")


def started(**failure):
    """A system whose snapshot has alice and bob."""
    system = begin(failure=FailureConfig(**failure))
    door.get([Till.options(name=name).remote().all.remote() for name in NAMES])
    system.snapshot()
    return system


@pytest.fixture
def system(cluster):
    return started(backoff_s=0.0)


def recover(cluster, system, name="alice", *, committed=True):
    """An actor dies, and the system runs again. Behind two snapshots, the rollback did not lead nowhere."""
    life = system.status().incarnation + 1
    cluster.die(actor(cluster, name))
    cluster.schedule.pass_s(1.0)
    system.wait_until_running(60)
    assert system.status().incarnation == life
    for _ in range(2 * committed):
        system.snapshot()
    cluster.schedule.pass_s(1.0)


def test_each_recovery_is_told_once_in_order_on_a_thread_of_its_own(cluster, system):
    heard, threads = [], set()

    def hear(one):
        heard.append(one)
        threads.add(Present.cluster.schedule.current)
        raise ValueError("it is logged")

    subscription = system.on_recovery(hear)
    for number in (1, 2):
        recover(cluster, system)
        assert len(heard) == number
    assert heard == list(system.status().recoveries)
    assert [(one.life, one.actor) for one in heard] == [(2, "alice"), (3, "alice")]
    (thread,) = threads
    assert thread is not cluster.schedule.main
    subscription.cancel()
    subscription.cancel()
    recover(cluster, system, "bob")
    assert len(heard) == 2
    assert not thread.is_alive()


def test_a_slow_listener_keeps_no_other_from_hearing_and_one_that_came_later_hears_what_follows(cluster, system):
    wait, slow, quick, later = Event(), [], [], []
    system.on_recovery(lambda one: (wait.wait(60), slow.append(one.life)))
    bob = system.get_actor("bob")
    system.on_recovery(lambda one: quick.append((one.life, door.get(bob.all.remote()))))
    recover(cluster, system)
    assert quick == [(2, ({}, {}))]
    system.on_recovery(lambda one: later.append(one.life))
    recover(cluster, system, "bob")
    assert (len(quick), later, slow) == (2, [3], [])
    wait.set()
    cluster.settle()
    assert slow == [2, 3]


def test_a_coordinator_that_came_later_tells_of_the_life_that_runs(cluster, system):
    heard = []
    system.on_recovery(heard.append)
    recover(cluster, system)
    cluster.die(coordinator(cluster))
    cluster.schedule.pass_s(1.0)
    system.wait_until_running(60)
    (found,) = system.status().recoveries
    assert (found.life, found.snapshot, found.actor, found.phases) == (2, heard[0].snapshot, "alice", {})
    recover(cluster, system)
    assert [one.life for one in heard] == [2, 3]


@pytest.mark.parametrize("place", ["before_mark_life", "before_resume_life"])
def test_of_a_life_that_its_coordinator_did_not_outlive_only_the_next_is_told(cluster, system, place):
    heard = []
    system.on_recovery(heard.append)
    cluster.failpoints[place] = 1
    cluster.die(actor(cluster, "alice"))
    cluster.until(lambda: [one.life for one in heard] == [3])


def test_after_the_end_of_the_system_no_thread_is_left(cluster, system):
    system.on_recovery(print)
    assert "rayshot-recoveries" in {thread.name for thread in cluster.program.run.threads}
    system.shutdown()
    cluster.schedule.pass_s(60.0)
    assert "rayshot-recoveries" not in {thread.name for thread in cluster.program.run.threads}


@pytest.mark.parametrize("callback", [None, 5, asyncio.sleep])
def test_what_cannot_be_called_with_a_report_is_refused(system, callback):
    with pytest.raises(ConfigError, match="give a function that takes a report"):
        system.on_recovery(callback)


def test_a_system_that_does_not_go_back_by_itself_refuses(cluster):
    with pytest.raises(ConfigError, match=r"does not go back .*scope='system'"):
        started(scope="stop").on_recovery(print)
