"""Which of two cuts lies before the other."""

from typing import Any

import pytest

from rayshot.errors import ConfigError, Incomparable
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.relation import Relation
from rayshot.snapshots.snapshot import Snapshot
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

AB, BA, BB, DRIVER = ("alice", "bob"), ("bob", "alice"), ("bob", "bob"), ("driver:main", "alice")


def two(before: Bank, after: Bank) -> tuple[Snapshot, Snapshot]:
    repository = open_bank(MemoryStore())
    return make_snapshot(repository, before, 1), make_snapshot(repository, after, 2)


def relation(before: Any, after: Any) -> Relation:
    old, new = two(Bank(flows=before), Bank(flows=after))
    return old.relation(new)


def test_a_cut_lies_before_another_if_no_actor_goes_back() -> None:
    old, new = two(Bank(flows={AB: Flow(2, received=1)}), Bank(flows={AB: Flow(2, received=2), BA: Flow(1)}))
    assert old.relation(new) == Relation("before", ("bob",), ())
    assert new.relation(old) == Relation("after", (), ("bob",))
    assert old.relation(old) == Relation("equal", (), ())
    assert old.diff(new).relation.name == "before"
    assert new.diff(old).relation.name == "after"


def test_snapshots_of_two_initiators_that_overlapped_are_comparable_neither_way() -> None:
    states = {"alice": {"done": 317}, "bob": {"done": 334}}, {"alice": {"done": 334}, "bob": {"done": 317}}
    flows = {AB: Flow(317, received=317)}, {AB: Flow(334, received=300)}
    old, new = two(
        Bank(states=states[0], flows=flows[0], initiator="alice"),
        Bank(states=states[1], flows=flows[1], initiator="bob"),
    )
    assert old.relation(new) == Relation("incomparable", ("alice",), ("bob",))
    with pytest.raises(Incomparable, match="forward go alice; back go bob") as caught:
        old.diff(new)
    assert caught.value.evidence == {
        "relation": "incomparable",
        "old": "1-alice-1",
        "new": "1-bob-2",
        "actors_forward": ["alice"],
        "actors_back": ["bob"],
    }


def test_an_actor_that_sent_goes_forward_though_nobody_has_received() -> None:
    assert relation({AB: Flow(1)}, {AB: Flow(2)}) == Relation("before", ("alice",), ())


def test_births_and_ends_go_forward() -> None:
    old, new = two(Bank(states={"alice": {}}, flows={}), Bank(states={"alice": {}, "bob": {}}, flows={}))
    assert old.relation(new) == Relation("before", ("bob",), ())
    assert new.relation(old) == Relation("after", (), ("bob",))
    with_bob = Bank(flows={AB: Flow(5, received=2), BA: Flow(1, received=1)})
    old, new = two(with_bob, Bank(states={"alice": {}}, flows={}, ended=["bob"]))
    assert old.relation(new) == Relation("before", ("bob",), ())  # the manifest leaves out the channels of the ended
    assert new.relation(old) == Relation("after", (), ("bob",))


def test_an_actor_that_had_ended_before_both_cuts_goes_nowhere() -> None:
    there = {"bob": {}}
    left = Bank(states=there, flows={AB: Flow(4, received=1)}, ended=["alice"])
    old, new = two(left, Bank(states=there, flows={}, ended=["alice"]))
    assert old.relation(new).back == ()  # that its last messages were processed leaves out their channel


def test_a_driver_that_only_one_cut_knows_may_be_new_or_past() -> None:
    past = {AB: Flow(1), DRIVER: Flow(3, received=3)}, {AB: Flow(2)}
    assert relation(*past) == Relation("before", ("alice",), ())
    new = {AB: Flow(1)}, {AB: Flow(1), DRIVER: Flow(3, received=2)}
    assert relation(*new) == Relation("before", (), (), sure=False)  # by the order of their commits
    assert relation(*reversed(new)) == Relation("before", (), (), sure=False)
    other = {AB: Flow(1), BB: Flow(1)}, {AB: Flow(1), BB: Flow(2), DRIVER: Flow(3, received=2)}
    assert relation(*other) == Relation("before", ("bob",), (), sure=False)  # alice may have gone back
    assert relation({DRIVER: Flow(3)}, {DRIVER: Flow(2)}) == Relation("after", (), ("alice",))


def test_a_restore_begins_a_life_that_no_clock_compares() -> None:
    store = MemoryStore()
    old = make_snapshot(open_bank(store), Bank(), 1)
    new = make_snapshot(open_bank(store, writer="w2"), Bank(flows={AB: Flow(9, received=9)}), 1)
    assert old.relation(new).name == "other life"
    with pytest.raises(Incomparable, match=r"1-coordinator-1 and 2-coordinator-1 are of different lives"):
        old.diff(new)


def test_two_systems_are_refused() -> None:
    shop = make_snapshot(open_bank(MemoryStore(), system="shop"))
    bank = make_snapshot(open_bank(MemoryStore()))
    with pytest.raises(ConfigError, match="only snapshots of one system"):
        bank.diff(shop)


def test_a_relation_reads_no_chunk() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, Bank(flows={AB: Flow(9, received=9)}), 2)
    for entry in list(store.list("bank/chunks")):
        store.delete(entry.key)
    old, new = Storage(store).system("bank").snapshots()
    assert old.relation(new).name == "before"
