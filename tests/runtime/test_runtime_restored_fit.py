"""A system that was restored into classes that changed, and loses an actor before its first snapshot."""

import os
import signal

import pytest
import ray

from rayshot.runtime.door import notes
from rayshot.runtime.door.naming import named_actors, prefix
from tests.runtime.evolved import Wallet
from tests.runtime.healed import HEALS, kill, kill_in, report, until_it_runs, until_it_stops
from tests.runtime.take_over import kill_coordinator
from tests.runtime.test_runtime_evolution import CLASS_MAP
from tests.runtime.test_runtime_restore import restore
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture
def evolved(new_system):
    """Wallets of yesterday that were restored as those of today, without carol, to whom two messages were in flight."""
    system = new_system()
    alice, carol = (Wallet.options(name=name).remote(n) for n, name in enumerate(("alice", "carol"), 1))
    ray.get([alice.read.remote(), carol.read.remote()])
    carol.pause.tell(1.0)
    for amount in (10, 20):
        alice.pay.tell(carol, amount)
    ray.get(alice.read.remote())
    assert system.snapshot().channel("alice", "carol").messages
    return restore(new_system.made, system, rename_classes=CLASS_MAP, skip_missing_classes=["carol"], failure=HEALS)


def kill_vaults(system):
    for name, vault in named_actors(prefix(system.name)).items():
        if "/vault/" in name:
            os.kill(ray.get(vault.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)


def is_as_restored(system):
    letters = {(one.receiver, one.sender, one.number) for one in system.dead_letters()}
    return (
        set(system.actors()) == {"alice"}
        and ray.get(system.get_actor("alice").read.remote()) == [("Coin", 1)]
        and letters == {("carol", "alice", 1), ("carol", "alice", 2)}
    )


@pytest.mark.acceptance("S5")
def test_until_its_first_snapshot_it_goes_back_to_what_was_restored_as_it_was_restored(evolved):
    assert is_as_restored(evolved)
    kill(evolved, "alice")
    until_it_runs(evolved, 3)
    eventually(lambda: is_as_restored(evolved))
    kill_coordinator(evolved)
    kill_in(until_it_runs(evolved, 3), "alice")
    until_it_runs(evolved, 4)
    eventually(lambda: is_as_restored(evolved))
    after = evolved.snapshot()
    assert after.manifest.ended == ("carol",)
    assert [(actor.class_name, actor.version) for actor in after.manifest.actors] == [("Purse", 2)]
    assert not notes.of_fits(evolved.name).all()
    kill_in(report(evolved), "alice")
    until_it_runs(evolved, 5)
    assert ray.get(evolved.get_actor("alice").read.remote()) == [("Coin", 1)]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("S5")
def test_if_nobody_is_left_who_knows_the_classes_it_stops_and_says_what_to_do(evolved):
    now = report(evolved)
    kill_vaults(evolved)
    kill_coordinator(evolved)
    kill_in(now, "alice")
    assert "again, with the same rename_classes and skip_missing_classes" in until_it_stops(evolved)
