"""Restores into programs whose classes changed: migrated, mapped, left out, or refused as a whole."""

import pytest
import ray

import rayshot
from rayshot.audit import prove
from rayshot.errors import CodeMismatch, MigrationFailed, RestoreFailed
from tests.runtime.evolved import Purse, Unwilling, UnwillingWallet, Wallet
from tests.runtime.healed import restoring_where, starts_processes
from tests.runtime.test_runtime_restore import refuse, restore, running
from tests.waiting import eventually

pytestmark = pytest.mark.ray

MODULE = "tests.runtime.evolved"
CLASS_MAP = {f"{MODULE}.Wallet": Purse, f"{MODULE}.Money": f"{MODULE}.Coin"}


def test_states_messages_and_values_come_back_in_the_classes_of_today_and_the_left_out_are_reported(new_system):
    system = new_system(trace="full")
    alice, bob, carol = (Wallet.options(name=name).remote(n) for n, name in enumerate(("alice", "bob", "carol"), 1))
    ray.get([one.read.remote() for one in (alice, bob, carol)])
    alice.befriend.tell(bob)
    bob.pause.tell(1.0)
    carol.pause.tell(1.0)
    for amount in (10, 20):
        alice.pay.tell(bob, amount)
        alice.pay.tell(carol, amount)
    ray.get(alice.read.remote())
    snapshot = system.snapshot()
    assert snapshot.channel("alice", "bob").messages
    assert snapshot.channel("alice", "carol").messages
    restored = restore(new_system.made, system, rename_classes=CLASS_MAP, skip_missing_classes=["carol"], trace="full")
    alice, bob = restored.get_actor("alice"), restored.get_actor("bob")
    assert eventually(lambda: ray.get(bob.count.remote()) == 3)
    assert ray.get(bob.read.remote()) == [("Coin", 2), ("Coin", 10), ("Coin", 20)]
    alice.ask_friend.tell()  # by a handle that was recorded when Wallet had no such method
    assert ray.get(alice.read.remote()) == [("Coin", 1)]
    assert set(restored.actors()) == {"alice", "bob"}
    letters = [(one.receiver, one.sender, one.number, one.method) for one in restored.dead_letters()]
    assert letters == [("carol", "alice", 1, "put"), ("carol", "alice", 2, "put")]
    alice.pay.tell(bob, 30)
    ray.get(alice.read.remote())
    after = restored.snapshot()
    after.verify()
    assert after.manifest.ended == ("carol",)
    assert [(actor.class_name, actor.version) for actor in after.manifest.actors] == [("Purse", 2)] * 2
    assert prove(after, restored.snapshots()).sound
    again = restore(new_system.made, restored)
    assert ("Coin", 30) in eventually(lambda: ray.get(again.get_actor("bob").read.remote()))


@pytest.mark.wide("slow")
@pytest.mark.acceptance("G18")
def test_a_migration_that_fails_or_a_class_that_takes_no_state_fails_the_restore_as_a_whole(new_system, monkeypatch):
    restoring_where(monkeypatch, starts_processes(2))
    system = new_system()
    rich = Wallet.options(name="rich").remote(5000)
    poor = Wallet.options(name="poor").remote(1)
    ray.get([rich.read.remote(), poor.read.remote()])
    system.snapshot()
    system.shutdown()
    with pytest.raises(RestoreFailed, match=r"'rich'.*Purse\.migrate.*too rich") as raised:
        rayshot.restore(system.name, storage=system.storage, rename_classes=CLASS_MAP)
    assert isinstance(raised.value.__cause__, MigrationFailed)
    assert raised.value.evidence["actor"] == "rich"
    assert running(system) == []
    for moved, said in (
        ({f"{MODULE}.Wallet": UnwillingWallet}, rf"'(rich|poor)'.*{MODULE}\.UnwillingWallet.*not today"),
        ({f"{MODULE}.Money": Unwilling}, rf"'(rich|poor)'.*{MODULE}\.Wallet.*not today"),
    ):
        with pytest.raises(RestoreFailed, match=said) as raised:
            rayshot.restore(system.name, storage=system.storage, rename_classes=moved)
        assert isinstance(raised.value.__cause__, CodeMismatch)
    assert "requires amount" in refuse(system, CodeMismatch, rename_classes={f"{MODULE}.Wallet": f"{MODULE}.Coin"})
    new_system.made.append(rayshot.restore(system.name, storage=system.storage))
    assert ray.get(new_system.made[-1].get_actor("rich").read.remote()) == [("Money", 5000)]
