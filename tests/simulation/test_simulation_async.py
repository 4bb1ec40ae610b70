"""Async actors in a simulated world: the same errors as on Ray, no waiting, and the same run again."""

import asyncio
import threading
from pathlib import Path

import pytest

import rayshot
from rayshot.errors import OutsideHandler, TaskLeftBehind, WaitsForHandler
from rayshot.simulation import SimulatedSystem, explore

pytestmark = pytest.mark.acceptance("O5")


@rayshot.actor
class Sleeper:
    """Sleeps, computes beside, waits for itself."""

    def __init__(self):
        self.heard = []
        self.event = asyncio.Event()

    async def doze(self, other):
        async def one(seconds):
            await asyncio.sleep(seconds)
            other.hear.tell(seconds)

        await asyncio.gather(one(3600), one(60), one(0.001))

    def hear(self, what):
        self.heard.append(what)

    async def compute(self):
        with pytest.raises(OutsideHandler):
            await asyncio.to_thread(rayshot.current)
        return rayshot.current().name, await asyncio.to_thread(threading.current_thread) is threading.current_thread()

    def compute_plainly(self):
        return asyncio.run(self.compute())[0]

    async def wait(self):
        await self.event.wait()

    async def leave(self):
        self.task = asyncio.create_task(asyncio.sleep(60))

    async def use_locks(self):
        self.semaphore = asyncio.Semaphore(1)

        async def use():
            async with self.semaphore:
                await asyncio.sleep(1)

        await asyncio.gather(use(), use())
        self.hear("used")


def two(world):
    return (world.create(Sleeper, name=name) for name in ("alice", "bob"))


def test_sleep_takes_no_time_and_wakes_in_order():
    world = SimulatedSystem(seed=1)
    alice, bob = two(world)
    alice.doze.tell(bob)
    world.run()
    assert world.actors["bob"].heard == [0.001, 60, 3600]
    assert world.now == 0.0, "a handler takes no time"


def test_threads_are_the_one_there_is():
    world = SimulatedSystem()
    alice, _ = two(world)
    assert alice.compute.remote().result() == ("alice", True)


@pytest.mark.parametrize(("method", "kind"), [("wait", WaitsForHandler), ("leave", TaskLeftBehind)])
def test_what_ray_refuses_is_refused_at_once(method, kind):
    world = SimulatedSystem()
    alice, _ = two(world)
    with pytest.raises(kind, match="'alice'"):
        getattr(alice, method).remote().result()


def test_a_world_runs_inside_of_a_loop_as_in_a_notebook():
    async def cell():
        world = SimulatedSystem()
        alice, _ = two(world)
        answers = alice.compute.remote().result()[0], alice.compute_plainly.remote().result()
        await asyncio.sleep(0)
        return answers

    assert asyncio.run(cell()) == ("alice", "alice")


def test_many_schedules_with_crashes_repeat_and_leave_no_files_open():
    def scenario(world):
        alice, bob = two(world)
        for _ in range(3):
            alice.doze.tell(bob)
            bob.use_locks.tell()

    def check(world):
        heard = world.actors["bob"].heard
        assert heard.count("used") == heard.count(60) == 3

    files = len(list(Path("/proc/self/fd").iterdir()))
    seen = explore(scenario, schedules=200, check=check, crashes=1)
    assert seen.rollbacks
    assert len(list(Path("/proc/self/fd").iterdir())) <= files + 3
