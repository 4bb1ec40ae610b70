"""Answers that are asked for with durable=True: no system goes back behind them."""

import contextlib
import os
import threading
import time

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import ConfigError, NoAnswer, RayshotError, SystemDown
from tests.runtime.healed import HEALS, STOPS, Counter, die_at, kill, pid_of, report, until_it_runs
from tests.runtime.tills import Till
from tests.waiting import eventually

pytestmark = pytest.mark.ray
SOON_S = 20.0


@ray.remote(num_cpus=0)
def paid_durably(till, number):
    return ray.get(till.pay.options(durable=True).remote(number))


def began(new_system, failure=HEALS, interval_s=None):
    system = new_system(failure=failure, snapshots=SnapshotConfig(interval_s=interval_s))
    till = Till.options(name="till").remote()
    assert ray.get(till.read.remote()) == []
    return system, till


def ask_in_vain(system):
    with contextlib.suppress(RayshotError, ray.exceptions.RayError):
        system.snapshot()


def waits(*refs):
    """Whether none of these has an answer, though their actor has handled them."""
    return ray.wait(list(refs), timeout=0.5)[0] == []


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("failure", [STOPS, HEALS])
def test_a_durable_answer_waits_for_a_snapshot_and_no_other_answer_does(new_system, failure):
    system, till = began(new_system, failure)
    durable = [till.pay.options(durable=True).remote(number) for number in range(30)]
    assert ray.get(till.pay.remote(30)) == 30
    assert waits(*durable)
    system.snapshot()
    assert ray.get(durable, timeout=SOON_S) == list(range(30))
    later = till.pay.options(durable=True).remote(31)
    assert ray.get(till.read.remote()) == list(range(32))
    assert waits(later)
    system.snapshot()
    assert ray.get(later, timeout=SOON_S) == 31


def test_snapshots_that_come_one_soon_after_the_other_answer_all(new_system):
    """Then actors hear of ends from the next snapshots only."""
    _, till = began(new_system, interval_s=0.1)
    for number in range(20):
        assert ray.get(till.pay.options(durable=True).remote(number), timeout=SOON_S) == number


def test_a_savepoint_that_stops_the_system_answers_what_it_holds(new_system):
    system, till = began(new_system)
    ref = till.pay.options(durable=True).remote(1)
    ray.get(till.read.remote())  # it is handled: the savepoint could hold it as on its way
    assert system.stop_with_savepoint("the end").states()["till"]["paid"] == [1]
    assert ray.get(ref, timeout=SOON_S) == 1


def test_what_was_answered_durably_is_there_after_a_restore(new_system):
    system, till = began(new_system, STOPS, interval_s=0.3)
    assert ray.get(till.pay.options(durable=True).remote(1), timeout=SOON_S) == 1
    os.kill(pid_of(system, "till"), 9)
    eventually(lambda: report(system)["state"] == "stopped")
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("till").read.remote())[:1] == [1]


def test_where_the_system_stops_nobody_waits_on_for_a_durable_answer(new_system):
    system, till = began(new_system, STOPS)
    other = Counter.options(name="other").remote()
    refs = [till.pay.options(durable=True).remote(number) for number in range(10)]
    ray.get([other.read.remote(), till.read.remote()])
    kill(system, "other")
    for ref in refs:
        with pytest.raises(SystemDown, match="'other'"):
            ray.get(ref, timeout=SOON_S)
    with pytest.raises(SystemDown):
        ray.get(till.pay.options(durable=True).remote(11), timeout=SOON_S)


def test_a_task_may_ask_for_a_durable_answer(new_system):
    system, till = began(new_system)
    ref = paid_durably.remote(till, 5)
    eventually(lambda: ray.get(till.read.remote()) == [5])
    assert waits(ref)
    system.snapshot()
    assert ray.get(ref, timeout=SOON_S) == 5


def test_who_cannot_get_a_durable_answer_hears_why_at_once(new_system):
    _, till = began(new_system)
    assert "would wait for itself" in ray.get(till.ask.remote(Till.remote()))
    for options in ({"durable": True, "num_returns": 0}, {"durable": 1}, {"durabel": True}):
        with pytest.raises(ConfigError, match="durable"):
            till.pay.options(**options)
    with pytest.raises(ConfigError, match=r"\.note: durable=True is for a result"):
        till.note.options(durable=True)
    till.pay.options(durable=True).tell(3)
    assert ray.get(till.pay.options(durable=True).options(durable=False).remote(4)) == 4
    assert ray.get(till.read.remote()) == [3, 4]


def test_an_actor_that_ends_before_a_snapshot_gives_no_durable_answer(new_system):
    _, till = began(new_system)
    ref = till.leave.options(durable=True).remote()
    with pytest.raises(NoAnswer, match="ended before a durable snapshot"):
        ray.get(ref, timeout=SOON_S)


def test_an_actor_whose_handle_is_dropped_lives_until_it_has_answered_durably(new_system):
    system, _ = began(new_system)
    ref = Till.remote().pay.options(durable=True).remote(7)
    time.sleep(1.0)
    assert len(system.actors()) == 2
    system.snapshot()
    assert ray.get(ref, timeout=SOON_S) == 7
    eventually(lambda: len(system.actors()) == 1)


# In a system that heals itself ---------------------------------------------------------------------------------


def test_an_answer_that_no_snapshot_holds_waits_on_while_the_system_goes_back(new_system):
    system, till = began(new_system)
    other = Counter.options(name="other").remote()
    ray.get(other.read.remote())
    held = till.pay.options(durable=True).remote(1)
    system.snapshot()
    assert ray.get(held, timeout=SOON_S) == 1
    undone = till.pay.options(durable=True).remote(2)
    assert ray.get(till.read.remote()) == [1, 2]
    for life in (2, 3):
        kill(system, "other")
        until_it_runs(system, life)
        assert waits(undone)
    system.snapshot()
    assert ray.get(undone, timeout=SOON_S) == 2
    assert ray.get(till.read.remote()) == [1, 2]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("place", ["after_commit", "before_announce"])
def test_the_coordinator_dies_when_the_snapshot_is_durable_and_before_it_has_told_anybody(new_system, place):
    system, till = began(new_system)
    ref = till.pay.options(durable=True).remote(1)
    assert ray.get(till.read.remote()) == [1]
    assert waits(ref)
    die_at(system, place)
    threading.Thread(target=ask_in_vain, args=(system,), daemon=True).start()
    assert ray.get(ref, timeout=60) == 1
    assert len(system.snapshots()) == 1


def test_a_till_that_pays_what_was_answered_durably_pays_each_once_whatever_is_killed(new_system):
    system, till = began(new_system, interval_s=0.4)
    other = Counter.options(name="other").remote()
    ray.get(other.read.remote())
    system.snapshot()
    paid, errors, count = [], [], 0
    for victim in ("other", "till", "other", "till"):
        refs = {}
        until = time.monotonic() + 2.0
        killed = False
        while time.monotonic() < until:
            count += 1
            refs[till.pay.options(durable=True).remote(count)] = count
            if not killed and time.monotonic() > until - 1.0:
                kill(system, victim)
                killed = True
            time.sleep(0.02)
        for ref, number in refs.items():
            try:
                assert ray.get(ref, timeout=60) == number
                paid.append(number)
            except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError) as error:
                errors.append(error)
        system.wait_until_running(60)
        known = ray.get(till.read.remote(), timeout=60)
        assert set(paid) <= set(known)
        assert known == list(range(1, count + 1))
    assert report(system)["incarnation"] >= 5
    assert len(paid) > count / 2
    assert all(isinstance(error, (ray.exceptions.ActorDiedError, NoAnswer)) for error in errors)
