"""What commands say of files and payloads that hooks of actors gave to snapshots."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from rayshot.keys.encryption import EncryptionKey
from rayshot.places.kinds import below, open_store
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import SnapshotId
from tests.cli.test_cli_commands import bank_at, lines, own_environment, run
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank, write_outside

__all__ = ["own_environment"]

FILES = {"alice": {"shard 0.pt": b"zero", ".metadata": b"m"}, "bob": {}}
OUTSIDE = Bank(files=FILES, payload={"commit": "1a2b", "token": "geheim"})


def test_outside_lists_what_retained_snapshots_need(tmp_path):
    bank_at(tmp_path, OUTSIDE, Bank())
    folder = f"{tmp_path}/bank/outside/1-coordinator-1/alice"
    payload = "{'commit': '1a2b', 'token': <redacted>}"
    shown = lines(run("outside", tmp_path, columns=250))
    assert shown[0] == "bank  1 snapshot  5 B"
    assert [line.split() for line in shown[4:]] == [
        ["1-coordinator-1", "alice", "2", "5", "B", *payload.split(), folder],
        ["1-coordinator-1", "bob", *payload.split()],
    ]
    document = json.loads(run("outside", tmp_path, "--json").stdout)
    assert document["bytes"] == 5
    first, second = document["snapshots"]
    assert (second["actors"], first["encrypted"]) == ([], False)
    alice, bob = first["actors"]
    assert alice["payload"] == {"commit": "1a2b", "token": "<redacted>"}
    assert [(file["path"], file["bytes"]) for file in alice["files"]] == [(".metadata", 1), ("shard 0.pt", 4)]
    assert (alice["folder"], alice["root"], bob["files"]) == (folder, None, [])
    assert "geheim" in run("outside", tmp_path, "--show-secrets", columns=250).stdout
    assert lines(run("outside", tmp_path, "--snapshot", "1-coordinator-2")) == ["bank  0 snapshots  0 B"]


def test_outside_shows_damage_in_its_row_and_ends_with_1(tmp_path):
    first, _ = bank_at(tmp_path, OUTSIDE, OUTSIDE)
    (tmp_path / "bank" / first.record.manifest_key).unlink()
    result = run("outside", tmp_path)
    assert result.exit_code == 1
    assert "bad manifest" in result.stdout
    assert json.loads(run("outside", tmp_path, "--json").stdout)["snapshots"][0]["error"]["kind"] == "bad_manifest"


def test_files_of_an_encrypted_snapshot_are_called_plain(tmp_path, monkeypatch):
    key = EncryptionKey(b"e" * 32)
    make_snapshot(open_bank(LocalStore(tmp_path), keys=[key]), OUTSIDE)
    monkeypatch.setattr("rayshot.format.encryption.find_encryption_keys", lambda: [key])
    assert " 5 B plain " in run("outside", tmp_path, columns=250).stdout
    assert json.loads(run("outside", tmp_path, "--json").stdout)["snapshots"][0]["encrypted"]
    assert "plain: not encrypted" in run("verify", tmp_path, columns=250).stdout


def test_show_has_payloads_and_files_of_actors(tmp_path):
    bank_at(tmp_path, OUTSIDE)
    shown = [line.split() for line in lines(run("show", tmp_path, columns=250))]
    assert any(line[:8] == ["alice", "2", "files", "5", "B", "{'commit':", "'1a2b',", "'token':"] for line in shown)
    alice, bob = json.loads(run("show", tmp_path, "--json").stdout)["actors"]
    assert (alice["outside"]["bytes"], alice["outside"]["plain"]) == (5, True)
    assert bob["outside"]["files"] == []
    bank_at(tmp_path / "without", Bank())
    assert json.loads(run("show", tmp_path / "without", "--json").stdout)["actors"][0]["outside"] is None


def test_verify_ends_with_1_where_a_file_is_lost_or_changed(tmp_path):
    bank_at(tmp_path, OUTSIDE)
    file = tmp_path / "bank/outside/1-coordinator-1/alice/shard 0.pt"
    assert run("verify", tmp_path).exit_code == 0
    file.write_bytes(b"orez")
    assert run("verify", tmp_path).exit_code == 0
    for more in (["--read-data"], ["--subset", "1/1"]):
        result = run("verify", tmp_path, *more, columns=250)
        assert (result.exit_code, "shard 0.pt does not fit its digest" in result.stdout) == (1, True)
    file.unlink()
    result = run("verify", tmp_path, columns=250)
    assert (result.exit_code, "shard 0.pt is not there" in result.stdout) == (1, True)


def test_verify_says_what_it_does_not_see_and_ends_with_0(tmp_path):
    root = LocalStore(tmp_path / "ckpt")
    bank_at(tmp_path / "shots", Bank(files=FILES, root=root))
    shutil.rmtree(tmp_path / "ckpt")
    result = run("verify", tmp_path / "shots", "--read-data", columns=250)
    assert result.exit_code == 0
    assert any(line.startswith(" ?  not seen") and root.url in line for line in lines(result))
    assert "every byte intact except what was not seen" in result.stdout
    checks = json.loads(run("verify", tmp_path / "shots", "--json").stdout)["checks"]
    assert [check["unseen"] for check in checks if check["name"] == "outside"] == [
        f"2 files with 5 bytes, as nothing is in {root.url} from here"
    ]


def test_gc_is_told_where_files_are_and_goes_into_the_folder_of_its_own_run(tmp_path):
    storage, address = tmp_path / "shots", tmp_path / "ckpt"
    repository = open_bank(LocalStore(storage))
    root = open_store(below(str(address), repository.log.run))
    write_outside(repository, Bank(files=FILES, root=root), SnapshotId(1, "coordinator", 1), "alice")
    young = json.loads(run("gc", storage, "--min-age", "0", "--files", address, "--json").stdout)
    assert young["expired"] == []  # it may be a snapshot that is open
    for file in [path for path in address.rglob("*") if path.is_file()]:
        os.utime(file, (time.time() - 4000,) * 2)
    for _ in range(2):
        run("gc", storage, "--min-age", "0")
    assert len(list(address.rglob("shard 0.pt"))) == 1
    first = json.loads(run("gc", storage, "--min-age", "0", "--files", address, "--json").stdout)
    assert (first["expired"], first["objects"]["outside"]["marked"]["count"]) == (["1-coordinator-1"], 1)
    run("gc", storage, "--min-age", "0", "--files", address)
    assert not list(address.rglob("shard 0.pt"))


def test_a_copy_has_the_files(tmp_path):
    bank_at(tmp_path / "shots", OUTSIDE)
    assert run("copy", tmp_path / "shots", tmp_path / "backup").exit_code == 0
    shutil.rmtree(tmp_path / "shots")
    assert run("verify", tmp_path / "backup", "--read-data").exit_code == 0
    (copied,) = Path(tmp_path / "backup").rglob("shard 0.pt")
    assert copied.read_bytes() == b"zero"


@pytest.mark.parametrize("address", ["ftp://x", "s3://x"])
def test_gc_refuses_an_address_that_it_cannot_use(tmp_path, address):
    bank_at(tmp_path, OUTSIDE)
    assert run("gc", tmp_path, "--files", address).exit_code == 2
