"""The command line with key pairs, encrypted snapshots and storages that were put back."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rayshot.cli import main
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.signing import PrivateKey
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

KEY, PAIR = EncryptionKey(b"e" * 32), PrivateKey(b"p" * 32)


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS", PAIR.public.text)
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", KEY.text)


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    repository = open_bank(LocalStore(tmp_path / "shots"), keys=[KEY])
    for counter, balance in enumerate((90, 80), 1):
        make_snapshot(repository, Bank(states={"alice": {"balance": balance}}), counter, key=PAIR)
    return tmp_path / "shots"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_everything_works_on_encrypted_snapshots_with_the_key(shots: Path) -> None:
    assert "balance=80" in run("show", shots).stdout
    assert run("diff", shots).exit_code == 1
    verified = run("verify", shots)
    assert verified.exit_code == 0
    assert f"signed with the key {PAIR.key_id}" in " ".join(verified.stdout.split())
    assert run("list", shots).exit_code == run("topology", shots).exit_code == 0


def test_without_the_key_list_works_and_the_others_say_which_key_is_needed(
    shots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAYSHOT_ENCRYPTION_KEY")
    listed = run("list", shots)
    assert listed.exit_code == 0
    assert listed.stdout.count("encryption key needed") == 2
    document = json.loads(run("list", shots, "--json").stdout)
    assert document["systems"][0]["snapshots"][0]["error"]["kind"] == "encryption_key_needed"
    for command in ("show", "verify", "diff", "topology"):
        refused = run(command, shots)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: encryption_key_needed: ")
        assert KEY.key_id in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_a_key_that_was_retired_is_not_trusted(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYSHOT_TRUSTED_KEYS")
    assert run("verify", shots).exit_code == 12


def test_a_storage_that_was_put_back_is_not_trusted(shots: Path) -> None:
    assert run("verify", shots, "--min-position", 2).exit_code == 0
    (shots / "bank" / "log" / ("0" * 19 + "2")).unlink()
    assert run("verify", shots).exit_code == 0
    refused = run("verify", shots, "--min-position", 2)
    assert refused.exit_code == 12
    assert refused.stderr.startswith("error: rolled_back: the newest snapshot is at position 1 of the log")
