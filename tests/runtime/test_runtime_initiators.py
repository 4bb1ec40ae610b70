"""Who begins a snapshot, and how the others hear of it."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import ray

from rayshot import SnapshotConfig
from rayshot.errors import ActorDied, ActorExited, ActorNotFound, ConfigError, SnapshotAborted
from rayshot.format.manifest import FOLLOWS
from rayshot.runtime.coordinator.requests import Asked, PendingRequest, SnapshotRequest
from rayshot.runtime.wire.initiation import check_spread
from tests.runtime.healed import STOPS
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray
NAMES = ("a", "b", "c", "d")


@pytest.fixture
def accounts():
    made = {name: Account.options(name=name).remote(100) for name in NAMES}
    ray.get([account.read.remote() for account in made.values()])
    return made


def pay_around(accounts, pairs):
    """One message over each channel, and all of them processed."""
    for sender, receiver in pairs:
        accounts[sender].transfer.tell(accounts[receiver], 1)
    senders = {sender for sender, _ in pairs}
    ray.get([accounts[sender].read.remote() for sender in senders])
    expected = {name: 100 + sum(r == name for _, r in pairs) - sum(s == name for s, _ in pairs) for name in NAMES}
    eventually(lambda: {name: ray.get(account.read.remote()) for name, account in accounts.items()} == expected)


def test_a_snapshot_that_one_actor_begins_spreads_over_idle_channels_by_its_markers(system, accounts):
    pay_around(accounts, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    assert system.topology() == {"a": ("b",), "b": ("c",), "c": ("d",), "d": ("a",)}
    snapshots = [system.snapshot(initiator=name, spread="markers") for name in NAMES]
    assert [snapshot.id.initiator for snapshot in snapshots] == list(NAMES)
    for snapshot in snapshots:
        snapshot.verify()
        assert snapshot.states() == {name: {"balance": 100} for name in NAMES}


def test_it_is_consistent_while_messages_are_on_their_way(system, accounts):
    pay_around(accounts, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    for _ in range(10):
        for sender, receiver in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")] * 50:
            accounts[sender].transfer.tell(accounts[receiver], 1)
        snapshot = system.snapshot(initiator="c", spread="markers")
        snapshot.verify()
        held = sum(state["balance"] for state in snapshot.states().values())
        channels = snapshot.channels.values()
        moving = sum(m.args[0] for channel in channels for m in channel.messages if m.method == "deposit")
        assert held + moving == 400


def test_actors_that_markers_cannot_reach_are_named_before_anything_begins(system, accounts):
    pay_around(accounts, [("a", "b"), ("b", "a"), ("c", "d")])
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


def test_a_channel_that_was_opened_carries_markers_before_it_carries_messages(system, accounts):
    for sender, receiver in [("a", "b"), ("a", accounts["c"]), ("c", "d")]:
        system.connect(sender, receiver)
    assert system.topology() == {"a": ("b", "c"), "b": (), "c": ("d",), "d": ()}
    assert system.snapshot(initiator="a", spread="markers").states().keys() == set(NAMES)
    with pytest.raises(ActorNotFound, match="'nobody'"):
        system.connect("a", "nobody")


def test_snapshots_of_several_initiators_at_once_are_each_consistent(new_system):
    system = new_system(snapshot=SnapshotConfig(max_concurrent=3))
    accounts = {name: Account.options(name=name).remote(100) for name in NAMES}
    ring = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    pay_around(accounts, ring)
    for sender, receiver in ring * 500:
        accounts[sender].transfer.tell(accounts[receiver], 1)
    taken = []

    def take(name):
        taken.append(system.snapshot(initiator=name, spread="markers"))

    threads = [threading.Thread(target=take, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(snapshot.id.initiator for snapshot in taken) == list(NAMES)
    for snapshot in taken:
        snapshot.verify()


def test_a_snapshot_says_behind_which_commits_it_began_where_that_is_known(new_system, tmp_path):
    system = new_system(snapshot=SnapshotConfig(max_concurrent=2))
    accounts = [Account.options(name=name).remote(1) for name in NAMES[:2]]
    ray.get([account.read.remote() for account in accounts])
    first = system.snapshot()
    accounts[1].pause_until.tell(str(tmp_path / "go on"))
    with ThreadPoolExecutor() as threads:
        both = [threads.submit(system.snapshot) for _ in range(2)]
        eventually(lambda: len(system.status().snapshots) == 2)
        (tmp_path / "go on").touch()
        second, third = (one.result() for one in both)
    last, own = system.snapshot(), system.snapshot(initiator="a")
    follows = [one.stats.get(FOLLOWS) for one in (first, second, third, last, own)]
    newest = max(second.position, third.position)
    assert follows == [None, first.position, first.position, newest, None]


@pytest.mark.wide("slow")
def test_an_initiator_that_does_not_come_to_it_is_named(new_system):
    system = new_system(snapshot=SnapshotConfig(timeout_s=1.0))
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    alice.pause.tell(6.0)
    with pytest.raises(SnapshotAborted, match="'alice' was asked to begin"):
        system.snapshot(initiator="alice")
    assert ray.get(alice.read.remote()) == 1


def test_an_initiator_that_ended_is_not_waited_for():
    asked = Asked()
    ended, gone, living = (
        PendingRequest("chandy-lamport", SnapshotRequest(initiators=(name,))) for name in ("ended", "gone", "living")
    )
    asked.add(ended, 0.0, {"ended", "living"})
    asked.add(gone, 0.0, {"ended", "living"})
    token = asked.add(living, 0.0, {"ended", "living"})
    asked.drop("ended")
    for request in (ended, gone):
        assert request.done.is_set()
        assert isinstance(request.error, ActorExited)
    assert len(asked) == 1
    assert asked.take(token) is living
    assert asked.take(token) is None
    assert not living.done.is_set()


def test_where_an_actor_ends_in_the_way_of_the_markers_the_coordinator_helps(new_system, monkeypatch):
    checked = threading.Event()

    def check(*arguments, **more):
        check_spread(*arguments, **more)
        checked.set()

    monkeypatch.setattr("rayshot.runtime.opening.system.check_spread", check)
    system = new_system(snapshot=SnapshotConfig(timeout_s=20.0))
    accounts = {name: Account.options(name=name).remote(100) for name in NAMES}
    for sender, receiver in [("a", "b"), ("b", "c"), ("c", "d")]:
        system.connect(sender, receiver)
    accounts["a"].pause.tell(1.0)
    taken = []
    thread = threading.Thread(target=lambda: taken.append(system.snapshot(initiator=["a"], spread="markers")))
    thread.start()
    assert checked.wait(10)
    accounts["b"].leave.tell()
    thread.join()
    assert taken[0].states().keys() == {"a", "c", "d"}


def test_where_an_actor_ended_after_the_ways_of_the_markers_were_looked_at_the_coordinator_helps(system, monkeypatch):
    accounts = {name: Account.options(name=name).remote(100) for name in NAMES}
    for sender, receiver in [("a", "b"), ("b", "c"), ("c", "d")]:
        system.connect(sender, receiver)

    def check(*arguments, **more):
        check_spread(*arguments, **more)
        accounts["b"].leave.tell()
        eventually(lambda: "b" not in system.actors(), 10)

    monkeypatch.setattr("rayshot.runtime.opening.system.check_spread", check)
    assert system.snapshot(initiator=["a"], spread="markers").states().keys() == {"a", "c", "d"}


def test_a_channel_from_an_actor_that_has_just_died_is_refused_with_its_death(new_system):
    system = new_system(failure=STOPS)
    accounts = {name: Account.options(name=name).remote(100) for name in NAMES}
    ray.get([account.read.remote() for account in accounts.values()])
    os.kill(system.status().actors["a"].pid, signal.SIGKILL)
    with pytest.raises(ActorDied, match="'a'"):
        system.connect("a", "b")


def test_no_more_snapshots_are_under_way_at_once_than_the_settings_say(new_system):
    system = new_system(snapshot=SnapshotConfig(max_concurrent=1))
    accounts = {name: Account.options(name=name).remote(100) for name in NAMES}
    ray.get([account.read.remote() for account in accounts.values()])
    for account in accounts.values():
        account.pause.tell(0.5)
    threads = [threading.Thread(target=system.snapshot, kwargs={"initiator": name}) for name in NAMES]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, len(system.status().snapshots))
    assert most <= 1
    assert len(system.snapshots()) == len(NAMES)
