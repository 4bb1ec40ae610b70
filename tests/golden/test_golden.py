"""Snapshots that were taken once and are kept: every version reads, proves and restores those of every format."""

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from click.testing import CliRunner

import rayshot
from rayshot.audit import prove
from rayshot.audit.replay import Replay
from rayshot.cli import main
from rayshot.keys.signing import SigningKey
from rayshot.simulation import SimulatedSystem
from tests.golden.release import KEY, storages
from tests.golden.workloads import Account

HERE = Path(__file__).parent
FORMATS = storages("format")
READER = HERE.parents[1] / "examples" / "read_snapshot.py"

pytestmark = pytest.mark.parametrize("kept", FORMATS)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY)


def payday(kept):
    """The labelled snapshot, the last one."""
    return rayshot.open(HERE / kept).system("bank").latest()


def run(*arguments):
    result = CliRunner(env={"COLUMNS": "120"}).invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_there_are_golden_files_and_their_log_names_two_snapshots(kept):
    first, last = rayshot.open(HERE / kept).system("bank").snapshots()
    assert (first.label, last.label) == (None, "payday")


@pytest.mark.wide("slow")
def test_every_byte_verifies_with_its_key_and_is_audited(kept):
    for snapshot in rayshot.open(HERE / kept).system("bank").snapshots():
        assert snapshot.verify([SigningKey(KEY.encode())]).trusted
    for options in ([], ["--read-data"], ["--subset", "1/2"], ["--subset", "2/2"]):
        assert run("verify", HERE / kept, *options).exit_code == 0
    findings = prove(payday(kept), rayshot.open(HERE / kept).system("bank").snapshots(), replay=True)
    assert {finding.name: finding.holds for finding in findings.findings} == dict.fromkeys(
        ("cut equation", "vector clocks", "theorem 1", "replay"), True
    )


def test_a_replay_by_another_version_of_the_class_is_not_judged(kept, monkeypatch):
    monkeypatch.setattr(Account, "__rayshot_options__", {"version": 3})
    findings = prove(payday(kept), rayshot.open(HERE / kept).system("bank").snapshots(), replay=True)
    replayed = findings.findings[-1]
    assert (replayed.name, replayed.holds) == ("replay", None)
    assert "version 2" in replayed.detail


def test_a_replay_migrates_the_state_that_it_starts_from_again(kept, monkeypatch):
    def migrate(state, from_version):
        return {**state, "heard": f"of version {from_version}"}

    monkeypatch.setattr(Account, "migrate", staticmethod(migrate), raising=False)
    first, last = rayshot.open(HERE / kept).system("bank").snapshots()
    older = [replace(actor, version=1) if actor.version == 2 else actor for actor in first.manifest.actors]
    first._kept = first.envelope, replace(first.manifest, actors=tuple(older))
    for base, heard in ((first, "of version 1"), (last, None)):
        replay = Replay("alice", last)
        with replay.at_work():
            assert replay.load(base) is (base is first)
        assert replay.cell.instance.heard == heard


def test_what_is_recorded_is_read_without_executing_it(kept):
    snapshot = payday(kept)
    alice, museum = snapshot.recorded("alice"), snapshot.state("museum")["things"]
    assert alice.state["balance"] == 94
    ((seconds, method, args),) = alice.timers
    assert (3000 < seconds < 3600, method, args) == (True, "deposit", (1,))
    assert list(alice.calls.values()) == [("on_balance", None, ("asked",))]
    if kept == "format-1":
        assert alice.callees is None  # it did not say yet whom a call is to
    else:
        assert [*alice.callees.values()] == ["bob"]
    assert [(m.number, m.kind, m.method) for m in snapshot.channel("alice", "bob").messages] == [
        (1, "call", "read"), (2, "tell", "deposit"), (3, "tell", "deposit"), (4, "tell", "deposit"),
    ]  # fmt: skip
    assert snapshot.actors["carol"].status == "unborn"
    assert [m.kind for m in snapshot.channel("alice", "carol").messages] == ["create", "tell"]
    np.testing.assert_array_equal(museum["array"], np.arange(20_000))
    assert (math.isnan(museum["nan"]), museum["big"]) == (True, 2**70)
    assert museum[1, "tuple"] == {1, 2}
    assert museum["shared"][0] is museum["shared"][1]
    assert museum["cycle"] is museum
    assert museum["empty"] == ([], {}, (), set(), "", b"", None)
    assert {actor.name: actor.version for actor in snapshot.manifest.actors} == {
        "alice": 2, "bob": 2, "carol": 2, "museum": 1,
    }  # fmt: skip


def test_the_commands_show_it(kept):
    shown = run("show", HERE / kept)
    assert shown.exit_code == 0
    assert "payday" in shown.stdout
    assert "payday" in run("list", HERE / kept).stdout
    assert run("diff", HERE / kept).exit_code == 1
    assert run("topology", HERE / kept).exit_code == 0
    assert run("replay", HERE / kept, "--steps", "3", "--json").exit_code == 0


def test_a_reader_without_rayshot_proves_it(kept):
    done = subprocess.run(
        [sys.executable, READER, HERE / kept, "bank"], capture_output=True, text=True, check=True, timeout=60, env={}
    )
    assert "alice -> bob  2: deposit(...)" in done.stdout
    assert "alice -> carol  1: create __init__(7)" in done.stdout
    assert "proved: a consistent cut of 4 actors" in done.stdout


@pytest.mark.acceptance("R1")
def test_all_states_and_messages_come_back_in_a_drill(kept):
    result = run("drill", HERE / kept)
    assert result.exit_code == 0, result.output
    assert "3 of 3 actors came back and the messages of 2 of 2" in result.stdout


@pytest.mark.acceptance("G28")
def test_it_goes_on_in_a_simulated_world(kept):
    world = SimulatedSystem.from_snapshot(payday(kept))
    things = world.actors["museum"].things
    assert things["objects"].tolist() == [None, "x", (1, 2)]
    assert things["view"].base is not None or things["view"].tolist() == list(range(10, 20))
    assert world.actors["museum"].method.__self__ is world.actors["museum"]
    assert things["cycle"] is things
    world.run(seconds=10)
    assert {name: world.actors[name].balance for name in ("alice", "bob", "carol")} == {
        "alice": 94, "bob": 106, "carol": 12,
    }  # fmt: skip
    assert world.actors["alice"].heard == (100, "asked")
    assert not world.dead_letters


@pytest.mark.ray
def test_it_is_restored_on_ray(cluster, kept, tmp_path, request):
    shutil.copytree(HERE / kept, tmp_path / "shots")
    system = rayshot.restore(storage=tmp_path / "shots")
    request.addfinalizer(system.shutdown)
    assert set(system.actors()) == {"alice", "bob", "carol", "museum"}
    assert ray.get(system.get_actor("carol").read.remote()) == 12
    while ray.get(system.get_actor("bob").read.remote()) != 106:
        pass
    system.snapshot().verify()
