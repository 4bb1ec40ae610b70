"""With which key a restored system signs."""

from pathlib import Path

import pytest

import rayshot
from rayshot.errors import ConfigError
from rayshot.keys.finder import find_trusted_keys, load_key
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank


def test_what_a_key_of_this_machine_signed_does_not_go_on_in_a_storage_that_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("RAYSHOT_SIGNING_KEY", "RAYSHOT_SIGNING_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("rayshot.runtime.opening.from_snapshot.join_or_start", lambda: pytest.fail("Ray was started"))
    snapshot = make_snapshot(
        open_bank(LocalStore(tmp_path / "shots")), Bank(states={}, flows={}), key=load_key(local=True)
    )
    assert snapshot.verify(find_trusted_keys()).trusted
    with pytest.raises(ConfigError, match="its signing key must be given: set RAYSHOT_SIGNING_KEY"):
        rayshot.restore(storage=tmp_path / "shots", into="s3://bucket-of-nobody/shots")
