"""Who begins a snapshot, and how the others hear of it."""

import pytest
import ray

from rayshot.errors import ActorExited
from rayshot.runtime.coordinator.requests import Asked, PendingRequest, SnapshotRequest
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
