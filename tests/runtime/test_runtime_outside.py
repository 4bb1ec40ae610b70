"""What actors fix outside belongs to the cut: rows of a table, and files of a trainer, on real Ray."""

from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError, OutsideConflict, OutsideFailed, RestoreFailed
from rayshot.keys.encryption import EncryptionKey
from tests.runtime.healed import kill, pid_of, until_it_runs, until_it_stops
from tests.runtime.outsiders import Odd, Trainer, Writer, rows
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture
def table(tmp_path):
    return tmp_path / "table"


def writer_of(table, *told):
    writer = Writer.options(name="writer").remote(str(table))
    for row in told:
        writer.write.tell(row)
    return writer


def test_rows_are_visible_when_a_snapshot_is_durable_and_not_before(system, table):
    writer = writer_of(table, 1, 2)
    ray.get(writer.read.remote())
    assert rows(table) == []
    taken = system.snapshot()
    eventually(lambda: rows(table) == [1, 2])
    assert taken.manifest.actors[0].outside.payload == '{"sequence":1}'


def test_a_killed_writer_publishes_each_row_once(system, table):
    writer = writer_of(table, 1, 2)
    system.snapshot()
    writer.write.tell(3)
    kill(system, "writer")
    until_it_runs(system)
    assert ["back", "1-coordinator-1", {"sequence": 1}, 2, "", False] in ray.get(writer.read.remote())
    system.snapshot()
    eventually(lambda: rows(table) == [1, 2, 3])


def test_the_files_of_a_snapshot_are_listed_and_come_back_whoever_was_killed(system, tmp_path):
    trainer = Trainer.options(name="trainer").remote(str(tmp_path))
    for _ in range(3):
        trainer.step.tell()
    taken = system.snapshot()
    (entry,) = taken.manifest.actors
    assert entry.outside.payload == '{"steps":3}'
    assert [(file.path, file.size) for file in entry.outside.files] == [("shard", 1)]
    trainer.step.tell()
    kill(system, "trainer")
    until_it_runs(system)
    eventually(lambda: ray.get(trainer.read.remote()) == 4)


def test_handlers_go_on_while_a_function_writes_and_it_hears_when_nobody_waits_any_more(new_system, tmp_path):
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=2))
    trainer = Trainer.options(name="trainer").remote(str(tmp_path))
    ray.get(trainer.read.remote())
    (tmp_path / "slow").touch()
    with pytest.raises(rayshot.errors.SnapshotAborted, match="not durable after 2 s"):
        system.snapshot()
    trainer.step.tell()
    assert ray.get(trainer.read.remote()) == 1
    eventually(lambda: (tmp_path / "cancelled").exists() and (tmp_path / "cancelled").read_text() == "True")
    (tmp_path / "slow").unlink()
    assert system.snapshot().manifest.actors[0].outside.payload == '{"steps":1}'


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("raise", r"Odd\.on_snapshot raised ValueError\('it does not want to'\) at outsiders\.py:\d+"),
        ("raise later", r"Odd\.on_snapshot raised ZeroDivisionError\('division by zero'\) at outsiders\.py:\d+"),
        ("not json", "on_snapshot gave no payload: Object of type set is not JSON"),
    ],
)
def test_a_hook_that_fails_costs_the_snapshot_and_nothing_else(system, what, why):
    odd = Odd.options(name="odd").remote()
    odd.do.tell(what)
    with pytest.raises(OutsideFailed, match=why) as failed:
        system.snapshot()
    assert failed.value.evidence["reason"] == "outside_failed"
    odd.do.tell("nothing")
    system.snapshot()


def test_a_hook_that_hangs_is_interrupted_when_the_system_goes_back(system):
    odd, neighbour = Odd.options(name="odd").remote(), Odd.options(name="neighbour").remote()
    ray.get([odd.read.remote(), neighbour.read.remote()])
    system.snapshot()
    before = pid_of(system, "odd")
    odd.do.tell("hang")
    with pytest.raises(rayshot.errors.SnapshotAborted, match="on_snapshot of 'odd' has run for"):
        system.configure(rayshot.SnapshotConfig(timeout_s=2))
        system.snapshot()
    kill(system, "neighbour")
    assert until_it_runs(system)["actors"]["odd"]["pid"] == before


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_what_a_hook_tells_is_sent_before_the_cut(system, table, mode):
    writer = writer_of(table)
    odd = Odd.options(name="odd").remote(writer)
    odd.do.tell("tell")
    ray.get(odd.read.remote())
    for number in range(1, 3):
        snapshot = system.snapshot(mode=mode)
        channel = next(one for one in snapshot.manifest.channels if (one.sender, one.receiver) == ("odd", "writer"))
        assert channel.sent == number
    system.snapshot()
    eventually(lambda: rows(table)[:2] == ["told by a hook"] * 2)


def test_a_table_that_is_away_keeps_nothing_from_running_and_status_says_who_is_behind(system, table):
    Path(f"{table}.refuses").touch()
    writer_of(table, 1)
    system.snapshot()
    eventually(lambda: "the table is away" in system.status().outside["writer"].trouble)
    system.snapshot()
    Path(f"{table}.refuses").unlink()
    eventually(lambda: rows(table) == [1])
    eventually(lambda: not system.status().outside)


def test_a_conflict_behind_a_commit_stops_the_system_and_says_why(system, table):
    Path(f"{table}.stops").touch()
    writer_of(table, 1)
    system.snapshot()
    assert "writer: another one has the table" in until_it_stops(system)


def test_a_conflict_refuses_a_restore(system, table, tmp_path):
    writer_of(table, 1)
    system.stop_with_savepoint("end")
    Path(f"{table}.conflicts").touch()
    with pytest.raises(RestoreFailed, match="more is there") as failed:
        rayshot.restore(storage=tmp_path / "shots")
    assert isinstance(failed.value.__cause__, OutsideConflict)


def test_an_actor_ends_behind_a_commit_that_holds_all_it_took(system, table):
    writer = writer_of(table, 1, 2)
    ray.get(writer.read.remote())
    writer.leave.tell()
    eventually(lambda: "writer" not in system.actors())
    assert rows(table) == [1, 2]


def test_a_stop_returns_when_all_is_visible(system, table):
    writer_of(table, 1, 2)
    system.stop_with_savepoint("end")
    assert rows(table) == [1, 2]


def test_a_look_touches_nothing_outside_and_takes_no_snapshots(system, table, tmp_path):
    writer_of(table, 1)
    system.stop_with_savepoint("end")
    Path(f"{table}.conflicts").touch()
    with rayshot.restore(storage=tmp_path / "shots", outside="leave") as look:
        assert [what for what, *_ in ray.get(look.get_actor("writer").read.remote())] == []
        with pytest.raises(ConfigError, match="it takes no snapshots"):
            look.snapshot()
        kill(look, "writer")
        until_it_runs(look, life=3)
        assert not look.status().outside
    Path(f"{table}.conflicts").unlink()
    with rayshot.restore(storage=tmp_path / "shots") as back:
        assert next(what for what, *_ in ray.get(back.get_actor("writer").read.remote())) == "back"


def test_what_a_person_said_holds_until_the_life_has_a_snapshot_of_its_own(system, table, tmp_path):
    writer_of(table, 1)
    system.stop_with_savepoint("end")
    with rayshot.restore(storage=tmp_path / "shots", outside="again", takeover=True) as back:
        writer = back.get_actor("writer")
        (first,) = [one for one in ray.get(writer.read.remote()) if one[0] == "back"]
        kill(back, "writer")
        until_it_runs(back, life=3)
        (second,) = [one for one in ray.get(writer.read.remote()) if one[0] == "back"]
        assert first[-2] == second[-2] != ""
        assert first[-1] is second[-1] is True
        back.snapshot()
        kill(back, "writer")
        eventually(lambda: len(back.status().recoveries) == 2)
        assert [one for one in ray.get(writer.read.remote()) if one[0] == "back"][-1][-2:] == ["", False]


def test_what_follows_from_the_snapshot_of_a_restore_is_done_when_all_are_loaded(system, table, tmp_path):
    Path(f"{table}.refuses").touch()
    writer_of(table, 1)
    taken = system.snapshot()
    eventually(lambda: "writer" in system.status().outside)
    system.shutdown()
    with rayshot.restore(storage=tmp_path / "shots") as back:
        eventually(lambda: back.status().outside["writer"].snapshot == taken.id)
        Path(f"{table}.refuses").unlink()
        eventually(lambda: not back.status().outside)
        assert rows(table) == [1]


def test_snapshots_that_are_encrypted_refuse_files_unless_the_class_says_that_they_may_be_plain(
    new_system, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", EncryptionKey(b"e" * 32).text)
    system = new_system()
    trainer = Trainer.options(name="trainer").remote(str(tmp_path))
    ray.get(trainer.read.remote())
    with pytest.raises(OutsideFailed, match="the snapshots of the system are encrypted"):
        system.snapshot()
    Trainer.options(name="open", outside="plain").remote(str(tmp_path))


def test_files_go_below_a_root_of_their_own_and_come_back_from_there(new_system, tmp_path):
    system = new_system(files=tmp_path / "ckpt")
    trainer = Trainer.options(name="trainer").remote(str(tmp_path))
    trainer.step.tell()
    taken = system.snapshot()
    (entry,) = taken.manifest.actors
    assert f"{tmp_path}/ckpt/" in entry.outside.root
    assert len(list((tmp_path / "ckpt").rglob("shard"))) == 1
    kill(system, "trainer")
    until_it_runs(system)
    assert ray.get(trainer.read.remote()) == 1
