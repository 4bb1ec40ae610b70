"""Encrypted storages: what lies there says nothing, and whatever reads says which key it needs."""

import pickle
import random
from pathlib import Path

import pytest

from rayshot.audit import prove
from rayshot.errors import BadManifest, CorruptChunk, Damaged, EncryptionKeyNeeded, SnapshotMismatch
from rayshot.format.envelope import open_envelope
from rayshot.keys.encryption import EncryptionKey, new_data_key
from rayshot.places.local import LocalStore
from rayshot.places.memory import named_memory_store
from rayshot.places.store import Store
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.chunk_writer import ChunkWriter
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from rayshot.snapshots.upkeep.retention import Keep
from rayshot.snapshots.verification import Trust
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore
from tests.snapshots.snapshot_builder import KEY as SIGNING_KEY
from tests.snapshots.snapshot_builder import (
    Bank,
    assert_every_chunk_is_reachable,
    committed,
    delete,
    large,
    make_manifest,
    make_snapshot,
    open_bank,
    retain,
)

KEY, OTHER = EncryptionKey(b"e" * 32), EncryptionKey(b"f" * 32)
NOISE = random.Random(3).randbytes(100_000)


def states(**changed: object) -> dict[str, object]:
    return {"alice": {"n": large("attack at dawn ")}, "bob": {"n": large("b")}, **changed}


@pytest.fixture(autouse=True)
def key_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", KEY.text)


def all_bytes(store: Store) -> bytes:
    return b"".join(entry.key.encode() + store.read(entry.key) for entry in store.list())


def test_nothing_of_a_snapshot_is_readable_in_the_store() -> None:
    plain, encrypted = FaultyStore(), FaultyStore()
    bank = Bank(states={"a_secret_actor": {"noise": NOISE, "secret word": "swordfish"}}, flows={})
    readable = make_snapshot(open_bank(plain), bank)
    kept = make_snapshot(open_bank(encrypted, keys=[KEY]), bank)
    assert b"a_secret_actor" in all_bytes(plain)
    for word in (b"a_secret_actor", b"swordfish", NOISE[5000:5030], b"Account"):
        assert word not in all_bytes(encrypted)
    assert {chunk.digest for chunk in readable.manifest.chunks} == {chunk.digest for chunk in kept.manifest.chunks}
    for chunk in kept.manifest.chunks:
        assert chunk.digest.encode() not in all_bytes(encrypted)
        assert bytes.fromhex(chunk.digest) not in all_bytes(encrypted)


def test_an_encrypted_snapshot_is_read_verified_audited_and_compared() -> None:
    store = FaultyStore()
    repository = open_bank(store, keys=[KEY])
    first = make_snapshot(repository, Bank(states=states()), 1)
    make_snapshot(repository, Bank(states=states(bob={"n": 7})), 2, reuse=first)
    old, new = Storage(store).system("bank").snapshots()
    assert new.states()["bob"] == {"n": 7}
    assert new.states()["alice"] == states()["alice"]
    assert [message.number for message in new.channel("alice", "bob").messages] == [3, 4, 5]
    assert new.verify([SIGNING_KEY]).trust is Trust.TRUSTED
    assert prove(new, [old, new]).sound
    (change,) = old.diff(new).actors_changed
    assert change.name == "bob"


def test_chunks_of_earlier_snapshots_are_used_again_and_stay_readable_when_those_are_gone() -> None:
    store = FaultyStore()
    repository = open_bank(store, keys=[KEY])
    first = make_snapshot(repository, Bank(states=states()), 1)
    second = make_snapshot(repository, Bank(states=states(bob={"n": 7})), 2, reuse=first)
    third = make_snapshot(repository, Bank(states=states(bob={"n": 8})), 3, reuse=second)
    shared = {chunk.key for chunk in first.manifest.chunks} & {chunk.key for chunk in third.manifest.chunks}
    assert shared
    assert len(third.manifest.data_keys) == 2
    assert delete(repository, first.id).removed == (first.id,)
    assert retain(repository, Keep(last=1)).removed == (second.id,)
    assert_every_chunk_is_reachable(store)
    assert Storage(store).system("bank").latest().verify([SIGNING_KEY]).trusted


def test_a_key_is_rotated_and_the_newest_alone_reads_what_was_written_since(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore()
    first = make_snapshot(open_bank(store, keys=[KEY]), Bank(states=states()), 1)
    later = open_bank(store, "w2", keys=[OTHER, KEY])
    make_snapshot(later, Bank(states=states(bob={"n": 7})), 2, reuse=later.snapshot(first.record))
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", OTHER.text)
    old, new = Storage(store).system("bank").snapshots()
    assert new.verify([SIGNING_KEY]).trusted
    with pytest.raises(EncryptionKeyNeeded, match=KEY.key_id):
        old.verify()
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", f"{OTHER.text}\n{KEY.text}")
    assert Storage(store).system("bank").snapshot(old.id).verify([SIGNING_KEY]).trusted


def test_without_the_key_the_log_is_listed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore()
    make_snapshot(open_bank(store, keys=[KEY]), Bank(label="payday"))
    monkeypatch.delenv("RAYSHOT_ENCRYPTION_KEY")
    (found,) = Storage(store).system("bank").snapshots()
    assert (found.label, found.position) == ("payday", 1)
    for read in (found.states, found.verify, lambda: found.channels, lambda: found.manifest):
        with pytest.raises(EncryptionKeyNeeded, match=KEY.key_id):
            read()


def test_without_the_key_nothing_is_deleted() -> None:
    store = FaultyStore()
    repository = open_bank(store, keys=[KEY])
    first = make_snapshot(repository, Bank(states=states()), 1)
    make_snapshot(repository, Bank(states=states(bob={"n": 7})), 2, reuse=first)
    before = {entry.key for entry in store.list("bank/chunks")}
    blind = open_bank(store, "w2", keys=[OTHER])
    outside = (
        lambda: delete_snapshot(store, "bank", first.id, [OTHER]),
        lambda: delete_snapshot(store, "bank", first.id, []),
    )
    for act in (lambda: retain(blind, Keep(last=1)), lambda: delete(blind, first.id), *outside):
        with pytest.raises(EncryptionKeyNeeded, match=KEY.key_id):
            act()
    assert {entry.key for entry in store.list("bank/chunks")} == before
    assert len(committed(store)) == 2  # no DELETE was written either
    assert retain(open_bank(store, "w3", keys=[KEY]), Keep(last=1)).removed == (first.id,)
    assert_every_chunk_is_reachable(store)


def test_without_the_key_a_collection_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore()
    repository = open_bank(store, keys=[KEY])
    make_snapshot(repository, Bank(states=states()), 1)
    make_manifest(repository, Bank(states=states(bob={"n": 7})), 2)  # left by a crash
    before = [entry.key for entry in store.list()]
    monkeypatch.delenv("RAYSHOT_ENCRYPTION_KEY")
    with pytest.raises(EncryptionKeyNeeded, match=KEY.key_id):
        collect(store, "bank", min_age_s=0)
    assert [entry.key for entry in store.list()] == before


def test_an_encrypted_copy_from_elsewhere_is_in_the_way_of_nobody() -> None:
    source, store = FaultyStore("a"), FaultyStore("b")
    open_bank(source, keys=[KEY])
    newer = make_snapshot(open_bank(source, "w2", keys=[KEY]), Bank(states=states()), 1)
    repository = open_bank(store, keys=[OTHER])
    first, second = (make_snapshot(repository, Bank(states=states(bob={"n": n})), n) for n in (1, 2))
    copied = copy_snapshot(source, store, newer)
    assert retain(repository, Keep(last=1)).removed == (first.id,)
    assert delete_snapshot(store, "bank", copied.id, [OTHER]).removed == (copied.id,)
    assert committed(store) == [second]


def test_what_was_claimed_elsewhere_is_deleted_with_the_keys_that_its_system_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = named_memory_store("encrypted-elsewhere")
    foreign = make_snapshot(open_bank(elsewhere, keys=[KEY]), Bank(states=states()), 1)
    make_snapshot(open_bank(elsewhere, "w2", keys=[KEY]), Bank(states=states()), 1)
    repository = Repository(FaultyStore(), "bank", create=True, keys=[KEY])
    repository.log.begin_epoch(repository.next_incarnation(2), "restored")
    repository.note_restore(foreign.id, elsewhere.url, claimed=True)
    make_snapshot(repository, Bank(), 1)
    monkeypatch.delenv("RAYSHOT_ENCRYPTION_KEY")  # a coordinator has none in its environment
    retain(repository, Keep(last=1))
    assert [snapshot.id.incarnation for snapshot in committed(elsewhere)] == [2]


@pytest.mark.acceptance("G9")
def test_chunks_that_were_swapped_are_refused() -> None:
    store = FaultyStore()
    snapshot = make_snapshot(open_bank(store, keys=[KEY]), Bank(states=states()))
    one, other, *_ = (f"bank/{chunk.key}" for chunk in snapshot.manifest.chunks)
    first, second = store.read(one), store.read(other)
    store.put_raw(one, second)
    store.put_raw(other, first)
    with pytest.raises(CorruptChunk):
        Storage(store).system("bank").latest().verify()


@pytest.mark.acceptance("G5")
def test_an_encrypted_manifest_in_the_place_of_another_is_refused() -> None:
    store = FaultyStore()
    repository = open_bank(store, keys=[KEY])
    old, new = make_snapshot(repository, counter=1), make_snapshot(repository, counter=2)
    store.put_raw(f"bank/{new.record.manifest_key}", store.read(f"bank/{old.record.manifest_key}"))
    with pytest.raises(SnapshotMismatch):
        Storage(store).system("bank").latest().verify()


def test_the_signer_is_known_from_what_is_stored() -> None:
    store = FaultyStore()
    snapshot = make_snapshot(open_bank(store, keys=[KEY]))
    envelope = open_envelope(store.read(f"bank/{snapshot.record.manifest_key}"))
    assert envelope.key_id == SIGNING_KEY.key_id
    assert snapshot.document != envelope.payload


def test_a_snapshot_that_is_written_without_a_key_uses_nothing_that_needs_one() -> None:
    store = FaultyStore()
    first = make_snapshot(open_bank(store, keys=[KEY]), Bank(states=states()), 1)
    repository = open_bank(store, "w2", keys=[])
    intent = repository.intend(first.id._replace(incarnation=2, counter=9))
    known = {chunk.digest: chunk for chunk in first.manifest.chunks}
    writer = ChunkWriter(store, "bank", intent, known)
    writer.add(NOISE)
    writer.add(first.read(next(a.state.stream for a in first.manifest.actors if a.state)))
    _, chunks = writer.finish()
    assert all(chunk.data_key is None for chunk in chunks)


def test_a_manifest_mixing_encrypted_and_plain_chunks_is_refused() -> None:
    from dataclasses import replace

    snapshot = make_snapshot(open_bank(FaultyStore(), keys=[KEY]))
    with pytest.raises(Damaged):
        replace(snapshot.manifest, data_key=None)


def test_damage_of_an_encrypted_manifest_is_damage_and_no_missing_key() -> None:
    store = FaultyStore()
    snapshot = make_snapshot(open_bank(store, keys=[KEY]))
    key = f"bank/{snapshot.record.manifest_key}"
    store.put_raw(key, store.read(key)[:-1] + b"\0")
    with pytest.raises(BadManifest):
        Storage(store).system("bank").latest().verify()


def test_a_snapshot_is_pickled_without_its_keys(tmp_path: Path) -> None:
    snapshot = make_snapshot(open_bank(LocalStore(tmp_path), keys=[KEY]))
    pickled = pickle.dumps(snapshot)
    assert KEY.secret not in pickled
    copy = pickle.loads(pickled)
    assert copy.states()["alice"] == {"balance": 90}


@pytest.mark.acceptance("G25")
def test_no_repr_of_anything_holds_a_key() -> None:
    repository = open_bank(FaultyStore(), keys=[KEY])
    snapshot = make_snapshot(repository)
    manifest = snapshot.manifest
    assert manifest.data_key is not None
    shown = repr((manifest, snapshot, repository, manifest.chunks, snapshot.envelope))
    for secret in (KEY.secret, manifest.data_key.secret):
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown


def test_two_vaults_that_hold_the_same_bytes_write_one_object_and_a_lost_answer_is_no_loss() -> None:
    store, data_key = FaultyStore(), new_data_key()
    store.fault = Fault(1, FaultEffect.AFTER)
    chunks = []
    for _ in range(2):
        writer = ChunkWriter(store, "bank", "1-coordinator-1", data_key=data_key)
        writer.add(NOISE)
        chunks += writer.finish()[1]
    assert chunks[0] == chunks[1]
    assert len(list(store.list())) == 1
