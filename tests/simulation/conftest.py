"""The runs that several tests look at."""

import pytest

from rayshot.simulation.schedule import run_seed

SCHEDULES = 2_000


@pytest.fixture(scope="session")
def outcomes():
    """The outcomes of the first seeds, in their order."""
    return [run_seed(seed) for seed in range(SCHEDULES)]
