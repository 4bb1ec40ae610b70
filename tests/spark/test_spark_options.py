from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from pyspark_rayshot.options import parse_options
from rayshot.analysis.planning import MANIFEST_COST_BYTES, SHARE_BYTES, SNAPSHOT_COST_BYTES, plan, read_items
from rayshot.errors import ActorNotFound, ConfigError, NotFound, SnapshotNotFound, SystemNotFound
from rayshot.places.local import LocalStore
from rayshot.places.store import Store
from rayshot.snapshots.snapshot import Snapshot
from tests.protocol.test_protocol_identity import NAMES
from tests.snapshots.snapshot_builder import Bank, Flow, committed, make_snapshot, open_bank

Table = Callable[..., Any]


def planned(storage: Path, **options: str) -> list[Any]:
    parsed = parse_options({"path": str(storage), **options})
    return plan(parsed.query, parsed.open_system())


def read(storage: Path, **options: str) -> list[tuple[Snapshot, Any]]:
    parsed = parse_options({"path": str(storage), **options})
    system = parsed.open_system()
    return [item for share in plan(parsed.query, system) for item in read_items(parsed.query, system, share.pieces)]


def lose_chunks(store: Store, doomed: Snapshot, *kept: Snapshot) -> None:
    shared = {chunk.key for snapshot in kept for chunk in snapshot.manifest.chunks}
    gone = {chunk.key for chunk in doomed.manifest.chunks} - shared
    assert gone
    for key in gone:
        store.delete(f"{doomed.system}/{key}")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"view": "chanels"}, "'view' must be one of .*snapshots, .*messages.*; it is 'chanels'"),
        ({"snapshot": "newest"}, "'snapshot' must be the id of a snapshot, like .* or 'latest'; it is 'newest'"),
        ({"system": "a/b"}, "'system' must be the name of a system; it is 'a/b'"),
        ({"view": "state", "actor": ""}, "'actor' must be the name of an actor; it is ''"),
        ({"view": "messages", "sender": "driver:"}, "'sender' must be the name of an actor, or a driver .*'driver:'"),
        ({"view": "state", "actr": "bob"}, "the view 'state' has no option 'actr' .*; it has path, .*, actor"),
        ({"actor": "bob"}, "the view 'snapshots' has no option 'actor'"),
        ({"view": "state", "actr": "bob"}, r"logEnd, startingSnapshot \(spark.readStream\), maxSnapshots"),
        ({"path": ""}, "'path' must be a storage"),
        ({"path": "memory://bank"}, "'path' must be a storage that Spark's worker processes can reach"),
    ],
)
def test_an_option_that_cannot_work_is_shown_with_what_is_expected(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_options({"path": "./shots", **options})


@pytest.mark.sampled("more cases of one kind", keeps=15)
@pytest.mark.acceptance("X3")
@pytest.mark.parametrize("name", NAMES)
def test_an_actor_of_any_name_is_found_by_it(name: str, tmp_path: Path) -> None:
    flows = {(name, "z"): Flow(sent=1), ("driver:main", name): Flow(sent=1)}
    make_snapshot(open_bank(LocalStore(tmp_path)), Bank(states={name: {"n": 1}, "z": {"n": 2}}, flows=flows))
    assert [entry.actor for _, entry in read(tmp_path, view="state", actor=name)] == [name]
    assert [entry.channel.receiver for _, entry in read(tmp_path, view="messages", sender=name)] == ["z"]
    assert [entry.sender for _, entry in read(tmp_path, view="channels", receiver=name)] == ["driver:main"]


def test_option_names_are_not_case_sensitive() -> None:
    assert parse_options({"path": "./shots", "View": "messages", "SENDER": "bob"}).query.entry == (("sender", "bob"),)


def test_what_is_not_there_is_refused_with_what_is(storage: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemNotFound, match="there is bank"):
        planned(storage, system="shop")
    with pytest.raises(SystemNotFound, match="there is no storage folder"):
        planned(tmp_path / "elsewhere")
    with pytest.raises(SnapshotNotFound, match="there is 1-coordinator-1, 1-coordinator-2"):
        planned(storage, snapshot="1-coordinator-9")
    with pytest.raises(ActorNotFound, match="actor 'zed', which is not in 2 snapshots of 'bank'; there is alice, bob"):
        planned(storage, view="state", actor="zed")
    with pytest.raises(NotFound, match=r"receiver 'zed', .* 1-coordinator-1 .*there is alice -> bob, driver:main"):
        planned(storage, view="messages", snapshot="1-coordinator-1", receiver="zed")
    with pytest.raises(NotFound, match="sender 'bob', receiver 'alice'"):
        planned(storage, view="channels", sender="bob", receiver="alice")


def test_one_of_several_systems_must_be_named(storage: Path) -> None:
    make_snapshot(open_bank(LocalStore(storage), system="shop"))
    with pytest.raises(ConfigError, match="several systems; name one of bank, shop"):
        planned(storage)
    assert [snapshot.system for snapshot, _ in read(storage, system="shop")] == ["shop"]


def test_an_actor_that_is_only_in_some_snapshots_is_read_from_those(storage: Path) -> None:
    found = read(storage, view="actors", actor="carol")
    assert [(str(snapshot.id), actor.name) for snapshot, actor in found] == [("1-coordinator-2", "carol")]


def test_a_system_without_snapshots_is_an_empty_table_and_has_no_latest(tmp_path: Path) -> None:
    open_bank(LocalStore(tmp_path))
    assert read(tmp_path, view="messages") == []
    with pytest.raises(SnapshotNotFound, match="no committed snapshot"):
        planned(tmp_path, snapshot="latest")


def test_many_small_snapshots_share_a_task_and_each_row_is_read_once(tmp_path: Path) -> None:
    repository = open_bank(LocalStore(tmp_path))
    for counter in range(1, 41):
        make_snapshot(repository, Bank(), counter)
    for view, count, cost in (
        ("snapshots", 40, MANIFEST_COST_BYTES),
        ("actors", 80, SNAPSHOT_COST_BYTES),
        ("messages", 120, SNAPSHOT_COST_BYTES),
    ):
        shares = planned(tmp_path, view=view)
        most = SHARE_BYTES // cost
        assert all(len(share.pieces) <= most for share in shares)
        assert len(shares) < 40 / 4
        assert len(read(tmp_path, view=view)) == count


def test_a_large_snapshot_is_cut_into_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = {f"a{number}": {"n": number, "text": "x" * number} for number in range(20)}
    make_snapshot(open_bank(LocalStore(tmp_path)), Bank(states=states, flows={}))
    monkeypatch.setattr("rayshot.analysis.planning.SHARE_BYTES", 1000)
    monkeypatch.setattr("rayshot.analysis.planning.SNAPSHOT_COST_BYTES", 100)
    shares = planned(tmp_path, view="state")
    assert len(shares) > 2
    assert [row.value for _, row in read(tmp_path, view="state") if row.attribute == "n"] == list(range(20))
    (alone,) = planned(tmp_path, view="state", actor="a13")
    assert [row.actor for _, row in read(tmp_path, view="state", actor="a13")] == ["a13", "a13"]
    assert len(alone.pieces) == 1


def test_nothing_of_snapshots_that_were_not_asked_for_is_read(storage: Path) -> None:
    store = LocalStore(storage)
    first, second = committed(store)
    lose_chunks(store, first, second)
    store.delete(f"bank/{first.record.manifest_key}")
    assert {row.actor for _, row in read(storage, view="state", snapshot="latest")} == {"alice", "bob"}
    assert len(read(storage, view="messages", snapshot="1-coordinator-2")) == 4
    assert len(read(storage, view="channels", snapshot="latest")) == 3


def test_nothing_of_other_actors_and_channels_is_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    states = {"alice": {"text": "a" * 100_000}, "bob": {"text": "b" * 100_000}}
    snapshot = make_snapshot(open_bank(store), Bank(states=states, flows={}))
    alice, bob = snapshot.manifest.actors
    assert alice.state is not None
    assert bob.state is not None
    lost = {span.chunk for span in alice.state.stream.spans} - {span.chunk for span in bob.state.stream.spans}
    for chunk in snapshot.manifest.chunks:
        if chunk.digest in lost:
            store.delete(f"bank/{chunk.key}")
    ((_, row),) = read(tmp_path, view="state", actor="bob")
    assert row.value == "b" * 100_000


@pytest.mark.spark
def test_options_prune_in_spark_too(table: Table, storage: Path) -> None:
    store = LocalStore(storage)
    first, second = committed(store)
    lose_chunks(store, first, second)
    assert table(storage, "state", snapshot="latest").count() == 9
    assert table(storage, "messages", snapshot="1-coordinator-2", receiver="carol").count() == 1


@pytest.mark.spark
def test_the_storage_may_be_given_as_an_option(spark: Any, storage: Path) -> None:
    assert spark.read.format("rayshot").option("path", str(storage)).load().count() == 2
    assert spark.read.format("rayshot").load(storage.as_uri()).count() == 2


@pytest.mark.spark
def test_errors_of_options_reach_the_user_of_spark(table: Table, storage: Path) -> None:
    with pytest.raises(
        AnalysisException, match=r"ConfigError: the option 'view' must be one of .*; it is 'everything'"
    ):
        table(storage, "everything")
    with pytest.raises(AnalysisException, match=r"SnapshotNotFound: .* there is 1-coordinator-1, 1-coordinator-2"):
        table(storage, "state", snapshot="7-coordinator-7").collect()
