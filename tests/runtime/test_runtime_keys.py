"""Keys that a driver alone has: no disk of Ray's gets them, and they outlive a coordinator."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import ray
from packaging.version import Version

from rayshot.errors import Fenced, KeysMissing, LogLost, StateNotSerializable, StoreUnavailable
from rayshot.keys.encryption import new_encryption_key
from rayshot.keys.signing import new_private_key
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import AbortWanted, SnapshotWanted
from rayshot.runtime.coordinator.pending_snapshots import why_unwritten
from rayshot.runtime.wire.keyring import Keyring, find_keyring, load_keyring
from tests.processes import search_path


@pytest.fixture
def ray_folder():
    with tempfile.TemporaryDirectory(prefix="rk-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # holds sockets
        yield Path(folder)


def holders(folder, needle):
    """The files below `folder` that hold these bytes; not sockets."""
    return [path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


@pytest.mark.ray
@pytest.mark.skipif(Version(ray.__version__) < Version("2.57"), reason="this Ray keeps nothing on a disk")
@pytest.mark.acceptance("X8")
def test_what_the_control_service_of_ray_writes_down_holds_no_key(tmp_path, ray_folder):
    signing, encryption = new_private_key(), new_encryption_key()
    (tmp_path / "signing.key").write_text(signing.text)
    (tmp_path / "encryption.key").write_text(encryption.text)
    (tmp_path / "gcs").mkdir()
    on_disk = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(tmp_path / "gcs")}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("keys_in_ray.py"), tmp_path],
        env=os.environ | search_path() | on_disk | {"RAY_TMPDIR": str(ray_folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    lines = (line for line in done.stdout.splitlines() if line.startswith("said: "))  # the others are Ray's
    before, after, without, again, restored = (line.removeprefix("said: ") for line in lines)
    assert before == "trusted {'alice': {'balance': 1}} True"
    assert after == "trusted {'alice': {'balance': 2}} True"
    assert without == "keys_missing"
    assert again == "trusted {'alice': {'balance': 3}} True"
    assert restored == "3"
    for name in Keyring(signing, (encryption,)).names:
        assert holders(tmp_path / "gcs", name.encode()), "the coordinator's settings are not where they were looked for"
    for secret in (signing.secret, encryption.secret):
        for form in (secret, secret.hex().encode()):
            assert holders(tmp_path / "gcs", form) == []
            assert holders(ray_folder, form) == []


@pytest.mark.acceptance("X8")
@pytest.mark.parametrize(
    "error",
    [Fenced(""), KeysMissing(""), StoreUnavailable(""), LogLost(""), StateNotSerializable(""), ValueError()],
    ids=lambda error: type(error).__name__,
)
def test_whatever_keeps_a_snapshot_from_being_written_ends_it(error):
    collector = Collector(1)
    (store,) = collector.handle(SnapshotWanted())  # without actors nobody records
    reason, detail = why_unwritten(store.cut.snapshot, error)
    (end,) = collector.handle(AbortWanted(store.cut.snapshot, reason, detail))
    assert (end.snapshot, end.reason) == (store.cut.snapshot, reason)


@pytest.mark.acceptance("X8")
def test_keys_of_the_environment_are_taken_where_they_have_the_right_names(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    signing, encryption = new_private_key(), new_encryption_key()
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", signing.text)
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", encryption.text)
    keyring = load_keyring(local=False)
    assert find_keyring(keyring.names) == keyring
    assert find_keyring(Keyring(new_private_key(), (encryption,)).names) is None
    monkeypatch.delenv("RAYSHOT_ENCRYPTION_KEY")
    assert find_keyring(keyring.names) is None
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", "too short")
    assert find_keyring(keyring.names) is None
