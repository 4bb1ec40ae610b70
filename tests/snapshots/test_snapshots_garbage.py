import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from rayshot.errors import ConfigError, IntentExpired, RayshotError, SystemNotFound
from rayshot.format import canonical
from rayshot.places.store import Entry
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.intents import write_intent
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import Collection, collect
from rayshot.snapshots.upkeep.retention import Keep
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore
from tests.snapshots.snapshot_builder import (
    Bank,
    assert_every_chunk_is_reachable,
    committed,
    delete,
    large,
    make_manifest,
    make_snapshot,
    open_bank,
    retain,
)

HOUR = 3600.0


class Hours:
    """The clock of a store, set by hand."""

    def __init__(self) -> None:
        self.now = 1e6

    def __call__(self) -> float:
        return self.now


def storage_with_garbage(clock: Callable[[], float] = time.time) -> tuple[FaultyStore, Snapshot]:
    """One snapshot that is retained, and of everything that crashes leave."""
    store = FaultyStore(clock=clock)
    dead = open_bank(store, "dead")
    kept = make_snapshot(dead, Bank(states={"a": {"same": large("s")}}), 1)
    make_manifest(dead, Bank(states={"a": {"n": large("lost")}}), 2, reuse=kept)  # died before its manifest
    torn = make_manifest(dead, Bank(states={"a": {"n": large("torn")}}), 3)
    store.create("bank/manifests/1-coordinator-3", b"without COMMIT")
    store.delete("bank/intents/1-coordinator-3")  # it was abandoned, and its manifest came late
    assert torn.chunks
    lease = {"format": 1, "snapshot": [1, "coordinator", 1], "seconds": 0.0}
    store.create("bank/leases/0123-00000000", canonical.pack(lease))
    store.create("check-0123456789abcdef", b"first")
    open_bank(store, "alive")
    return store, kept


def everything(store: FaultyStore) -> set[str]:
    return {entry.key for entry in store.list()}


def objects(collection: Collection, fate: str) -> int:
    return sum(getattr(group, fate).objects for group in collection.groups.values())


@pytest.mark.acceptance("E3")
def test_what_crashes_leave_is_marked_by_one_pass_and_removed_by_the_next() -> None:
    clock = Hours()
    store, kept = storage_with_garbage(clock)
    needed = {f"bank/{chunk.key}" for chunk in kept.manifest.chunks} | {"bank/manifests/1-coordinator-1"}
    before = everything(store)
    sizes = {entry.key: entry.size for entry in store.list()}
    clock.now += HOUR
    first = collect(store, "bank")
    assert objects(first, "marked") == 6
    assert objects(first, "removed") == objects(first, "young") == 0
    assert before <= everything(store)
    second = collect(store, "bank")
    gone = before - everything(store)
    assert objects(second, "removed") == len(gone) == 6
    assert sum(group.removed.bytes for group in second.groups.values()) == sum(sizes[key] for key in gone)
    assert {key.split("/")[1] for key in gone if "/" in key} == {"chunks", "manifests", "leases", "intents"}
    assert needed <= everything(store)
    assert committed(store) == [kept]
    assert kept.verify().sound
    assert_every_chunk_is_reachable(store)
    assert objects(collect(store, "bank"), "removed") == 0
    assert not list(store.list("bank/gc"))


def test_what_is_young_stays_though_it_was_marked_before() -> None:
    clock = Hours()
    store, _ = storage_with_garbage(clock)
    before = everything(store)
    for _ in range(3):
        young = collect(store, "bank")
        assert objects(young, "young") == 6
        assert objects(young, "marked") == objects(young, "removed") == 0
    assert before <= everything(store)
    clock.now += HOUR
    assert objects(collect(store, "bank"), "removed") == 6


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    clock = Hours()
    store, _ = storage_with_garbage(clock)
    clock.now += HOUR
    collect(store, "bank")
    before = everything(store)
    dry = collect(store, "bank", dry_run=True)
    assert everything(store) == before
    wet = collect(store, "bank")
    assert dry.groups == wet.groups
    assert objects(wet, "removed") == 6


@pytest.mark.acceptance("E3")
def test_a_running_snapshot_is_not_touched_and_then_expired_with_a_typed_error_for_its_writer() -> None:
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    base = make_snapshot(repository, Bank(states={"a": {"same": large("s")}}), 1)
    make_snapshot(repository, Bank(states={"a": {"n": 2}}), 2)
    running = make_manifest(repository, Bank(states={"a": {"same": large("s"), "n": large("n")}}), 3, reuse=base)
    delete_snapshot(store, "bank", base.id)
    clock.now += HOUR - 1
    for _ in range(2):
        assert collect(store, "bank").expired == ()
    assert {f"bank/{chunk.key}" for chunk in running.chunks} <= everything(store)
    clock.now += 1
    assert collect(store, "bank").expired == (running.snapshot,)
    with pytest.raises(IntentExpired, match="longer than garbage collection waits"):
        repository.commit(running, None)
    repository.abandon(running.snapshot)
    collect(store, "bank")
    assert_every_chunk_is_reachable(store)
    assert make_snapshot(repository, Bank(), 4) == committed(store)[-1]


def test_a_minimum_age_below_the_time_out_of_a_running_snapshot_is_refused() -> None:
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    repository.intend(SnapshotId(1, "coordinator", 1), None, 600.0)
    clock.now += 100 * HOUR
    with pytest.raises(
        ConfigError, match="a minimum age of 599 s is below the 600 s that snapshot 1-coordinator-1 may"
    ):
        collect(store, "bank", min_age_s=599.0)
    assert collect(store, "bank", min_age_s=600.0).expired == (SnapshotId(1, "coordinator", 1),)


def test_an_id_whose_intent_was_collected_stays_used() -> None:
    clock = Hours()
    store = FaultyStore(clock=clock)
    dead = open_bank(store, "dead")
    lost = make_manifest(dead, Bank(), 7)
    successor = Repository(store, "bank", create=False)
    successor.log.begin_epoch(successor.log.refresh().incarnation, "successor")
    clock.now += HOUR
    for _ in range(2):
        collect(store, "bank")
    assert not list(store.list("bank/intents"))
    assert successor.log.refresh().ended() == {lost.snapshot}


def test_intents_that_a_coordinator_unknown_yet_announces_are_open() -> None:
    store = FaultyStore()
    first = open_bank(store, "first")
    make_snapshot(first)
    listing = store.list
    taken_over: list[Repository] = []

    def take_over_before(prefix: str = "", **options: object) -> Iterator[Entry]:
        looks.append(prefix)
        if prefix == "bank/intents" and looks.count(prefix) == 2:  # the first was to see what is there
            taken_over.append(open_bank(store, "second"))
            make_manifest(taken_over[0], Bank(states={"a": {"n": large("new")}}), 1)
        return listing(prefix, **options)  # type: ignore[arg-type]

    looks: list[str] = []
    store.list = take_over_before  # type: ignore[method-assign,assignment]
    collect(store, "bank", min_age_s=1.0)
    assert taken_over
    store.list = listing  # type: ignore[method-assign]
    assert "bank/intents/2-coordinator-1" in everything(store)


@pytest.mark.acceptance("E3")
def test_who_leans_on_a_snapshot_after_intents_were_listed_keeps_its_bytes_though_it_is_deleted_then() -> None:
    store = FaultyStore(clock=lambda: 0.0)
    repository = open_bank(store)
    base = make_snapshot(repository, Bank(states={"a": {"same": large("s")}}), 1)
    make_snapshot(repository, Bank(states={"a": {"n": 2}}), 2)
    chunks = sorted(f"bank/{chunk.key}" for chunk in base.manifest.chunks)
    listing, running = store.list, []

    def lean_and_delete(prefix: str = "", **options: object) -> Iterator[Entry]:
        found = listing(prefix, **options)  # type: ignore[arg-type]
        looks.append(prefix)
        if prefix == "bank/leases" and looks.count(prefix) == 2:  # the first was to see what is there
            running.append(make_manifest(repository, Bank(states={"a": {"same": large("s")}}), 3, reuse=base))
            delete(repository, base.id)
        return found

    store.create("bank/gc/earlier", canonical.pack({"format": 1, "keys": [*chunks, "bank/manifests/1-coordinator-1"]}))
    looks: list[str] = []
    store.list = lean_and_delete  # type: ignore[method-assign,assignment]
    collect(store, "bank", min_age_s=0.0)
    assert running
    manifest = replace(running[0], position=repository.log.next_position)
    assert repository.snapshot(repository.commit(manifest, None)).verify(()).sound


@pytest.mark.acceptance("E5")
def test_our_own_clock_may_be_off_by_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    for error_s in (-2 * HOUR, 0.0, 2 * HOUR):
        clock = Hours()
        store, kept = storage_with_garbage(clock)
        live = make_manifest(open_bank(store, "newest"), Bank(states={"a": {"n": large("live")}}), 1)
        monkeypatch.setattr(time, "time", lambda error_s=error_s: 1e6 + error_s)
        clock.now += HOUR / 2
        for _ in range(3):
            assert objects(collect(store, "bank"), "removed") == 0
        assert {f"bank/{chunk.key}" for chunk in live.chunks} <= everything(store)
        assert committed(store) == [kept]
        assert kept.verify().sound


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.acceptance("E4")
@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
@pytest.mark.parametrize("count", [1, 10_000])
def test_a_collection_that_fails_or_dies_at_any_call_removes_nothing_needed_and_the_next_ones_finish(
    effect: FaultEffect, count: int
) -> None:
    clock = Hours()

    def prepared() -> tuple[FaultyStore, Snapshot]:
        store, kept = storage_with_garbage(clock)
        return store, kept

    def twice(store: FaultyStore) -> None:
        clock.now += HOUR
        for _ in range(2):
            collect(store, "bank")

    store, _ = prepared()
    start = store.calls
    twice(store)
    calls = store.calls - start
    assert calls > 40
    refused = 0
    for number in range(1, calls + 1):
        store, kept = prepared()
        store.fault = Fault(store.calls + number, effect, count)
        try:
            twice(store)
        except RayshotError:
            refused += 1
        store.fault = None
        assert committed(store) == [kept]
        assert kept.verify().sound
        twice(store)
        assert_every_chunk_is_reachable(store)
        assert committed(store) == [kept]
        assert kept.verify().sound
        assert not list(store.list("bank/leases"))
    assert refused > calls // 2


def test_while_a_retained_manifest_cannot_be_read_no_chunk_is_collected() -> None:
    clock = Hours()
    store, kept = storage_with_garbage(clock)
    store.put_raw(f"bank/{kept.record.manifest_key}", b"garbage")
    chunks = len(list(store.list("bank/chunks")))
    clock.now += HOUR
    for _ in range(2):
        found = collect(store, "bank")
        assert found.unreadable == (kept.id,)
    assert len(list(store.list("bank/chunks"))) == chunks


@pytest.mark.acceptance("E7")
def test_collections_and_retention_by_any_rule_keep_the_newest_valid_snapshot() -> None:
    clock = Hours()
    store = FaultyStore(clock=clock)
    repository = open_bank(store)
    made = [make_snapshot(repository, Bank(states={"a": {"n": n}}), n) for n in range(1, 6)]
    for snapshot in made[3:]:
        key = f"bank/{snapshot.manifest.chunks[0].key}"
        store.put_raw(key, store.read(key)[:-1])
    retain(repository, Keep(last=1, hourly=1, weekly=1))
    clock.now += HOUR
    for _ in range(2):
        collect(store, "bank")
    assert [snapshot.id.counter for snapshot in committed(store)] == [3, 5]
    assert committed(store)[0].verify().sound


def test_strange_objects_are_left_alone() -> None:
    clock = Hours()
    store, _ = storage_with_garbage(clock)
    strange = {
        "bank/notes.txt",
        "bank/chunks/notes.txt",
        "bank/intents/notes.txt",
        "bank/copies/notes/x",
        "bank/manifests/n",
    }
    for key in strange:
        store.create(key, b"mine")
    clock.now += HOUR
    for _ in range(3):
        collect(store, "bank")
    assert strange <= everything(store)


def test_a_system_that_is_not_there_has_no_garbage() -> None:
    store = FaultyStore()
    with pytest.raises(SystemNotFound):
        collect(store, "bank")
    assert not everything(store)


def test_an_intent_says_for_how_long_its_snapshot_may_take() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    write_intent(store, "bank", SnapshotId(1, "coordinator", 1), "w1", None, 30.0)
    assert repository.intend(SnapshotId(1, "coordinator", 1), None, 30.0)  # the same again
