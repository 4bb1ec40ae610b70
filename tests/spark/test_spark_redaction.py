"""Secrets and keys in Spark: redacted unless asked for, and keys travel from the driver, never as an option."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from pyspark_rayshot.options import parse_options
from pyspark_rayshot.source import SnapshotReader
from rayshot.errors import ConfigError
from rayshot.keys.encryption import EncryptionKey
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

Table = Callable[..., Any]
KEY = EncryptionKey(b"e" * 32)
WORD = "hunter2"

pytestmark = pytest.mark.acceptance("G25")


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    login = {"user": "alice", "password": WORD}
    alice = {"api_key": WORD, "secret": 42, "token": WORD, "max_tokens": 1.5, "login": login, "balance": 7}
    states = {"alice": alice, "bob": {}}
    flows = {("alice", "bob"): Flow(sent=1, method="set_password")}
    make_snapshot(open_bank(LocalStore(tmp_path / "shots"), keys=[KEY]), Bank(states=states, flows=flows))
    return tmp_path / "shots"


@pytest.mark.spark
def test_secrets_are_redacted_in_all_columns_unless_they_are_asked_for(
    table: Table, shots: Path, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(KEY.text)

    def rows_of(view: str, **options: str) -> list[Any]:
        found: list[Any] = table(shots, view, encryptionKeyFile=str(tmp_path / "keys"), **options).collect()
        return found

    rows = {row.attribute: row for row in rows_of("state")}
    assert not any(WORD in str(row) for row in rows.values())
    for name in ("api_key", "secret", "token"):
        assert rows[name].value == '"<redacted>"'
        typed = (rows[name].value_long, rows[name].value_double, rows[name].value_string, rows[name].value_bool)
        assert typed == (None,) * 4
    assert (rows["balance"].value_long, rows["max_tokens"].value_double) == (7, 1.5)
    assert json.loads(rows["login"].value) == {"user": "alice", "password": "<redacted>"}
    assert rows_of("messages")[0].args == '["<redacted>"]'
    plain = {row.attribute: row for row in rows_of("state", showSecrets="true")}
    assert (plain["api_key"].value_string, plain["secret"].value_long) == (WORD, 42)
    some = {row.attribute: row for row in rows_of("state", showSecrets="token, password")}
    assert (some["token"].value_string, some["api_key"].value, some["secret"].value_long) == (
        WORD,
        '"<redacted>"',
        None,
    )
    assert json.loads(some["login"].value) == {"user": "alice", "password": WORD}
    assert rows_of("messages", showSecrets="set_password")[0].args == "[10]"


@pytest.mark.spark
def test_without_the_key_the_job_says_which_it_needs(table: Table, shots: Path) -> None:
    with pytest.raises(AnalysisException, match=KEY.key_id):
        table(shots, "state").collect()


@pytest.mark.acceptance("X9")
def test_show_secrets_is_true_or_false_or_names_of_what_is_hidden() -> None:
    for text in ("perhaps", "token,pasword", "token,", "", "balance"):
        with pytest.raises(ConfigError, match="'showSecrets' must be true, false, or names of what is hidden"):
            parse_options({"path": "shots", "showSecrets": text})
    assert parse_options({"path": "shots", "showSecrets": "TRUE"}).query.show_secrets is None
    assert parse_options({"path": "shots", "showSecrets": "False"}).query.show_secrets == frozenset()
    named = parse_options({"path": "shots", "showSecrets": "token, db_password"}).query.show_secrets
    assert named == {"token", "db_password"}


def test_keys_travel_with_the_reader_and_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", KEY.text)
    reader = SnapshotReader(parse_options({"path": "shots"}), {})
    monkeypatch.delenv("RAYSHOT_ENCRYPTION_KEY")
    assert pickle.loads(pickle.dumps(reader))._keys == (KEY,)
    assert KEY.secret.hex() not in repr(vars(reader))
