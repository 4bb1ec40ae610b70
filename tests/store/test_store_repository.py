import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import rayshot
from rayshot.errors import (
    AlreadyExists,
    BadManifest,
    BindingMismatch,
    CommitUnknown,
    ConfigError,
    CorruptChunk,
    Fenced,
    FormatTooNew,
    MissingChunk,
    PathRefused,
    RayshotError,
    SnapshotNotFound,
    StoreFull,
    SystemNotFound,
)
from rayshot.format.chunks import digest
from rayshot.format.signing import seal
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import Storage
from rayshot.store.chunk_writer import LARGE_BYTES_MIN
from rayshot.store.layout import format_key
from rayshot.store.local import LocalStore
from rayshot.store.memory import Fault, FaultEffect, MemoryStore
from rayshot.store.repository import Repository
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store
from tests.store.snapshot_builder import Bank, forge_commit, make_manifest, make_snapshot, open_bank


def committed(store: Store, system: str = "bank") -> list[Snapshot]:
    return Storage(store).system(system).snapshots()


def large(text: str) -> str:
    return text * (LARGE_BYTES_MIN // len(text) + 1)


def test_a_committed_snapshot_is_found_and_verifies(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    made = make_snapshot(open_bank(store))
    found = rayshot.open(tmp_path).systems["bank"].latest()
    assert found == made
    assert found.verify().sound
    layout = sorted(path.relative_to(tmp_path).parts[1] for path in tmp_path.rglob("*") if path.is_file())
    assert layout == ["FORMAT", "chunks", "intents", "log", "log", "manifests"]


def test_snapshots_are_listed_in_the_order_of_their_commits() -> None:
    repository = open_bank(MemoryStore())
    ids = [make_snapshot(repository, counter=counter).id for counter in (3, 1, 2)]
    view = Storage(repository.store).system()
    assert [snapshot.id for snapshot in view.snapshots()] == ids
    assert view.latest().id == ids[-1]
    assert view.snapshot(str(ids[0])).id == view.snapshot(ids[0]).id == ids[0]
    assert view.snapshot().id == ids[-1]


def test_a_snapshot_that_does_not_exist_is_refused_with_what_does() -> None:
    repository = open_bank(MemoryStore())
    view = Storage(repository.store).system()
    with pytest.raises(SnapshotNotFound, match="no committed snapshot yet"):
        view.latest()
    for counter in range(1, 13):
        make_snapshot(repository, counter=counter)
    with pytest.raises(SnapshotNotFound, match=r"does not exist; there is \.\.\. 1-coordinator-3, ") as caught:
        view.snapshot("9-coordinator-9")
    assert len(caught.value.evidence["exists"]) == 12
    repository.delete(SnapshotId(1, "coordinator", 1))
    with pytest.raises(SnapshotNotFound, match="was deleted"):
        view.snapshot("1-coordinator-1")
    with pytest.raises(ConfigError, match="not a snapshot id"):
        view.snapshot("latest")


def test_an_empty_store_and_a_folder_that_does_not_exist_say_so(tmp_path: Path) -> None:
    assert dict(rayshot.open(tmp_path).systems) == {}
    with pytest.raises(SystemNotFound, match="holds no system"):
        rayshot.open(tmp_path).system()
    with pytest.raises(SystemNotFound, match="there is no storage folder"):
        rayshot.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_several_systems_share_a_storage_and_must_be_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for system in ("shop", "bank"):
        make_snapshot(open_bank(store, system=system))
    (tmp_path / "notes of mine").mkdir()
    (tmp_path / "other").mkdir()
    storage = rayshot.open(str(tmp_path))
    assert list(storage.systems) == ["bank", "shop"]
    with pytest.raises(ConfigError, match="bank, shop"):
        storage.system()
    with pytest.raises(SystemNotFound, match="there is bank, shop"):
        storage.system("other")
    assert storage.system("shop").latest().system == "shop"


def test_a_system_of_a_newer_format_is_refused() -> None:
    store = MemoryStore()
    store.create(format_key("bank"), json.dumps({"rayshot": 2}).encode())
    make_snapshot(open_bank(store, system="shop"))
    assert list(Storage(store).systems) == ["bank", "shop"]
    assert Storage(store).systems["shop"].latest().verify().sound
    with pytest.raises(FormatTooNew, match="pip install --upgrade"):
        Storage(store).systems["bank"].snapshots()
    with pytest.raises(FormatTooNew):
        Repository(store, "bank", create=True)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"rayshot": "1"}', b'{"rayshot": 0}'])
def test_a_format_that_is_damaged_is_refused(content: bytes) -> None:
    store = MemoryStore()
    store.create(format_key("bank"), content)
    with pytest.raises(BadManifest):
        Storage(store).system().latest()


def test_a_repository_that_must_not_be_made_has_to_exist() -> None:
    store = MemoryStore()
    with pytest.raises(SystemNotFound):
        Repository(store, "bank", create=False)
    assert store.calls == len(["FORMAT", "systems"])
    Repository(store, "bank", create=True)
    Repository(store, "bank", create=False)
    with pytest.raises(ConfigError):
        Repository(store, "../bank", create=True)


def test_an_id_cannot_be_used_twice() -> None:
    repository = open_bank(MemoryStore())
    snapshot = SnapshotId(1, "coordinator", 1)
    assert repository.intend(snapshot) == "1-coordinator-1"
    repository.intend(snapshot)  # a lost answer: the same intent again
    make_snapshot(repository, counter=2)
    with pytest.raises(AlreadyExists):
        repository.intend(snapshot, base=SnapshotId(1, "coordinator", 2))


def test_a_zombie_commits_nothing_and_deletes_nothing() -> None:
    store = MemoryStore()
    old = open_bank(store, "old")
    first = make_snapshot(old)
    late = make_manifest(old, Bank(), 2)
    new = open_bank(store, "new")
    before = sorted(entry.key for entry in store.list())
    for zombie_act in (
        lambda: old.commit(late, None),
        lambda: old.delete(first.id),
        lambda: old.retain(1),
        lambda: old.intend(SnapshotId(1, "coordinator", 3)),
    ):
        with pytest.raises(Fenced, match="new took over"):
            zombie_act()
    assert sorted(entry.key for entry in store.list()) == before
    make_snapshot(new)
    assert [snapshot.id.incarnation for snapshot in committed(store)] == [1, 2]


def test_of_two_coordinators_that_commit_at_once_only_the_newer_one_does() -> None:
    store = MemoryStore()
    old = open_bank(store, "old")
    late = make_manifest(old, Bank(), 1)
    refresh = old.log.refresh
    taken_over = []

    def overtaken_after_the_check() -> object:
        history = refresh()
        if not taken_over:
            taken_over.append(open_bank(store, "new"))
        return history

    old.log.refresh = overtaken_after_the_check  # type: ignore[method-assign,assignment]
    with pytest.raises(Fenced, match="new has written record 1"):
        old.commit(late, None)
    assert committed(store) == []


@pytest.mark.parametrize("effect", list(FaultEffect))
def test_when_any_store_call_of_a_commit_fails_it_is_committed_once_or_refused_and_old_snapshots_verify(
    effect: FaultEffect,
) -> None:
    calls = calls_of_a_snapshot()
    assert calls == 8  # intent, three chunks, a look at the log before and after, manifest, COMMIT
    outcomes = [outcome_with(Fault(number, effect)) for number in range(1, calls + 1)]
    assert "committed" in outcomes


@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
def test_when_the_store_goes_away_at_any_call_it_is_committed_once_or_refused_and_settled_later(
    effect: FaultEffect,
) -> None:
    calls = calls_of_a_snapshot()
    outcomes = [outcome_with(Fault(number, effect, count=10_000)) for number in range(1, calls + 1)]
    assert "CommitUnknown" in outcomes
    assert "StoreUnavailable" in outcomes


def test_when_the_store_is_full_at_any_call_the_snapshot_is_refused_and_the_next_one_commits() -> None:
    calls = calls_of_a_snapshot()
    for number in range(1, calls + 1):
        fault = Fault(number, count=10_000, error=lambda: StoreFull("no room", path="p", bytes=1))
        assert outcome_with(fault) == "StoreFull"


HEAVY = Bank(states={"alice": large("a"), "bob": large("b")})


def calls_of_a_snapshot() -> int:
    store = MemoryStore()
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    before = store.calls
    make_snapshot(repository, HEAVY, counter=2)
    return store.calls - before


def outcome_with(fault: Fault) -> str:
    """Take one snapshot in peace and one under `fault`; then prove what must hold whatever came of it."""
    store = MemoryStore()
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    store.fault = replace(fault, first=store.calls + fault.first)
    manifest, outcome = None, "committed"
    try:
        manifest = make_manifest(repository, HEAVY, 2)
        repository.commit(manifest, None)
    except RayshotError as error:
        outcome = type(error).__name__
    store.fault = None
    first, *others = committed(store)
    for snapshot in (first, *others):
        assert snapshot.verify(()).sound
    assert len(others) == 1 if outcome == "committed" else len(others) <= (outcome == "CommitUnknown")
    if outcome == "CommitUnknown":
        assert manifest is not None
        assert_an_unknown_commit_is_not_abandoned(repository, manifest.snapshot)
        repository.commit(manifest, None)
        assert len(committed(store)) == 2
    elif outcome != "committed":
        repository.abandon(SnapshotId(1, "coordinator", 2))
        assert_every_chunk_is_reachable(store)
    make_snapshot(repository, counter=3)
    assert committed(store)[-1].id.counter == 3
    make_snapshot(open_bank(store, "successor"))
    assert committed(store)[-1].id.incarnation == 2
    return outcome


def assert_an_unknown_commit_is_not_abandoned(repository: Repository, snapshot: SnapshotId) -> None:
    before = set(repository.store.list("bank/chunks"))
    if snapshot not in {record.snapshot for record in repository.retained()}:
        with pytest.raises(CommitUnknown, match="stay"):
            repository.abandon(snapshot)
    else:
        repository.abandon(snapshot)
    assert set(repository.store.list("bank/chunks")) == before


def assert_every_chunk_is_reachable(store: Store) -> None:
    named = {f"bank/{chunk.key}" for snapshot in committed(store) for chunk in snapshot.manifest.chunks}
    assert {entry.key for entry in store.list("bank/chunks")} == named


def test_what_was_abandoned_is_gone_and_what_was_committed_cannot_be_abandoned() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    kept = make_snapshot(repository)
    make_manifest(repository, Bank(states={"alice": {"balance": 7}}), 2)
    repository.abandon(SnapshotId(1, "coordinator", 2))
    repository.abandon(kept.id)
    assert_every_chunk_is_reachable(store)
    assert [entry.key for entry in store.list("bank/intents")] == ["bank/intents/1-coordinator-1"]
    assert kept.verify().sound


def test_a_commit_that_never_came_through_is_removed_when_that_is_known() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    manifest = make_manifest(repository, Bank(states={"alice": {"balance": 7}}), 2)
    store.fault = Fault(store.calls + 3, count=10_000)
    with pytest.raises(CommitUnknown):
        repository.commit(manifest, None)
    store.fault = None
    repository.retain(5)
    assert len(list(store.list("bank/manifests"))) == 2
    make_snapshot(repository, counter=3)
    repository.retain(5)
    assert [snapshot.id.counter for snapshot in committed(store)] == [1, 3]
    assert len(list(store.list("bank/manifests"))) == 2
    assert_every_chunk_is_reachable(store)


def test_a_deleted_snapshot_is_gone_and_the_others_verify() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    first = make_snapshot(repository, Bank(states={"alice": {"note": large("same"), "n": large("one")}}), 1)
    second = make_snapshot(
        repository, Bank(states={"alice": {"note": large("same"), "n": large("two")}}), 2, reuse=first
    )
    assert repository.delete(first.id).removed == (first.id,)
    assert committed(store) == [second]
    assert second.verify().sound
    assert_every_chunk_is_reachable(store)
    assert [entry.key for entry in store.list("bank/manifests")] == ["bank/manifests/1-coordinator-2"]
    with pytest.raises(SnapshotNotFound):
        repository.delete(first.id)
    with pytest.raises(SnapshotNotFound, match="was deleted"):
        _ = Storage(store).system().snapshot(second.id) and Snapshot(store, "bank", first.record).manifest


def test_retention_keeps_the_newest_and_every_savepoint_and_what_they_need() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    previous: Snapshot | None = None
    for counter in range(1, 9):
        label = "before the move" if counter in {2, 5} else None
        states = {"alice": {"balance": counter, "history": large("same")}, "bob": {"n": large(f"n{counter}")}}
        previous = make_snapshot(repository, Bank(states=states, label=label), counter, reuse=previous)
        repository.retain(2)
    assert [snapshot.id.counter for snapshot in committed(store)] == [2, 5, 7, 8]
    assert all(snapshot.verify().sound for snapshot in committed(store))
    assert_every_chunk_is_reachable(store)
    assert len(list(store.list("bank/intents"))) == len(list(store.list("bank/manifests"))) == 4


def test_retention_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        open_bank(MemoryStore()).retain(0)


def spoil_chunk(store: MemoryStore, snapshot: Snapshot) -> None:
    key = f"bank/{snapshot.manifest.chunks[0].key}"
    store.put_raw(key, store.read(key)[:-1])


def spoil_manifest(store: MemoryStore, snapshot: Snapshot) -> None:
    store.put_raw(f"bank/{snapshot.record.manifest_key}", b"garbage")


def lose_manifest(store: MemoryStore, snapshot: Snapshot) -> None:
    store.delete(f"bank/{snapshot.record.manifest_key}")


@pytest.mark.parametrize("spoil", [spoil_chunk, spoil_manifest, lose_manifest])
def test_retention_never_deletes_the_newest_valid_snapshot(spoil: Callable[[MemoryStore, Snapshot], None]) -> None:
    store = MemoryStore()
    repository = open_bank(store)
    made = [make_snapshot(repository, Bank(states={"a": {"n": n}}), n) for n in range(1, 5)]
    for snapshot in made[2:]:
        spoil(store, snapshot)
    repository.retain(1)
    assert [snapshot.id.counter for snapshot in committed(store)] == [2, 4]
    assert committed(store)[0].verify().sound


def test_where_nothing_is_valid_retention_deletes_nothing() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    for counter in range(1, 4):
        spoil_chunk(store, make_snapshot(repository, Bank(states={"a": {"n": counter}}), counter))
    repository.retain(1)
    assert len(committed(store)) == 3


def test_while_a_retained_manifest_cannot_be_read_no_bytes_are_removed() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    made = [make_snapshot(repository, Bank(states={"a": {"n": n}}), n) for n in range(1, 4)]
    spoil_manifest(store, made[2])
    repository = open_bank(store, "w2")
    chunks = len(list(store.list("bank/chunks")))
    assert repository.delete(made[0].id).unreadable == (made[2].id,)
    assert len(list(store.list("bank/chunks"))) == chunks
    assert set(repository.delete(made[2].id).removed) == {made[0].id, made[2].id}
    assert committed(store) == [made[1]]
    assert_every_chunk_is_reachable(store)


def test_a_proved_snapshot_is_not_read_again_by_retention() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    for counter in range(1, 5):
        make_snapshot(repository, Bank(states={"a": {"n": counter}}), counter)
    repository.retain(3)
    make_snapshot(repository, Bank(states={"a": {"n": 5}}), 5)
    before = store.calls
    repository.retain(3)
    assert not [key for verb, key in store.journal[before:] if "chunks/" in key and "read" in verb]


def test_a_running_snapshot_keeps_the_bytes_it_leans_on_until_it_has_ended() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    states = {"alice": {"history": large("same")}}
    base = make_snapshot(repository, Bank(states=states), 1)
    make_snapshot(repository, Bank(states={"a": {"n": 2}}), 2)
    running = make_manifest(repository, Bank(states=states), 3, reuse=base)
    assert repository.delete(base.id).removed == ()
    late = repository.snapshot(repository.commit(replace(running, position=repository.log.next_position), None))
    assert repository.retain(5).removed == (base.id,)
    assert late.verify().sound
    assert_every_chunk_is_reachable(store)


def test_an_intent_of_an_earlier_coordinator_of_the_same_life_leases_nothing() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    base = make_snapshot(repository)
    repository.intend(SnapshotId(1, "coordinator", 2), base.id)
    successor = Repository(store, "bank", create=False)
    successor.log.begin_epoch(successor.next_incarnation() - 1, "w2")
    assert successor.delete(base.id).removed == (base.id,)


def test_an_intent_of_an_earlier_life_leases_nothing() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    base = make_snapshot(repository)
    repository.intend(SnapshotId(1, "coordinator", 2), base.id)
    successor = open_bank(store, "w2")
    make_snapshot(successor)
    assert successor.delete(base.id).removed == (base.id,)
    with pytest.raises(SnapshotNotFound, match="not retained"):
        successor.intend(SnapshotId(2, "coordinator", 9), base.id)


def test_a_deletion_that_dies_at_any_call_is_finished_by_the_next_one() -> None:
    def prepared() -> tuple[MemoryStore, Repository, Snapshot]:
        store = MemoryStore()
        repository = open_bank(store)
        first = make_snapshot(repository, Bank(states={"a": {"n": large("x"), "m": large("y")}}), 1)
        make_snapshot(repository, Bank(states={"a": {"n": large("x"), "m": large("z")}}), 2, reuse=first)
        return store, repository, first

    store, repository, first = prepared()
    before = store.calls
    repository.delete(first.id)
    for number in range(1, store.calls - before + 1):
        store, repository, first = prepared()
        store.fault = Fault(store.calls + number, count=10_000)
        with pytest.raises(RayshotError):
            repository.delete(first.id)
        store.fault = None
        assert all(snapshot.verify().sound for snapshot in committed(store) if snapshot.id != first.id)
        successor = open_bank(store, "w2")
        if first in committed(store):
            successor.delete(first.id)
        successor.retain(5)
        assert [snapshot.id.counter for snapshot in committed(store)] == [2]
        assert committed(store)[0].verify().sound
        assert_every_chunk_is_reachable(store)


# G1-G10: bytes that are not what was committed. --------------------------------------------------------------------


@pytest.fixture
def made() -> tuple[MemoryStore, Snapshot]:
    store = MemoryStore()
    return store, make_snapshot(open_bank(store))


def reopened(store: Store) -> Snapshot:
    return Storage(store).system("bank").latest()


def test_a_manifest_that_is_empty_cut_or_flipped_anywhere_is_refused(made: tuple[MemoryStore, Snapshot]) -> None:
    store, snapshot = made
    key = f"bank/{snapshot.record.manifest_key}"
    sealed = store.read(key)
    for cut in range(0, len(sealed), 7):
        store.put_raw(key, sealed[:cut])
        with pytest.raises(BadManifest):
            reopened(store).verify()
    for place in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[place] ^= 4
        store.put_raw(key, bytes(flipped))
        with pytest.raises((BadManifest, BindingMismatch)):
            reopened(store).verify()


def test_a_manifest_that_is_missing_is_refused(made: tuple[MemoryStore, Snapshot]) -> None:
    store, snapshot = made
    store.delete(f"bank/{snapshot.record.manifest_key}")
    with pytest.raises(BadManifest, match="is missing"):
        reopened(store).verify()


def test_a_manifest_copied_from_another_system_is_refused(made: tuple[MemoryStore, Snapshot]) -> None:
    store, snapshot = made
    other = make_snapshot(open_bank(store, system="shop"))
    copied = store.read(f"shop/{other.record.manifest_key}")
    store.put_raw(f"bank/{snapshot.record.manifest_key}", copied)
    with pytest.raises(BindingMismatch, match="'shop'"):
        reopened(store).verify()
    forge_commit(store, replace(snapshot.record, manifest_digest=digest(copied)))
    with pytest.raises(BindingMismatch, match="'shop'"):
        reopened(store).verify()


def test_a_manifest_copied_from_another_position_is_refused() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    old, new = make_snapshot(repository, counter=1), make_snapshot(repository, counter=2)
    copied = store.read(f"bank/{old.record.manifest_key}")
    store.put_raw(f"bank/{new.record.manifest_key}", copied)
    forge_commit(store, replace(new.record, manifest_digest=digest(copied)))
    with pytest.raises(BindingMismatch, match=r"position 1 lies where .* position 2"):
        reopened(store).verify()


def test_a_manifest_that_was_moved_on_to_another_position_is_refused() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    snapshot = make_snapshot(repository, counter=1)
    forge_commit(store, replace(snapshot.record, position=2))
    store.delete("bank/log/" + "0" * 19 + "1")
    forge_commit(store, replace(make_other(snapshot), position=1))
    with pytest.raises(BindingMismatch, match=r"position 1 lies where .* position 2"):
        Storage(store).system("bank").snapshot(snapshot.id).verify()


def make_other(snapshot: Snapshot):
    other = SnapshotId(1, "coordinator", 77)
    return replace(snapshot.record, snapshot=other, manifest_key=f"manifests/{other}")


def test_chunks_that_are_flipped_cut_longer_missing_or_swapped_are_found() -> None:
    states = {"alice": {"n": large("a")}, "bob": {"n": large("b")}}
    store = MemoryStore()
    snapshot = make_snapshot(open_bank(store), Bank(states=states))
    first, second, *_ = (f"bank/{chunk.key}" for chunk in snapshot.manifest.chunks)
    one, two = store.read(first), store.read(second)
    flipped = bytes([*one[:-1], one[-1] ^ 1])
    for wrong in (flipped, one[:-1], one + b"x", b"", two):
        store.put_raw(first, wrong)
        with pytest.raises(CorruptChunk):
            reopened(store).verify()
        with pytest.raises(CorruptChunk):
            reopened(store).states()
    store.delete(first)
    with pytest.raises(MissingChunk):
        reopened(store).verify()


def test_a_chunk_that_is_a_symbolic_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "shots")
    snapshot = make_snapshot(open_bank(store))
    chunk = tmp_path / "shots/bank" / snapshot.manifest.chunks[0].key
    chunk.rename(tmp_path / "elsewhere")
    chunk.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathRefused):
        reopened(store).verify()
    with pytest.raises(PathRefused):
        reopened(store).states()


def test_a_commit_is_unknown_only_until_it_is_tried_again() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    manifest = make_manifest(repository, Bank(flows={}), 1)
    create = store.create

    def lose_log_answers(key: str, data: object) -> None:
        if "/log/" in key:
            store.fault = Fault(store.calls + 1, count=100)
        create(key, data)  # type: ignore[arg-type]

    store.create = lose_log_answers  # type: ignore[method-assign,assignment]
    with pytest.raises(CommitUnknown):
        repository.commit(manifest, None)
    store.fault = None
    store.create = create  # type: ignore[method-assign]
    record = repository.commit(manifest, None)
    assert repository.commit(manifest, None) == record
    assert len(committed(store)) == 1


def test_an_envelope_is_committed_as_it_was_sealed(made: tuple[MemoryStore, Snapshot]) -> None:
    from tests.store.snapshot_builder import KEY

    store, snapshot = made
    from rayshot.format.manifest import encode

    assert store.read(f"bank/{snapshot.record.manifest_key}") == seal(encode(snapshot.manifest), KEY)
