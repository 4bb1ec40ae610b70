"""What the log and the manifests say, as tables."""

from typing import Any

import numpy as np
import pytest

from rayshot.errors import ActorNotFound, ConfigError, SnapshotNotFound
from rayshot.log.records import RestoreRecord
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.snapshots.snapshot_builder import TAKEN_AT, Bank, Flow, make_snapshot, open_bank

AB, BA = ("alice", "bob"), ("bob", "alice")


def cells(storage: Storage, view: str, *names: str, **options: Any) -> list[tuple[Any, ...]]:
    found = storage.table(view, **options).to_arrow().to_pydict()
    return list(zip(*(found[name] for name in names), strict=True))


def begin_life(store: MemoryStore, writer: str, restored_from: SnapshotId | None, origin: str | None = None) -> Any:
    repository = open_bank(store, writer)
    if restored_from is not None:
        position = repository.log.next_position
        repository.log.append(RestoreRecord(position, writer, restored_from, origin, claimed=False))
    return repository


@pytest.fixture
def lives() -> Storage:
    """Two snapshots of a first life, of which the second is deleted; one of a second life, restored from the first."""
    store = MemoryStore()
    first = open_bank(store)
    kept = make_snapshot(first, Bank(label="payday"), 1)
    gone = make_snapshot(first, Bank(), 2)
    second = begin_life(store, "w2", kept.id)
    delete_snapshot(store, "bank", gone.id)
    make_snapshot(second, Bank(), 1)
    return Storage(store)


def test_each_record_of_the_log_is_a_row(lives: Storage) -> None:
    names = ("log_index", "kind", "snapshot", "life", "label", "counts")
    assert cells(lives, "log", *names) == [
        (0, "epoch", None, 1, None, True),
        (1, "commit", "1-coordinator-1", 1, "payday", True),
        (2, "commit", "1-coordinator-2", 1, None, True),
        (3, "epoch", None, 2, None, True),
        (4, "restore", "1-coordinator-1", 2, None, True),
        (5, "delete", "1-coordinator-2", 2, None, True),
        (6, "commit", "2-coordinator-1", 2, None, True),
    ]
    row = cells(lives, "log", "system", "position", "taken_at", "writer", "origin")[1]
    assert row[:2] == ("bank", 1)
    assert row[2].timestamp() == TAKEN_AT + 1
    assert row[3:] == ("w1", None)


def test_a_record_that_came_too_late_is_there_and_does_not_count(lives: Storage) -> None:
    from rayshot.log.layout import log_key
    from rayshot.log.records import DeleteRecord, encode_record

    store = lives.system()._store
    store.create(log_key("bank", 7), encode_record(DeleteRecord(7, "w1", SnapshotId(1, "coordinator", 1))))
    assert cells(lives, "log", "kind", "writer", "counts")[-1] == ("delete", "w1", False)
    assert len(cells(lives, "snapshots", "snapshot")) == 2


def test_the_table_of_a_log_ends_where_it_ended_when_it_was_opened(lives: Storage) -> None:
    table = lives.table("log")
    open_bank(lives.system()._store, "w3")
    assert table.to_arrow().num_rows == 7


def test_a_snapshot_says_what_its_life_was_restored_from(lives: Storage) -> None:
    assert cells(lives, "snapshots", "snapshot", "restored_from") == [
        ("1-coordinator-1", None),
        ("2-coordinator-1", "1-coordinator-1"),
    ]


def test_new_bytes_are_those_that_a_snapshot_wrote_itself() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    array = np.random.default_rng(0).bytes(200_000)
    first = make_snapshot(repository, Bank(states={"alice": {"array": array}, "bob": {"n": 1}}), 1)
    make_snapshot(repository, Bank(states={"alice": {"array": array}, "bob": {"n": 2}}), 2, reuse=first)
    (one, one_new), (two, two_new) = cells(Storage(store), "snapshots", "bytes", "new_bytes")
    assert one == one_new > 200_000
    assert two > 200_000
    assert 2_000 > two_new > 0


def test_each_system_of_the_storage_is_a_row() -> None:
    store = MemoryStore()
    repository = open_bank(store, system="bank")
    make_snapshot(repository, Bank(), 3)
    make_snapshot(repository, Bank(), 2)
    open_bank(store, system="empty")
    storage = Storage(store)
    rows = cells(storage, "systems", "system", "snapshot", "log_index", "life", "snapshots", "lives")
    assert rows == [("bank", "1-coordinator-2", 2, 1, 2, 1), ("empty", None, None, None, 0, 1)]
    (first, last, size), (none, _, _) = cells(storage, "systems", "first_taken_at", "last_taken_at", "bytes")
    assert (first.timestamp(), last.timestamp(), none) == (TAKEN_AT + 2, TAKEN_AT + 3, None)
    assert size == sum(entry.size for entry in store.list("bank"))
    assert cells(storage.system("empty"), "systems", "system") == [("bank",), ("empty",)]


@pytest.mark.parametrize("view", ["actors", "state_diff"])
def test_an_actor_of_a_system_without_snapshots_is_not_there(view: str) -> None:
    store = MemoryStore()
    open_bank(store)
    assert Storage(store).table(view).to_arrow().num_rows == 0
    with pytest.raises(ActorNotFound, match="not in 0 snapshots of 'bank'; there is none"):
        Storage(store).table(view, actor="alice")


@pytest.mark.parametrize("view", ["systems", "log"])
def test_of_what_is_no_snapshot_none_is_selected(view: str, lives: Storage) -> None:
    with pytest.raises(ConfigError, match=f"the view '{view}' has no option 'asof'"):
        lives.table(view, as_of=3)


def test_an_actor_has_a_clock_and_a_digest_of_its_state() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    states = {"alice": {"balance": 1, "log": "x" * 100_000}, "bob": {"balance": 2}}
    flows = {AB: Flow(5, received=2), BA: Flow(7, received=3), ("driver:d", "alice"): Flow(4, received=4)}
    make_snapshot(repository, Bank(states=states, flows=flows, unborn=["carol"]), 1)
    make_snapshot(repository, Bank(states=states | {"bob": {"balance": 3}}, flows=flows, unborn=["carol"]), 2)
    rows = cells(Storage(store), "actors", "actor", "clock", "state_digest")
    assert [row[:2] for row in rows] == [("alice", 5 + 3 + 4), ("bob", 7 + 2), ("carol", 0)] * 2
    (alice, bob, carol), (same, other, _) = [[row[2] for row in rows[at : at + 3]] for at in (0, 3)]
    assert alice == same
    assert bob != other
    assert (len(alice), carol) == (64, None)


def test_lineage_says_how_each_cut_lies_to_the_one_before_it() -> None:
    store = MemoryStore()
    first = open_bank(store)
    flows = [{AB: Flow(n, received=m)} for n, m in ((1, 1), (5, 1), (4, 2), (4, 2))]
    for counter, flow in enumerate(flows, 1):
        made = make_snapshot(first, Bank(flows=flow), counter)
    make_snapshot(begin_life(store, "w2", made.id), Bank(flows=flows[0]), 1)
    names = ("snapshot", "other_snapshot", "relation", "actors_forward", "actors_back")
    c1, c2, c3, c4, life2 = (
        "1-coordinator-1",
        "1-coordinator-2",
        "1-coordinator-3",
        "1-coordinator-4",
        "2-coordinator-1",
    )
    storage = Storage(store)
    assert cells(storage, "lineage", *names) == [
        (c2, c1, "before", ["alice"], []),
        (c3, c2, "incomparable", ["bob"], ["alice"]),
        (c4, c3, "equal", [], []),
        (life2, c4, "other life", [], ["alice", "bob"]),
    ]
    assert cells(storage, "lineage", *names, snapshot=c1, from_=c3) == [(c1, c3, "after", [], ["alice", "bob"])]
    assert cells(storage, "lineage", *names, snapshots="3..4") == cells(storage, "lineage", *names)[1:3]
    with pytest.raises(SnapshotNotFound, match="no snapshot of 'bank' is older than 1-coordinator-1"):
        storage.table("lineage", snapshot=c1)
    with pytest.raises(ConfigError, match="say which one in 'snapshot' or 'asOf'"):
        storage.table("lineage", from_=c1)
    with pytest.raises(ConfigError, match="the option 'from' must be the id of a snapshot"):
        storage.table("lineage", from_="payday", snapshot=c1)


def test_what_the_log_and_the_manifests_say_needs_no_chunk(lives: Storage) -> None:
    store = lives.system()._store
    for entry in list(store.list("bank/chunks")):
        store.delete(entry.key)
    for view in ("systems", "log", "snapshots", "metrics", "actors", "channels", "lineage"):
        assert lives.table(view).to_arrow().num_rows > 0


def test_each_file_that_an_actor_wrote_outside_is_a_row_and_a_payload_without_files_too() -> None:
    store = MemoryStore("outside-view")
    bank = Bank(files={"alice": {"b": b"two", ".a": b""}, "bob": {}}, payload={"step": 3, "token": "geheim"})
    make_snapshot(open_bank(store), bank)
    storage, payload = Storage(store), '{"step": 3, "token": "<redacted>"}'
    folder = "memory://outside-view/bank/outside/1-coordinator-1"
    found = cells(storage, "outside", "snapshot", "actor", "payload", "file", "bytes", "folder")
    assert found == [
        ("1-coordinator-1", "alice", payload, ".a", 0, f"{folder}/alice"),
        ("1-coordinator-1", "alice", payload, "b", 3, f"{folder}/alice"),
        ("1-coordinator-1", "bob", payload, None, None, f"{folder}/bob"),
    ]
    assert [digest and len(digest) for (digest,) in cells(storage, "outside", "digest")] == [64, 64, None]
    assert len(cells(storage, "outside", "file", actor="bob")) == 1


def test_a_snapshot_without_anything_outside_has_no_row_of_it(lives: Storage) -> None:
    assert cells(lives, "outside", "actor") == []
