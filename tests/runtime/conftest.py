"""A system for each test that asks for one, and a part of an actor's process for those that need no more."""

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.runtime.door.naming import running_systems
from rayshot.runtime.opening import ports


@pytest.fixture(autouse=True)
def snapshots_when_asked_for(monkeypatch):
    """Systems are as users get them, and go back by themselves. But snapshots come only where a test asks for them."""
    monkeypatch.setattr("rayshot.model.configuration.HEALING_SNAPSHOTS", SnapshotConfig())


@pytest.fixture(autouse=True)
def none_is_left():
    """A system that outlives its test would fail those behind it: their new actors could be meant for it, too."""
    before = systems_of_this_program()
    yield
    shut_down(systems_of_this_program() - before)


def systems_of_this_program():
    return {port.system for port in ports._begun if port.down is None} if ray.is_initialized() else set()


def shut_down(names):
    for name in names.intersection(running_systems()) if names else ():
        rayshot.attach(name).shutdown()


@pytest.fixture
def new_system(cluster, tmp_path, request):
    """Makes systems in a storage of the test's own; shuts down what is left of them."""
    made = []

    def make(name=None, **settings):
        name = name or f"s{abs(hash(request.node.nodeid)) % 10**8}"
        system = rayshot.init(name, storage=settings.pop("storage", tmp_path / "shots"), **settings)
        made.append(system)
        return system

    make.made = made
    yield make
    for system in made:
        system.shutdown()


@pytest.fixture
def system(new_system):
    return new_system()
