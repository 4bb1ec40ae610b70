"""What tests on the fake share."""

import pytest

from tests.fake.door import fake


@pytest.fixture
def cluster():
    """The present one, of three nodes."""
    with fake(nodes=3) as cluster:
        yield cluster
