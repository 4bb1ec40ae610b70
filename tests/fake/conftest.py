"""What tests on the fake share."""

import pytest

from rayshot.model.configuration import FailureConfig
from tests.fake.door import fake
from tests.fake.system import begin


@pytest.fixture
def cluster():
    """The present one, of three nodes."""
    with fake(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def system(cluster):
    """A system on the cluster that heals without a pause."""
    return begin(failure=FailureConfig(backoff_s=0.0))
