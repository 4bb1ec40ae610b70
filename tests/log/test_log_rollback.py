"""A storage that was put back to an older state: everything in it is signed, and it is refused all the same."""

from dataclasses import replace

import pytest

from rayshot.errors import ConfigError, RolledBack, SnapshotMismatch, Untrusted
from rayshot.format.chunks import digest
from rayshot.log.records import EpochRecord, encode_record
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.upkeep.copying import copy_snapshot
from tests.snapshots.snapshot_builder import KEY, forge_commit, make_snapshot, open_bank


@pytest.fixture
def store() -> MemoryStore:
    """Positions: 0 EPOCH, 1 and 2 COMMIT."""
    store = MemoryStore()
    repository = open_bank(store)
    for counter in (1, 2):
        make_snapshot(repository, counter=counter)
    return store


def test_a_storage_that_reaches_the_position_is_read(store: MemoryStore) -> None:
    view = Storage(store, min_position=2).system("bank")
    assert view.latest().verify([KEY]).trusted
    assert [snapshot.position for snapshot in view.snapshots()] == [1, 2]


def test_a_storage_put_back_to_an_older_state_is_refused_and_says_what_it_found(store: MemoryStore) -> None:
    store.delete("bank/log/" + "0" * 19 + "2")
    assert Storage(store).system("bank").latest().verify([KEY]).trusted
    view = Storage(store, min_position=2).system("bank")
    for ask in (view.latest, view.snapshots, view.snapshot):
        with pytest.raises(RolledBack, match=r"the newest snapshot is at position 1 .* position 2") as caught:
            ask()
        assert caught.value.evidence == {"found": 1, "min_position": 2}
        assert isinstance(caught.value, Untrusted)


def test_a_storage_without_snapshots_is_refused_too(store: MemoryStore) -> None:
    for number in "12":
        store.delete("bank/log/" + "0" * 19 + number)
    with pytest.raises(RolledBack, match="there is none"):
        Storage(store, min_position=1).system("bank").latest()


def test_an_older_snapshot_is_refused_by_its_own_position(store: MemoryStore) -> None:
    view = Storage(store, min_position=2).system("bank")
    with pytest.raises(RolledBack, match="the snapshot 1-coordinator-1 is at position 1"):
        view.snapshot("1-coordinator-1")


@pytest.mark.acceptance("G5")
def test_a_log_that_was_lengthened_by_records_that_nobody_signs_does_not_help(store: MemoryStore) -> None:
    old = Storage(store).system("bank").snapshot("1-coordinator-1")
    store.delete("bank/log/" + "0" * 19 + "2")
    for position in (2, 3):
        store.create(f"bank/log/{position:020}", encode_record(EpochRecord(position, 1, "w1")))
    with pytest.raises(RolledBack, match="position 1"):
        Storage(store, min_position=2).system("bank").latest()
    sealed = store.read(f"bank/{old.record.manifest_key}")
    moved = replace(old.record, position=4, manifest_digest=digest(sealed))
    store.delete("bank/log/" + "0" * 19 + "1")
    store.create("bank/log/" + "0" * 19 + "1", encode_record(EpochRecord(1, 1, "w1")))
    forge_commit(store, moved)
    with pytest.raises(SnapshotMismatch):
        Storage(store, min_position=2).system("bank").latest().verify([KEY])


def test_the_position_that_a_copy_shows_is_the_one_that_is_asked_for(store: MemoryStore) -> None:
    backup = MemoryStore("backup")
    for counter in (2, 1):
        copied = copy_snapshot(store, backup, Storage(store).system("bank").snapshot(f"1-coordinator-{counter}"))
        assert copied.position == counter
    newest = Storage(backup).system("bank").latest().position
    assert Storage(backup, min_position=newest).system("bank").latest().verify([KEY]).trusted
    with pytest.raises(RolledBack):
        Storage(backup, min_position=newest + 1).system("bank").latest()


def test_a_position_below_zero_is_refused(store: MemoryStore) -> None:
    with pytest.raises(ConfigError):
        Storage(store, min_position=-1)
