"""`make chaos` with every snapshot looked at; a short form where it is not counted: a kill every second or two."""

import contextlib

import pytest

from benchmarks.chaos import ACCOUNTS, MONEY, faults_of, torment
from benchmarks.disk import small_disk
from benchmarks.report import NotRun
from rayshot import SnapshotConfig
from tests.runtime.healed import HEALS, words_of_processes

pytestmark = pytest.mark.ray


@pytest.mark.acceptance("L1")
def test_whatever_is_killed_nothing_told_is_lost_doubled_or_out_of_order(new_system, in_full, tmp_path):
    seconds, every_s, interval_s = (600.0, 15.0, 5.0) if in_full else (20.0, 1.5, 0.5)
    with contextlib.ExitStack() as stack:
        disk = None
        with contextlib.suppress(NotRun):  # then no disk is full
            disk = stack.enter_context(small_disk())
        system = new_system(
            storage=(disk.folder if disk else tmp_path) / "shots",
            failure=HEALS,
            snapshots=SnapshotConfig(interval_s=interval_s),
        )
        chaos, wrong = torment(system, seconds, every_s, disk)
        assert set(chaos.killed) == set(faults_of(disk, None))
        assert wrong == {"lost": 0, "doubled or out of order": 0, "money": 0, "flights": 0}
        assert len(system.status().recoveries) >= 1, "those since the coordinator was killed last"
        system.wait_until_running()
        assert system.incarnation > chaos.killed.count("actor")
        check_snapshots(system, chaos)
        assert disk is None or f" at {disk.folder}" in words_of_processes(), "it was never full for anybody"
        system.shutdown()


def check_snapshots(system, chaos):
    """All of them are sound, and hold all money and all flights."""
    snapshots = system.snapshots()
    assert len(snapshots) > chaos.killed.count("actor")
    for snapshot in snapshots:
        if len(snapshot.actors) == ACCOUNTS + chaos.flights.actors:  # the first ones may be from the time before
            assert snapshot.verify().sound
            assert money_of(snapshot) == ACCOUNTS * MONEY, snapshot.id
            check_flights(snapshot)


def moving(snapshot, method):
    """The arguments of all messages of this method that are on their way."""
    messages = (message for channel in snapshot.channels.values() for message in channel.messages)
    return [message.args for message in messages if message.method == method]


def money_of(snapshot):
    """All balances, and what is on its way between accounts."""
    states = [state for state in snapshot.states().values() if "balance" in state]
    assert not [wrong for state in states for wrong in state["wrong"]], snapshot.id
    return sum(state["balance"] for state in states) + sum(amount for (amount,) in moving(snapshot, "take"))


def check_flights(snapshot):
    """What a schedule let go has departed, or is on its way there; what has departed is in the air, or has landed."""
    states = snapshot.states().values()
    let_go, departed, landed = (
        sum(state.get(what, 0) for state in states) for what in ("position", "departures", "arrivals")
    )
    assert let_go == departed + len(moving(snapshot, "depart")), snapshot.id
    assert departed == landed + len(moving(snapshot, "land")), snapshot.id
