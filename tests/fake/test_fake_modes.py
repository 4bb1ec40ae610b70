"""Snapshots of other modes than the default: aligned, and of a world that stops."""

import pytest

import rayshot
from rayshot.errors import SnapshotAborted
from rayshot.model.configuration import SnapshotConfig
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door import door
from tests.fake.account import Account, accounts, new_gate, photograph, total
from tests.fake.schedule import Choices
from tests.fake.system import begin, coordinator

CYCLE = (("a", "b"), ("b", "c"), ("c", "a"))


@rayshot.actor
class Clock:
    """Counts its ticks."""

    def __init__(self):
        self.ticks = 0

    def start(self, seconds):
        rayshot.current().after(seconds, self.tick)

    def tick(self):
        self.ticks += 1

    def read(self):
        return self.ticks


@rayshot.actor
class Unfinished:
    def __init__(self):
        Account.gates["gate"].wait()
        raise ValueError("it cannot be finished")


def check_aligned(snapshot, back=()):
    """No channel has messages in it, but those that lead back."""
    snapshot.verify()
    assert (snapshot.mode, snapshot.id.initiator) == ("aligned", "aligned")
    assert {channel for channel, state in snapshot.channels.items() if state.messages} <= set(back)


@pytest.mark.parametrize("seed", range(5))
def test_on_a_cycle_only_the_channel_that_leads_back_holds_messages(cluster, seed):
    system, made = begin(), accounts()
    for sender, receiver in CYCLE:
        system.connect(sender, receiver)
    cluster.schedule.choose = Choices.of_seed(seed)
    for sender, receiver in CYCLE * 20:
        made[sender].transfer.tell(made[receiver], 1)
    for _ in range(20 * seed):
        cluster.schedule.step(cluster.schedule.now_s)
    snapshot = system.snapshot(mode="aligned")
    check_aligned(snapshot, back=[("c", "a")])
    assert total(snapshot) == 400


def test_periodic_snapshots_are_aligned_where_the_settings_say_so(cluster):
    system, made = begin(snapshots=SnapshotConfig(mode="aligned", interval_s=1.0)), accounts()
    system.connect("a", "b")
    for _ in range(50):
        made["a"].transfer.tell(made["b"], 1)
        cluster.schedule.pass_s(0.1)
    assert len(system.snapshots()) >= 3
    for snapshot in system.snapshots():
        check_aligned(snapshot)
        assert total(snapshot) == 400
    assert system.status().aborted == 0


@pytest.mark.parametrize("late", [False, True])
def test_alignment_that_takes_too_long_turns_into_a_recording_and_no_later_marker_takes_it_up_again(cluster, late):
    """c has b's marker and waits for a's. If that is late, c records what still comes from a."""
    system, made = begin(snapshots=SnapshotConfig(alignment_timeout_s=0.5)), accounts()
    for sender, receiver in [("a", "c"), ("b", "c")]:
        system.connect(sender, receiver)
    gate = new_gate("gate")
    made["a"].transfer_behind.tell("gate", made["c"], 1)
    cluster.settle()
    thread, taken = photograph(system, mode="aligned")
    cluster.schedule.pass_s(1.0 if late else 0.1)
    made["b"].transfer.tell(made["c"], 1)
    gate.set()
    thread.join()
    (snapshot,) = taken
    snapshot.verify()
    assert len(snapshot.channel("a", "c").messages) == late
    assert total(snapshot) == 400
    assert door.get(made["c"].read.remote()) == 102


def test_no_timer_fires_and_no_message_is_handled_while_the_world_stands_still(cluster):
    system, made = begin(snapshots=SnapshotConfig(timeout_s=3.0)), accounts()
    clock = Clock.options(name="clock").remote()
    clock.start.tell(0.1)
    gate = new_gate("gate")
    made["a"].wait_at.tell("gate")  # as long as it runs the world waits for it
    thread, failed = photograph(system, mode="stop-the-world")
    cluster.until(lambda: system.status().snapshots)
    made["b"].deposit.tell(1)
    balance, ticks = made["b"].read.remote(), clock.read.remote()
    cluster.schedule.pass_s(1.0)
    assert door.wait([balance, ticks], timeout=0)[0] == []
    thread.join()
    assert isinstance(failed[0], SnapshotAborted)
    assert failed[0].evidence["missing"] == ("a",)  # the others stand still, and wait for it as we do
    assert door.get([balance, ticks]) == [101, 0]
    cluster.schedule.pass_s(0.1)
    assert door.get(clock.read.remote()) == 1
    gate.set()


def test_snapshots_of_another_kind_pass_by_one_that_is_aligning(cluster):
    system, made = begin(snapshots=SnapshotConfig(max_concurrent=3)), accounts()
    system.connect("a", "b")
    gate = new_gate("gate")
    made["a"].wait_at.tell("gate")
    waiting = [photograph(system, mode="aligned")[0] for _ in range(2)]
    cluster.until(lambda: system.status().snapshots)
    made["b"].photograph.tell()
    cluster.until(lambda: len(system.status().snapshots) == 2, 4)
    gate.set()
    for thread in waiting:
        thread.join()
    cluster.schedule.pass_s(1.0)
    assert sorted(snapshot.mode for snapshot in system.snapshots()) == ["aligned", "aligned", "chandy-lamport"]


def test_who_joins_while_a_snapshot_of_the_stopped_world_is_written_goes_on_when_it_is_committed(cluster):
    system, _ = begin(), accounts()
    committer = coordinator(cluster).run.instance._life.committer
    intend = committer._intend
    joined = new_gate("joined")
    committer._intend = lambda *args: (joined.wait(), intend(*args))[1]
    thread, _ = photograph(system, mode="stop-the-world")
    cluster.until(lambda: any(snapshot.recorded for snapshot in system.status().snapshots))
    young = Account.options(name="young").remote(2)
    balance = young.read.remote()
    cluster.schedule.pass_s(1.0)
    joined.set()
    thread.join()
    assert door.get(balance, timeout=20) == 2


def test_an_aligned_snapshot_does_not_wait_for_the_marker_of_an_actor_that_failed_to_start(cluster):
    system, _ = begin(snapshots=SnapshotConfig(timeout_s=20.0)), accounts()
    gate = new_gate("gate")
    Unfinished.options(name="fails").remote()
    system.connect("fails", "a")
    wanted = SnapshotRequest("aligned")  # the driver's own waits for births
    taking = system._identity.coordinator.snapshot.remote(wanted)
    cluster.schedule.pass_s(1.0)
    gate.set()
    door.get(taking)
    (snapshot,) = system.snapshots()
    assert sorted(snapshot.states()) == ["a", "b", "c", "d"]
