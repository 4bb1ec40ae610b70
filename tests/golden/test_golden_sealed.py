"""Kept snapshots that are encrypted, signed by a pair of keys, and copied: every version opens them with their keys."""

import shutil
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.errors import EncryptionKeyNeeded, UnknownKey
from rayshot.format.envelope import verify
from rayshot.keys.encryption import new_encryption_key
from rayshot.keys.signing import SigningKey
from rayshot.log.records import CommitRecord, CopyRecord
from rayshot.simulation import SimulatedSystem
from tests.golden.release import ENCRYPTION_KEY, KEY, PAIR, storages

HERE = Path(__file__).parent
FORMATS = storages("sealed")
STORAGES = ("encrypted", "ed25519", "copied")

pytestmark = pytest.mark.parametrize("kept", FORMATS)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY)
    monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS", PAIR.public.text)
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", ENCRYPTION_KEY.text)


def payday(kept, storage):
    (snapshot,) = rayshot.open(HERE / kept / storage).system("bank").snapshots()
    return snapshot


@pytest.mark.parametrize("storage", STORAGES)
def test_it_is_proved_byte_by_byte_and_read(kept, storage):
    snapshot = payday(kept, storage)
    assert snapshot.verify([SigningKey(KEY.encode()), PAIR.public]).trusted
    assert snapshot.label == "payday"
    assert {name: state["balance"] for name, state in snapshot.states().items()} == {"alice": 97, "bob": 100}
    messages = snapshot.channel("alice", "bob").messages
    assert [(m.number, m.method, m.args) for m in messages] == [(1, "deposit", (1,)), (2, "deposit", (2,))]


@pytest.mark.parametrize("storage", STORAGES)
def test_it_goes_on_in_a_simulated_world(kept, storage):
    world = SimulatedSystem.from_snapshot(payday(kept, storage))
    world.run(seconds=10)
    assert {name: world.actors[name].balance for name in ("alice", "bob")} == {"alice": 97, "bob": 103}


def test_without_its_key_an_encrypted_one_stays_shut_and_says_which_key_it_needs(kept, monkeypatch):
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", new_encryption_key().text)
    with pytest.raises(EncryptionKeyNeeded) as caught:
        payday(kept, "encrypted").states()
    assert caught.value.evidence["key_id"] == ENCRYPTION_KEY.key_id
    stored = [path.read_bytes() for path in (HERE / kept / "encrypted").rglob("*") if path.is_file()]
    assert not [content for content in stored if b"deposit" in content or b"balance" in content]


@pytest.mark.parametrize("storage", ["ed25519", "copied"])
def test_the_signature_of_a_pair_is_proved_by_its_public_half_alone(kept, storage):
    envelope = payday(kept, storage).envelope
    assert (envelope.algorithm, envelope.key_id) == ("ed25519", PAIR.key_id)
    assert verify(envelope, [PAIR.public]) == PAIR.public
    with pytest.raises(UnknownKey):
        verify(envelope, [SigningKey(KEY.encode())])


def test_a_copy_is_the_same_snapshot_under_a_record_of_its_own(kept):
    copied, original = payday(kept, "copied"), payday(kept, "ed25519")
    assert isinstance(copied.record, CopyRecord)
    assert isinstance(original.record, CommitRecord)
    assert (copied.id, copied.position) == (original.id, original.position)
    assert copied.envelope == original.envelope


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.ray
@pytest.mark.parametrize("storage", STORAGES)
def test_it_is_restored_on_ray(cluster, kept, storage, tmp_path):
    shutil.copytree(HERE / kept / storage, tmp_path / "shots")
    with rayshot.restore(storage=tmp_path / "shots") as system:
        while ray.get(system.get_actor("bob").read.remote()) != 103:
            pass
        assert ray.get(system.get_actor("alice").read.remote()) == 97
