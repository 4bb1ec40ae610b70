"""What changed, where snapshots overlap, lives branch, peers end and copies come: by the actor's own clock."""

import random
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pyspark_rayshot.lake.history import history_sql
from pyspark_rayshot.lake.writing import open_lake
from rayshot.errors import StoreFull, StoreUnavailable
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank
from tests.snapshots.test_snapshots_full import disk, filled  # noqa: F401 - a fixture
from tests.spark.lake_oracle import assert_exact, assert_tells_states, ids, rows, told, view
from tests.spark.lake_workers import Forks, make_all_large

WORKERS: Forks | None = None
SEEN = ("actor", "attribute", "clock", "change", "seen_in", "value")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return open_bank(LocalStore(tmp_path / "shots"))


def take(repository: Repository, counter: int, done: int, **state: Any) -> None:
    """A snapshot of one actor that had processed so many messages of a driver."""
    flows = {("driver:main", "a"): Flow(sent=done, received=done)}
    make_snapshot(repository, Bank(states={"a": state}, flows=flows), counter)


@pytest.fixture(params=["driver", "executors"], autouse=True)
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "executors":
        monkeypatch.setattr(sys.modules[__name__], "WORKERS", Forks())
        make_all_large(monkeypatch)


def write(repository: Repository, lake: Path, *upto: int) -> SystemView:
    system = SystemView(repository.store, "bank")
    with open_lake(system, lake, "parquet", workers=WORKERS) as writer:
        for one in upto or (system.log_end(),):
            writer.write(one)
    return system


def history(lake: Path, **where: Any) -> list[tuple[Any, ...]]:
    """(life, attribute, value, valid_from, valid_to, ended_by), as DuckDB reads it."""
    tables = [f"read_parquet('{lake}/{table}/*.parquet')" for table in ("state_changes", "actors")]
    sql = history_sql(*tables)
    columns = "life, attribute, value, valid_from, valid_to, ended_by"
    return duckdb.sql(f"select {columns} from ({sql}) order by life, attribute, valid_from").fetchall()


@pytest.mark.sampled("more cases of one kind", keeps=3)
@pytest.mark.parametrize("batches", [(), (1, 2, 3, 4)])
def test_a_snapshot_that_comes_late_does_not_undo_what_was_seen_behind_it(
    repository: Repository, lake: Path, batches: tuple[int, ...]
) -> None:
    take(repository, 1, 10, x=1, y=0)
    take(repository, 2, 30, x=1, y=0)
    take(repository, 3, 40, x=3, y=0)
    take(repository, 4, 20, x=2, y=0, z=5)
    system = write(repository, lake, *batches)
    assert_exact(lake, system)
    late = [row for row in told(lake, *SEEN) if row[1] in "xz"]
    assert late == [
        ("a", "x", 10, "added", "1-coordinator-1", "1"),
        ("a", "x", 20, "changed", "1-coordinator-4", "2"),
        ("a", "z", 20, "added", "1-coordinator-4", "5"),
        ("a", "x", 30, "changed", "1-coordinator-2", "1"),
        ("a", "z", 30, "removed", "1-coordinator-2", None),
        ("a", "x", 40, "changed", "1-coordinator-3", "3"),
    ]
    assert history(lake) == [
        (1, "x", "1", 10, 20, "change"),
        (1, "x", "2", 20, 30, "change"),
        (1, "x", "1", 30, 40, "change"),
        (1, "x", "3", 40, None, None),
        (1, "y", "0", 10, None, None),
        (1, "z", "5", 20, 30, "change"),
    ]


def test_a_restore_from_an_older_snapshot_begins_a_branch_and_ends_what_the_old_life_had_open(
    repository: Repository, lake: Path
) -> None:
    take(repository, 1, 10, x=1, y=0)
    take(repository, 2, 20, x=2, y=0)
    repository.log.begin_epoch(2, "w2")
    repository.note_restore(SnapshotId.parse("1-coordinator-1"), None, claimed=True)
    take(repository, 1, 15, x=1, y=7)
    system = write(repository, lake)
    assert_exact(lake, system)
    assert [row[:4] + row[5:] for row in told(lake, *SEEN) if row[4].startswith("2-")] == [
        ("a", "x", 15, "restored", "1"),
        ("a", "y", 15, "changed", "7"),
    ]
    assert history(lake) == [
        (1, "x", "1", 10, 20, "change"),
        (1, "x", "2", 20, 20, "restore"),
        (1, "y", "0", 10, 20, "restore"),
        (2, "x", "1", 15, None, None),
        (2, "y", "7", 15, None, None),
    ]


def test_what_a_timer_changed_before_or_behind_the_snapshot_that_was_restored_is_told_by_the_order_of_the_log(
    repository: Repository, lake: Path
) -> None:
    take(repository, 1, 10, x=1, y=1)
    take(repository, 2, 10, x=2, y=1)
    take(repository, 3, 10, x=2, y=3)
    take(repository, 4, 5, x=0, y=0)
    repository.log.begin_epoch(2, "w2")
    repository.note_restore(SnapshotId.parse("1-coordinator-2"), None, claimed=True)
    take(repository, 1, 15, x=2, y=1)
    write(repository, lake)
    assert [row[1:4] for row in told(lake, *SEEN) if row[4].startswith("2-")] == [
        ("x", 15, "restored"),
        ("y", 15, "restored"),
    ]


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize(("before", "clocks"), [(4, [10, 4, 11]), (5, [10, 10, 11])])
def test_a_driver_that_is_not_listed_has_not_come_yet_where_another_count_is_lower_and_is_gone_else(
    repository: Repository, lake: Path, before: int, clocks: list[int]
) -> None:
    def see(counter: int, **told: int) -> None:
        flows = {(f"driver:{name}", "a"): Flow(sent=count, received=count) for name, count in told.items()}
        make_snapshot(repository, Bank(states={"a": {"x": counter}}, flows=flows), counter)

    see(1, main=5, late=5)
    see(2, main=before)
    see(3, main=6, late=5)
    write(repository, lake)
    moments = sorted(rows(lake, "actors"), key=lambda row: row["log_index"])
    assert [row["clock"] + row["gone"] for row in moments] == clocks
    assert history(lake)[-1][2:5] == ("3", 11, None)


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_a_value_lasts_until_its_actor_was_seen_last_before_its_end_or_a_restore(
    repository: Repository, lake: Path
) -> None:
    def see(counter: int, done: int, *, ended: bool = False) -> None:
        flows = {("driver:main", name): Flow(sent=done, received=done) for name in ("a", *([] if ended else "b"))}
        states = {"a": {"x": 1}} | ({} if ended else {"b": {"k": 1}})
        make_snapshot(repository, Bank(states=states, flows=flows, ended=["b"] if ended else []), counter)

    see(1, 20)
    see(2, 30)
    see(3, 40, ended=True)
    write(repository, lake)
    assert history(lake) == [(1, "k", "1", 20, 30, "end"), (1, "x", "1", 20, None, None)]
    repository.log.begin_epoch(2, "w2")
    repository.note_restore(SnapshotId.parse("1-coordinator-3"), None, claimed=True)
    see(1, 45, ended=True)
    write(repository, lake)
    assert history(lake) == [
        (1, "k", "1", 20, 30, "end"),
        (1, "x", "1", 20, 40, "restore"),
        (2, "x", "1", 45, None, None),
    ]


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_an_actor_that_ends_and_attributes_that_go_end_their_rows(repository: Repository, lake: Path) -> None:
    both = {("b", "a"): Flow(sent=5, received=5)}
    make_snapshot(repository, Bank(states={"a": {"x": 1, "y": 1}, "b": {"k": 1}}, flows=both), 1)
    flows = {("driver:main", "a"): Flow(sent=1, received=1)}
    make_snapshot(repository, Bank(states={"a": {"x": 1}}, flows=flows, ended=["b"]), 2)
    flows = {("driver:main", "a"): Flow(sent=2, received=2)}
    make_snapshot(repository, Bank(states={"a": {"x": 2}}, flows=flows, ended=["b"]), 3)
    system = write(repository, lake, 1, 3)
    assert_exact(lake, system)
    moments = [(row["log_index"], row["clock"], row["gone"]) for row in rows(lake, "actors") if row["actor"] == "a"]
    assert moments == [(1, 5, 0), (2, 1, 5), (3, 2, 5)], "a clock that fell with a peer would put 3 before 1"
    assert history(lake) == [
        (1, "k", "1", 5, 5, "end"),
        (1, "x", "1", 5, 7, "change"),
        (1, "x", "2", 7, None, None),
        (1, "y", "1", 5, 6, "change"),
    ]


def test_no_value_ends_before_it_begins_where_an_actor_is_seen_late_that_has_ended(
    repository: Repository, lake: Path
) -> None:
    def see(counter: int, initiator: str, done: int, ended: list[str], **state: int) -> None:
        flows = {("driver:main", "a"): Flow(sent=counter, received=counter)}
        if not ended:
            flows["driver:main", "b"] = Flow(sent=done, received=done)
        states: dict[str, Any] = {"a": {"y": 1}} | ({} if ended else {"b": state})
        make_snapshot(repository, Bank(states=states, flows=flows, ended=ended, initiator=initiator), counter)

    see(1, "coordinator", 5, [], x=1)
    see(2, "coordinator", 0, ["b"])
    see(1, "other", 8, [], x=2)
    write(repository, lake)
    of_x = [row for row in history(lake) if row[1] == "x"]
    assert of_x == [(1, "x", "1", 5, 8, "change"), (1, "x", "2", 8, 8, "end")]


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize("batches", [(), (1, 2, 3, 4)])
def test_what_an_actor_had_when_it_ended_is_told_also_where_it_is_seen_late_with_something_else(
    repository: Repository, lake: Path, batches: tuple[int, ...]
) -> None:
    def see(counter: int, initiator: str, ended: list[str], done: int = 0, **state: int) -> None:
        flows = {("driver:main", "a"): Flow(sent=counter, received=counter)}
        flows |= {} if ended else {("driver:main", "b"): Flow(sent=done, received=done)}
        states: dict[str, Any] = {"a": {"y": 1}} | ({} if ended else {"b": state})
        make_snapshot(repository, Bank(states=states, flows=flows, ended=ended, initiator=initiator), counter)

    see(1, "coordinator", [], 5, x=1)
    see(2, "coordinator", [], 8, x=1)
    see(3, "coordinator", ["b"])
    see(1, "other", [], 6, x=2)
    assert_exact(lake, write(repository, lake, *batches))
    assert [row for row in history(lake) if row[1] == "x"] == [
        (1, "x", "1", 5, 6, "change"),
        (1, "x", "2", 6, 8, "change"),
        (1, "x", "1", 8, 8, "end"),
    ]


def test_of_several_snapshots_at_one_clock_the_first_is_named_as_that_which_showed_what_came_back(
    repository: Repository, lake: Path
) -> None:
    take(repository, 1, 10, x=1)
    take(repository, 2, 30, x=1)
    take(repository, 3, 30, x=1)
    take(repository, 4, 20, x=2)
    assert_exact(lake, write(repository, lake))
    assert told(lake, *SEEN)[1:] == [
        ("a", "x", 20, "changed", "1-coordinator-4", "2"),
        ("a", "x", 30, "changed", "1-coordinator-2", "1"),
    ]


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_an_actor_that_ended_before_the_pipeline_was_started_again_does_not_end_a_second_time(
    repository: Repository, lake: Path
) -> None:
    def see(counter: int, *ended: str, initiator: str = "coordinator", **states: Any) -> None:
        flows = {("driver:main", name): Flow(sent=counter, received=counter) for name in states}
        make_snapshot(repository, Bank(states=states, flows=flows, ended=ended, initiator=initiator), counter)

    for counter in (1, 2, 3):
        see(counter, *([] if counter == 1 else ["b"]), a={"x": 1}, **({"b": {"k": 1}} if counter == 1 else {}))
        write(repository, lake)
    see(4, initiator="other", a={"x": 1}, b={"k": 1, "late": 2})
    assert_exact(lake, write(repository, lake))
    assert [row[1:5] for row in told(lake, *SEEN) if row[0] == "b"] == [
        ("k", 1, "added", "1-coordinator-1"),
        ("k", 1, "ended", "1-coordinator-2"),
        ("late", 4, "added", "1-other-4"),
        ("late", 4, "ended", "1-other-4"),
    ]


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_a_copy_has_its_own_place_in_the_log_and_one_that_comes_back_is_no_second(
    repository: Repository, lake: Path, tmp_path: Path
) -> None:
    for counter, done in ((1, 10), (2, 20), (3, 30)):
        take(repository, counter, done, x=done)
    store = LocalStore(tmp_path / "here")
    first, second, third = SystemView(repository.store, "bank").snapshots()
    copy_snapshot(repository.store, store, third)
    copy_snapshot(repository.store, store, first)
    here = Repository(store, "bank", create=False)
    system = write(here, lake)
    places = {row["snapshot"]: (row["log_index"], row["position"]) for row in rows(lake, "snapshots")}
    assert places == {str(third.id): (1, 3), str(first.id): (2, 1)}
    delete_snapshot(store, "bank", str(first.id))
    copy_snapshot(repository.store, store, first)
    copy_snapshot(repository.store, store, second)
    write(here, lake)
    assert ids(lake) == [str(third.id), str(first.id), str(second.id)]
    assert rows(lake, "gaps") == []
    assert_tells_states(lake, view(system, "state"))
    assert [entry[2:5] for entry in history(lake)] == [("10", 10, 20), ("20", 20, 30), ("30", 30, None)]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("batches", [(), range(12)])
def test_copies_of_another_run_whose_life_has_the_same_number_are_left_out(
    repository: Repository, lake: Path, tmp_path: Path, batches: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    other = open_bank(LocalStore(tmp_path / "other"), "w2")
    for counter, done in ((1, 10), (2, 20), (3, 30), (4, 40)):
        take(repository, counter, done, x=done)
        take(other, counter, done + 5, x=-done)
    own, foreign = SystemView(repository.store, "bank").snapshots(), SystemView(other.store, "bank").snapshots()
    backup = LocalStore(tmp_path / "backup")
    kept = copy_snapshot(repository.store, backup, own[2])
    for one in own[2:]:
        delete_snapshot(repository.store, "bank", str(one.id))
    for one in foreign[2:]:
        copy_snapshot(other.store, repository.store, one)
    delete_snapshot(repository.store, "bank", str(foreign[2].id))
    copy_snapshot(backup, repository.store, kept)
    write(repository, lake, *batches)
    assert ids(lake) == ["1-coordinator-1", "1-coordinator-2", "1-coordinator-3"]
    assert [entry[2:5] for entry in history(lake)] == [("10", 10, 20), ("20", 20, 30), ("30", 30, None)]
    assert rows(lake, "gaps") == []
    assert caplog.text.count("is of another run") == 2
    write(repository, lake)
    delete_snapshot(repository.store, "bank", "1-coordinator-4")
    write(repository, lake)
    assert rows(lake, "gaps") == []
    assert {row["snapshot"] for row in rows(lake, "actors")} == set(ids(lake))


def test_of_copies_of_two_runs_that_ran_elsewhere_those_that_contradict_the_first_are_left_out(
    repository: Repository, lake: Path, tmp_path: Path
) -> None:
    other, store = open_bank(LocalStore(tmp_path / "other"), "w2"), LocalStore(tmp_path / "here")
    for counter, done in ((1, 10), (2, 20), (3, 30)):
        take(repository, counter, done, x=done)
    for counter in (7, 8):
        take(other, counter, 25, x=-1)
    for one in SystemView(repository.store, "bank").snapshots()[1:]:
        copy_snapshot(repository.store, store, one)
    for one in SystemView(other.store, "bank").snapshots()[1:]:
        copy_snapshot(other.store, store, one)
    write(Repository(store, "bank", create=False), lake)
    assert ids(lake) == ["1-coordinator-2", "1-coordinator-3"]
    assert [entry[2:5] for entry in history(lake)] == [("20", 20, 30), ("30", 30, None)]


def test_a_hidden_value_is_one_row_and_is_not_shown(repository: Repository, lake: Path) -> None:
    take(repository, 1, 1, password="a")
    take(repository, 2, 2, password="b")
    write(repository, lake)
    assert told(lake, "attribute", "value", "value_string", "digest") == [("password", '"<redacted>"', None, None)]


@pytest.mark.sampled("more cases of one kind", keeps=5)
@pytest.mark.parametrize("room", [4 << 10, 16 << 10, 64 << 10])
def test_a_full_disk_is_an_error_that_leaves_what_is_there_and_goes_on_later(
    disk: Path,  # noqa: F811
    room: int,
) -> None:
    repository, lake = open_bank(LocalStore(disk / "shots")), disk / "lake"
    take(repository, 1, 1, x=1)
    write(repository, lake)
    before = {name: rows(lake, name) for name in ("snapshots", "state_changes", "channels")}
    take(repository, 2, 2, x=random.Random(1).randbytes(150_000).hex())
    with filled(disk, room), pytest.raises(StoreFull, match=r"no space in .*; the lake is undamaged"):
        write(repository, lake)
    assert {name: rows(lake, name) for name in before} == before
    assert_exact(lake, write(repository, lake))


def test_a_destination_that_cannot_be_written_says_so(repository: Repository, tmp_path: Path) -> None:
    take(repository, 1, 1, x=1)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        write(repository, tmp_path / "file" / "lake")
