"""`rayshot copy`, `delete` and `gc`, as scripts and people use them."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rayshot.cli import main
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import KEY, Bank, large, make_manifest, make_snapshot, open_bank


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY_FILE", raising=False)


def run(*arguments: object, says: str | None = None) -> Result:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, [str(argument) for argument in arguments], input=says)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def bank_with_garbage(folder: Path, age_s: float = 7200.0) -> None:
    repository = open_bank(LocalStore(folder))
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, Bank(label="payday"), 2)
    make_manifest(repository, Bank(states={"alice": {"n": large("lost")}}), 3)
    long_ago = time.time() - age_s
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))


def test_gc_marks_then_removes_and_says_how_much(tmp_path: Path) -> None:
    bank_with_garbage(tmp_path)
    assert json.loads(run("gc", tmp_path, "--dry-run", "--json").stdout)["expired"] == ["1-coordinator-3"]
    first = run("gc", tmp_path)
    assert first.exit_code == 0
    assert "what is marked goes at the next pass" in first.stdout
    assert "given up: 1-coordinator-3" in first.stdout
    dry = json.loads(run("gc", tmp_path, "--dry-run", "--json").stdout)
    second = json.loads(run("gc", tmp_path, "--json").stdout)
    assert dry["total"] == second["total"]
    assert second["total"]["removed"]["count"] == 2
    assert second["objects"]["chunks"]["removed"]["bytes"] > 0
    third = run("gc", tmp_path)
    assert third.stdout.splitlines()[0].startswith("bank")
    assert [line.split()[0] for line in third.stdout.splitlines()[4:9]] == [
        "chunks",
        "intents",
        "log",
        "manifests",
        "all",
    ]
    assert run("verify", tmp_path).exit_code == 0


def test_gc_leaves_alone_what_is_young_and_refuses_an_age_below_a_time_out(tmp_path: Path) -> None:
    bank_with_garbage(tmp_path, age_s=100.0)
    for _ in range(2):
        assert json.loads(run("gc", tmp_path, "--json").stdout)["total"]["removed"]["count"] == 0
    assert json.loads(run("gc", tmp_path, "--min-age", 50, "--json").stdout)["expired"] == ["1-coordinator-3"]
    repository = open_bank(LocalStore(tmp_path), "w2")
    repository.intend(SnapshotId(2, "coordinator", 1), None, 60.0)
    refused = run("gc", tmp_path, "--min-age", 50)
    assert refused.exit_code == 2
    assert "a minimum age of 50 s is below the 60 s that snapshot 2-coordinator-1 may take" in refused.stderr


def test_gc_says_which_manifests_cannot_be_read(tmp_path: Path) -> None:
    bank_with_garbage(tmp_path)
    (tmp_path / "bank/manifests/1-coordinator-1").write_bytes(b"garbage")
    result = run("gc", tmp_path)
    assert result.exit_code == 1
    assert "1-coordinator-1" in result.stdout
    kept = run("delete", tmp_path, "1-coordinator-2", "--yes").stdout
    assert "stay until these, whose manifests cannot be read, are deleted too: 1-coordinator-1" in kept
    assert run("delete", tmp_path, "1-coordinator-1", "--yes").stdout == "deleted 1-coordinator-1 of bank\n"


def test_delete_asks_and_deletes_savepoints_too(tmp_path: Path) -> None:
    bank_with_garbage(tmp_path)
    kept = run("delete", tmp_path, "1-coordinator-2", says="n\n")
    assert kept.exit_code == 1
    assert "Delete 1-coordinator-2 (payday) of bank" in kept.stderr
    assert "1 will be left" in kept.stderr
    assert len(Storage(LocalStore(tmp_path)).system().snapshots()) == 2
    assert run("delete", tmp_path, "1-coordinator-2", says="y\n").stdout == "deleted 1-coordinator-2 of bank\n"
    assert run("delete", tmp_path, "1-coordinator-1", "--yes").stdout == "deleted 1-coordinator-1 of bank\n"
    gone = run("delete", tmp_path, "1-coordinator-1", "--yes")
    assert gone.exit_code == 11
    assert "snapshot_deleted" in gone.stderr


def test_copy_makes_a_snapshot_that_every_command_reads(tmp_path: Path) -> None:
    bank_with_garbage(tmp_path / "shots")
    copied = run("copy", tmp_path / "shots", tmp_path / "backup", "--snapshot", "1-coordinator-2")
    assert copied.stdout.startswith("copied 1-coordinator-2 of bank: ")
    row = json.loads(run("copy", tmp_path / "shots", tmp_path / "backup", "--json").stdout)
    assert (row["snapshot"], row["label"]) == ("1-coordinator-2", "payday")
    assert run("verify", tmp_path / "backup").exit_code == 0
    assert "payday" in run("list", tmp_path / "backup").stdout
    shown = [json.loads(run("show", tmp_path / name, "--json").stdout) for name in ("shots", "backup")]
    assert shown[0] == shown[1]
    assert shown[0]["position"] == 2
    assert run("verify", tmp_path / "backup", "--min-position", 2).exit_code == 0
    assert run("verify", tmp_path / "backup", "--min-position", 3).exit_code == 12
    run("copy", tmp_path / "shots", tmp_path / "backup", "--snapshot", "1-coordinator-1")
    assert run("diff", tmp_path / "backup").exit_code in {0, 1}
    assert run("gc", tmp_path / "backup", "--min-age", 0).exit_code == 0
    assert run("copy", tmp_path / "shots", tmp_path / "shots").exit_code == 2
    assert run("copy", tmp_path / "nowhere", tmp_path / "backup").exit_code == 10
