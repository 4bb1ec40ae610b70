import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rayshot.cli import main
from rayshot.format.envelope import open_envelope, seal, verify
from rayshot.keys.finder import find_encryption_keys, find_key, find_trusted_keys


def keygen(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["keygen", *map(str, arguments)])


@pytest.mark.parametrize("algorithm", ["hmac", "ed25519"])
def test_a_key_on_the_standard_output_signs_what_it_proves(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = keygen("--algorithm", algorithm)
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", made.stdout)
    key = find_key()
    assert key is not None
    assert key.key_id in made.stderr
    assert "set RAYSHOT_SIGNING_KEY to it" in made.stderr
    assert made.stdout.strip() not in made.stderr
    verify(open_envelope(seal(b"payload", key)), find_trusted_keys())


def test_a_pair_in_files_signs_here_and_is_proved_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = keygen("--algorithm", "ed25519", "--output", tmp_path / "key")
    assert made.exit_code == 0
    assert made.stdout == ""
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.pub"]
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY_FILE", str(tmp_path / "key"))
    sealed = seal(b"payload", find_key())
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY_FILE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another person"))
    monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS_FILE", str(tmp_path / "key.pub"))
    assert find_key() is None
    verify(open_envelope(sealed), find_trusted_keys())


def test_an_encryption_key_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = keygen("--encryption", "--output", tmp_path / "key")
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY_FILE", str(tmp_path / "key"))
    (key,) = find_encryption_keys()
    assert f"encryption key {key.key_id}: set RAYSHOT_ENCRYPTION_KEY_FILE={tmp_path / 'key'}" in made.stderr


@pytest.mark.parametrize("taken", ["key", "key.pub"])
def test_a_file_that_exists_is_never_written_over(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("precious")
    refused = keygen("--algorithm", "ed25519", "--output", tmp_path / "key")
    assert refused.exit_code == 2
    assert (
        refused.stderr == f"error: config_error: {tmp_path / taken} exists and is not written over: name another file\n"
    )
    assert (tmp_path / taken).read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == [taken]


@pytest.mark.parametrize("output", ["", ".", "/", "./"])
@pytest.mark.parametrize("algorithm", ["hmac", "ed25519"])
def test_an_output_that_names_no_file_is_one_line(output: str, algorithm: str) -> None:
    refused = keygen("--algorithm", algorithm, "--output", output)
    assert refused.exit_code == 2
    assert refused.stderr == f"error: config_error: --output {output!r} names no file\n"


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    refused = keygen("--output", tmp_path / "nowhere" / "key")
    assert refused.exit_code == 2
    assert len(refused.stderr.splitlines()) == 1
