"""The commands that reach a system which runs: what they print, and the codes with which they end."""

import json
import os
import signal
import threading
import time

import pytest
import ray
from click.testing import CliRunner

import rayshot
from rayshot.cli import main
from rayshot.runtime.door.cluster import connected_to
from tests.runtime.healed import STOPS
from tests.runtime.workloads import Account, Sluggish
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture(autouse=True)
def unread(monkeypatch):
    """Whoever reaches a system may not be able to read its storage."""

    def read(_):
        raise AssertionError("a storage was opened")

    monkeypatch.setattr("rayshot.runtime.opening.system.open_store", read)
    monkeypatch.setattr("rayshot.runtime.opening.system.open_storage", read)
    monkeypatch.delenv("RAYSHOT_SYSTEM", raising=False)


@pytest.fixture
def bank(new_system):
    system = new_system("bank")
    ray.get(Account.options(name="alice").remote(7).read.remote())
    return system


def run(*arguments, code=0):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


def document(*arguments, code=0):
    (line,) = run(*arguments, "--json", code=code).stdout.splitlines()
    return json.loads(line)


def works(system):
    return any(actor.handler == "work" for actor in system.status().actors.values())


def test_a_snapshot_is_told_in_one_line(bank):
    taken = document("snapshot")
    seconds, size = taken.pop("seconds"), taken.pop("bytes")
    assert seconds > 0
    assert size > 0
    assert taken == {
        "system": "bank",
        "life": 1,
        "storage": bank.storage,
        "snapshot": "1-coordinator-1",
        "position": 1,
        "label": None,
        "in_flight": 0,
    }
    labelled = document("savepoint", "bank", "before the move", "--mode", "aligned")
    assert (labelled["snapshot"], labelled["label"]) == ("1-aligned-2", "before the move")
    printed = run("savepoint", "again").stdout
    assert printed.startswith("1-coordinator-3  again  position 3  ")
    assert " 0 in flight  " in printed


def test_the_variable_stands_for_the_name(bank, new_system, monkeypatch):
    new_system("shop")
    run("snapshot", code=2)
    monkeypatch.setenv("RAYSHOT_SYSTEM", bank.name)
    assert document("snapshot")["system"] == "bank"
    assert document("savepoint", "mine")["system"] == "bank"
    assert document("status", "shop")["system"] == "shop"
    assert {(one["system"], one["state"]) for one in document("systems")["systems"]} == {
        ("bank", "running"),
        ("shop", "running"),
    }


def test_the_configuration_changes_only_in_what_is_given(bank):
    bank.configure(rayshot.SnapshotConfig(timeout_s=77))
    changed = document("configure", "bank", "--interval", "30s", "--keep", 3)
    assert changed["was"] == {"interval_s": None, "keep": None}
    assert (changed["interval_s"], changed["keep"]) == (30, 3)
    assert bank.config() == rayshot.SnapshotConfig(timeout_s=77, interval_s=30, num_to_keep=3)
    for text, seconds in (("250ms", 0.25), ("5m", 300), ("1h", 3600), ("2d", 172800), ("30", 30)):
        assert document("configure", "--interval", text)["interval_s"] == seconds
    printed = run("configure", "--keep", "all").stdout
    assert printed == "bank: every 30 s, the last 3 kept -> every 30 s, all kept\n"


@pytest.mark.sampled("more cases of one kind", keeps=4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["configure"], "say --interval, --keep or both"),
        (["configure", "--interval", "soon"], "--interval 'soon': give a number and a unit, such as 30s"),
        (["configure", "--interval", "0s"], "interval_s"),
        (["configure", "--keep", "some"], "--keep 'some': give a whole number, or `all`"),
        (["configure", "--keep", "9" * 5000], "give a whole number, or `all`"),
        (["snapshot", "--timeout", "nan"], "'nan' is not a number of seconds"),
        (["status", "--wait", "stopped", "--timeout", "nan"], "'nan' is not a number of seconds"),
        (["stop"], "say --savepoint LABEL, or --without-savepoint"),
        (["stop", "--savepoint", "x", "--without-savepoint"], "say --savepoint LABEL, or --without-savepoint"),
        (["savepoint", "bank", "two", "three"], "give a name and a label"),
        (["savepoint", ""], "the label '' of a savepoint"),
        (["stop", "--savepoint", ""], "the label '' of a savepoint"),
    ],
)
def test_what_cannot_be_is_wrong_use_and_nothing_was_done(bank, arguments, words):
    assert words in run(*arguments, code=2).output
    assert bank.status().state == "running"
    assert bank.status().last_snapshot is None


def test_no_such_system_lists_what_runs_and_where(bank):
    done = run("snapshot", "bnak", code=10)
    assert f"no system 'bnak' runs in the Ray cluster at {connected_to()}; there run bank" in done.stderr
    assert document("stop", "bnak", "--without-savepoint", code=10)["error"]["kind"] == "system_not_found"


def test_stopping_ends_with_how_to_go_on(bank):
    first, last = run("stop", "bank", "--savepoint", "the night").stdout.splitlines()
    assert first.startswith("1-stopped-1  the night  position 1")
    assert last == f"it goes on from 1-stopped-1 with rayshot.resume('bank', storage={bank.storage!r}, begin=...)"
    run("status", "bank", code=10)
    assert run("status", "bank", "--wait", "stopped").output == ""


def test_stopping_without_a_savepoint_names_the_last_snapshot(bank):
    taken = document("snapshot")["snapshot"]
    assert document("stop", "--without-savepoint") == {
        "system": "bank",
        "life": 1,
        "storage": bank.storage,
        "snapshot": taken,
        "label": None,
    }


def test_a_snapshot_that_is_aborted_says_why(new_system):
    system = new_system("bank", snapshots=rayshot.SnapshotConfig(timeout_s=0.5))
    sleeper = Sluggish.options(name="sleeper").remote(0)
    sleeper.work.tell(3)
    eventually(lambda: works(system))
    error = document("snapshot", code=21)["error"]
    assert (error["kind"], error["reason"]) == ("snapshot_aborted", "timeout")
    assert "not recorded: sleeper" in error["message"]
    assert error["message"].endswith(f"(Ray cluster at {connected_to()})")


@pytest.mark.wide("slow")
def test_status_says_whom_a_snapshot_waits_for_and_who_waits_no_longer(new_system):
    system = new_system("bank")
    sleeper = Sluggish.options(name="sleeper").remote(0)
    sleeper.work.tell(6)
    eventually(lambda: works(system))
    error = document("snapshot", "--timeout", 0.5, code=23)["error"]
    assert error["kind"] == "no_answer"
    assert "may still be committed" in error["message"]
    found = document("status")
    (under_way,) = found["under_way"]
    assert (under_way["missing"], under_way["handlers"]["sleeper"]["method"]) == (["sleeper"], "work")
    assert found["actors"]["sleeper"]["handler"] == "work"
    lines = run("status").stdout.splitlines()
    assert lines[0] == f"bank  running  life 1  in the cluster at {connected_to()}"
    assert "0 of 1 recorded, waits for sleeper (in work for" in " ".join(" ".join(lines).split())
    assert any(line.startswith(" sleeper ") and "work, " in line for line in lines)
    eventually(lambda: document("status")["snapshot"] == under_way["snapshot"], 20)


def test_a_system_that_is_stopped_is_shown_and_takes_nothing(new_system):
    bank = new_system("bank", failure=STOPS)
    ray.get(Account.options(name="alice").remote(7).read.remote())
    os.kill(bank.status().actors["alice"].pid, signal.SIGKILL)
    eventually(lambda: bank.status().state == "stopped", 10)
    found = document("status", code=22)
    assert found["state"] == "stopped"
    assert "actor 'alice' of system 'bank' died" in found["detail"]
    assert "actor 'alice' of system 'bank' died" in " ".join(run("status", code=22).stdout.split())
    for command in (["snapshot"], ["savepoint", "x"], ["stop", "--savepoint", "x"], ["configure", "--keep", 1]):
        assert document(*command, code=22)["error"]["kind"] == "system_stopped"
    assert document("status", "--wait", "running", "--timeout", 0, code=23)["error"]["kind"] == "no_answer"
    run("status", "--wait", "stopped")
    run("stop", "--without-savepoint")
    run("status", code=10)


def test_a_system_that_begins_is_shown_and_waited_for(new_system, tmp_path, monkeypatch):
    monkeypatch.undo()
    go, begun = threading.Event(), threading.Event()

    def begin(_system):
        Account.options(name="alice").remote(7)
        begun.set()
        go.wait(60)

    def resume():
        new_system.made.append(rayshot.resume("bank", storage=tmp_path / "shots", begin=begin))

    thread = threading.Thread(target=resume)
    thread.start()
    try:
        assert begun.wait(60)
        assert document("status", code=22)["state"] == "beginning"
        error = document("snapshot", code=22)["error"]
        assert error["kind"] == "not_ready"
        assert "rayshot status bank --wait running" in error["message"]
        threading.Timer(1.5, go.set).start()
        assert document("status", "--wait", "running", "--timeout", 60)["state"] == "running"
    finally:
        go.set()
        thread.join(60)


def test_commands_outlive_a_coordinator(bank):
    run("snapshot")
    os.kill(coordinator_of(bank), signal.SIGKILL)
    assert document("status", "--wait", "running", "--timeout", 60)["snapshot"] == "1-coordinator-1"
    assert document("snapshot")["snapshot"] == "1-coordinator-2"


@pytest.mark.wide("slow")
def test_a_coordinator_that_hangs_keeps_nobody_waiting_who_has_said_how_long(bank):
    process = coordinator_of(bank)
    os.kill(process, signal.SIGSTOP)
    try:
        for command in (["snapshot"], ["stop", "--savepoint", "x"], ["status", "--wait", "stopped"]):
            began = time.monotonic()
            assert document(*command, "--timeout", 1, code=23)["error"]["kind"] == "no_answer"
            assert time.monotonic() - began < 15  # 30 s are for whoever has said nothing
        (listed,) = document("systems")["systems"]
        assert (listed["system"], listed["state"], listed["life"]) == ("bank", "silent", None)
    finally:
        os.kill(process, signal.SIGCONT)
    assert document("status")["state"] == "running"


def coordinator_of(system):
    return ray.get(system._client.coordinator.__ray_call__.remote(lambda _: os.getpid()))
