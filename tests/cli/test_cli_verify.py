"""`rayshot verify`: what each level reads and proves, what it shows, and how it ends."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rayshot.format.entries import Proof
from rayshot.keys.signing import SigningKey
from rayshot.places.local import LocalStore
from rayshot.snapshots.snapshot import Snapshot
from tests.cli.test_cli_commands import bank_at, lines, own_environment, run
from tests.snapshots.snapshot_builder import KEY, Bank, large, make_manifest, make_snapshot, open_bank

__all__ = ["own_environment"]


def wide_bank(path: Path, count: int = 12) -> Snapshot:
    """A snapshot of many chunks."""
    states = {f"a{number:02}": {"text": large(f"{number} ")} for number in range(count)}
    (snapshot,) = bank_at(path, Bank(states=states))
    return snapshot


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_without_an_option_only_the_manifest_and_a_listing_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (snapshot,) = bank_at(tmp_path, Bank())
    read: list[str] = []
    monkeypatch.setattr(LocalStore, "read_range", _noting(LocalStore.read_range, read))
    result = run("verify", tmp_path, columns=200)
    size = snapshot.manifest.chunks[0].stored_size
    cut = "on 2 channels received <= sent, and the messages between have bytes: 3 in flight"
    found = "Found in place: 2 actors and 2 channels with 3 messages in flight"
    assert lines(result) == [
        "bank  1-coordinator-1  position 1",
        "",
        " ✓  manifest   what was committed at position 1: 2 actors, 2 channels",
        f" ✓  presence   1 chunk with {size} stored bytes are there, unread",
        f" ✓  cut        {cut}",
        f" ✓  signature  signed with the key {KEY.key_id}, which this reader trusts",
        "",
        f"{found}; that all bytes are intact, --read-data proves. Signed by a trusted key.",
    ]
    assert result.exit_code == 0
    assert not [key for key in read if "/chunks/" in key]
    document = json.loads(run("verify", tmp_path, "--json").stdout)
    assert (document["read"], document["sound"], document["trusted"], document["audit"]) == ("manifest", True, True, [])


def _noting(original, read):  # type: ignore[no-untyped-def]
    def read_range(self, key, start, length):  # type: ignore[no-untyped-def]
        read.append(key)
        return original(self, key, start, length)

    return read_range


@pytest.mark.acceptance("G7", "G9")
def test_a_chunk_that_is_missing_or_of_another_size_is_seen_by_the_listing(tmp_path: Path) -> None:
    snapshot = wide_bank(tmp_path)
    first, second = (tmp_path / "bank" / chunk.key for chunk in snapshot.manifest.chunks[:2])
    first.chmod(0o600)
    first.write_bytes(first.read_bytes() + b"x")
    result = run("verify", tmp_path)
    assert result.exit_code == 1
    assert "instead of" in result.stdout
    first.unlink()
    second.unlink()
    result = run("verify", tmp_path, columns=200)
    assert result.exit_code == 1
    assert " ✗  presence   2 chunks of" in result.stdout
    assert first.name in result.stdout or second.name in result.stdout
    assert "Do not use this snapshot" in result.stdout
    assert json.loads(run("verify", tmp_path, "--json").stdout)["checks"][1]["error"] == "missing_chunk"


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_runs_over_all_parts_read_every_chunk_once(tmp_path: Path, count: int) -> None:
    snapshot = wide_bank(tmp_path)
    seen = 0
    for number in range(1, count + 1):
        result = run("verify", tmp_path, "--subset", f"{number}/{count}", "--json")
        assert result.exit_code == 0
        document = json.loads(result.stdout)
        assert document["read"] == f"{number}/{count}"
        seen += int(document["checks"][-1]["detail"].split()[0])
    assert seen == len(snapshot.manifest.chunks) > 10
    flip(tmp_path / "bank" / snapshot.manifest.chunks[0].key)
    codes = [run("verify", tmp_path, "--subset", f"{n}/{count}").exit_code for n in range(1, count + 1)]
    assert sorted(codes) == [0] * (count - 1) + [1]
    assert run("verify", tmp_path).exit_code == 0  # of the right size
    assert run("verify", tmp_path, "--read-data").exit_code == 1


@pytest.mark.parametrize(
    "subset", ["0/2", "3/2", "1", "1/", "/2", "a/b", "1/0", "-1/2", "1/10000000", f"1/{'9' * 5_000}"]
)
def test_a_subset_that_is_none_is_wrong_use(tmp_path: Path, subset: str) -> None:
    bank_at(tmp_path, Bank())
    assert run("verify", tmp_path, "--subset", subset).exit_code == 2
    assert run("verify", tmp_path, "--subset", "1/2", "--read-data").exit_code == 2


@pytest.mark.acceptance("G27")
def test_exit_codes_say_what_is_not_there_and_whom_nobody_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("verify", tmp_path / "nowhere").exit_code == 10
    (tmp_path / "empty").mkdir()
    assert run("verify", tmp_path / "empty").exit_code == 10
    bank_at(tmp_path / "none")
    assert run("verify", tmp_path / "none").exit_code == 11
    bank_at(tmp_path / "one", Bank())
    missing = run("verify", tmp_path / "one", "--snapshot", "1-coordinator-9")
    assert missing.exit_code == 11
    assert "1-coordinator-1" in missing.stderr
    assert run("verify", tmp_path / "one").exit_code == 0
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", "of somebody else, who has not signed it")
    for more in ([], ["--read-data"], ["--subset", "1/1"]):
        assert run("verify", tmp_path / "one", *more).exit_code == 12


def test_a_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    wide_bank(tmp_path)
    command = [sys.executable, "-c", "from rayshot.cli import main; main()", "verify", str(tmp_path), "--read-data"]
    quiet = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True, timeout=60, env=environment)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "reading" in shown
    assert b"reading" not in done.stdout


def test_verify_says_what_was_proved(tmp_path: Path) -> None:
    (snapshot,) = bank_at(tmp_path, Bank())
    result = run("verify", tmp_path, "--read-data", columns=130)
    proved = (
        "Proved: a consistent cut of 2 actors and 2 channels with 3 messages in flight, every byte intact, "
        "signed by a trusted key."
    )
    equation = "on each of 2 channels exactly the messages received + 1 .. sent are stored, in order: 3 in flight"
    assert lines(result) == [
        "bank  1-coordinator-1  position 1",
        "",
        " ✓  manifest   what was committed at position 1: 2 actors, 2 channels",
        f" ✓  chunks     1 chunk with {snapshot.manifest.chunks[0].size} bytes fit their digests",
        " ✓  cut        on 2 channels exactly the messages sent and not received are there: 3 in flight",
        " ✓  states     2 states can be read",
        f" ✓  signature  signed with the key {KEY.key_id}, which this reader trusts",
        "",
        "Audited apart from the code that wrote it:",
        f" ✓  cut equation  {equation}",
        " ?  trace         not traced: rayshot.init(..., trace=True) lets actors write down what they do",
        "",
        proved,
    ]
    assert result.exit_code == 0
    document = json.loads(run("verify", tmp_path, "--read-data", "--json").stdout)
    assert document["sound"] is document["trusted"] is True


@pytest.mark.parametrize("key", [None, SigningKey(b"o" * 32)])
def test_verify_of_what_nobody_trusted_signed_ends_with_a_code_of_its_own(
    tmp_path: Path, key: SigningKey | None
) -> None:
    bank_at(tmp_path, Bank(), key=key)
    result = run("verify", tmp_path, "--read-data")
    assert result.exit_code == 12
    assert " !  signature" in result.stdout
    assert "It is not signed by a trusted key" in result.stdout


def test_verify_of_damage_says_which_check_failed(tmp_path: Path) -> None:
    (snapshot,) = bank_at(tmp_path, Bank())
    path = tmp_path / "bank" / snapshot.manifest.chunks[0].key
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    result = run("verify", tmp_path, "--read-data")
    assert result.exit_code == 1
    assert " ✗  chunks" in result.stdout
    assert "Not proved: chunks and cut and states. Do not use this snapshot." in result.stdout
    (tmp_path / "bank" / snapshot.record.manifest_key).unlink()
    result = run("verify", tmp_path, "--read-data")
    assert result.exit_code == 1
    assert " ✗  manifest" in result.stdout
    assert json.loads(run("verify", tmp_path, "--read-data", "--json").stdout)["checks"][0]["error"] == "bad_manifest"


@pytest.mark.acceptance("G6")
def test_a_snapshot_of_a_newer_rayshot_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("rayshot.format.manifest.FORMAT_VERSION", 3)
        bank_at(tmp_path, Bank())
    for more in ([], ["--subset", "1/1"]):
        result = run("verify", tmp_path, *more, columns=200)
        assert result.exit_code == 14
        assert "pip install --upgrade rayshot" in result.stdout
        assert lines(result)[-1] == "Not judged: this rayshot is too old to read it."
    for command in ("show", "list", "topology"):
        assert run(command, tmp_path).exit_code == 14, command
    damaged = make_snapshot(open_bank(LocalStore(tmp_path), writer="another"), Bank(), 2)
    assert run("list", tmp_path).exit_code == 14
    (tmp_path / "bank" / damaged.record.manifest_key).unlink()
    assert run("list", tmp_path).exit_code == 1
    assert run("list", tmp_path, "--snapshot", "1-coordinator-1").exit_code == 14


@pytest.mark.acceptance("S4")
def test_of_a_damaged_snapshot_it_says_which_one_before_it_is_whole_and_how_to_go_back_there(tmp_path: Path) -> None:
    whole, newest = bank_at(tmp_path, Bank(), Bank(states={"alice": {"balance": 1}}))
    (tmp_path / "bank" / newest.manifest.chunks[-1].key).unlink()
    result = run("verify", tmp_path)
    assert result.exit_code == 1
    assert f"The newest one before it that proves whole is {whole.id}, taken" in result.stdout
    assert f"rayshot.restore('bank', storage='{tmp_path}', snapshot='{whole.id}')" in result.stdout
    (tmp_path / "bank" / whole.manifest.chunks[-1].key).unlink()
    assert "No snapshot before it proves whole" in run("verify", tmp_path).stdout


@pytest.mark.acceptance("S2")
def test_verify_show_and_its_json_say_which_states_were_proved_to_load(tmp_path: Path) -> None:
    repository = open_bank(LocalStore(tmp_path))
    manifest = make_manifest(repository, Bank(), 1)
    proofs = Proof("proved"), Proof("unproved", "OSError: locked")
    actors = tuple(replace(actor, proof=proof) for actor, proof in zip(manifest.actors, proofs, strict=True))
    repository.commit(replace(manifest, actors=actors), KEY)
    assert "; 1 of 2 states were proved to load" in run("verify", tmp_path, columns=200).stdout
    shown = run("show", tmp_path, columns=200).stdout
    assert "1 proved, 1 unproved" in shown
    document = json.loads(run("show", tmp_path, "--json").stdout)
    assert [actor["proof"] for actor in document["actors"]] == ["proved", "not proved: OSError: locked"]
