"""Large snapshots in a lake: other processes write their rows, and nothing of it counts before its batch does."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot.lake import places, writing
from pyspark_rayshot.lake.parquet import ParquetLake
from pyspark_rayshot.lake.places import FORMATS
from pyspark_rayshot.lake.writing import open_lake
from rayshot.errors import Damaged, StoreFull, StoreUnavailable
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.spark.lake_oracle import assert_exact, ids, rows
from tests.spark.lake_workers import Forks, make_all_large


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    make_all_large(monkeypatch)


def write(system: SystemView, lake: Path, form: str = "parquet", *upto: int) -> Forks:
    workers = Forks()
    with open_lake(system, lake, form, workers=workers) as writer:
        for one in upto or (system.log_end(),):
            writer.write(one)
    return workers


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("form", FORMATS)
def test_what_others_write_is_what_the_driver_writes(system: SystemView, lake: Path, form: str) -> None:
    workers = write(system, lake, form, 2, 4)
    assert {part.table for part in workers.parts} == {"channels", "messages", "snapshots", "state_changes"}
    assert_exact(lake, system)
    alone = lake.with_name("alone")
    with open_lake(system, alone, form) as writer:
        writer.write(2)
        writer.write(4)
    for table in ("state_changes", "actors", "messages"):
        assert rows(lake, table) == rows(alone, table), table


def test_a_snapshot_of_less_than_a_few_shares_is_written_by_the_driver(
    system: SystemView, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LARGE_SHARES", 1 << 30)
    assert write(system, lake).parts == []
    assert_exact(lake, system)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("staged", ["kept", "lost"])
def test_a_batch_that_ends_between_two_of_its_files_is_written_once(
    system: SystemView, lake: Path, staged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, "parquet", 2)
    link = places.link_once

    def dying(file: Path, place: Path) -> None:
        if place.stem.isdigit() and place.parent.name == "messages":
            raise InterruptedError
        link(file, place)

    monkeypatch.setattr("pyspark_rayshot.lake.parquet.link_once", dying)
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        write(system, lake, "parquet", 4)
    assert [path for path in (lake / "messages").iterdir() if "4-" in path.stem]
    assert {row["log_index"] for row in rows(lake, "messages")} == {1, 2}
    monkeypatch.setattr("pyspark_rayshot.lake.parquet.link_once", link)
    if staged == "lost":
        shutil.rmtree(lake / ".staging")
    write(system, lake)
    assert_exact(lake, system)


def test_a_batch_that_lacks_a_file_of_another_process_is_damaged_before_a_table_takes_of_it(
    system: SystemView, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, "parquet", 2)

    def dying(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(ParquetLake, "commit", dying)
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        write(system, lake, "parquet", 4)
    monkeypatch.undo()
    part = min((lake / ".staging").glob("0*/messages-*.parquet"))
    part.rename(lake / "kept")
    with pytest.raises(Damaged, match="it is incomplete"):
        write(system, lake)
    (lake / "kept").rename(part)
    write(system, lake)
    assert_exact(lake, system)


def test_files_of_others_in_a_table_stay(system: SystemView, lake: Path) -> None:
    write(system, lake, "parquet", 2)
    other = lake / "messages" / "2026-11-24.parquet"
    other.write_bytes(b"mine")
    write(system, lake)
    assert other.read_bytes() == b"mine"
    assert_exact(lake, system)


@pytest.mark.wide("slow")
def test_an_error_of_another_process_keeps_its_type_and_nothing_of_the_batch_counts(
    bank: Repository, system: SystemView, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, "parquet", 2)
    before = rows(lake, "snapshots")
    chunks = [path for path in Path(str(bank.store.folder)).rglob("*") if path.is_file() and "chunk" in str(path)]
    newest = max(chunks, key=lambda path: path.stat().st_mtime_ns)
    kept = newest.read_bytes()
    newest.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(Damaged):
        write(system, lake)
    assert rows(lake, "snapshots") == before
    assert not list((lake / ".staging").glob("tmp-*"))
    newest.write_bytes(kept)
    write(system, lake)
    assert_exact(lake, system)


def test_a_full_disk_under_another_process_is_said_as_such(
    system: SystemView, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = os.getpid()
    fsync = os.fsync

    def full(handle: int) -> None:
        if os.getpid() != driver:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull, match="free some space"):
        write(system, lake)
    monkeypatch.setattr(os, "fsync", fsync)
    write(system, lake)
    assert_exact(lake, system)


def test_a_snapshot_that_goes_while_others_read_it_is_a_gap(
    bank: Repository, system: SystemView, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Forks.run

    def delete_first(self: Forks, task: Any, items: Sequence[Any]) -> list[Any]:
        if items[0].part.table == "state_changes" and "1-coordinator-3" in {str(s.id) for s in system.snapshots()}:
            delete_snapshot(bank.store, "bank", "1-coordinator-3")
            for path in Path(str(bank.store.folder)).rglob("*1-coordinator-3*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return run(self, task, items)

    monkeypatch.setattr(Forks, "run", delete_first)
    write(system, lake)
    assert ids(lake) == ["1-coordinator-1", "1-coordinator-2", "1-coordinator-4"]
    assert [row["snapshot"] for row in rows(lake, "gaps")] == ["1-coordinator-3"]
    assert_exact(lake, system)
