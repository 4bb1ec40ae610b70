"""A coordinator and others who delete, collect garbage and read beside it, interleaved at every store call."""

import threading
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property

import pytest

from rayshot.errors import (
    Fenced,
    IntentExpired,
    NotFound,
    PositionTaken,
    RayshotError,
    SnapshotDeleted,
    SnapshotNotFound,
)
from rayshot.log.history import History
from rayshot.log.log import CommitLog
from rayshot.log.records import DeleteRecord, EpochRecord, ExpireRecord
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.leases import hold
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from rayshot.snapshots.upkeep.retention import Keep
from tests.snapshots.interleaving import Turns, TurnStore
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

SCHEDULES = 240


@pytest.fixture(autouse=True)
def _lone_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python 3.11 one lock serves a cached property of all instances: who waits for it would never get his turn."""
    for value in vars(Snapshot).values():
        if isinstance(value, cached_property):
            monkeypatch.setattr(value, "lock", nullcontext(), raising=False)


def bank(counter: int) -> Bank:
    return Bank(states={"alice": {"same": large("s")}, "bob": {"n": large(f"n{counter}")}}, flows={})


def coordinate(repository: Repository, base: Snapshot, outcomes: list[str]) -> None:
    """What a committer does: snapshots that lean on the last one, and retention after each."""
    for counter in range(base.id.counter + 1, base.id.counter + 4):
        try:
            try:
                manifest = make_manifest(repository, bank(counter), counter, reuse=base)
            except SnapshotNotFound:
                manifest = make_manifest(repository, bank(counter), counter)
                outcomes.append("in full")
            base = repository.snapshot(repository.commit(manifest, None))
            base._kept = (None, manifest)  # a committer knows what it wrote
            outcomes.append("committed")
        except IntentExpired:
            outcomes.append("expired")
            repository.abandon(SnapshotId(1, "coordinator", counter))
        with suppress(NotFound):  # somebody deletes what retention is looking at
            retain(repository, Keep(last=2))


def read_latest(store: MemoryStore, outcomes: list[str]) -> None:
    """What a restore does: under a lease, a snapshot is whole or its reader is told that it is gone."""
    for _ in range(3):
        try:
            snapshot = Storage(store).system("bank").latest()
            with hold(CommitLog(store, "bank"), snapshot.id):
                assert snapshot.verify(()).sound
            outcomes.append("read")
        except SnapshotNotFound:
            outcomes.append("refused")


def delete_newest(store: MemoryStore) -> None:
    """Those that the next snapshot would lean on."""
    for _ in range(3):
        with suppress(NotFound):
            delete_snapshot(store, "bank", Storage(store).system("bank").latest().id)


def collect_all(store: MemoryStore, min_age_s: float, passes: int) -> None:
    for _ in range(passes):
        collect(store, "bank", min_age_s=min_age_s)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("E3")
@pytest.mark.parametrize("seed", range(3))
def test_whoever_deletes_beside_a_coordinator_never_takes_what_is_needed(seed: int) -> None:
    outcomes = Counter(outcome for number in range(SCHEDULES // 3) for outcome in one_schedule(seed * 1000 + number))
    assert all(outcomes[kind] for kind in ("committed", "in full", "expired", "read", "refused")), outcomes


def one_schedule(seed: int) -> list[str]:
    turns = Turns(seed)
    store = TurnStore(turns)
    repository = open_bank(store)
    base = [make_snapshot(repository, bank(counter), counter, key=None) for counter in (1, 2)][-1]
    assert base.manifest.chunks  # read now, as a committer knows what it wrote
    outcomes: list[str] = []
    turns.run(
        lambda: coordinate(repository, base, outcomes),
        lambda: read_latest(store, outcomes),
        lambda: delete_newest(store),
        lambda: collect_all(store, (0.0, 0.0, 20.0)[seed % 3], 4),
    )
    assert all(snapshot.verify(()).sound for snapshot in committed(store))
    retain(repository, Keep(last=2))
    collect_all(store, 0.0, 3)
    assert all(snapshot.verify(()).sound for snapshot in committed(store))
    assert_every_chunk_is_reachable(store)
    make_snapshot(repository, bank(9), 9, key=None)
    return outcomes


@pytest.mark.wide("slow")
@pytest.mark.acceptance("E3")
def test_snapshots_that_are_moved_away_and_copied_back_beside_a_coordinator_take_nothing_from_the_next_ones() -> None:
    outcomes = Counter(outcome for seed in range(SCHEDULES // 3) for outcome in one_move(seed))
    assert all(outcomes[kind] for kind in ("committed", "in full", "moved")), outcomes


def one_move(seed: int) -> list[str]:
    turns = Turns(seed)
    store, backup = TurnStore(turns), MemoryStore("backup")
    repository = open_bank(store)
    base = make_snapshot(repository, bank(1), 1, key=None)
    assert base.manifest.chunks
    outcomes: list[str] = []

    def move() -> None:
        for _ in range(3):
            with suppress(NotFound, IntentExpired):
                newest = Storage(store).system("bank").latest()
                copied = copy_snapshot(store, backup, newest)
                delete_snapshot(store, "bank", newest.id)
                copy_snapshot(backup, store, copied)
                outcomes.append("moved")

    turns.run(lambda: coordinate(repository, base, outcomes), move, lambda: collect_all(store, 20.0, 3))
    collect_all(store, 0.0, 3)
    assert all(snapshot.verify(()).sound for snapshot in committed(store))
    return outcomes


@pytest.mark.wide("slow")
@pytest.mark.acceptance("E3")
def test_a_copy_into_a_storage_where_garbage_is_collected_is_whole_or_told_that_it_was_given_up() -> None:
    source = MemoryStore("source")
    original = make_snapshot(open_bank(source), bank(1), 1)
    outcomes = Counter(outcome for seed in range(SCHEDULES) for outcome in one_copy(source, original, seed))
    assert all(outcomes[kind] for kind in ("copied", "given up", "deleted")), outcomes


def one_copy(source: MemoryStore, original: Snapshot, seed: int) -> list[str]:
    turns = Turns(seed)
    store = TurnStore(turns)
    repository = Repository(store, "bank", create=True)
    repository.log.begin_epoch(repository.next_incarnation(1), "alive")
    outcomes: list[str] = []

    def copy_twice() -> None:
        for _ in range(2):
            try:
                copied = copy_snapshot(source, store, original)
                outcomes.append("copied" if copied in Storage(store).system().snapshots() else "deleted")
            except IntentExpired:
                outcomes.append("given up")

    def delete_it() -> None:
        for _ in range(3):
            with suppress(NotFound):
                delete_snapshot(store, "bank", original.id)

    def commit_one() -> None:
        with suppress(IntentExpired):
            make_snapshot(repository, bank(1), 1, key=None)

    turns.run(
        copy_twice,
        copy_twice,
        delete_it,
        lambda: collect_all(store, 0.0, 4),
        commit_one,
    )
    assert all(snapshot.verify(()).sound for snapshot in committed(store))
    collect_all(store, 0.0, 3)
    assert all(snapshot.verify(()).sound for snapshot in committed(store))
    folders = {entry.key for entry in store.list("bank/copies", shallow=True)}
    assert folders == {f"{snapshot.folder}/" for snapshot in committed(store) if snapshot.record.folder}
    return outcomes


def test_a_commit_whose_position_somebody_else_got_is_sealed_for_the_next_one() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    first, second = make_snapshot(repository, counter=1), make_snapshot(repository, counter=2)
    manifest = make_manifest(repository, Bank(), 3)
    delete_snapshot(store, "bank", first.id)
    record = repository.commit(manifest, None)
    assert record.position == manifest.position + 1
    assert repository.commit(manifest, None) == record
    assert [snapshot.id.counter for snapshot in committed(store)] == [second.id.counter, 3]
    assert committed(store)[-1].verify(()).sound
    assert len(list(store.list("bank/manifests"))) == 2
    delete(repository, record.snapshot)
    assert len(list(store.list("bank/manifests"))) == 1


def test_whoever_deletes_beside_a_coordinator_takes_the_next_position_too() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    log = CommitLog(store, "bank")
    log.refresh()
    position = log.next_position
    make_snapshot(repository, counter=2)
    with pytest.raises(PositionTaken):
        log.append(DeleteRecord(position, "somebody", SnapshotId(1, "coordinator", 1)))
    delete_snapshot(store, "bank", "1-coordinator-1")
    assert [snapshot.id.counter for snapshot in committed(store)] == [2]


def test_of_two_copies_at_once_the_second_finds_the_first() -> None:
    source, store = MemoryStore("source"), MemoryStore("destination")
    original = make_snapshot(open_bank(source), bank(1), 1)
    create = store.create

    def be_overtaken(key: str, data: object) -> None:
        if "/log/" in key:
            store.create = create  # type: ignore[method-assign]
            copies.append(copy_snapshot(source, store, original))
        create(key, data)  # type: ignore[arg-type]

    copies: list[Snapshot] = []
    store.create = be_overtaken  # type: ignore[method-assign,assignment]
    assert copy_snapshot(source, store, original) == copies[0]
    assert committed(store) == copies


def test_a_base_that_is_deleted_while_it_is_announced_is_not_leant_on() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    base = make_snapshot(repository, counter=1)
    create = store.create

    def delete_before_the_intent_is_there(key: str, data: object) -> None:
        if key.endswith("intents/1-coordinator-2"):
            store.create = create  # type: ignore[method-assign]
            delete_snapshot(store, "bank", base.id)
        create(key, data)  # type: ignore[arg-type]

    store.create = delete_before_the_intent_is_there  # type: ignore[method-assign,assignment]
    with pytest.raises(SnapshotDeleted, match="cannot be the base of another"):
        repository.intend(SnapshotId(1, "coordinator", 2), base.id)
    assert repository.intend(SnapshotId(1, "coordinator", 2)) == "1-coordinator-2"


@pytest.mark.acceptance("E1")
def test_what_a_coordinator_that_was_taken_over_deletes_or_expires_does_not_count() -> None:
    history = History()
    kept = SnapshotId(1, "coordinator", 1)
    store = MemoryStore()
    old = open_bank(store, "old")
    make_snapshot(old)
    for record in CommitLog(store, "bank").records():
        history.add(record)
    history.add(EpochRecord(2, 2, "new"))
    history.add(DeleteRecord(3, "old", kept))
    history.add(ExpireRecord(4, "old", SnapshotId(1, "coordinator", 2)))
    assert kept in history.retained
    assert not history.is_over(SnapshotId(1, "coordinator", 2))
    history.add(DeleteRecord(5, "somebody", kept))
    assert kept not in history.retained


@pytest.mark.acceptance("E2")
def test_a_zombie_commits_nothing_after_a_take_over_and_a_collection() -> None:
    store = MemoryStore()
    old = open_bank(store, "old")
    make_snapshot(old, counter=1)
    late = make_manifest(old, bank(2), 2)
    new = open_bank(store, "new")
    collect_all(store, 0.0, 2)
    assert_every_chunk_is_reachable(store)
    for position in (late.position, late.position + 1):
        with pytest.raises(Fenced, match="new took over"):
            old.commit(replace(late, position=position), None)
    make_snapshot(new)
    assert [snapshot.id.incarnation for snapshot in committed(store)] == [1, 2]
    assert all(snapshot.verify(()).sound for snapshot in committed(store))


@pytest.mark.acceptance("E6")
def test_a_snapshot_that_is_deleted_while_it_is_read_stays_readable_under_its_lease() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    snapshot = make_snapshot(repository, bank(1), 1)
    make_snapshot(repository, bank(2), 2)
    with hold(CommitLog(store, "bank"), snapshot.id):
        assert delete_snapshot(store, "bank", snapshot.id).removed == ()
        collect_all(store, 0.0, 3)
        assert snapshot.verify().sound
    with pytest.raises(SnapshotDeleted), hold(CommitLog(store, "bank"), snapshot.id):
        pytest.fail("a deleted snapshot was leased")
    assert retain(repository, Keep(last=5)).removed == (snapshot.id,)
    assert_every_chunk_is_reachable(store)
    assert list(store.list("bank/leases")) == []
    with pytest.raises(SnapshotDeleted):
        delete_snapshot(store, "bank", snapshot.id)


def test_the_lease_of_a_reader_that_died_ends_by_the_clock_of_the_store() -> None:
    now = [1000.0]
    store = MemoryStore(clock=lambda: now[0])
    repository = open_bank(store)
    snapshot = make_snapshot(repository, bank(1), 1)
    make_snapshot(repository, bank(2), 2)
    delete = store.delete
    with hold(CommitLog(store, "bank"), snapshot.id, seconds=50.0):
        store.delete = lambda key: None if "/leases/" in key else delete(key)  # type: ignore[method-assign]
    store.delete = delete  # type: ignore[method-assign]
    now[0] += 49
    assert delete_snapshot(store, "bank", snapshot.id).removed == ()
    now[0] += 2
    assert retain(repository, Keep(last=5)).removed == (snapshot.id,)
    collect_all(store, 10.0, 2)
    assert list(store.list("bank/leases")) == []


def test_a_lease_is_renewed_as_long_as_its_reader_lives() -> None:
    store = MemoryStore()
    snapshot = make_snapshot(open_bank(store))
    renewed, create = threading.Event(), store.create

    def note(key: str, data: object) -> None:
        create(key, data)  # type: ignore[arg-type]
        if key.endswith("-00000003"):
            renewed.set()

    store.create = note  # type: ignore[method-assign,assignment]
    with hold(CommitLog(store, "bank"), snapshot.id, seconds=0.03):
        assert renewed.wait(30)
    assert list(store.list("bank/leases")) == []


def test_nobody_can_delete_what_does_not_exist() -> None:
    store = MemoryStore()
    make_snapshot(open_bank(store))
    with pytest.raises(SnapshotNotFound, match="does not exist"):
        delete_snapshot(store, "bank", "1-coordinator-7")
    with pytest.raises(RayshotError, match="not a snapshot id"):
        delete_snapshot(store, "bank", "latest")
