"""`make chaos` with every snapshot looked at; a short form where it is not counted: a kill every second or two."""

import pytest

from benchmarks.chaos import ACCOUNTS, FAULTS, MONEY, torment
from rayshot import FailureConfig, SnapshotConfig

pytestmark = pytest.mark.ray


@pytest.mark.acceptance("L1")
def test_whatever_is_killed_nothing_told_is_lost_doubled_or_out_of_order(new_system, in_full):
    seconds, every_s, interval_s = (600.0, 15.0, 5.0) if in_full else (20.0, 1.5, 0.5)
    system = new_system(
        failure=FailureConfig(scope="system", backoff_s=0.0), snapshot=SnapshotConfig(interval_s=interval_s)
    )
    chaos, wrong = torment(system, seconds=seconds, every_s=every_s)
    assert set(chaos.killed) == set(FAULTS)
    assert wrong == {"lost": 0, "doubled or out of order": 0, "money": 0}
    assert len(system.status().recoveries) >= 1, "those since the coordinator was killed last"
    system.wait_until_running()
    assert system.incarnation > chaos.killed.count("actor")
    snapshots = system.snapshots()
    assert len(snapshots) > chaos.killed.count("actor")
    for snapshot in snapshots:
        if len(snapshot.actors) == ACCOUNTS:  # the first ones may be from the time when accounts were made
            assert snapshot.verify().sound
            assert money_of(snapshot) == ACCOUNTS * MONEY, snapshot.id


def money_of(snapshot):
    """All balances, and what is on its way between accounts."""
    messages = (message for channel in snapshot.channels.values() for message in channel.messages)
    moving = sum(message.args[0] for message in messages if message.method == "take")
    states = snapshot.states().values()
    assert not [wrong for state in states for wrong in state["wrong"]], snapshot.id
    return sum(state["balance"] for state in states) + moving
