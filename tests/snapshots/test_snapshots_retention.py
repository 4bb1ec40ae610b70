from collections.abc import Callable
from dataclasses import replace

import pytest

from rayshot.errors import (
    ConfigError,
    RayshotError,
    SnapshotNotFound,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.retention import Keep, Retention
from tests.places.faulty_store import Fault, FaultyStore
from tests.snapshots.snapshot_builder import (
    Bank,
    Flow,
    assert_every_chunk_is_reachable,
    committed,
    delete,
    large,
    make_manifest,
    make_snapshot,
    open_bank,
    retain,
)


def test_a_deleted_snapshot_is_gone_and_the_others_verify() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    first = make_snapshot(repository, Bank(states={"alice": {"note": large("same"), "n": large("one")}}), 1)
    second = make_snapshot(
        repository, Bank(states={"alice": {"note": large("same"), "n": large("two")}}), 2, reuse=first
    )
    assert delete(repository, first.id).removed == (first.id,)
    assert committed(store) == [second]
    assert second.verify().sound
    assert_every_chunk_is_reachable(store)
    assert [entry.key for entry in store.list("bank/manifests")] == ["bank/manifests/1-coordinator-2"]
    with pytest.raises(SnapshotNotFound):
        delete(repository, first.id)
    with pytest.raises(SnapshotNotFound, match="was deleted"):
        _ = Storage(store).system().snapshot(second.id) and Snapshot(store, "bank", first.record).manifest


def test_retention_keeps_the_newest_and_every_savepoint_and_what_they_need() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    previous: Snapshot | None = None
    for counter in range(1, 9):
        label = "before the move" if counter in {2, 5} else None
        states = {"alice": {"balance": counter, "history": large("same")}, "bob": {"n": large(f"n{counter}")}}
        previous = make_snapshot(repository, Bank(states=states, label=label), counter, reuse=previous)
        retain(repository, Keep(last=2))
    assert [snapshot.id.counter for snapshot in committed(store)] == [2, 5, 7, 8]
    assert all(snapshot.verify().sound for snapshot in committed(store))
    assert_every_chunk_is_reachable(store)
    assert len(list(store.list("bank/intents"))) == len(list(store.list("bank/manifests"))) == 4


def test_retention_keeps_the_newest_that_advances_as_the_system_can_go_back_to_no_other() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    for counter, advances in enumerate((True, True, False, False), 1):
        make_snapshot(repository, Bank(advances=advances), counter)
        retain(repository, Keep(last=1))
    assert [(s.id.counter, s.record.advances) for s in committed(store)] == [(2, True), (4, False)]
    make_snapshot(repository, Bank(), 5)
    retain(repository, Keep(last=1))
    assert [snapshot.id.counter for snapshot in committed(store)] == [5]


def test_retention_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        retain(open_bank(FaultyStore()), Keep(last=0))


def spoil_chunk(store: FaultyStore, snapshot: Snapshot) -> None:
    key = f"bank/{snapshot.manifest.chunks[0].key}"
    store.put_raw(key, store.read(key)[:-1])


def spoil_manifest(store: FaultyStore, snapshot: Snapshot) -> None:
    store.put_raw(f"bank/{snapshot.record.manifest_key}", b"garbage")


def lose_manifest(store: FaultyStore, snapshot: Snapshot) -> None:
    store.delete(f"bank/{snapshot.record.manifest_key}")


@pytest.mark.acceptance("E7")
@pytest.mark.parametrize("spoil", [spoil_chunk, spoil_manifest, lose_manifest])
def test_retention_never_deletes_the_newest_valid_snapshot(spoil: Callable[[FaultyStore, Snapshot], None]) -> None:
    store = FaultyStore()
    repository = open_bank(store)
    made = [make_snapshot(repository, Bank(states={"a": {"n": n}}), n) for n in range(1, 5)]
    for snapshot in made[2:]:
        spoil(store, snapshot)
    retain(repository, Keep(last=1))
    assert [snapshot.id.counter for snapshot in committed(store)] == [2, 4]
    assert committed(store)[0].verify().sound


class Forgetful(Flow):
    """A channel of which one message is missing in the bytes, not in the counters."""

    def part(self, first: int, last: int) -> bytes:
        return super().part(first, last - 1)


def test_a_snapshot_that_lost_a_message_before_it_was_written_is_not_the_newest_valid_one() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    sound = make_snapshot(repository, Bank(), 1)
    lossy = make_snapshot(repository, Bank(flows={("alice", "bob"): Forgetful(sent=5, received=2)}), 2)
    assert not lossy.examine().sound
    retain(repository, Keep(last=1))
    assert committed(store) == [sound, lossy]


@pytest.mark.acceptance("E7")
def test_where_nothing_is_valid_retention_deletes_nothing() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    for counter in range(1, 4):
        spoil_chunk(store, make_snapshot(repository, Bank(states={"a": {"n": counter}}), counter))
    retain(repository, Keep(last=1))
    assert len(committed(store)) == 3


@pytest.mark.acceptance("E7")
def test_while_a_retained_manifest_cannot_be_read_no_bytes_are_removed() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    made = [make_snapshot(repository, Bank(states={"a": {"n": n}}), n) for n in range(1, 4)]
    spoil_manifest(store, made[2])
    repository = open_bank(store, "w2")
    chunks = len(list(store.list("bank/chunks")))
    assert delete(repository, made[0].id).unreadable == (made[2].id,)
    assert len(list(store.list("bank/chunks"))) == chunks
    assert set(delete(repository, made[2].id).removed) == {made[0].id, made[2].id}
    assert committed(store) == [made[1]]
    assert_every_chunk_is_reachable(store)


def test_a_proved_snapshot_is_not_read_again_by_retention() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    for counter in range(1, 5):
        make_snapshot(repository, Bank(states={"a": {"n": counter}}), counter)
    retention = Retention(repository)
    retention.retain(Keep(last=3))
    make_snapshot(repository, Bank(states={"a": {"n": 5}}), 5)
    before = store.calls
    retention.retain(Keep(last=3))
    assert not [key for verb, key in store.journal[before:] if "chunks/" in key and "read" in verb]


@pytest.mark.acceptance("E3")
def test_a_running_snapshot_keeps_the_bytes_it_leans_on_until_it_has_ended() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    states = {"alice": {"history": large("same")}}
    base = make_snapshot(repository, Bank(states=states), 1)
    make_snapshot(repository, Bank(states={"a": {"n": 2}}), 2)
    running = make_manifest(repository, Bank(states=states), 3, reuse=base)
    assert delete(repository, base.id).removed == ()
    late = repository.snapshot(repository.commit(replace(running, position=repository.log.next_position), None))
    assert retain(repository, Keep(last=5)).removed == (base.id,)
    assert late.verify().sound
    assert_every_chunk_is_reachable(store)


@pytest.mark.acceptance("E2")
def test_an_intent_of_an_earlier_coordinator_of_the_same_life_leases_nothing() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    base = make_snapshot(repository)
    repository.intend(SnapshotId(1, "coordinator", 2), base.id)
    successor = Repository(store, "bank", create=False)
    successor.log.begin_epoch(successor.next_incarnation() - 1, "w2")
    assert delete(successor, base.id).removed == (base.id,)


@pytest.mark.acceptance("E2")
def test_an_intent_of_an_earlier_life_leases_nothing() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    base = make_snapshot(repository)
    repository.intend(SnapshotId(1, "coordinator", 2), base.id)
    successor = open_bank(store, "w2")
    make_snapshot(successor)
    assert delete(successor, base.id).removed == (base.id,)
    with pytest.raises(SnapshotNotFound, match="not retained"):
        successor.intend(SnapshotId(2, "coordinator", 9), base.id)


@pytest.mark.acceptance("E4")
def test_a_deletion_that_dies_at_any_call_is_finished_by_the_next_one() -> None:
    def prepared() -> tuple[FaultyStore, Repository, Snapshot]:
        store = FaultyStore()
        repository = open_bank(store)
        first = make_snapshot(repository, Bank(states={"a": {"n": large("x"), "m": large("y")}}), 1)
        make_snapshot(repository, Bank(states={"a": {"n": large("x"), "m": large("z")}}), 2, reuse=first)
        return store, repository, first

    store, repository, first = prepared()
    before = store.calls
    delete(repository, first.id)
    for number in range(1, store.calls - before + 1):
        store, repository, first = prepared()
        store.fault = Fault(store.calls + number, count=10_000)
        with pytest.raises(RayshotError):
            delete(repository, first.id)
        store.fault = None
        assert all(snapshot.verify().sound for snapshot in committed(store) if snapshot.id != first.id)
        successor = open_bank(store, "w2")
        if first in committed(store):
            delete(successor, first.id)
        retain(successor, Keep(last=5))
        assert [snapshot.id.counter for snapshot in committed(store)] == [2]
        assert committed(store)[0].verify().sound
        assert_every_chunk_is_reachable(store)
