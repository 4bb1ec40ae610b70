"""Encrypted systems on Ray: keys go from the driver to whoever writes, and nothing readable reaches the storage."""

import pickle
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.errors import EncryptionKeyNeeded, RolledBack, UnknownKey
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.signing import PrivateKey
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.settings import SystemSettings
from tests.runtime.test_runtime_restore import restore
from tests.runtime.workloads import Account, Holder
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("G4", "G16", "G25")]
OLD, NEW = EncryptionKey(b"e" * 32), EncryptionKey(b"f" * 32)
PAIR = PrivateKey(b"p" * 32)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", OLD.text)
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", PAIR.text)


def everything_in(folder):
    return b"".join(str(path).encode() + path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.wide("slow")
def test_an_encrypted_system_is_snapshotted_again_and_again_restored_and_its_keys_rotated(new_system, monkeypatch):
    system = new_system()
    alice, holder = (
        Account.options(name="alice_in_wonderland").remote(90),
        Holder.options(name="holder").remote(300_000),
    )
    ray.get([alice.read.remote(), holder.total.remote()])
    first = system.snapshot()
    alice.pause.tell(1.0)
    alice.deposit.tell(7)
    second = system.snapshot()
    assert second.states()["alice_in_wonderland"]["balance"] == 90
    assert second.in_flight >= 1
    assert {chunk.key for chunk in first.manifest.chunks} & {chunk.key for chunk in second.manifest.chunks}
    assert second.verify().trusted
    stored = everything_in(system.storage)
    for word in (b"wonderland", b"workloads", b"balance", PAIR.secret, OLD.secret, second.manifest.data_key.secret):
        assert word not in stored
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", f"{NEW.text}\n{OLD.text}")
    restored = restore(new_system.made, system, min_position=second.position)
    account = restored.get_actor("alice_in_wonderland")
    eventually(lambda: ray.get(account.read.remote()) == 97)
    third = restored.snapshot()
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", NEW.text)
    assert rayshot.open(system.storage).system(system.name).snapshot(third.id).verify().trusted
    restored.shutdown()
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", OLD.text)
    with pytest.raises(EncryptionKeyNeeded, match=NEW.key_id):
        rayshot.restore(system.name, storage=system.storage)
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", "h" * 40)
    with pytest.raises(UnknownKey, match=PAIR.key_id):
        rayshot.restore(system.name, storage=system.storage, snapshot=second.id)
    with pytest.raises(RolledBack):
        rayshot.restore(system.name, storage=system.storage, min_position=third.position + 1)


def test_settings_hold_the_names_of_keys_and_a_keyring_does_not_show_its_own():
    keyring = Keyring(PAIR, (OLD,))
    settings = SystemSettings("bank", "./shots", keyring.names, SnapshotConfig(), FailureConfig())
    for secret in (PAIR.secret, OLD.secret):
        for shown in (repr(settings).encode(), pickle.dumps(settings), repr(keyring).encode()):
            assert secret not in shown
            assert secret.hex().encode() not in shown
    assert pickle.loads(pickle.dumps(keyring)) == keyring
