"""One Ray cluster for the tests of the runtime, and a system for each test that asks for one."""

import logging

import pytest
import ray

import rayshot


@pytest.fixture(scope="session")
def cluster():
    """A local cluster, ended with everything in it."""
    start()
    yield
    ray.shutdown()


def start():
    """Start the cluster."""
    ray.init(num_cpus=32, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)


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
