"""To whom a snapshot belongs that a life of the system was restored from."""

from collections.abc import Iterator

import pytest

from rayshot.errors import RayshotError
from rayshot.log.log import CommitLog
from rayshot.log.records import RestoreRecord
from rayshot.places import memory
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.retention import Keep, Retention
from tests.places.faulty_store import Fault, FaultyStore
from tests.snapshots.snapshot_builder import Bank, committed, make_snapshot, open_bank, retain

ONE = Keep(last=1)


@pytest.fixture
def elsewhere() -> Iterator[FaultyStore]:
    memory._named["claimed-elsewhere"] = FaultyStore("claimed-elsewhere")
    yield memory._named["claimed-elsewhere"]
    del memory._named["claimed-elsewhere"]


def live_on(store: FaultyStore, after: int = 2) -> Repository:
    """A life that was restored into `store`: it has a number above that of the snapshot."""
    repository = Repository(store, "bank", create=True)
    repository.log.begin_epoch(repository.next_incarnation(after), "restored")
    return repository


def counters(store: FaultyStore) -> list[tuple[int, int]]:
    return [(snapshot.id.incarnation, snapshot.id.counter) for snapshot in committed(store)]


def test_what_was_restored_without_a_claim_is_kept_in_all_later_lives() -> None:
    store = FaultyStore()
    made = [make_snapshot(open_bank(store, "w1"), Bank(), 1)]
    second = open_bank(store, "w2")
    second.note_restore(made[0].id, None, claimed=False)
    for counter in (1, 2):
        make_snapshot(second, Bank(), counter)
        retain(second, ONE)
    assert counters(store) == [(1, 1), (2, 2)]
    third = open_bank(store, "w3")
    assert third.log.history.restore is None
    make_snapshot(third, Bank(), 1)
    retain(third, ONE)
    assert counters(store) == [(1, 1), (2, 2), (3, 1)]  # it begins anew, so the last of each earlier life stays too


@pytest.mark.parametrize("label", [None, "a savepoint"])
def test_what_was_claimed_is_deleted_when_its_turn_comes_savepoint_or_not(label: str | None) -> None:
    store = FaultyStore()
    made = make_snapshot(open_bank(store, "w1"), Bank(label=label), 1)
    second = open_bank(store, "w2")
    second.note_restore(made.id, None, claimed=True)
    retain(second, ONE)
    assert counters(store) == [(1, 1)]
    make_snapshot(second, Bank(), 1)
    retain(second, ONE)
    assert counters(store) == [(2, 1)]


def test_a_copy_that_was_claimed_is_deleted_with_its_folder() -> None:
    source, store = FaultyStore("a"), FaultyStore("b")
    copied = copy_snapshot(source, store, make_snapshot(open_bank(source), Bank(label="move"), 1))
    repository = open_bank(store)
    repository.note_restore(copied.id, None, claimed=True)
    make_snapshot(repository, Bank(), 1)
    assert retain(repository, ONE).removed == (copied.id,)
    assert not list(store.list("bank/copies"))
    assert counters(store) == [(2, 1)]


def test_what_was_claimed_elsewhere_counts_as_the_oldest_and_is_deleted_there(elsewhere: FaultyStore) -> None:
    foreign = make_snapshot(open_bank(elsewhere), Bank(label="move"), 1)
    kept = make_snapshot(open_bank(elsewhere, "w2"), Bank(), 1)
    store = FaultyStore()
    repository = live_on(store)
    repository.note_restore(foreign.id, elsewhere.url, claimed=True)
    retention = Retention(repository)
    for counter, left in ((1, 2), (2, 1), (3, 1)):
        make_snapshot(repository, Bank(), counter)
        retention.retain(Keep(last=2))
        assert len(committed(elsewhere)) == left
    assert committed(elsewhere) == [kept]
    calls = elsewhere.calls
    retention.retain(Keep(last=2))
    assert elsewhere.calls == calls


def test_what_was_claimed_elsewhere_stays_while_nothing_of_our_own_verifies(elsewhere: FaultyStore) -> None:
    foreign = make_snapshot(open_bank(elsewhere), Bank(), 1)
    store = FaultyStore()
    repository = live_on(store)
    repository.note_restore(foreign.id, elsewhere.url, claimed=True)
    own = make_snapshot(repository, Bank(), 1)
    store.put_raw(f"bank/{own.manifest.chunks[0].key}", b"")
    retain(repository, ONE)
    assert committed(elsewhere) == [foreign]


def test_what_is_elsewhere_and_was_not_claimed_is_never_touched(elsewhere: FaultyStore) -> None:
    foreign = make_snapshot(open_bank(elsewhere), Bank(), 1)
    repository = live_on(FaultyStore())
    repository.note_restore(foreign.id, elsewhere.url, claimed=False)
    calls = elsewhere.calls
    make_snapshot(repository, Bank(), 1)
    retain(repository, ONE)
    assert elsewhere.calls == calls


def test_a_storage_elsewhere_that_fails_is_tried_again(elsewhere: FaultyStore) -> None:
    foreign = make_snapshot(open_bank(elsewhere), Bank(), 1)
    repository = live_on(own := FaultyStore())
    repository.note_restore(foreign.id, elsewhere.url, claimed=True)
    make_snapshot(repository, Bank(), 1)
    newest = make_snapshot(repository, Bank(), 2)
    elsewhere.fault = Fault(elsewhere.calls + 1, count=1000)
    with pytest.raises(RayshotError):
        retain(repository, ONE)
    assert committed(own) == [newest]  # what is our own does not wait for it
    elsewhere.fault = None
    retain(repository, ONE)
    assert committed(elsewhere) == []


def test_the_log_says_what_a_life_was_restored_from() -> None:
    store = FaultyStore()
    repository = open_bank(store, "w1")
    snapshot = make_snapshot(repository)
    repository.note_restore(snapshot.id, "file:///elsewhere", claimed=False)
    record = RestoreRecord(2, "w1", snapshot.id, "file:///elsewhere", claimed=False)
    assert CommitLog(store, "bank").records()[-1] == record
    assert repository.log.refresh().restore == record
