"""A lake without Spark: each snapshot once, in three formats, whatever was there and whatever came between."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot.lake import staging, writing
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import FORMATS
from pyspark_rayshot.lake.writing import find_lake, open_lake
from rayshot.errors import ConfigError, Damaged, ForeignLake, LakeInUse, LogLost
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank
from tests.spark.lake_oracle import assert_exact, grow, ids, rows


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def write(system: SystemView, lake: Path, form: str = "parquet", *upto: int) -> Any:
    with open_lake(system, lake, form) as writer:
        for one in upto or (system.log_end(),):
            written = writer.write(one)
    return written


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_a_lake_has_each_row_of_the_views_once(system: SystemView, lake: Path, form: str) -> None:
    write(system, lake, form, 2, 2, 4)
    assert_exact(lake, system)
    write(system, lake, form)
    assert_exact(lake, system)
    changed = [(row["snapshot"], row["attribute"]) for row in rows(lake, "state_changes") if row["actor"] == "alice"]
    assert sorted(changed) == [
        ("1-coordinator-1", "balance"),
        ("1-coordinator-1", "name"),
        ("1-coordinator-2", "balance"),
        ("1-coordinator-4", "balance"),
    ]


@pytest.mark.sampled("more cases of one kind", keeps=2)
def test_a_batch_that_comes_again_cut_otherwise_is_written_once(system: SystemView, lake: Path, form: str) -> None:
    write(system, lake, form, 1, 3)
    write(system, lake, form, 2)
    write(system, lake, form, 4, 1, 4)
    assert_exact(lake, system)


@pytest.mark.sampled("more cases of one kind", keeps=3)
@pytest.mark.parametrize("table", TABLES)
def test_a_batch_torn_at_any_table_is_carried_over_though_its_snapshots_are_deleted(
    bank: Repository, system: SystemView, lake: Path, form: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lake.with_name("whole")
    write(system, whole, form, 2, 4)
    write(system, lake, form, 2)
    _stop_before(table, form, monkeypatch)
    with pytest.raises(InterruptedError):
        write(system, lake, form, 4)
    monkeypatch.undo()
    for counter in (3, 4):
        delete_snapshot(bank.store, "bank", f"1-coordinator-{counter}")
    write(system, lake, form)
    for name in TABLES:
        assert rows(lake, name) == rows(whole, name)


def _stop_before(table: str, form: str, patch: pytest.MonkeyPatch) -> None:
    """Have the process die before it commits that table; a real kill is in test_spark_pipeline.py."""
    kind = writing._destination(form)
    commit = kind.commit

    def dying(self: Any, name: str, *rest: Any) -> None:
        if name == table:
            raise InterruptedError
        commit(self, name, *rest)

    patch.setattr(kind, "commit", dying)
    patch.setattr(writing, "disk_errors", _no_translation)


class _no_translation:
    def __init__(self, folder: Path) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@pytest.mark.sampled("more cases of one kind", keeps=2)
def test_a_torn_batch_whose_files_aside_are_gone_is_read_anew(
    system: SystemView, lake: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, form, 2)
    _stop_before("state_changes", form, monkeypatch)
    with pytest.raises(InterruptedError):
        write(system, lake, form, 4)
    monkeypatch.undo()
    shutil.rmtree(lake / ".staging")
    write(system, lake, form)
    assert_exact(lake, system)


def test_a_file_half_written_aside_is_thrown_away(system: SystemView, lake: Path) -> None:
    write(system, lake, "parquet", 2)
    half = lake / ".staging" / "tmp-1234"
    half.mkdir()
    (half / "messages.parquet").write_bytes(b"PAR1")
    write(system, lake)
    assert not half.exists()
    assert_exact(lake, system)


def test_what_was_deleted_before_it_was_read_is_a_gap_and_what_was_deleted_before_all_is_none(
    bank: Repository, system: SystemView, lake: Path, form: str
) -> None:
    delete_snapshot(bank.store, "bank", "1-coordinator-1")
    write(system, lake, form, 2)
    delete_snapshot(bank.store, "bank", "1-coordinator-3")
    written = write(system, lake, form)
    assert (written.snapshots, written.gaps) == (1, 1)
    assert [(row["snapshot"], row["log_index"]) for row in rows(lake, "gaps")] == [("1-coordinator-3", 3)]
    assert ids(lake) == ["1-coordinator-2", "1-coordinator-4"]
    delete_snapshot(bank.store, "bank", "1-coordinator-4")
    assert write(system, lake, form) == (0, 0, 0)
    assert len(rows(lake, "gaps")) == 1


def test_a_snapshot_that_is_lost_comes_back_and_is_lost_again_is_one_gap_also_if_it_is_read_later(
    bank: Repository, system: SystemView, lake: Path, form: str, tmp_path: Path
) -> None:
    backup = LocalStore(tmp_path / "backup")
    lost = copy_snapshot(bank.store, backup, system.snapshot("1-coordinator-3"))
    write(system, lake, form, 2)
    for counter in (5, 6):
        delete_snapshot(bank.store, "bank", str(lost.id))
        grow(bank, counter)
        write(system, lake, form)
        copy_snapshot(backup, bank.store, lost)
        assert [row["snapshot"] for row in rows(lake, "gaps")] == [str(lost.id)]
    assert str(lost.id) not in ids(lake)
    with open_lake(system, lake, form) as writer:
        writer.write(system.log_end())
        delete_snapshot(bank.store, "bank", str(lost.id))
        assert writer.write(system.log_end()) == (0, 0, 0)
    assert [(row["snapshot"], row["log_index"]) for row in rows(lake, "gaps")] == [(str(lost.id), 3)]
    assert ids(lake)[-1] == str(lost.id)


def test_a_gap_whose_batch_was_torn_and_is_read_anew_is_one_row(
    bank: Repository, system: SystemView, lake: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, form, 2)
    delete_snapshot(bank.store, "bank", "1-coordinator-3")
    _stop_before("snapshots", form, monkeypatch)
    with pytest.raises(InterruptedError):
        write(system, lake, form, 4)
    monkeypatch.undo()
    shutil.rmtree(lake / ".staging")
    grow(bank, 5)
    write(system, lake, form)
    assert [row["snapshot"] for row in rows(lake, "gaps")] == ["1-coordinator-3"]
    assert_exact(lake, system)


def test_a_snapshot_that_goes_while_it_is_read_is_a_gap(
    bank: Repository, system: SystemView, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = staging.Staging.add

    def delete_then_add(self: Any, table: str, batches: Any) -> None:
        if table == "state_changes" and "1-coordinator-3" in {str(s.id) for s in system.snapshots()}:
            delete_snapshot(bank.store, "bank", "1-coordinator-3")
            for path in (Path(str(bank.store.folder)) / "bank").rglob("*"):
                if path.is_file() and "1-coordinator-3" in str(path):
                    path.unlink()
        add(self, table, batches)

    monkeypatch.setattr(staging.Staging, "add", delete_then_add)
    write(system, lake)
    assert ids(lake) == ["1-coordinator-1", "1-coordinator-2", "1-coordinator-4"]
    assert [row["snapshot"] for row in rows(lake, "gaps")] == ["1-coordinator-3"]
    assert "1-coordinator-3" not in {row["snapshot"] for row in rows(lake, "messages")}


def test_two_pipelines_at_once_are_refused(system: SystemView, lake: Path) -> None:
    with open_lake(system, lake, "parquet"), pytest.raises(LakeInUse, match="another pipeline writes into"):
        write(system, lake)


@pytest.mark.sampled("more cases of one kind", keeps=1)
def test_a_pipeline_that_another_overtook_without_a_lock_writes_nothing(
    system: SystemView, lake: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, lake, form, 2)
    kind = writing._destination(form)
    last = kind.last
    stale = {table: find_lake(lake).last(table) for table in TABLES}
    open_table = getattr(kind, "_open", None)
    old = None if open_table is None else {table: open_table(find_lake(lake), table) for table in TABLES}
    write(system, lake, form, 4)
    before = {table: rows(lake, table) for table in TABLES}
    with open_lake(system, lake, form) as writer:
        monkeypatch.setattr(kind, "last", lambda _, table: stale[table])
        if old is not None:
            monkeypatch.setattr(kind, "_open", lambda _, table: old[table])
        with pytest.raises(LakeInUse, match="another pipeline writes into"):
            writer.write(4)
    monkeypatch.setattr(kind, "last", last)
    monkeypatch.undo()
    shutil.rmtree(lake / ".staging")
    assert {table: rows(lake, table) for table in TABLES} == before


def test_a_lake_of_another_system_or_storage_is_refused_and_both_are_named(
    system: SystemView, lake: Path, tmp_path: Path
) -> None:
    write(system, lake)
    for place, name in (("shots", "shop"), ("others", "bank")):
        other = open_bank(LocalStore(tmp_path / place), system=name)
        with pytest.raises(ForeignLake, match=rf"'bank' in .*shots, and these are of '{name}' in .*{place}"):
            write(SystemView(other.store, name), lake)
    with pytest.raises(ConfigError, match="is a lake of parquet, and delta was asked for"):
        write(system, lake, "delta")
    assert_exact(lake, system)


def test_a_folder_with_other_files_and_one_whose_log_was_put_back_are_refused(
    bank: Repository, system: SystemView, lake: Path, tmp_path: Path
) -> None:
    lake.mkdir()
    (lake / "thesis.tex").touch()
    with pytest.raises(ForeignLake, match=r"holds thesis.tex and no lake.json"):
        write(system, lake)
    (lake / "thesis.tex").unlink()
    write(system, lake)
    shutil.rmtree(tmp_path / "shots")
    anew = open_bank(LocalStore(tmp_path / "shots"))
    make_snapshot(anew, Bank(), 1)
    with pytest.raises(LogLost, match="1-coordinator-4"):
        write(SystemView(anew.store, "bank"), lake)
    for counter in (7, 8, 9):
        make_snapshot(anew, Bank(), counter)
    with pytest.raises(ForeignLake, match=r"has 1-coordinator-4 from record 4.*of 1-coordinator-9"):
        write(SystemView(anew.store, "bank"), lake)


def test_another_log_with_the_same_ids_at_the_same_places_is_refused(
    system: SystemView, lake: Path, tmp_path: Path
) -> None:
    write(system, lake)
    before = {table: rows(lake, table) for table in TABLES}
    shutil.rmtree(tmp_path / "shots")
    anew = open_bank(LocalStore(tmp_path / "shots"), "another")
    for counter in (1, 2, 3, 4, 5):
        grow(anew, counter)
    with pytest.raises(ForeignLake, match="whose record 4 was another one"):
        write(SystemView(anew.store, "bank"), lake)
    assert {table: rows(lake, table) for table in TABLES} == before


@pytest.mark.parametrize("snapshots", [3, 4, 5, 7])
def test_a_storage_that_is_replaced_while_the_pipeline_runs_is_told_before_anything_of_it_is_written(
    system: SystemView, lake: Path, tmp_path: Path, snapshots: int
) -> None:
    with open_lake(system, lake, "parquet") as writer:
        writer.write(system.log_end())
        before = {table: rows(lake, table) for table in TABLES}
        shutil.rmtree(tmp_path / "shots")
        anew = open_bank(LocalStore(tmp_path / "shots"), "another")
        for counter in range(1, snapshots + 1):
            grow(anew, counter)
        with pytest.raises((ForeignLake, LogLost), match=r"whose record 4 was another one|had a record 4"):
            writer.write(snapshots)
    assert {table: rows(lake, table) for table in TABLES} == before


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize("name", ["a b", "Käse", "a#b", "a?b", "a%20b", "a+b"])
def test_a_path_is_taken_as_it_is_or_refused(bank: Repository, tmp_path: Path, form: str, name: str) -> None:
    system, lake = SystemView(bank.store, "bank"), tmp_path / "lakes" / name
    if set(name) & set("*?[]{}\\\n" + {"parquet": "", "delta": "%", "iceberg": "#%"}[form]):
        with pytest.raises(ConfigError, match=f"a lake of {form} cannot be in .*give another folder"):
            write(system, lake, form)
        assert not lake.parent.exists()
        return
    write(system, lake, form, 2)
    write(system, lake, form)
    assert_exact(lake, system)
    assert [path.name for path in lake.parent.iterdir()] == [name]


def test_a_table_whose_files_were_removed_is_refused(system: SystemView, lake: Path) -> None:
    write(system, lake)
    shutil.rmtree(lake / "messages")
    with pytest.raises(Damaged, match=r"snapshots up to record 4 of the log, and messages has less: .*put them back"):
        write(system, lake)


def test_an_unknown_format_says_which_there_are(system: SystemView, lake: Path) -> None:
    with pytest.raises(ConfigError, match="one of parquet, delta, iceberg; it is 'orc'"):
        write(system, lake, "orc")
