"""What tests on the fake share."""

import pytest

import rayshot
from rayshot.model.configuration import KEPT, FailureConfig
from tests.fake.door import fake
from tests.fake.system import begin


@pytest.fixture
def cluster():
    """The present one, of three nodes."""
    with fake(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def loops():
    """What becomes of the frame of a method that loops at the top of a pass."""
    return KEPT


@pytest.fixture
def system(cluster, loops):
    """A system on the cluster that heals without a pause."""
    return begin(failure=FailureConfig(backoff_s=0.0), loops=loops)


@pytest.fixture
def rollouts(system):
    """An empty queue of the system."""
    rollouts = rayshot.Queue(actor_options={"name": "rollouts"})
    assert rollouts.empty()
    return rollouts
