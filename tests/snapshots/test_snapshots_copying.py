import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import rayshot
from rayshot.errors import (
    AlreadyExists,
    ConfigError,
    CorruptChunk,
    Damaged,
    InconsistentCut,
    IntentExpired,
    RayshotError,
    SnapshotDeleted,
    SnapshotNotFound,
    StoreUnavailable,
    UnknownKey,
)
from rayshot.keys.signing import SigningKey
from rayshot.log.system import make_system
from rayshot.places.local import LocalStore
from rayshot.places.store import Data
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.copying import WORKERS, copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from rayshot.snapshots.upkeep.retention import Keep
from rayshot.snapshots.verification import Trust
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore
from tests.snapshots.snapshot_builder import (
    KEY,
    Bank,
    committed,
    large,
    make_manifest,
    make_snapshot,
    open_bank,
    retain,
)

HEAVY = Bank(states={name: {"n": large(name)} for name in ("alice", "bob", "carol")}, label="before the move")


def bank_in(store: FaultyStore | LocalStore) -> list[Snapshot]:
    repository = open_bank(store)
    first = make_snapshot(repository, HEAVY, 1)
    return [first, make_snapshot(repository, HEAVY, 2, reuse=first)]


def test_a_copy_verifies_with_its_signature_when_its_source_is_gone(tmp_path: Path) -> None:
    source = LocalStore(tmp_path / "shots")
    _, original = bank_in(source)
    told: list[tuple[str, int, int]] = []
    found = rayshot.copy(tmp_path / "shots", tmp_path / "backup", progress=lambda *step: told.append(step))
    for path in sorted((tmp_path / "shots").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    opened = rayshot.open(tmp_path / "backup").system("bank").latest()
    assert opened == found
    assert (opened.id, opened.label, opened.taken_at) == (original.id, "before the move", original.taken_at)
    verification = opened.verify([KEY])
    assert verification.sound
    assert verification.trust is Trust.TRUSTED
    assert opened.states()["carol"] == HEAVY.states["carol"]
    assert len(opened.channel("alice", "bob").messages) == 3
    assert told[0] == ("copying", 0, found.size_bytes)
    assert told[-1] == ("copying", found.size_bytes, found.size_bytes)


def test_a_copy_of_a_copy_keeps_its_seal() -> None:
    stores = [FaultyStore(name) for name in ("a", "b", "c")]
    snapshot = bank_in(stores[0])[0]
    for source, destination in pairwise(stores):
        snapshot = copy_snapshot(source, destination, snapshot)
        assert snapshot.verify([KEY]).trusted
    assert snapshot.record.sealed_for == 1


def test_copying_again_copies_nothing_and_going_on_copies_only_what_is_missing() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    create = destination.create

    def die_at_a_chunk(key: str, data: Data) -> None:
        if key.endswith(snapshot.manifest.chunks[-1].key):
            raise StoreUnavailable("killed")
        create(key, data)

    destination.create = die_at_a_chunk  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        copy_snapshot(source, destination, snapshot)
    destination.create = create  # type: ignore[method-assign]
    there = {entry.key for entry in destination.list("bank/copies")}
    assert there
    assert committed_in(destination) == []
    before = source.calls
    copied = copy_snapshot(source, destination, snapshot)
    read = {key for verb, key in source.journal[before:] if "chunks/" in key and verb == "read_range"}
    written = [key for verb, key in destination.journal if verb == "create" and "/chunks/" in key]
    assert len(written) - len(set(written)) <= WORKERS
    assert read
    again = source.calls
    assert copy_snapshot(source, destination, snapshot) == copied
    assert not [key for verb, key in source.journal[again:] if verb == "create" and "leases" not in key]
    assert (
        len(
            {key for _, key in destination.journal if "/copies/" in key and ("/chunks/" in key or "/manifests/" in key)}
        )
        == len(snapshot.manifest.chunks) + 1
    )


def committed_in(store: FaultyStore) -> list[Snapshot]:
    storage = Storage(store)
    return storage.systems["bank"].snapshots() if "bank" in storage.systems else []


@pytest.mark.acceptance("D2")
@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
def test_a_copy_that_dies_at_any_call_damages_nothing_and_goes_on(effect: FaultEffect) -> None:
    def prepared() -> tuple[FaultyStore, FaultyStore, Snapshot, Snapshot]:
        source, destination = FaultyStore("a"), FaultyStore("b")
        old, new = bank_in(source)
        copy_snapshot(source, destination, old)
        return source, destination, old, new

    source, destination, _, new = prepared()
    start = destination.calls
    copy_snapshot(source, destination, new)
    calls = destination.calls - start
    assert calls > 10
    for number in range(1, calls + 1):
        source, destination, old, new = prepared()
        destination.fault = Fault(destination.calls + number, effect, count=10_000)
        with pytest.raises(RayshotError):
            copy_snapshot(source, destination, new)
        destination.fault = None
        for snapshot in committed_in(destination):
            assert snapshot.verify([KEY]).trusted
        assert committed_in(destination)[0].id == old.id
        copy_snapshot(source, destination, new)
        assert [snapshot.id for snapshot in committed_in(destination)] == [old.id, new.id]
        assert all(snapshot.verify([KEY]).trusted for snapshot in committed_in(destination))


def test_copies_stand_in_the_order_of_their_source_however_they_came() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    old, new = bank_in(source)
    for snapshot in (new, old):
        copy_snapshot(source, destination, snapshot)
    assert [snapshot.id for snapshot in committed_in(destination)] == [old.id, new.id]
    assert Storage(destination).system("bank").latest().id == new.id


def test_damage_of_the_source_is_not_copied() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    key = f"bank/{snapshot.manifest.chunks[0].key}"
    source.put_raw(key, bytes(len(source.read(key))))
    with pytest.raises(CorruptChunk):
        copy_snapshot(source, destination, snapshot)
    assert committed_in(destination) == []
    source.delete(key)
    with pytest.raises(Damaged):
        copy_snapshot(source, destination, snapshot)
    assert committed_in(destination) == []


@pytest.mark.parametrize("spoil", [lambda old: b"z" * len(old), lambda old: old[:-1], lambda old: old + b"z"])
def test_what_an_interrupted_copy_left_is_proved_before_it_counts(spoil: Callable[[bytes], bytes]) -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    make_system(destination, "bank")
    chunk = snapshot.manifest.chunks[0]
    left = f"bank/copies/{snapshot.id}.0/{chunk.key}"
    destination.put_raw(left, spoil(source.read(f"bank/{chunk.key}")))
    with pytest.raises(CorruptChunk, match="let rayshot gc remove that copy"):
        copy_snapshot(source, destination, snapshot)
    assert committed(destination) == []
    for _ in range(2):
        collect(destination, "bank", min_age_s=0)
    assert copy_snapshot(source, destination, snapshot).verify([KEY]).trusted


def test_a_false_cut_equation_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]

    def fail(_: object) -> None:
        raise InconsistentCut("two messages of three")

    monkeypatch.setattr("rayshot.snapshots.channel_state.ChannelState.check", fail)
    with pytest.raises(InconsistentCut):
        copy_snapshot(source, destination, snapshot)
    assert not list(destination.list())


def test_a_copy_can_ask_for_a_signature() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    with pytest.raises(UnknownKey):
        copy_snapshot(source, destination, snapshot, keys=[SigningKey(b"x" * 32)])
    assert copy_snapshot(source, destination, snapshot, keys=[KEY]).id == snapshot.id


def test_a_system_that_lived_on_in_both_places_is_refused_by_its_id() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    make_snapshot(open_bank(destination, "other"), Bank(), 1)
    with pytest.raises(AlreadyExists, match="has lived on in both places"):
        copy_snapshot(source, destination, snapshot)
    assert len(committed(destination)) == 1


def test_the_next_life_at_the_destination_is_above_all_that_was_copied_there() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    open_bank(source, "first")
    make_snapshot(open_bank(source, "second"), Bank(), 1)
    copied = copy_snapshot(source, destination, committed(source)[0])
    repository = open_bank(destination)
    assert repository.log.refresh().incarnation == 3
    made = make_snapshot(repository, Bank(), 1)
    assert [snapshot.id for snapshot in committed(destination)] == [copied.id, made.id]
    make_snapshot(repository, Bank(), 2)
    retain(repository, Keep(last=1))
    assert [snapshot.id.counter for snapshot in committed(destination)] == [1, 2]  # the copy, and the newest
    assert committed(destination)[0].verify([KEY]).trusted


def test_a_copy_that_was_deleted_can_be_made_again() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    for attempt in range(3):
        copied = copy_snapshot(source, destination, snapshot)
        assert copied.folder == f"bank/copies/{snapshot.id}.{attempt}"
        assert copied.verify([KEY]).trusted
        assert delete_snapshot(destination, "bank", copied.id).removed == (copied.id,)
        assert not list(destination.list("bank/copies"))
    with pytest.raises(SnapshotNotFound):
        Storage(destination).system("bank").latest()


@pytest.mark.acceptance("E3")
def test_a_copy_that_was_deleted_in_a_folder_is_removed_once(tmp_path: Path) -> None:
    source, destination = FaultyStore("a"), LocalStore(tmp_path)
    for snapshot in bank_in(source):
        copy_snapshot(source, destination, snapshot)
    for snapshot in committed(destination):
        assert delete_snapshot(destination, "bank", snapshot.id).removed == (snapshot.id,)


def test_a_copy_under_way_is_not_collected_until_it_stood_still_and_then_does_not_count() -> None:
    now = [0.0]
    source, destination = FaultyStore("a"), FaultyStore("b", clock=lambda: now[0])
    snapshot = bank_in(source)[0]
    create, stalled = destination.create, []

    def stall(key: str, data: object) -> None:
        if "/manifests/" in key and not stalled:
            now[0] += 3599
            collect(destination, "bank")
            collect(destination, "bank")
            stalled.append(len(list(destination.list("bank/copies"))))
            now[0] += 3600
            expired.append(collect(destination, "bank").expired)
            collect(destination, "bank")
        create(key, data)  # type: ignore[arg-type]

    expired: list[object] = []
    destination.create = stall  # type: ignore[method-assign,assignment]
    with pytest.raises(IntentExpired, match="paused for so long"):
        copy_snapshot(source, destination, snapshot)
    assert stalled == [len(snapshot.manifest.chunks)]
    assert expired == [(snapshot.id,)]
    for _ in range(2):
        collect(destination, "bank", min_age_s=0.0)
    assert not list(destination.list("bank/copies"))
    assert copy_snapshot(source, destination, snapshot).verify([KEY]).trusted
    collect(destination, "bank")
    assert committed_in(destination)[0].verify([KEY]).trusted


@pytest.mark.acceptance("E6")
def test_a_snapshot_that_is_deleted_while_it_is_copied_is_copied_whole() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    old, new = bank_in(source)
    create = destination.create

    def delete_then(key: str, data: object) -> None:
        if "/chunks/" in key:
            destination.create = create  # type: ignore[method-assign]
            delete_snapshot(source, "bank", new.id)
        create(key, data)  # type: ignore[arg-type]

    destination.create = delete_then  # type: ignore[method-assign,assignment]
    assert copy_snapshot(source, destination, new).verify([KEY]).trusted
    with pytest.raises(SnapshotDeleted):
        copy_snapshot(source, destination, new)
    assert committed(source) == [old]


def test_no_more_chunks_are_in_memory_than_there_are_workers() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    states = {f"a{number}": {"n": large(f"n{number}")} for number in range(4 * WORKERS)}
    snapshot = make_snapshot(open_bank(source), Bank(states=states, flows={}), 1)
    lock, inside, most = threading.Lock(), [0], [0]
    read_range = source.read_range

    def count(key: str, start: int, length: int) -> bytes:
        with lock:
            inside[0] += "/chunks/" in key
            most[0] = max(most[0], inside[0])
        return read_range(key, start, length)

    create = destination.create

    def leave(key: str, data: object) -> None:
        create(key, data)  # type: ignore[arg-type]
        with lock:
            inside[0] -= "/chunks/" in key

    source.read_range = count  # type: ignore[method-assign]
    destination.create = leave  # type: ignore[method-assign,assignment]
    copy_snapshot(source, destination, snapshot)
    assert 1 <= most[0] <= WORKERS
    assert inside[0] == 0


def test_a_storage_is_not_copied_onto_itself(tmp_path: Path) -> None:
    bank_in(LocalStore(tmp_path))
    with pytest.raises(ConfigError, match="source and destination"):
        rayshot.copy(tmp_path, str(tmp_path))


def test_an_id_that_a_copy_has_is_not_used_again_beside_it() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    repository = open_bank(destination, "other")
    copy_snapshot(source, destination, snapshot)
    with pytest.raises(AlreadyExists, match="may be a copy"):
        make_snapshot(repository, Bank(), 1)
    assert make_snapshot(repository, Bank(), 2).verify([KEY]).trusted


def test_a_snapshot_whose_id_is_copied_while_it_is_written_is_not_said_to_be_committed() -> None:
    source, destination = FaultyStore("a"), FaultyStore("b")
    snapshot = bank_in(source)[0]
    repository = open_bank(destination, "other")
    manifest = make_manifest(repository, Bank(), 1)
    copied = copy_snapshot(source, destination, snapshot)
    with pytest.raises(AlreadyExists, match="lived on in both places"):
        repository.commit(manifest, KEY)
    repository.abandon(manifest.snapshot)
    assert committed(destination) == [copied]
    assert copied.verify([KEY]).trusted


def test_nothing_leans_on_a_snapshot_that_was_deleted_and_copied_back() -> None:
    source, backup = FaultyStore("a"), FaultyStore("b")
    repository = open_bank(source)
    base = make_snapshot(repository, HEAVY, 1)
    assert base.verify([KEY]).sound  # its chunks are known from now on
    copied = copy_snapshot(source, backup, base)
    delete_snapshot(source, "bank", base.id)
    copy_snapshot(backup, source, copied)
    with pytest.raises(SnapshotNotFound, match="is a copy"):
        make_snapshot(repository, HEAVY, 2, reuse=base)
    assert make_snapshot(repository, HEAVY, 2).verify([KEY]).trusted
