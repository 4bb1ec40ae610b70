"""A sink into a real database, while the database goes away, comes back from a backup, or belongs to somebody else."""

import shutil
import sqlite3
from contextlib import closing

import pytest
import ray

import rayshot
from rayshot.errors import RestoreFailed, SinkAhead, SinkBehind, SinkTaken
from tests.runtime.healed import kill, until_it_runs, until_it_stops
from tests.runtime.sinking import Visits
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "visits.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE visits (n BIGINT)")
    return path


def visible(database):
    with closing(sqlite3.connect(database)) as db:
        return [n for (n,) in db.execute("SELECT n FROM visits ORDER BY rowid")]


def sink_into(database, *numbers):
    sink = Visits.options(name="visits").remote(f"sqlite:///{database}")
    if numbers:
        ray.get(sink.add.remote(*numbers))  # in flight, they would not be rows of the next snapshot
    return sink


def add(system, database, *numbers):
    """Rows that a snapshot holds, and that are visible."""
    ray.get(system.get_actor("visits").add.remote(*numbers))
    taken = system.snapshot()
    eventually(lambda: set(numbers) <= set(visible(database)))
    return taken


@pytest.mark.acceptance("W3")
def test_rows_wait_while_the_database_is_away_and_come_in_their_order(system, database):
    sink_into(database, 1)
    system.snapshot()
    eventually(lambda: visible(database) == [1])
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for number in (2, 3, 4):
            ray.get(system.get_actor("visits").add.remote(number))
            system.snapshot()
        eventually(lambda: "database is locked" in system.status().outside["visits"].trouble, 40)
        other.rollback()
    eventually(lambda: visible(database) == [1, 2, 3, 4], 40)
    assert not system.status().recoveries


@pytest.mark.acceptance("W3")
def test_a_sink_that_dies_while_the_database_is_away_goes_on_when_it_is_back(system, database):
    sink_into(database)
    add(system, database, 1)
    away = database.rename(database.with_suffix(".away"))
    database.mkdir()
    ray.get(system.get_actor("visits").add.remote(2))
    system.snapshot()
    kill(system, "visits")
    eventually(lambda: "unable to open" in str(system._client.answer(system._client.coordinator.status.remote(), 10)))
    database.rmdir()
    away.rename(database)
    until_it_runs(system)
    eventually(lambda: visible(database) == [1, 2])


@pytest.mark.acceptance("W4")
def test_a_database_from_a_backup_is_noticed_and_nothing_is_written_over_the_gap(system, database, tmp_path):
    sink_into(database)
    add(system, database, 1)
    shutil.copy(database, tmp_path / "backup.db")
    add(system, database, 2)
    last = add(system, database, 3)
    shutil.copy(tmp_path / "backup.db", database)
    kill(system, "visits")
    why = until_it_stops(system)
    assert "visits has batch 1" in why
    assert "of which" in why
    with pytest.raises(RestoreFailed, match=f"snapshot {last.id} says batch 3") as failed:
        rayshot.restore(storage=tmp_path / "shots")
    assert isinstance(failed.value.__cause__, SinkBehind)
    assert visible(database) == [1]
    with rayshot.restore(storage=tmp_path / "shots", snapshot=system.snapshots()[0].id) as back:
        add(back, database, 4)
    assert visible(database) == [1, 4]


@pytest.mark.acceptance("W4")
def test_an_older_snapshot_is_refused_with_those_that_fit_and_again_publishes_what_comes_behind_it(
    system, database, tmp_path
):
    sink_into(database)
    older = add(system, database, 1)
    newer = add(system, database, 2)
    system.shutdown()
    with pytest.raises(RestoreFailed, match=f"These snapshots know the batch: {newer.id}") as failed:
        rayshot.restore(storage=tmp_path / "shots", snapshot=older.id)
    assert isinstance(failed.value.__cause__, SinkAhead)
    with rayshot.restore(storage=tmp_path / "shots", snapshot=older.id, outside="again") as again:
        add(again, database, 3)
        kill(again, "visits")
        until_it_runs(again, life=4)
        add(again, database, 4)
    assert visible(database) == [1, 2, 3, 4]


@pytest.mark.acceptance("W6")
def test_a_copy_in_another_storage_has_the_table_only_if_a_person_says_so(system, database, tmp_path):
    sink_into(database)
    add(system, database, 1)
    system.shutdown()
    with pytest.raises(RestoreFailed, match="belongs to another run") as failed:
        rayshot.restore(storage=tmp_path / "shots", into=tmp_path / "other")
    assert isinstance(failed.value.__cause__, SinkTaken)
    with rayshot.restore(storage=tmp_path / "shots", into=tmp_path / "third", takeover=True) as copy:
        add(copy, database, 2)
    with pytest.raises(RestoreFailed, match="visits has batch 2"):
        rayshot.restore(storage=tmp_path / "shots")
    assert visible(database) == [1, 2]


def test_the_last_rows_of_a_sink_that_ends_and_of_a_system_that_restarts_are_visible(system, database):
    sink_into(database, 1)
    running = system.restart()
    assert visible(database) == [1]
    ray.get(running.get_actor("visits").add.remote(2))
    running.stop_with_savepoint("end")
    assert visible(database) == [1, 2]
    assert ray.is_initialized()
