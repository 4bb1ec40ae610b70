"""Spare processes: they wait to become actors, and the system takes them in place of those that die."""

import os
import signal
import sys
import time
from types import SimpleNamespace

import pytest
import ray

import rayshot
from rayshot.runtime.coordinator import loader, spares
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import named_actors, prefix
from tests.processes import runs
from tests.runtime.healed import (
    Post,
    die_at,
    goes_round,
    kill,
    kill_in,
    pid_of,
    report,
    started,
    until_it_runs,
    until_it_stops,
)
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def ready(system, count):
    """Wait until so many spare processes are ready; returns the ids of their processes, by Ray name."""
    eventually(lambda: report(system).get("spares") == count, 60)
    waiting = {
        name: host for name, host in named_actors(prefix(system.name)).items() if "/spare/" in name and is_waiting(host)
    }
    return {name: ray.get(host.__ray_call__.remote(lambda _: os.getpid())) for name, host in waiting.items()}


def is_waiting(host):
    return ray.get(host.__ray_call__.remote(lambda spare: not spare._is_host))


def knows(system, *ray_names):
    """Whether spare processes have imported the module of the class Post."""
    hosts = named_actors(prefix(system.name))
    asked = [hosts[name].__ray_call__.remote(lambda _: "tests.runtime.healed" in sys.modules) for name in ray_names]
    return ray.get(asked)


def in_coordinator(system, change):
    ray.get(system._identity.coordinator.__ray_call__.remote(change))


@pytest.mark.wide("slow")
def test_a_spare_process_becomes_the_actor_that_died_and_another_one_is_made(new_system):
    system, posts = started(new_system, spares=1)
    (pid,) = ready(system, 1).values()
    kill(system, "post1")
    until_it_runs(system)
    assert pid_of(system, "post1") == pid
    assert goes_round(system)
    system.snapshot()
    (following,) = ready(system, 1).values()
    assert following != pid
    kill_in(report(system), "post1")  # it was a spare itself
    until_it_runs(system, 3)
    assert pid_of(system, "post1") == following
    assert goes_round(system)
    assert ray.get(posts[1].told.remote()) == [], "a handle from before finds it"
    assert system.get_actor("post1") == posts[1]
    with pytest.raises(rayshot.errors.NameOfSystem):
        ray.get_actor("post1")
    system.shutdown()
    assert not named_actors(prefix(system.name))


def test_more_die_than_there_are_spare_processes(new_system):
    system, _ = started(new_system, spares=1)
    (pid,) = ready(system, 1).values()
    kill(system, "post0", "post1", "post2")
    until_it_runs(system)
    assert pid in {pid_of(system, name) for name in ("post0", "post1", "post2")}
    assert goes_round(system)


@pytest.mark.wide("slow")
@pytest.mark.parametrize("also", [(), ("post1",), ("post0", "post1", "post2")])
def test_the_coordinator_dies_when_an_actor_lives_in_what_was_a_spare(new_system, also):
    system, posts = started(new_system, spares=1)
    ready(system, 1)
    kill(system, "post1")
    until_it_runs(system)
    system.snapshot()
    waited = ready(system, 1)
    pids = [pid_of(system, name) for name in also]
    kill_coordinator(system, *pids)
    until_it_runs(system, 3 if also else 2)
    assert goes_round(system)
    posts[0].hear.tell(1)
    system.snapshot()
    assert ray.get(posts[0].told.remote()) == [1]
    now = ready(system, 1)
    assert not now.keys() & waited.keys(), "a new coordinator makes its own"
    assert knows(system, *now) == [True], "which have imported what the actors need"


@pytest.mark.wide("slow")
@pytest.mark.parametrize("place", ["before_load_process", "before_mark_life", "before_resume_life"])
def test_the_coordinator_dies_while_a_spare_process_becomes_an_actor(new_system, place):
    system, _ = started(new_system, spares=1)
    ready(system, 1)
    die_at(system, place)
    kill(system, "post1")
    until_it_runs(system, 3)
    assert goes_round(system)
    system.snapshot()
    ready(system, 1)
    hosts = [name for name in named_actors(prefix(system.name)) if "/vault/" not in name]
    assert len(hosts) == 3 + 1, "no process of an earlier coordinator is left"


@pytest.mark.wide("slow")
@pytest.mark.parametrize("place", ["after_rollback", "before_load_process"])
def test_an_actor_that_was_a_spare_goes_back_in_its_place_although_the_coordinator_dies_on_the_way(new_system, place):
    system, posts = started(new_system, spares=1)
    ready(system, 1)
    kill(system, "post1")
    until_it_runs(system)
    system.snapshot()
    pids = {name: pid_of(system, name) for name in ("post1", "post2")}
    die_at(system, place)
    kill(system, "post0")
    until_it_runs(system, 4)
    assert {name: pid_of(system, name) for name in pids} == pids
    assert ray.get(posts[1].told.remote()) == []
    assert goes_round(system)


@pytest.mark.wide("slow")
def test_a_spare_process_that_dies_while_it_waits_is_made_anew_after_a_pause(new_system):
    system, _ = started(new_system, spares=2)
    pids = ready(system, 2)
    in_coordinator(system, lambda _: setattr(spares, "PAUSE_S", 0.5))
    os.kill(min(pids.values()), signal.SIGKILL)
    eventually(lambda: report(system)["spares"] == 1, 10)
    assert set(ready(system, 2).values()) & set(pids.values()) == {max(pids.values())}
    assert until_it_runs(system, 1)["incarnation"] == 1, "nothing went back"


@pytest.mark.wide("slow")
def test_a_spare_process_that_is_dead_or_stopped_when_it_is_wanted_is_replaced(new_system):
    system, _ = started(new_system, spares=2)
    pids = ready(system, 2)
    in_coordinator(system, lambda _: setattr(loader, "LOAD_SILENT_S", 2.0))
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    kill(system, "post0", "post1")
    until_it_runs(system)
    assert not {pid_of(system, "post0"), pid_of(system, "post1")} & set(pids.values())
    assert goes_round(system)
    eventually(lambda: not any(map(runs, pids.values())), 20)


@pytest.mark.wide("slow")
def test_a_class_by_value_and_one_that_wants_a_new_process_use_them(new_system):
    @rayshot.actor(reload="process")
    class Local:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    system, _ = started(new_system, spares=2)
    local = Local.options(name="local").remote()
    assert ray.get(local.add.remote()) == 1
    system.snapshot()
    pids = ready(system, 2).values()
    kill(system, "post1")
    until_it_runs(system)
    assert {pid_of(system, "post1"), pid_of(system, "local")} == set(pids)
    assert ray.get(local.add.remote()) == 2


def test_none_is_started_before_there_is_a_snapshot_to_go_back_to(new_system):
    system = new_system(failure=rayshot.FailureConfig(spares=1))
    post = Post.options(name="post0").remote()
    assert ray.get(post.read.remote()) == 0

    def waiting(coordinator):
        coordinator._healer._look()
        return len(coordinator._healer._spares._waiting)

    assert ray.get(system._identity.coordinator.__ray_call__.remote(waiting)) == 0
    system.snapshot()
    ready(system, 1)


def test_a_system_that_stops_ends_them(new_system):
    system, _ = started(new_system, spares=1, max_failures=0)
    (pid,) = ready(system, 1).values()
    kill(system, "post1")
    until_it_stops(system)
    eventually(lambda: not runs(pid), 20)
    assert report(system)["spares"] == 0


def test_a_system_that_was_stopped_with_a_savepoint_keeps_none(new_system):
    system, _ = started(new_system, spares=1)
    (pid,) = ready(system, 1).values()
    system.stop_with_savepoint("enough")
    eventually(lambda: not runs(pid), 20)


class Process:
    """A spare process as the coordinator sees it."""

    def __init__(self, node):
        self.ready = SimpleNamespace(remote=lambda: ray.put(node))
        self.until_taken = SimpleNamespace(remote=lambda: self.death)
        self.death = never.remote()

    def die(self):
        ray.cancel(self.death, force=True)
        while not ray.wait([self.death], timeout=5.0)[0]:  # an older Ray forgets it where the task was just starting
            ray.cancel(self.death, force=True)


@ray.remote(num_cpus=0, max_retries=0)
def never():
    time.sleep(600)


class Machine:
    """Starts processes on nodes in turn, and notes which are ended."""

    def __init__(self, monkeypatch):
        self.nodes, self.made, self.ended = ["far", "near"], [], []
        monkeypatch.setattr(spares, "spawn_spare", self.start)
        monkeypatch.setattr(spares, "draining_nodes", dict)
        monkeypatch.setattr(door, "kill", self.ended.append)

    def start(self, *_):
        self.made.append(Process(self.nodes[len(self.made) % 2]))
        return self.made[-1]


@pytest.fixture
def machine(cluster, monkeypatch):
    made = Machine(monkeypatch)
    yield made
    for process in made.made:
        process.die()


@pytest.fixture
def kept(machine):
    """Two spare processes, one each on the nodes "far" and "near"."""
    found = spares.Spares("bank", 2)
    for _ in range(3):
        found.keep(1, BANK, 0.0)
    assert len(machine.made) == 2
    return found


BANK, PLAIN = frozenset(("bank",)), SimpleNamespace(ray_options={"num_cpus": 0})


def test_one_is_started_at_a_time(machine):
    found = spares.Spares("bank", 2)
    found.keep(1, BANK, 0.0)
    assert len(found.ready) == 1
    found.keep(1, BANK, 0.0)
    assert len(found.ready) == 2


def test_that_none_can_be_started_now_is_no_failure_of_the_system(kept, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no answer")

    kept.take("alice", PLAIN)
    start = spares.spawn_spare
    monkeypatch.setattr(spares, "spawn_spare", refuse)
    kept.keep(1, BANK, 100.0)
    assert len(kept.ready) == 1
    monkeypatch.setattr(spares, "spawn_spare", start)
    kept.keep(1, BANK, 100.0 + spares.PAUSE_S / 2)
    assert len(kept.ready) == 1
    kept.keep(1, BANK, 100.0 + spares.PAUSE_S)
    assert len(kept.ready) == 2


def test_one_that_is_dead_or_cannot_be_watched_is_ended_and_replaced_after_a_pause(kept, machine):
    machine.made[0].die()
    kept.keep(1, BANK, 100.0)
    assert machine.ended == machine.made[:1]
    assert len(kept.ready) == 1
    kept.keep(1, BANK, 100.0 + spares.PAUSE_S)
    assert len(kept.ready) == 2


def test_those_that_lack_the_module_of_a_new_class_are_replaced_one_after_the_other(kept, machine):
    both = frozenset(("bank", "shop"))
    kept.keep(1, both, 0.0)
    assert machine.ended == machine.made[:1]
    assert len(kept.ready) == 2
    kept.keep(1, both, 0.0)
    kept.keep(1, BANK, 0.0)
    assert machine.ended == machine.made[:2], "they also serve where a class is gone"
    assert len(kept.ready) == 2


def test_after_the_end_none_is_started(kept, machine):
    kept.close()
    kept.keep(1, BANK, 1000.0)
    assert (machine.ended, len(machine.made), kept.ready) == (machine.made, 2, {})


@pytest.mark.parametrize(
    "wishes", [{"num_cpus": 1}, {"num_gpus": 1}, {"resources": {"house": 1}}, {"runtime_env": {"env_vars": {"A": "1"}}}]
)
def test_a_class_that_asks_ray_for_more_does_not_use_them(kept, wishes):
    assert kept.take("alice", SimpleNamespace(ray_options=wishes)) is None
    assert len(kept.ready) == 2


def test_a_process_on_a_node_that_is_drained_is_not_taken(kept, monkeypatch):
    monkeypatch.setattr(spares, "draining_nodes", lambda: {"far": 0})
    assert kept.take("alice", PLAIN).node == "near"
    assert kept.take("bob", PLAIN) is None


def test_they_are_taken_though_ray_does_not_say_which_nodes_are_drained(kept, monkeypatch):
    def silent():
        raise door.ControlServiceSilent("no answer")

    monkeypatch.setattr(spares, "draining_nodes", silent)
    assert kept.take("alice", PLAIN) is not None


@pytest.mark.parametrize("count", [-1, 1.5, True, "2", None])
def test_a_count_that_is_none_is_refused(count):
    with pytest.raises(rayshot.errors.ConfigError, match=r"spares=.*: give a count of 0 or more"):
        rayshot.FailureConfig(spares=count)


def test_a_system_that_does_not_go_back_by_itself_has_none():
    with pytest.raises(rayshot.errors.ConfigError, match=r"spares=2: only a system with scope='system'"):
        rayshot.FailureConfig(scope="stop", spares=2)
