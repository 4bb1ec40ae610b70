"""One Ray cluster for the tests of the runtime, and a system for each test that asks for one."""

import logging
import os
from pathlib import Path

import pytest
import ray

import rayshot

LEAN = Path(__file__).parent / "lean"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A local cluster, ended with everything in it."""
    start()
    yield
    ray.shutdown()


def start():
    """Start the cluster. Each Ray worker imports pyarrow and pydantic where they are installed, as they are for tests
    of other rooms only: a quarter of a second of each of the many processes of these tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(LEAN), os.environ.get("PYTHONPATH")))))
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
