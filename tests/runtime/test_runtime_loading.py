"""Deaths of actors that are loaded again, while others of the same system still load."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import ray

import rayshot
from rayshot.runtime.door.naming import find_coordinator
from tests.runtime.healed import HEALS, STOPS
from tests.runtime.starter import Waiter
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.mark.acceptance("B13", "X12")
@pytest.mark.parametrize("failure", [STOPS, HEALS], ids=["stops", "heals"])
def test_an_actor_that_dies_when_it_is_loaded_and_others_are_not_is_loaded_again(new_system, tmp_path, failure):
    flag = tmp_path / "flag"
    system = new_system()
    assert ray.get(Account.options(name="alice").remote(7).read.remote()) == 7
    ray.get(Waiter.options(name="waiter").remote(str(flag)).read.remote())
    system.snapshot()
    system.shutdown()
    flag.touch()

    def kill_alice():
        coordinator = eventually(lambda: find_coordinator(system.name), 60)

        def waiting():
            return ray.get(coordinator.__ray_call__.remote(lambda self: self._healer._machine.waiting))

        eventually(lambda: waiting() == ("waiter",), 60)
        os.kill(ray.get(ray.get(coordinator.actors.remote())["alice"].status.remote())["pid"], signal.SIGKILL)
        eventually(lambda: "alice" in waiting(), 60)
        flag.unlink()

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_alice)
        restored = rayshot.restore(system.name, storage=system.storage, failure=failure)
        killed.result()
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("alice").read.remote()) == 7
    assert restored.incarnation == 2
