"""A system for each test that asks for one, and a part of an actor's process for those that need no more."""

import pytest

import rayshot
from rayshot import SnapshotConfig


@pytest.fixture(autouse=True)
def snapshots_when_asked_for(monkeypatch):
    """Systems are as users get them, and go back by themselves. But snapshots come only where a test asks for them."""
    monkeypatch.setattr("rayshot.model.configuration.HEALING_SNAPSHOTS", SnapshotConfig())


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
