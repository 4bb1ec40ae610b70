"""A system for each test that asks for one, and a part of an actor's process for those that need no more."""

import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import rayshot
from rayshot.protocol.participant import Participant
from rayshot.runtime.outcomes import Outcomes


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


@pytest.fixture
def process():
    """As much of an actor's process as its recording needs."""
    lock = threading.Lock()
    return SimpleNamespace(
        name="alice",
        lock=lock,
        wake=threading.Condition(lock),
        participant=Participant("alice"),
        identity=SimpleNamespace(recorder_timeout_s=60.0, coordinator=Mock()),
        captures={},
        channels={},
        down=None,
        outcomes=Outcomes(lock),
    )
