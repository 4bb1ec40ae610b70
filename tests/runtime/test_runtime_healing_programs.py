"""What programs see of a system that goes back to its last snapshot by itself: nothing that they told is lost."""

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import ray

from rayshot import FailureConfig
from rayshot.errors import NameTaken, NoAnswer, NotReady, SystemRecovering
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.coordinator import coordinator as coordinator_module
from rayshot.runtime.coordinator.notifications import Notifications
from rayshot.runtime.door.naming import actor_name, named_actors
from rayshot.runtime.door.state import was_just_away
from rayshot.runtime.driver import coordinator_client, maker, succession
from rayshot.runtime.driver import port as driver_port
from rayshot.runtime.opening import ports
from rayshot.runtime.opening.start import identify
from rayshot.runtime.wire import answers
from tests.processes import search_path
from tests.runtime.healed import HEALS, Counter, die_at, kill, pid_of, report, unable_to_roll_back, until_it_runs
from tests.runtime.take_over import kill_coordinator
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray
TOLD = 50


def begun(new_system, **options):
    """A system with two counters, its first snapshot, and what was told behind that."""
    system = new_system(failure=HEALS)
    counters = [Counter.options(name=name, **options).remote() for name in ("kept", "killed")]
    ray.get([counter.read.remote() for counter in counters])
    system.snapshot()
    for _ in range(TOLD):
        counters[0].add.tell()
    assert ray.get(counters[0].read.remote()) == TOLD
    return system, *counters


def test_a_snapshot_that_is_asked_for_on_the_way_back_holds_what_is_told_again(new_system):
    system, _, _ = begun(new_system)
    kill(system, "killed")
    taken = system.snapshot()
    assert (taken.states()["kept"]["count"], taken.left_out) == (TOLD, {})


def test_a_savepoint_that_stops_the_system_on_the_way_back_holds_what_is_told_again(new_system):
    system, _, _ = begun(new_system)
    kill(system, "killed")
    eventually(lambda: report(system)["incarnation"] == 2 or report(system)["state"] == "recovering")
    savepoint = system.stop_with_savepoint("the end")
    assert savepoint.states()["kept"]["count"] == TOLD


def test_a_stop_waits_until_other_programs_have_told_again(new_system):
    system, _, _ = begun(new_system)
    kill(system, "killed")
    until_it_runs(system)
    coordinator = system._identity.coordinator
    ray.get(coordinator.__ray_call__.remote(lambda self: self.drivers.await_followers(self._life)))
    assert ray.get(system.get_actor("kept").read.remote()) == TOLD


def test_questions_for_actors_wait_until_they_are_there_again(new_system):
    system, _, _ = begun(new_system)
    kill(system, "killed")
    eventually(lambda: report(system)["state"] == "recovering")
    assert set(system.actors()) == {"kept", "killed"}
    assert ray.get(system.get_actor("kept").read.remote()) == TOLD


@pytest.mark.wide("slow")
def test_a_snapshot_that_waits_its_turn_when_an_actor_dies_is_taken_in_the_next_life_with_it(new_system, tmp_path):
    system = new_system(failure=FailureConfig(backoff_s=3.0))
    only = Account.options(name="only").remote(7)
    assert ray.get(only.read.remote()) == 7
    system.snapshot()
    kill(system, "only")
    until_it_runs(system)  # without a pause, which the next way back begins with: time to commit a wrong snapshot
    system.wait_until_running(30)
    only.pause_until.tell(tmp_path / "go")
    with ThreadPoolExecutor(2) as asking:
        asking.submit(system.snapshot)
        eventually(lambda: system.status().snapshots or None)
        second = asking.submit(system.snapshot)
        waits = lambda self: not self._life.runner._admission.is_empty or None  # noqa: E731
        eventually(lambda: ray.get(system._identity.coordinator.__ray_call__.remote(waits)))
        kill(system, "only")
        (tmp_path / "go").touch()
        assert second.result(60).states() == {"only": {"balance": 7}}


def calls_for_news(system, seconds):
    """How often drivers call for news in this time."""

    def count(coordinator):
        calls, wait = [], Notifications.wait

        def counted(*asked):
            calls.append(asked)
            return wait(*asked)

        Notifications.wait = counted
        time.sleep(seconds)
        Notifications.wait = wait
        return len(calls)

    return ray.get(system._identity.coordinator.__ray_call__.remote(count))


@pytest.mark.acceptance("P4")
def test_a_storage_that_is_away_is_waited_for(new_system, tmp_path, monkeypatch):
    system, _, killed = begun(new_system)
    shorten = lambda _: setattr(coordinator_module, "BACK_S", 0.1)  # noqa: E731
    ray.get(system._identity.coordinator.__ray_call__.remote(shorten))
    with unable_to_roll_back(system, tmp_path, "killed"):
        with (
            monkeypatch.context() as patch,
            pytest.raises(SystemRecovering, match="not all of its actors are there yet"),
        ):
            patch.setattr(answers, "RECOVERY_WAIT_S", 0.0)
            system.get_actor("killed")
        with monkeypatch.context() as patch, pytest.raises(NotReady, match=r"is its volume mounted\?"):
            patch.setattr("rayshot.runtime.driver.snapshot_request.RECOVERY_WAIT_S", 0.0)
            system.snapshot()
        found = ThreadPoolExecutor(1).submit(system.get_actor, "killed")
        assert calls_for_news(system, 2.0) <= 2  # one is held until there are news
    system.wait_until_running(30)
    assert found.result(10).name == "killed"
    assert ray.get(killed.read.remote()) == 0


@pytest.mark.wide("slow")
def test_a_coordinator_that_is_not_started_again_for_long_is_waited_for(new_system, tmp_path, monkeypatch):
    system, kept, _ = begun(new_system)
    (tmp_path / "shots").rename(tmp_path / "unmounted")  # so that the next coordinator never begins
    kill_coordinator(system)
    eventually(lambda: was_just_away(system._identity.coordinator, 0.0), 20)
    monkeypatch.setattr(coordinator_client, "SILENT_S", 0.5)
    with pytest.raises(SystemRecovering, match="died, and Ray starts it again"):
        system.status()
    with pytest.raises(NotReady, match="died, and Ray starts it again"):
        system.wait_until_running(0.0)
    with pytest.raises(SystemRecovering, match=r"has not answered for 0\.5 s"):
        identify(system.name, system._identity.coordinator, 0.5)
    monkeypatch.setattr(ports, "get_answer", partial(answers.get_answer, within_s=0.5))
    with pytest.raises(SystemRecovering, match=r"has not answered for 0\.5 s"):
        ports._ask(system.name)
    found = ThreadPoolExecutor(1).submit(system.get_actor, "killed")
    with pytest.raises(TimeoutError):
        found.result(2)
    (tmp_path / "unmounted").rename(tmp_path / "shots")
    assert found.result(60).name == "killed"
    assert ray.get(kept.read.remote()) == TOLD


def test_a_call_that_nobody_can_take_or_refuse_is_given_up(new_system, tmp_path, monkeypatch):
    system, kept, _ = begun(new_system)
    assert ray.get(kept.make.remote("child", str(tmp_path / "made")))
    eventually(lambda: "child" in system.status().actors or None)
    child, pid = system.actors()["child"], pid_of(system, "child")  # this program has not looked for its process
    (tmp_path / "shots").rename(tmp_path / "unmounted")
    kill_coordinator(system, pid)
    gone = lambda: not named_actors(actor_name(system.name, 1, "child"))  # noqa: E731
    eventually(lambda: was_just_away(system._identity.coordinator, 0.0) and gone(), 20)
    monkeypatch.setattr(driver_port, "FATE_S", 0.2)
    monkeypatch.setattr(driver_port, "SILENT_S", 0.3)
    with pytest.raises(SystemRecovering, match=r"died, and Ray starts it again.*This call was not sent"):
        child.read.remote()
    (tmp_path / "unmounted").rename(tmp_path / "shots")
    until_it_runs(system)
    assert ray.get(kept.read.remote(), timeout=60) == TOLD


def test_an_actor_is_made_again_also_if_the_coordinator_or_ray_do_not_answer_at_once(new_system, monkeypatch):
    system, _, _ = begun(new_system)
    late = Counter.options(name="late").remote()  # the snapshot does not hold it
    late.add.tell(7)
    assert ray.get(late.read.remote()) == 7
    fails = iter([NoAnswer("the coordinator"), ray.exceptions.RpcError("the control service")])

    def unreliable(*args, **kwargs):
        for error in fails:
            raise error
        return spawn_host(*args, **kwargs)

    monkeypatch.setattr(maker, "spawn_host", unreliable)
    kill(system, "killed", "late")
    until_it_runs(system)
    system.wait_until_running(60)
    assert ray.get(late.read.remote(), timeout=60) == 7
    assert list(fails) == []


def test_options_that_a_snapshot_does_not_hold_outlive_the_actor_and_the_coordinator(new_system):
    system, _, killed = begun(new_system, runtime_env={"env_vars": {"HOME_OF_COUNTER": "here"}})
    die_at(system, "before_stop_handlers")
    kill(system, "killed")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(killed.variable.remote()) == "here"


def test_an_actor_that_nobody_makes_again_keeps_no_other_waiting_for_long(new_system, tmp_path, monkeypatch):
    system, kept, _ = begun(new_system)
    assert ray.get(kept.make.remote("child", str(tmp_path / "made")))
    child = system.get_actor("child")
    child.add.tell()
    assert ray.get(child.read.remote()) == 1
    monkeypatch.setattr(succession, "RETURN_S", 1.0)
    kill(system, "killed")
    until_it_runs(system)
    system.wait_until_running(30)
    kept.add.tell()
    assert ray.get(kept.read.remote(), timeout=30) == TOLD + 1


def test_a_program_that_ends_waits_until_a_snapshot_holds_what_it_told(new_system):
    system, kept, _ = begun(new_system)
    program = f"""
        import ray, rayshot
        ray.init({ray.get_runtime_context().gcs_address!r}, log_to_driver=False)
        kept = rayshot.attach({system.name!r}).get_actor("kept")
        for _ in range({TOLD}):
            kept.add.tell()
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True, timeout=120, env={**os.environ, **search_path()},
    )  # fmt: skip
    kill(system, "killed")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(kept.read.remote()) == 2 * TOLD


@pytest.mark.acceptance("P6")
def test_behind_a_rollback_the_actors_of_this_program_are_all_there_those_that_live_first(new_system):
    system, _, _ = begun(new_system)
    gone = [Counter.remote() for _ in range(6)]
    ray.get([counter.read.remote() for counter in gone])
    del gone
    eventually(lambda: sorted(report(system)["actors"]) == ["kept", "killed"], 30)
    late = Counter.options(name="late").remote()
    assert ray.get(late.read.remote()) == 0
    kill(system, "killed")
    until_it_runs(system)
    assert set(system.actors()) >= {"kept", "killed", "late"}


def test_a_name_is_taken_also_on_the_way_back_and_behind_it(new_system):
    system, kept, killed = begun(new_system)
    killed.add.tell(7)
    kill(system, "killed")
    for _ in range(2):
        with pytest.raises(NameTaken):
            Counter.options(name="killed").remote()
        with pytest.raises(NameTaken):
            Counter.options(name="kept").remote()
        until_it_runs(system)
        system.wait_until_running(30)
    assert ray.get([kept.read.remote(), killed.read.remote()]) == [TOLD, 7]
