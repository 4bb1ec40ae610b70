"""By which message a sum was broken: found in two snapshots and a replay of what lies between."""

import pytest
import ray

import rayshot
from rayshot.audit import name_messages
from rayshot.errors import ConfigError, Untrusted
from rayshot.properties import conservation, quantity
from tests.runtime.crooked import Branch, Careless, Lender
from tests.waiting import eventually

pytestmark = pytest.mark.ray
MONEY = quantity("balance", "deposit")


def branches(kind=Branch):
    made = {name: kind.options(name=name).remote(100, 17 if name == "bob" else None) for name in ("alice", "bob")}
    made["alice"].lead_to.tell(made["bob"])
    made["bob"].lead_to.tell(made["alice"])
    return made


def pay(made, *amounts, hops=4):
    """Every amount goes to and fro, and is nowhere seen by a snapshot."""
    before = sum(ray.get([one.count.remote() for one in made.values()]))
    for amount in amounts:
        made["alice"].pay.tell(amount, hops)
    wanted = before + len(amounts) * (hops + 1)
    eventually(lambda: sum(ray.get([one.count.remote() for one in made.values()])) == wanted)


def test_the_message_that_broke_a_sum_is_named(new_system):
    system = new_system(trace="full")
    made = branches()
    pay(made, 1, 2)
    system.snapshot()
    pay(made, 5, 6)
    system.snapshot()
    pay(made, *range(10, 20), hops=1)
    system.snapshot()
    pay(made, 7)
    system.snapshot()
    found = conservation(system.snapshots(), MONEY)
    assert [one.total for one in found.totals][-4:] == [200, 200, 197, 197]
    assert found.broken.change == -3
    assert found.broken.suspects == ("alice", "bob"), "what lies between nobody saw"
    named = name_messages(found)
    (culprit,) = named.culprits
    assert (culprit.message.sender, culprit.message.receiver, culprit.message.method) == ("alice", "bob", "deposit")
    assert culprit.message.args == (17, 0)
    assert (culprit.carried, culprit.sent, culprit.appeared) == (17, 0, -3)
    assert culprit.after - culprit.before == 14
    assert culprit.message.number == 2 * 2 + 2 * 2 + 8, "the eighth on the way from alice to bob in that interval"
    assert named.run_again == ("alice", "bob")
    assert named.why == f"-3 by message {culprit.message.number} of alice to bob: deposit(17, 0)"


def test_each_message_that_made_or_lost_something_is_named(new_system):
    system = new_system(trace="full")
    made = branches()
    pay(made, 1)
    system.snapshot()
    pay(made, 17, 4, 17, hops=3)
    system.snapshot()
    named = name_messages(conservation(system.snapshots()[-2:], MONEY))
    assert sorted(one.message.args for one in named.culprits) == [(17, 0), (17, 0), (17, 2), (17, 2)]
    assert {one.appeared for one in named.culprits} == {-3}


def test_a_life_is_run_again_from_what_it_was_restored_from(new_system):
    system = new_system(trace="full")
    made = branches()
    pay(made, 1)
    origin = system.snapshot()
    pay(made, 2)
    system.snapshot()
    name, storage = system.name, system.storage
    system.shutdown()
    system = rayshot.restore(storage, system=name, snapshot=str(origin.id), trace="full")
    new_system.made.append(system)
    made = system.actors()
    pay(made, 5, 17, 6)
    system.snapshot()
    found = conservation(rayshot.open(storage).system(name), MONEY)
    assert found.broken.old == origin
    assert found.broken.change == -6
    assert [one.message.args for one in name_messages(found).culprits] == [(17, 3), (17, 1)]


@pytest.mark.wide("slow")
def test_who_cannot_be_run_again_is_named_with_the_reason(new_system):
    system = new_system(trace=True)
    made = branches()
    system.snapshot()
    pay(made, 17)
    system.snapshot()
    named = name_messages(conservation(system.snapshots()[-2:], MONEY))
    assert named.culprits == ()
    assert "trace='full'" in named.not_run["bob"]
    system.shutdown()
    untraced = new_system("untraced")
    made = branches(Careless)
    untraced.snapshot()
    pay(made, 17)
    untraced.snapshot()
    assert "not traced" in name_messages(conservation(untraced.snapshots()[-2:], MONEY)).not_run["bob"]
    untraced.shutdown()
    careless = new_system("careless", trace="full")
    made = branches(Careless)
    careless.snapshot()
    pay(made, 17)
    careless.snapshot()
    found = conservation(careless.snapshots()[-2:], MONEY)
    assert "is not declared @rayshot.actor(deterministic=True)" in name_messages(found).not_run["bob"]
    with pytest.raises(Untrusted):
        name_messages(found, keys=[])


def brings(message):
    """What a reply carries, and a constructor is given, is counted too."""
    given = message.args and message.args[0]
    counted = message.method == "deposit" or message.kind == "create"
    return given if counted or (message.kind == "reply" and isinstance(given, int)) else 0


def test_nobody_is_named_for_what_a_reply_carried(new_system):
    system = new_system(trace="full")
    made = branches(Lender)
    pay(made, 1)
    system.snapshot()
    made["alice"].fetch.tell(5)
    eventually(lambda: ray.get(made["alice"].count.remote()) == 5)
    pay(made, 17, 4)
    system.snapshot()
    snapshots = system.snapshots()[-2:]
    named = name_messages(conservation(snapshots, MONEY))
    assert (named.culprits, named.run_again) == ((), ())
    assert "alice awaits a reply of bob with deposit" in named.not_run["alice"]
    assert "it replied to alice with a number" in named.not_run["bob"]
    counted = name_messages(conservation(snapshots, quantity("balance", brings)))
    assert [one.message.args for one in counted.culprits] == [(17, 3), (17, 1)]
    assert counted.run_again == ("alice", "bob")


def test_nobody_is_named_for_what_a_constructor_was_given(new_system):
    system = new_system(trace="full")
    made = branches(Lender)
    pay(made, 1)
    system.snapshot()
    made["alice"].found.tell("carol", 5)
    eventually(lambda: "carol" in system.actors())
    assert ray.get(system.actors()["carol"].count.remote()) == 0, "its constructor has run, so its sum is known"
    pay(made, 17, 4)
    system.snapshot()
    snapshots = system.snapshots()[-2:]
    found = conservation(snapshots, MONEY)
    assert found.broken.born == ("carol",)
    named = name_messages(found)
    assert {"alice", "carol"} <= named.not_run.keys()
    assert "alice creates carol, and what a constructor is given is not counted" in named.not_run["alice"]
    assert [one.message.args for one in named.culprits] == [(17, 3), (17, 1)]
    counted = name_messages(conservation(snapshots, quantity("balance", brings)))
    assert [one.message.args for one in counted.culprits] == [(17, 3), (17, 1)]
    assert counted.run_again == ("alice", "bob", "carol")


def test_who_ended_in_between_is_named_with_the_reason_and_the_others_are_run_again(new_system):
    system = new_system(trace="full")
    made = branches(Lender)
    carol = Lender.options(name="carol").remote(30)
    pay(made, 1)
    system.snapshot()
    carol.leave.tell()
    pay(made, 17)
    eventually(lambda: set(system.actors()) == set(made))
    system.snapshot()
    found = conservation(system.snapshots()[-2:], MONEY)
    assert found.broken.suspects == ("alice", "bob", "carol")
    named = name_messages(found, actors=[*found.broken.suspects, "driver:main", "nobody"])
    assert named.run_again == ("alice", "bob")
    assert [one.message.args for one in named.culprits] == [(17, 3), (17, 1)]
    last = system.snapshots()[-1].id
    assert named.not_run == {
        "carol": f"it had ended before {last}, so there is no state that running it again could be proved by",
        "driver:main": "it is a driver, and has no state",
        "nobody": f"there is no actor of that name in {last}",
    }
    assert "carol was not run again" in named.why


def test_where_nothing_is_broken_there_is_nothing_to_name(new_system):
    system = new_system(trace="full")
    branches()
    system.snapshot()
    with pytest.raises(ConfigError, match="the same in all snapshots"):
        name_messages(conservation(system.snapshots()[-1:], MONEY))
