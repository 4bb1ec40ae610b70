"""A system that goes back to its last snapshot by itself, whatever dies, and stops with a reason where it cannot."""

import gc
import os
import signal
import threading
import time
import weakref

import pytest
import ray

from rayshot.errors import Fenced
from rayshot.model.specification import ActorSpecification, user_class_of
from rayshot.runtime.actor import outcomes
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.coordinator import healer
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door.naming import named_actors, prefix
from tests.runtime.healed import (
    Post,
    StopsAtItsFirstLoad,
    die_at,
    goes_round,
    kill,
    kill_in,
    pid_of,
    report,
    ring,
    spoil,
    started,
    until_it_runs,
    until_it_stops,
    words_of_processes,
)
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def test_an_actor_is_killed_and_all_go_back_in_their_places_but_the_dead(new_system):
    system, _ = started(new_system)
    before = {name: pid_of(system, name) for name in ("post0", "post1", "post2")}
    kill(system, "post1")
    now = until_it_runs(system)
    after = {name: actor["pid"] for name, actor in now["actors"].items()}
    assert {name for name, pid in before.items() if after[name] != pid} == {"post1"}
    assert goes_round(system)
    (recovery,) = eventually(lambda: report(system)["recoveries"])
    assert (recovery.life, str(recovery.snapshot), recovery.actor) == (2, "1-coordinator-1", "post1")
    assert set(recovery.phases) == {"stop", "record", "load", "resume"}
    assert sum(recovery.phases.values()) == pytest.approx(recovery.seconds, abs=0.01)


@pytest.mark.acceptance("P6")
def test_a_step_back_that_a_shutdown_did_not_wait_for_begins_no_life_behind_it(new_system):
    system, _ = started(new_system)
    coordinator = system._identity.coordinator

    def be_slow(_):
        from rayshot.runtime.coordinator import healer, rollback

        make_plans, healer.CLOSE_S = rollback.make_plans, 0.1

        def make_slowly(*arguments):
            rollback.begun = True
            time.sleep(3.0)
            rollback.done = True
            return make_plans(*arguments)

        rollback.begun, rollback.done, rollback.make_plans = False, False, make_slowly

    def stands(_):
        from rayshot.runtime.coordinator import rollback

        return rollback.begun, rollback.done

    ray.get(coordinator.__ray_call__.remote(be_slow))
    kill(system, "post1")
    eventually(lambda: ray.get(coordinator.__ray_call__.remote(stands))[0])
    ray.get(coordinator.shutdown.remote("enough"))
    eventually(lambda: ray.get(coordinator.__ray_call__.remote(stands))[1])
    time.sleep(0.5)
    now = report(system)
    assert (now["state"], now["incarnation"], now["actors"]) == ("stopped", 1, {})
    assert not [name for name in named_actors(prefix(system.name)) if "/actor/" in name]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("P6")
def test_a_host_of_a_life_that_is_over_ends_although_the_coordinator_dies_that_had_to_end_it(new_system):
    system, _ = started(new_system)
    late = system._identity
    kill(system, "post1")
    until_it_runs(system)
    coordinator = late.coordinator

    def be_slow(_):
        from rayshot.runtime.coordinator import coordinator

        coordinator.END_S = 600.0

    def is_to_end_it(_):
        return any(isinstance(thread, threading.Timer) and thread.interval == 600.0 for thread in threading.enumerate())

    ray.get(coordinator.__ray_call__.remote(be_slow))
    spawn_host(Host, late, ActorSpecification.of(user_class_of(Post), {}), "late")
    eventually(lambda: ray.get(coordinator.__ray_call__.remote(is_to_end_it)))
    kill_coordinator(system)
    eventually(lambda: not [name for name in named_actors(prefix(system.name)) if name.endswith("/late")], 30)
    until_it_runs(system)


@pytest.mark.acceptance("P6")
def test_several_die_at_once_and_the_report_names_the_one_that_the_log_names(new_system):
    system, _ = started(new_system)
    kill(system, "post0", "post2")
    (recovery,) = until_it_runs(system)["recoveries"]
    noted = system._identity.coordinator.__ray_call__.remote(lambda coordinator: coordinator._life.epoch.actor)
    assert recovery.actor == ray.get(noted)
    assert goes_round(system)


@pytest.mark.acceptance("P1", "P6")
def test_who_dies_again_at_once_is_paused_for_and_the_report_says_pause(new_system):
    system, _ = started(new_system, backoff_s=0.1)
    for life in (1, 2):
        kill_in(until_it_runs(system, life), "post1")
    phases = [set(one.phases) for one in until_it_runs(system, 3)["recoveries"]]
    assert phases == [{"stop", "record", "load", "resume"}, {"stop", "pause", "record", "load", "resume"}]


@pytest.mark.acceptance("P6")
def test_a_storage_that_is_taken_just_before_the_system_runs_again_is_no_defect(new_system):
    system, _ = started(new_system)
    before = words_of_processes().count("a defect of rayshot")

    def take_storage(coordinator):
        def fail(place):
            if place == "before_mark_life":
                coordinator._life.fenced(Fenced("another coordinator has the system"))

        healer.failpoint = fail

    ray.get(system._identity.coordinator.__ray_call__.remote(take_storage))
    kill(system, "post1")
    assert "another coordinator has the system" in until_it_stops(system)
    assert words_of_processes().count("a defect of rayshot") == before


def test_a_coordinator_that_takes_over_and_goes_back_says_nothing_of_threads(new_system):
    system, _ = started(new_system)
    die_at(system, "before_rollback")
    kill(system, "post1")
    until_it_runs(system)
    assert "cannot join thread" not in words_of_processes()


def test_the_process_of_an_actor_that_joins_while_the_system_goes_back_does_not_stay(new_system, tmp_path):
    system, _ = started(new_system)
    coordinator, gate, prefix = system._identity.coordinator, tmp_path / "gate", f"rayshot/{system.name}/1/"

    def write_slowly(coordinator):
        from rayshot.runtime.door import door

        write, coordinator.writes = door.write_note, []

        def slow(key, data):
            if key == f"{prefix}actor/late":
                coordinator.writes.append(key)
                eventually(gate.exists, 60)
            write(key, data)

        door.write_note = slow

    ray.get(coordinator.__ray_call__.remote(write_slowly))
    late = Post.options(name="late").remote()
    eventually(lambda: ray.get(coordinator.__ray_call__.remote(lambda self: self.writes)), 60)
    kill_in(report(system), "post1")
    until_it_runs(system)
    gate.touch()
    system.wait_until_running(30)
    assert ray.get(late.read.remote()) == 0

    def names():
        return [one["name"] for one in ray.util.list_named_actors(all_namespaces=True)]

    eventually(lambda: f"{prefix}actor/late" not in names(), 60)


def test_it_goes_back_again_and_again_and_leaves_nothing_behind(new_system):
    system, _ = started(new_system)
    coordinator = system._identity.coordinator
    for life in range(2, 7):
        kill_in(report(system), "post1")
        until_it_runs(system, life)
        for _ in range(2):  # the second one is behind what the lost actor did in this life
            ray.get(coordinator.snapshot.remote(SnapshotRequest()))
        counts = ray.get(coordinator.__ray_call__.remote(lambda _: sorted(t.name for t in threading.enumerate())))
        names = [name for name in counts if name.startswith("rayshot")]
        assert len(names) == len(set(names)), "each kind of thread is there once"
    assert goes_round(system)
    assert len(ray.util.list_named_actors(all_namespaces=True)) == 3 + 1 + 1, "posts, coordinator, vault"


@pytest.mark.wide("slow")
def test_a_process_keeps_nothing_of_its_earlier_lives(new_system):
    system, _ = started(new_system)

    def note(host):
        outcomes.FETCHED_S = 3.0
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):  # it would run for half a minute
                thread.cancel()
        host._process.outcomes._is_ageing = False
        host._process.outcomes._go_on_ageing()  # and this one still runs when the next life begins
        vars(host).setdefault("noted", []).append(weakref.ref(host._process))

    def left(host):
        gc.collect()
        return [ref() is not None for ref in host.noted]

    for life in (2, 3):
        (host,) = (one for name, one in named_actors(prefix(system.name)).items() if name.endswith("/actor/post0"))
        ray.get(host.__ray_call__.remote(note))
        kill_in(report(system), "post1")
        until_it_runs(system, life)
        system.snapshot()
    eventually(lambda: ray.get(host.__ray_call__.remote(left)) == [False, False], 20)


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.acceptance("B13")
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("before_stop_handlers", 1),
        ("before_rollback", 1),
        ("after_rollback", 1),
        ("before_load_process", 1),
        ("before_load_process", 3),
        ("before_mark_life", 1),
        ("before_resume_life", 1),
    ],
)
def test_the_coordinator_dies_while_the_system_goes_back(new_system, place, count):
    system, _ = started(new_system)
    die_at(system, place, count)
    kill(system, "post1")
    until_it_runs(system)
    assert goes_round(system)


def test_a_handler_that_runs_is_interrupted(new_system, tmp_path):
    system, posts = started(new_system)
    before = pid_of(system, "post2")
    posts[2].nap.tell(60.0, str(tmp_path / "napped"))
    eventually(lambda: system.status().actors["post2"].handler == "nap")
    kill(system, "post0")
    now = until_it_runs(system)
    assert now["actors"]["post2"]["pid"] == before
    assert goes_round(system)


def test_the_process_of_a_handler_that_does_not_end_is_replaced(new_system, tmp_path):
    system, posts = started(new_system)
    before = pid_of(system, "post2")
    posts[2].hang.tell(str(tmp_path / "hung"))
    eventually(lambda: system.status().actors["post2"].handler == "hang")
    kill(system, "post0")
    now = until_it_runs(system)
    assert now["actors"]["post2"]["pid"] != before
    assert goes_round(system)


@pytest.mark.acceptance("P1")
def test_actors_that_each_die_as_soon_as_the_system_runs_again_stop_nothing(new_system):
    system, posts = started(new_system)
    other = Post.options(name="other").remote()
    ray.get(other.read.remote())
    system.snapshot()
    victims = ["post0", "post1", "post2", "other", "post0"]
    for life, name in enumerate(victims, 1):
        kill_in(until_it_runs(system, life), name)
    until_it_runs(system, 6)
    before = ray.get(posts[0].read.remote())
    eventually(lambda: ray.get(posts[0].read.remote()) > before, 10)
    assert [one.actor for one in report(system)["recoveries"]] == victims


def test_its_first_snapshot_is_taken_at_once(new_system, monkeypatch):
    monkeypatch.undo()  # it is as users get it, and takes snapshots
    system = new_system()
    ring()
    eventually(system.snapshots)
    assert system.config().interval_s == 10.0


@pytest.mark.wide("slow")
def test_a_process_that_is_stopped_is_killed_and_counts_as_dead(new_system):
    system, _ = started(new_system)

    def shorten(_):
        from rayshot.runtime.door import failure_detector

        failure_detector.ASK_S, failure_detector.SILENT_S = 0.5, 3.0

    ray.get(system._identity.coordinator.__ray_call__.remote(shorten))
    pid = pid_of(system, "post1")
    os.kill(pid, signal.SIGSTOP)
    now = until_it_runs(system)
    assert now["actors"]["post1"]["pid"] != pid
    assert goes_round(system)


@pytest.mark.wide("slow")
def test_a_new_process_that_is_stopped_while_it_loads_is_replaced(new_system, tmp_path):
    system, _ = started(new_system)
    path = str(tmp_path / "loaded")
    stops = StopsAtItsFirstLoad.options(name="stops").remote(path)
    assert ray.get(stops.read.remote()) == path
    system.snapshot()

    def shorten(_):
        from rayshot.runtime.coordinator import loader
        from rayshot.runtime.door import failure_detector

        failure_detector.ASK_S, loader.LOAD_SILENT_S = 0.5, 3.0

    ray.get(system._identity.coordinator.__ray_call__.remote(shorten))
    kill(system, "stops")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(stops.read.remote()) == path


def test_a_process_in_which_a_load_fails_for_a_reason_that_nobody_expects_is_replaced(new_system):
    system, _ = started(new_system)
    host = ray.get(system._identity.coordinator.actors.remote())["post0"]
    ray.get(host.__ray_call__.remote(spoil))
    spoilt = pid_of(system, "post0")
    kill(system, "post1")
    assert until_it_runs(system)["actors"]["post0"]["pid"] != spoilt
    assert goes_round(system)
