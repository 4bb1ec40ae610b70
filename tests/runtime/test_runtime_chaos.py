"""A short form of `make chaos`: something is killed every second or two while money and numbers are told."""

import pytest

from benchmarks.chaos import FAULTS, torment
from rayshot import FailureConfig, SnapshotConfig

pytestmark = pytest.mark.ray


def test_whatever_is_killed_nothing_told_is_lost_doubled_or_out_of_order(new_system):
    system = new_system(
        failure=FailureConfig(scope="system", backoff_s=0.0), snapshot=SnapshotConfig(interval_s=0.5, num_to_keep=3)
    )
    chaos, wrong = torment(system, seconds=20.0, every_s=1.5)
    assert set(chaos.killed) == set(FAULTS)
    assert wrong == {"lost": 0, "doubled or out of order": 0, "money": 0}
    assert len(system.status().recoveries) >= 1, "those since the coordinator was killed last"
    system.wait_until_running()
    assert system.incarnation > chaos.killed.count("actor")
