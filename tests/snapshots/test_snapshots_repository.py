import json
from dataclasses import replace
from pathlib import Path

import pytest

import rayshot
from rayshot.errors import (
    AlreadyExists,
    BadManifest,
    CommitUnknown,
    ConfigError,
    Fenced,
    FormatTooNew,
    RayshotError,
    SnapshotNotFound,
    StoreFull,
    SystemNotFound,
)
from rayshot.format.envelope import seal
from rayshot.format.manifest import encode
from rayshot.log.layout import format_key
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.retention import Keep
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore
from tests.snapshots.snapshot_builder import (
    KEY,
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


def test_a_committed_snapshot_is_found_and_verifies(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    made = make_snapshot(open_bank(store))
    found = rayshot.open(tmp_path).systems["bank"].latest()
    assert found == made
    assert found.verify().sound
    layout = sorted(path.relative_to(tmp_path).parts[1] for path in tmp_path.rglob("*") if path.is_file())
    assert layout == ["FORMAT", "chunks", "intents", "log", "log", "manifests"]


def test_snapshots_are_listed_in_the_order_of_their_commits() -> None:
    repository = open_bank(FaultyStore())
    ids = [make_snapshot(repository, counter=counter).id for counter in (3, 1, 2)]
    view = Storage(repository.store).system()
    assert [snapshot.id for snapshot in view.snapshots()] == ids
    assert view.latest().id == ids[-1]
    assert view.snapshot(str(ids[0])).id == view.snapshot(ids[0]).id == ids[0]
    assert view.snapshot().id == ids[-1]


@pytest.mark.acceptance("G27")
def test_a_snapshot_that_does_not_exist_is_refused_with_what_does() -> None:
    repository = open_bank(FaultyStore())
    view = Storage(repository.store).system()
    with pytest.raises(SnapshotNotFound, match="no committed snapshot yet"):
        view.latest()
    for counter in range(1, 13):
        make_snapshot(repository, counter=counter)
    with pytest.raises(SnapshotNotFound, match=r"does not exist; there is \.\.\. 1-coordinator-3, ") as caught:
        view.snapshot("9-coordinator-9")
    assert len(caught.value.evidence["exists"]) == 12
    delete(repository, SnapshotId(1, "coordinator", 1))
    with pytest.raises(SnapshotNotFound, match="was deleted"):
        view.snapshot("1-coordinator-1")
    with pytest.raises(ConfigError, match="not a snapshot id"):
        view.snapshot("latest")


@pytest.mark.acceptance("G27")
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
    with pytest.raises(SystemNotFound, match=r"there is bank, shop\. Did you mean 'shop'\?$"):
        storage.system("shpo")
    assert storage.system("shop").latest().system == "shop"


@pytest.mark.acceptance("G6")
def test_a_system_of_a_newer_format_is_refused() -> None:
    store = FaultyStore()
    store.create(format_key("bank"), json.dumps({"rayshot": 2}).encode())
    make_snapshot(open_bank(store, system="shop"))
    assert list(Storage(store).systems) == ["bank", "shop"]
    assert Storage(store).systems["shop"].latest().verify().sound
    with pytest.raises(FormatTooNew, match="pip install --upgrade"):
        Storage(store).systems["bank"].snapshots()
    with pytest.raises(FormatTooNew):
        Repository(store, "bank", create=True)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"\xff", b'{"rayshot": "1"}', b'{"rayshot": 0}', b'{"rayshot": true}']
)
def test_a_format_that_is_damaged_is_refused(content: bytes) -> None:
    store = FaultyStore()
    store.create(format_key("bank"), content)
    with pytest.raises(BadManifest):
        Storage(store).system().latest()


def test_a_system_whose_format_was_removed_is_damaged_and_not_empty() -> None:
    store = FaultyStore()
    make_snapshot(open_bank(store))
    store.delete(format_key("bank"))
    with pytest.raises(BadManifest, match="bank/FORMAT is missing"):
        Storage(store).system("bank")
    with pytest.raises(BadManifest, match="bank/FORMAT is missing"):
        Repository(store, "bank", create=True)


def test_a_repository_that_must_not_be_made_has_to_exist() -> None:
    store = FaultyStore()
    with pytest.raises(SystemNotFound):
        Repository(store, "bank", create=False)
    assert store.calls == len(["FORMAT", "log", "manifests", "intents", "chunks", "copies", "systems"])
    Repository(store, "bank", create=True)
    Repository(store, "bank", create=False)
    with pytest.raises(ConfigError):
        Repository(store, "../bank", create=True)


def test_an_id_cannot_be_used_twice() -> None:
    repository = open_bank(FaultyStore())
    snapshot = SnapshotId(1, "coordinator", 1)
    assert repository.intend(snapshot) == "1-coordinator-1"
    repository.intend(snapshot)  # a lost answer: the same intent again
    make_snapshot(repository, counter=2)
    with pytest.raises(AlreadyExists):
        repository.intend(snapshot, base=SnapshotId(1, "coordinator", 2))


@pytest.mark.acceptance("E1")
def test_a_zombie_commits_nothing_and_deletes_nothing() -> None:
    store = FaultyStore()
    old = open_bank(store, "old")
    first = make_snapshot(old)
    late = make_manifest(old, Bank(), 2)
    new = open_bank(store, "new")
    before = sorted(entry.key for entry in store.list())
    for zombie_act in (
        lambda: old.commit(late, None),
        lambda: old.mark_deleted(first.id),
        lambda: retain(old, Keep(last=1)),
        lambda: old.intend(SnapshotId(1, "coordinator", 3)),
    ):
        with pytest.raises(Fenced, match="new took over"):
            zombie_act()
    assert sorted(entry.key for entry in store.list()) == before
    make_snapshot(new)
    assert [snapshot.id.incarnation for snapshot in committed(store)] == [1, 2]


@pytest.mark.acceptance("E1")
def test_of_two_coordinators_that_commit_at_once_only_the_newer_one_does() -> None:
    store = FaultyStore()
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


@pytest.mark.acceptance("D1")
@pytest.mark.parametrize("effect", list(FaultEffect))
def test_when_any_store_call_of_a_commit_fails_it_is_committed_once_or_refused_and_old_snapshots_verify(
    effect: FaultEffect,
) -> None:
    calls = calls_of_a_snapshot()
    assert calls == 9  # intent, three chunks, three looks at the log before, behind and at its end, manifest, COMMIT
    outcomes = [outcome_with(Fault(number, effect)) for number in range(1, calls + 1)]
    assert "committed" in outcomes


@pytest.mark.acceptance("D1")
@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
def test_when_the_store_goes_away_at_any_call_it_is_committed_once_or_refused_and_settled_later(
    effect: FaultEffect,
) -> None:
    calls = calls_of_a_snapshot()
    outcomes = [outcome_with(Fault(number, effect, count=10_000)) for number in range(1, calls + 1)]
    assert "CommitUnknown" in outcomes
    assert "StoreUnavailable" in outcomes


@pytest.mark.acceptance("D7")
def test_when_the_store_is_full_at_any_call_the_snapshot_is_refused_and_the_next_one_commits() -> None:
    calls = calls_of_a_snapshot()
    for number in range(1, calls + 1):
        fault = Fault(number, count=10_000, error=lambda: StoreFull("no room", path="p", bytes=1))
        assert outcome_with(fault) == "StoreFull"


HEAVY = Bank(states={"alice": large("a"), "bob": large("b")})


def calls_of_a_snapshot() -> int:
    store = FaultyStore()
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    before = store.calls
    make_snapshot(repository, HEAVY, counter=2)
    return store.calls - before


def outcome_with(fault: Fault) -> str:
    """Take one snapshot in peace and one under `fault`; then prove what must hold whatever came of it."""
    store = FaultyStore()
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


def test_what_was_abandoned_is_gone_and_what_was_committed_cannot_be_abandoned() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    kept = make_snapshot(repository)
    make_manifest(repository, Bank(states={"alice": {"balance": 7}}), 2)
    repository.abandon(SnapshotId(1, "coordinator", 2))
    repository.abandon(kept.id)
    assert_every_chunk_is_reachable(store)
    assert [entry.key for entry in store.list("bank/intents")] == ["bank/intents/1-coordinator-1"]
    assert kept.verify().sound


@pytest.mark.acceptance("D5")
def test_a_commit_that_never_came_through_is_removed_when_that_is_known() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    make_snapshot(repository, counter=1)
    manifest = make_manifest(repository, Bank(states={"alice": {"balance": 7}}), 2)
    store.fault = Fault(store.calls + 4, count=10_000)
    with pytest.raises(CommitUnknown):
        repository.commit(manifest, None)
    store.fault = None
    retain(repository, Keep(last=5))
    assert len(list(store.list("bank/manifests"))) == 2
    make_snapshot(repository, counter=3)
    retain(repository, Keep(last=5))
    assert [snapshot.id.counter for snapshot in committed(store)] == [1, 3]
    assert len(list(store.list("bank/manifests"))) == 2
    assert_every_chunk_is_reachable(store)


@pytest.mark.acceptance("D5")
def test_a_commit_is_unknown_only_until_it_is_tried_again() -> None:
    store = FaultyStore()
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


def test_a_manifest_is_stored_as_it_was_sealed() -> None:
    store = FaultyStore()
    snapshot = make_snapshot(open_bank(store))
    assert store.read(f"bank/{snapshot.record.manifest_key}") == seal(encode(snapshot.manifest), KEY)


def test_a_snapshot_that_leans_on_another_reads_the_end_of_the_log_once_more_than_one_that_does_not() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    base = make_snapshot(repository, Bank(), 1)
    calls = []
    for counter, leans_on in ((2, None), (3, base.id)):
        before = store.calls
        repository.intend(SnapshotId(1, "coordinator", counter), leans_on)
        calls.append(store.calls - before)
    assert calls == [2, 3]  # its epoch and the intent; and whether the base is still there
