"""A DataFrame is a moment: what the log held at `load`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException

from rayshot.errors import LogLost, SnapshotDeleted
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
Table = Callable[..., Any]


@pytest.fixture(params=["false", "true"])
def pushdown(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """The test in a session without push-down, and in one with it."""
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, request.param)
    yield
    spark.conf.set(PUSHDOWN, before)


@pytest.fixture
def bank(tmp_path: Path) -> Repository:
    repository = open_bank(LocalStore(tmp_path / "shots"))
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, Bank(), 2)
    return repository


def ids(system: SystemView) -> list[str]:
    return [str(snapshot.id) for snapshot in system.snapshots()]


def test_a_system_as_of_a_moment_has_what_was_committed_and_not_deleted_by_then(bank: Repository) -> None:
    now = SystemView(bank.store, "bank")
    moment = now.as_of(now.log_end())
    assert (now.log_end(), ids(now.as_of(2)), ids(now.as_of(1))) == (3, ["1-coordinator-1"], [])
    make_snapshot(bank, Bank(), 3)
    delete_snapshot(bank.store, "bank", "1-coordinator-1")
    assert ids(now) == ["1-coordinator-2", "1-coordinator-3"]
    assert ids(moment) == ["1-coordinator-1", "1-coordinator-2"]
    assert str(moment.latest().id) == "1-coordinator-2"
    with pytest.raises(SnapshotDeleted, match="1-coordinator-1 of 'bank' was deleted"):
        _ = moment.snapshot("1-coordinator-1").manifest


def test_a_log_that_became_shorter_is_an_error(bank: Repository) -> None:
    with pytest.raises(LogLost, match="it had 9 records and has 3"):
        SystemView(bank.store, "bank").as_of(9).snapshots()


@pytest.mark.wide("slow")
@pytest.mark.spark
@pytest.mark.parametrize("view", ["snapshots", "channels"])
def test_a_frame_and_a_temp_view_stay_what_they_were_at_load(
    spark: Any, table: Table, tmp_path: Path, bank: Repository, pushdown: None, view: str
) -> None:
    frame = table(tmp_path / "shots", view)
    frame.createOrReplaceTempView("moment")
    rows = frame.count()
    make_snapshot(bank, Bank(), 3)
    for asked in (frame, spark.table("moment"), frame.filter("position > 0"), frame.filter("snapshot like '1-%'")):
        assert asked.count() == rows
    assert frame.filter("snapshot = '1-coordinator-3'").count() == 0
    assert table(tmp_path / "shots", view).count() == rows * 3 / 2


@pytest.mark.spark
def test_a_system_that_comes_later_changes_no_frame(table: Table, tmp_path: Path, bank: Repository) -> None:
    frame = table(tmp_path / "shots", "snapshots")
    make_snapshot(open_bank(LocalStore(tmp_path / "shots"), system="shop"))
    assert {row.system for row in frame.collect()} == {"bank"}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.spark
def test_a_frame_of_all_systems_stays_what_it_was_but_for_bytes(
    table: Table, tmp_path: Path, bank: Repository, pushdown: None
) -> None:
    shop = open_bank(LocalStore(tmp_path / "shots"), system="shop")
    frame = table(tmp_path / "shots", "systems").drop("bytes")
    earlier = table(tmp_path / "shots", "systems", logEnd="2", system="bank")
    opened = SystemView(bank.store, "bank").table("systems")
    rows = frame.collect()
    assert [(row.system, row.snapshots, row.lives) for row in rows] == [("bank", 2, 1), ("shop", 0, 1)]
    make_snapshot(bank, Bank(), 3)
    make_snapshot(shop)
    bank.log.begin_epoch(2, "w2")
    make_snapshot(open_bank(LocalStore(tmp_path / "shots"), system="another"))
    assert frame.collect() == rows
    assert [row.snapshots for row in earlier.collect()] == [1, 0]
    assert opened.to_arrow().column("snapshots").to_pylist() == [2, 0]
    assert table(tmp_path / "shots", "systems").count() == 3


@pytest.mark.spark
def test_the_end_of_a_log_is_of_one_system(table: Table, tmp_path: Path, bank: Repository) -> None:
    open_bank(LocalStore(tmp_path / "shots"), system="shop")
    with pytest.raises(AnalysisException, match="several systems; name one of bank, shop"):
        table(tmp_path / "shots", "systems", logEnd="2")


@pytest.mark.wide("slow")
@pytest.mark.spark
@pytest.mark.parametrize("view", ["snapshots", "actors", "state", "messages"])
def test_a_snapshot_that_is_deleted_after_load_is_an_error_and_never_fewer_rows(
    table: Table, tmp_path: Path, bank: Repository, pushdown: None, view: str
) -> None:
    frame = table(tmp_path / "shots", view)
    delete_snapshot(bank.store, "bank", "1-coordinator-1")
    for asked in (frame, frame.filter("position > 0")):
        with pytest.raises((AnalysisException, PythonException), match=r"SnapshotDeleted: .*1-coordinator-1"):
            asked.collect()
    assert {row.snapshot for row in table(tmp_path / "shots", view).collect()} == {"1-coordinator-2"}


@pytest.mark.spark
def test_several_frames_are_of_one_moment_by_the_end_of_the_log(table: Table, tmp_path: Path, bank: Repository) -> None:
    assert table(tmp_path / "shots", "snapshots", logEnd="2").count() == 1
    assert table(tmp_path / "shots", "channels", logEnd="2").count() == 2
    with pytest.raises(AnalysisException, match="'logEnd' must be a whole number from 0; it is '-1'"):
        table(tmp_path / "shots", "snapshots", logEnd="-1")
