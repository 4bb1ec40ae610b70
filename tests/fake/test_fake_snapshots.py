"""Snapshots of a system that works: what is in them, and what is known of them behind."""

from rayshot.model.configuration import SnapshotConfig
from tests.fake.account import Account, accounts, total
from tests.fake.system import begin


def test_an_actor_can_end_while_snapshots_follow_one_another_without_a_pause(cluster):
    system, made = begin(snapshots=SnapshotConfig(interval_s=0.01)), accounts()
    cluster.until(lambda: len(system.snapshots()) > 2)
    made["d"].leave.tell()
    cluster.until(lambda: "d" not in system.actors())
    assert system.snapshot().manifest.ended == ("d",)


def test_that_a_snapshot_ended_is_said_also_where_no_other_one_follows(cluster):
    system, _ = begin(), accounts()
    system.snapshot()
    hosts = [one.run.instance for name, one in cluster.named.items() if "/actor/" in name]
    cluster.until(lambda: all(not host._process.runner.participant.open_snapshots for host in hosts))


def test_what_a_driver_sent_before_is_inside_the_cut(cluster):
    system, made = begin(), accounts()
    for _ in range(100):
        made["a"].deposit.tell(1)
    assert total(system.snapshot()) == 500


def test_an_actor_begins_a_snapshot(cluster):
    system, made = begin(), accounts()
    system.snapshot()
    made["a"].photograph.tell()
    cluster.until(lambda: len(system.snapshots()) == 2)
    snapshot = system.snapshots()[-1]
    assert (snapshot.id, len(snapshot.actors)) == ((1, "a", 1), 4)


def test_periodic_snapshots_keep_the_last_and_every_savepoint(cluster):
    system = begin(snapshots=SnapshotConfig(interval_s=0.1, num_to_keep=2))
    Account.options(name="a").remote(1)
    kept = system.snapshot(label="before the holidays")
    cluster.until(lambda: system.status().last_snapshot.counter >= 8)
    system.configure(SnapshotConfig())
    cluster.until(lambda: len(system.snapshots()) <= 4)  # the savepoint, two that are kept, one that has just come
    assert kept.id in [snapshot.id for snapshot in system.snapshots()]
    for snapshot in system.snapshots():
        snapshot.verify()
