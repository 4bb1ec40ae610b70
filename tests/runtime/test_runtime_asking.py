"""Handlers that wait for answers, on real Ray: its own `ray.get`, event loops, and processes that die. See the fake."""

import pytest
import ray

import rayshot
from rayshot.errors import AnswerTimedOut
from tests.runtime.asking import AsyncWorker, Server, Worker
from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture
def server():
    return Server.options(name="server").remote()


@pytest.fixture
def worker(system, server):
    return Worker.options(name="worker").remote(server)


@pytest.mark.acceptance("A1")
def test_rays_own_get_waits_for_the_answer_of_another_actor(worker):
    worker.ask.tell()
    assert ray.get(worker.ask_two.remote()) == [3, 4]
    assert ray.get(worker.read.remote()) == ([1, 2], 1)


def test_a_get_with_a_timeout_raises_a_timeout_error(worker):
    assert ray.get(worker.ask_in_time.remote(2.0)) == AnswerTimedOut.__name__


@pytest.mark.parametrize("name", ["wait", "put"])
def test_what_ray_cannot_do_with_a_reply_names_what_rayshot_has(worker, name):
    assert ray.get(worker.misuse.remote(name)) is True


@pytest.mark.acceptance("A2")
def test_tasks_of_asyncio_wait_for_many_answers_at_once(system, server):
    worker = AsyncWorker.options(name="worker").remote(server)
    assert ray.get(worker.gather.remote(1000)) == list(range(1, 1001))
    assert ray.get(worker.in_a_group.remote(3)) == [1001, 1002, 1003]
    assert sorted(ray.get(worker.as_they_come.remote(3))) == [1004, 1005, 1006]
    assert ray.get(worker.in_time.remote(2.0)) == "late"


def test_snapshots_come_between_conversations_and_each_is_consistent(system, worker):
    ray.get(worker.read.remote())
    for _ in range(200):
        worker.ask.tell()
    for _ in range(3):
        snapshot = system.snapshot()
        snapshot.verify()
        states = snapshot.states()
        assert states["worker"]["got"] == list(range(1, states["server"]["given"] + 1))
        assert states["worker"]["began"] == states["server"]["given"] - 1
    assert ray.get(worker.read.remote()) == (list(range(1, 202)), 200)
    assert system.status().aborted == 0


@pytest.mark.acceptance("A4")
@pytest.mark.parametrize("victim", ["server", "worker"])
def test_whoever_dies_in_a_conversation_each_number_is_got_once(new_system, victim):
    system = new_system(failure=HEALS, snapshots=rayshot.SnapshotConfig(interval_s=0.2))
    worker = Worker.options(name="worker").remote(Server.options(name="server").remote())
    ray.get(worker.read.remote())
    system.snapshot()
    for life in (2, 3):
        for _ in range(100):
            worker.ask.tell()
        kill(system, victim)
        until_it_runs(system, life)
    expected = list(range(1, 202)), 200
    eventually(lambda: _read(system, worker) == expected, 60)


@pytest.mark.acceptance("A3")
@pytest.mark.parametrize("victim", ["server", "w2"])
def test_where_somebody_always_waits_snapshots_are_taken_and_whoever_dies_each_number_is_got_once(new_system, victim):
    system = new_system(failure=HEALS, snapshots=rayshot.SnapshotConfig(interval_s=0.5))
    server = Server.options(name="server").remote()
    workers = [Worker.options(name=f"w{number}").remote(server) for number in range(4)]
    ray.get([worker.read.remote() for worker in workers])
    for worker in workers:
        worker.go_on.tell(worker, 3_000)
    eventually(lambda: len(system.snapshots()) >= 3, 60)
    snapshot = system.snapshot()
    snapshot.verify()
    states = snapshot.states()
    assert sorted(number for k in range(4) for number in states[f"w{k}"]["got"]) == [
        *range(1, states["server"]["given"] + 1)
    ]
    assert states["server"]["given"] < 3_000
    kill(system, victim)
    until_it_runs(system, 2)
    eventually(lambda: all(got and got[0][-1] >= 3_000 for got in (_read(system, one) for one in workers)), 90)
    got = sorted(number for worker in workers for number in _read(system, worker)[0])
    assert got == list(range(1, len(got) + 1))
    assert system.status().aborted == 0


def _read(system, worker):
    system.wait_until_running(60)
    try:
        return ray.get(worker.read.remote(), timeout=60)
    except ray.exceptions.ActorDiedError:
        return None
