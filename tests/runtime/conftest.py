"""A system for each test that asks for one, and a part of an actor's process for those that need no more."""

import pytest

import rayshot


@pytest.fixture
def new_system(cluster, tmp_path, request):
    """Makes systems in a storage of the test's own; shuts down what is left of them.

    Such a system takes no snapshot by itself and stops when something dies, unless the test says otherwise.
    """
    made = []

    def make(name=None, **settings):
        name = name or f"s{abs(hash(request.node.nodeid)) % 10**8}"
        settings.setdefault("failure", rayshot.FailureConfig(scope="stop"))
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
