from dataclasses import replace
from pathlib import Path

import pytest

from rayshot.errors import (
    BadManifest,
    CorruptChunk,
    FormatTooNew,
    MissingChunk,
    SnapshotMismatch,
    UnsafePath,
)
from rayshot.format.chunks import digest
from rayshot.places.local import LocalStore
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.snapshot import Snapshot
from tests.places.faulty_store import FaultyStore
from tests.snapshots.snapshot_builder import Bank, forge_commit, large, make_snapshot, open_bank


@pytest.fixture
def made() -> tuple[FaultyStore, Snapshot]:
    store = FaultyStore()
    return store, make_snapshot(open_bank(store))


def reopened(store: Store) -> Snapshot:
    return Storage(store).system("bank").latest()


@pytest.mark.acceptance("G1", "G2")
def test_a_manifest_that_is_empty_cut_or_flipped_anywhere_is_refused(made: tuple[FaultyStore, Snapshot]) -> None:
    store, snapshot = made
    key = f"bank/{snapshot.record.manifest_key}"
    sealed = store.read(key)
    for cut in range(0, len(sealed), 7):
        store.put_raw(key, sealed[:cut])
        with pytest.raises(BadManifest):
            reopened(store).verify()
    for place in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[place] ^= 4
        store.put_raw(key, bytes(flipped))
        with pytest.raises((BadManifest, SnapshotMismatch)):
            reopened(store).verify()


@pytest.mark.acceptance("G2")
def test_a_manifest_that_is_missing_is_refused(made: tuple[FaultyStore, Snapshot]) -> None:
    store, snapshot = made
    store.delete(f"bank/{snapshot.record.manifest_key}")
    with pytest.raises(BadManifest, match="is missing"):
        reopened(store).verify()


@pytest.mark.acceptance("G5")
def test_a_manifest_copied_from_another_system_is_refused(made: tuple[FaultyStore, Snapshot]) -> None:
    store, snapshot = made
    other = make_snapshot(open_bank(store, system="shop"))
    copied = store.read(f"shop/{other.record.manifest_key}")
    store.put_raw(f"bank/{snapshot.record.manifest_key}", copied)
    with pytest.raises(SnapshotMismatch, match="'shop'"):
        reopened(store).verify()
    forge_commit(store, replace(snapshot.record, manifest_digest=digest(copied)))
    with pytest.raises(SnapshotMismatch, match="'shop'"):
        reopened(store).verify()


@pytest.mark.acceptance("G5")
def test_a_manifest_copied_from_another_position_is_refused() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    old, new = make_snapshot(repository, counter=1), make_snapshot(repository, counter=2)
    copied = store.read(f"bank/{old.record.manifest_key}")
    store.put_raw(f"bank/{new.record.manifest_key}", copied)
    forge_commit(store, replace(new.record, manifest_digest=digest(copied)))
    with pytest.raises(SnapshotMismatch, match=r"position 1 is in the place of .* position 2"):
        reopened(store).verify()


@pytest.mark.acceptance("G5")
def test_a_manifest_that_was_moved_on_to_another_position_is_refused() -> None:
    store = FaultyStore()
    repository = open_bank(store)
    snapshot = make_snapshot(repository, counter=1)
    forge_commit(store, replace(snapshot.record, position=2))
    store.delete("bank/log/" + "0" * 19 + "1")
    forge_commit(store, replace(make_other(snapshot), position=1))
    with pytest.raises(SnapshotMismatch, match=r"position 1 is in the place of .* position 2"):
        Storage(store).system("bank").snapshot(snapshot.id).verify()


@pytest.mark.acceptance("G5")
@pytest.mark.parametrize("forged", [{"label": "audited, restore this one"}, {"taken_at": 4e9}])
def test_a_label_or_a_time_that_the_signed_manifest_does_not_have_is_refused(made, forged) -> None:
    store, snapshot = made
    forge_commit(store, replace(snapshot.record, **forged))
    with pytest.raises(SnapshotMismatch, match="the log says"):
        reopened(store).verify()


@pytest.mark.acceptance("G2")
def test_a_bit_that_flips_anywhere_in_the_log_hides_no_snapshot(made) -> None:
    store, _ = made
    for entry in tuple(store.list("bank/log")):
        written = store.read(entry.key)
        for place in range(len(written)):
            flipped = bytearray(written)
            flipped[place] ^= 1
            store.put_raw(entry.key, bytes(flipped))
            with pytest.raises((BadManifest, FormatTooNew)):
                Storage(store).system("bank").snapshots()
            with pytest.raises((BadManifest, FormatTooNew)):
                open_bank(store)
        store.put_raw(entry.key, written)
    reopened(store).verify()


def make_other(snapshot: Snapshot):
    other = SnapshotId(1, "coordinator", 77)
    return replace(snapshot.record, snapshot=other, manifest_key=f"manifests/{other}")


@pytest.mark.acceptance("G7", "G8", "G9")
def test_chunks_that_are_flipped_cut_longer_missing_or_swapped_are_found() -> None:
    states = {"alice": {"n": large("a")}, "bob": {"n": large("b")}}
    store = FaultyStore()
    snapshot = make_snapshot(open_bank(store), Bank(states=states))
    first, second, *_ = (f"bank/{chunk.key}" for chunk in snapshot.manifest.chunks)
    one, two = store.read(first), store.read(second)
    flipped = bytes([*one[:-1], one[-1] ^ 1])
    for wrong in (flipped, one[:-1], one + b"x", b"", two):
        store.put_raw(first, wrong)
        with pytest.raises(CorruptChunk):
            reopened(store).verify()
        with pytest.raises(CorruptChunk):
            reopened(store).states()
    store.delete(first)
    with pytest.raises(MissingChunk):
        reopened(store).verify()


@pytest.mark.acceptance("G10")
def test_a_chunk_that_is_a_symbolic_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "shots")
    snapshot = make_snapshot(open_bank(store))
    chunk = tmp_path / "shots/bank" / snapshot.manifest.chunks[0].key
    chunk.rename(tmp_path / "elsewhere")
    chunk.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath):
        reopened(store).verify()
    with pytest.raises(UnsafePath):
        reopened(store).states()
