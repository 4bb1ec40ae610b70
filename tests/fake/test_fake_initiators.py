"""Who begins a snapshot, and how the others hear of it."""

import pytest

from rayshot.errors import ActorDied, ActorNotFound, ConfigError, SnapshotAborted
from rayshot.format.manifest import FOLLOWS
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.door import door
from rayshot.runtime.opening import system as opening
from rayshot.runtime.wire.initiation import check_spread
from tests.fake.account import NAMES, accounts, new_gate, photograph, total
from tests.fake.schedule import Choices
from tests.fake.system import actor, begin, coordinator

RING = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))


def pay(made, pairs):
    for sender, receiver in pairs:
        made[sender].transfer.tell(made[receiver], 1)


def test_a_snapshot_that_one_actor_begins_spreads_over_idle_channels_by_its_markers(cluster):
    system, made = begin(), accounts()
    pay(made, RING)
    cluster.settle()
    assert system.topology() == {"a": ("b",), "b": ("c",), "c": ("d",), "d": ("a",)}
    snapshots = [system.snapshot(initiator=name, spread="markers") for name in NAMES]
    assert [snapshot.id.initiator for snapshot in snapshots] == list(NAMES)
    for snapshot in snapshots:
        snapshot.verify()
        assert snapshot.states() == {name: {"balance": 100} for name in NAMES}


@pytest.mark.parametrize("seed", range(5))
def test_it_is_consistent_while_messages_are_on_their_way(cluster, seed):
    system, made = begin(), accounts()
    pay(made, RING)
    cluster.settle()
    cluster.schedule.choose = Choices.of_seed(seed)
    pay(made, RING * 10)
    for _ in range(20 * seed):
        cluster.schedule.step(cluster.schedule.now_s)
    snapshot = system.snapshot(initiator="c", spread="markers")
    snapshot.verify()
    assert total(snapshot) == 400


def test_actors_that_markers_cannot_reach_are_named_before_anything_begins(cluster):
    system, made = begin(), accounts()
    pay(made, [("a", "b"), ("b", "a"), ("c", "d")])
    cluster.settle()
    with pytest.raises(ConfigError, match="from a to c, d, so markers alone cannot"):
        system.snapshot(initiator="a", spread="markers")
    with pytest.raises(ConfigError, match="needs an initiator"):
        system.snapshot(spread="markers")
    with pytest.raises(ActorNotFound, match=r"'nobody'.*there is a, b, c, d"):
        system.snapshot(initiator="nobody")
    assert system.snapshots() == []
    assert system.snapshot(initiator="a").id.initiator == "a"  # the coordinator helps
    both = system.snapshot(initiator=["a", "c"], spread="markers")
    assert both.states().keys() == set(NAMES)


def test_a_channel_that_was_opened_carries_markers_before_it_carries_messages(cluster):
    system, made = begin(), accounts()
    for sender, receiver in [("a", "b"), ("a", made["c"]), ("c", "d")]:
        system.connect(sender, receiver)
    assert system.topology() == {"a": ("b", "c"), "b": (), "c": ("d",), "d": ()}
    assert system.snapshot(initiator="a", spread="markers").states().keys() == set(NAMES)
    with pytest.raises(ActorNotFound, match="'nobody'"):
        system.connect("a", "nobody")


@pytest.mark.parametrize("seed", range(5))
def test_snapshots_of_several_initiators_at_once_are_each_consistent(cluster, seed):
    system, made = begin(snapshots=SnapshotConfig(max_concurrent=3)), accounts()
    pay(made, RING)
    cluster.settle()
    cluster.schedule.choose = Choices.of_seed(seed)
    pay(made, RING * 20)
    threads, lists = zip(*(photograph(system, initiator=name, spread="markers") for name in NAMES), strict=True)
    for thread in threads:
        thread.join()
    taken = [one for (one,) in lists]
    assert [snapshot.id.initiator for snapshot in taken] == list(NAMES)
    for snapshot in taken:
        snapshot.verify()
        assert total(snapshot) == 400


def test_a_snapshot_says_behind_which_commits_it_began_where_that_is_known(cluster):
    system, made = begin(snapshots=SnapshotConfig(max_concurrent=2)), accounts()
    first = system.snapshot()
    gate = new_gate("gate")
    made["b"].wait_at.tell("gate")
    waiting = [photograph(system) for _ in range(2)]
    cluster.until(lambda: len(system.status().snapshots) == 2)
    gate.set()
    for thread, _ in waiting:
        thread.join()
    (second,), (third,) = (taken for _, taken in waiting)
    last, own = system.snapshot(), system.snapshot(initiator="a")
    follows = [one.stats.get(FOLLOWS) for one in (first, second, third, last, own)]
    newest = max(second.position, third.position)
    assert follows == [None, first.position, first.position, newest, None]


def test_an_initiator_that_does_not_come_to_it_is_named(cluster):
    system, made = begin(snapshots=SnapshotConfig(timeout_s=1.0)), accounts()
    gate = new_gate("gate")
    made["a"].wait_at.tell("gate")
    with pytest.raises(SnapshotAborted, match="'a' was asked to begin"):
        system.snapshot(initiator="a")
    gate.set()
    assert door.get(made["a"].read.remote()) == 100
    assert system.snapshots() == []


def tokens(cluster):
    """Of the initiators that were asked to begin, and have not begun."""
    return list(coordinator(cluster).run.instance._life.runner._admission.asked._waiting)


def chain(system):
    for sender, receiver in [("a", "b"), ("b", "c"), ("c", "d")]:
        system.connect(sender, receiver)


def test_where_an_actor_ends_in_the_way_of_the_markers_the_coordinator_helps(cluster):
    system, made = begin(snapshots=SnapshotConfig(timeout_s=20.0)), accounts()
    chain(system)
    gate = new_gate("gate")
    made["a"].wait_at.tell("gate")
    thread, taken = photograph(system, initiator=["a"], spread="markers")
    cluster.until(lambda: tokens(cluster))
    made["b"].leave.tell()
    cluster.schedule.pass_s(1.0)
    gate.set()
    thread.join()
    assert taken[0].states().keys() == {"a", "c", "d"}


def test_where_an_actor_ended_after_the_ways_of_the_markers_were_looked_at_the_coordinator_helps(cluster, monkeypatch):
    system, made = begin(), accounts()
    chain(system)

    def check(*arguments, **more):
        check_spread(*arguments, **more)
        made["b"].leave.tell()
        cluster.until(lambda: "b" not in system.actors())

    monkeypatch.setattr(opening, "check_spread", check)
    assert system.snapshot(initiator=["a"], spread="markers").states().keys() == {"a", "c", "d"}


def test_a_channel_from_an_actor_that_has_just_died_is_refused_with_its_death(cluster):
    system = begin(failure=FailureConfig(scope="stop"))
    accounts()
    cluster.die(actor(cluster, "a"))
    with pytest.raises(ActorDied, match="'a'"):
        system.connect("a", "b")


def test_no_more_snapshots_are_under_way_at_once_than_the_settings_say(cluster):
    system, made = begin(snapshots=SnapshotConfig(max_concurrent=1)), accounts()
    gates = {name: new_gate(name) for name in NAMES}
    for name, account in made.items():
        account.wait_at.tell(name)
    waiting = [photograph(system, initiator=name)[0] for name in NAMES]
    most = 0
    for gate in gates.values():
        cluster.schedule.pass_s(0.5)
        most = max(most, len(system.status().snapshots))
        gate.set()
    for thread in waiting:
        thread.join()
    assert most == 1
    assert len(system.snapshots()) == len(NAMES)
