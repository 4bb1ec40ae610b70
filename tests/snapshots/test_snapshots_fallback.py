"""The way round a damaged snapshot: the newest one before it that proves whole, and what going there undoes."""

import pytest

from rayshot.errors import StoreUnavailable
from rayshot.log.history import History
from rayshot.log.records import DeleteRecord, EpochRecord, Record, RestoreRecord
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.fallback import find_fallback, find_offer, snapshots_before
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from tests.log.test_log_rollback_target import BEGIN, ELSEWHERE, commit, log_of, snap
from tests.places.faulty_store import FaultyStore
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, large, make_snapshot, open_bank


def before(*records: Record, damaged: SnapshotId) -> list[str]:
    return [str(record.snapshot) for record in snapshots_before(log_of(*records).history, damaged)]


OLD = (BEGIN, commit(1, snap(1)), commit(2, snap(2)), commit(3, snap(3)), EpochRecord(4, 2, "w2"))


@pytest.mark.acceptance("S4")
def test_the_snapshots_before_one_are_those_that_it_comes_from_and_none_that_was_given_up() -> None:
    restored = (
        *OLD,
        RestoreRecord(5, "w2", snap(2), None, claimed=False),
        commit(6, snap(1, 2)),
        commit(7, snap(2, 2)),
    )
    assert before(*restored, damaged=snap(2, 2)) == ["2-coordinator-1", "1-coordinator-2", "1-coordinator-1"]
    assert before(*restored, damaged=snap(3)) == ["1-coordinator-2", "1-coordinator-1"]
    gone = (*restored, DeleteRecord(8, "w2", snap(2)))
    assert before(*gone, damaged=snap(1, 2)) == ["1-coordinator-1"]


@pytest.mark.acceptance("S4")
def test_a_life_from_another_storage_and_one_that_began_anew_come_from_nothing_here() -> None:
    elsewhere = (*OLD, RestoreRecord(5, "w2", snap(9), ELSEWHERE, claimed=True), commit(6, snap(1, 2)))
    assert before(*elsewhere, damaged=snap(1, 2)) == []
    assert before(*OLD, commit(5, snap(1, 2)), damaged=snap(1, 2)) == []
    assert before(*OLD, damaged=snap(7)) == []


STORAGE = "/shots"


@pytest.fixture
def made() -> tuple[FaultyStore, Repository, list[Snapshot]]:
    """Three snapshots, in each of which bob has handled ten messages more, and has another large state."""
    store = FaultyStore()
    repository = open_bank(store)
    snapshots: list[Snapshot] = []
    for counter in (1, 2, 3):
        states = {"alice": large("alice"), "bob": large(f"bob{counter}")}
        flows = {("alice", "bob"): Flow(sent=10 * counter, received=10 * counter)}
        before = snapshots[-1] if snapshots else None
        snapshots.append(make_snapshot(repository, Bank(states, flows), counter, reuse=before))
    return store, repository, snapshots


def damage(store: FaultyStore, snapshot: Snapshot, *others: Snapshot) -> None:
    """Cut a chunk that all of these have, and no other snapshot."""
    shared = set(snapshot.manifest.chunks).intersection(*(one.manifest.chunks for one in others))
    chunk = max(shared, key=lambda one: one.size)
    store.put_raw(f"bank/{chunk.key}", store.read(f"bank/{chunk.key}")[:-1])


def history(repository: Repository) -> History:
    return repository.log.refresh()


@pytest.mark.acceptance("S4")
def test_the_newest_that_proves_whole_is_offered_with_what_it_undoes(
    made: tuple[FaultyStore, Repository, list[Snapshot]],
) -> None:
    store, repository, (_, second, third) = made
    offer = find_offer(history(repository), repository.snapshot, third.id, STORAGE, [KEY.public])
    assert f"proves whole is {second.id}, taken 1.0 s earlier" in offer
    assert "undoes what was handled in between, 10 messages, and all that came behind 1-coordinator-3." in offer
    assert "RAYSHOT_RESTORE_SNAPSHOT=1-coordinator-2" in offer
    assert offer.endswith("rayshot.restore('bank', storage='/shots', snapshot='1-coordinator-2')")
    damage(store, second, third)
    fallback = find_fallback(history(repository), repository.snapshot, third.id, [KEY.public])
    assert fallback is None, "the state of alice is one chunk, which all three have"
    store.delete(f"bank/{third.record.manifest_key}")
    assert "proves whole: see whether there is a copy of 1-coordinator-3 elsewhere" in find_offer(
        history(repository), repository.snapshot, third.id, STORAGE, [KEY.public]
    )


@pytest.mark.acceptance("S4")
def test_one_that_is_damaged_or_not_signed_by_a_trusted_key_is_passed_over(
    made: tuple[FaultyStore, Repository, list[Snapshot]],
) -> None:
    store, repository, (first, second, third) = made
    store.delete(f"bank/{second.record.manifest_key}")
    store.delete(f"bank/{third.record.manifest_key}")
    fallback = find_fallback(history(repository), repository.snapshot, third.id, [KEY.public])
    assert fallback is not None
    assert (fallback.older.id, fallback.seconds, fallback.messages) == (first.id, 2.0, None)
    assert "an unknown number of messages" in fallback.offer(STORAGE)
    assert find_fallback(history(repository), repository.snapshot, third.id, []) is None
    untrusted = find_fallback(history(repository), repository.snapshot, third.id, [], allow_unsigned=True)
    assert untrusted is not None
    assert untrusted.offer(STORAGE, allow_unsigned=True).endswith("snapshot='1-coordinator-1', allow_unsigned=True)")


@pytest.mark.acceptance("S4")
def test_one_that_there_is_no_time_to_read_is_offered_with_the_command_that_proves_it(
    made: tuple[FaultyStore, Repository, list[Snapshot]],
) -> None:
    _, repository, (_, second, third) = made
    fallback = find_fallback(history(repository), repository.snapshot, third.id, [KEY.public], within_s=-1.0)
    assert fallback is not None
    assert (fallback.older.id, fallback.proved) == (second.id, False)
    assert fallback.offer(STORAGE).endswith(
        "`rayshot verify /shots --system bank --snapshot 1-coordinator-2 --read-data`"
    )


def test_a_storage_that_cannot_be_read_now_is_no_proof_that_a_snapshot_is_damaged(
    made: tuple[FaultyStore, Repository, list[Snapshot]],
) -> None:
    _, repository, (*_, third) = made

    def read(_: object) -> Snapshot:
        raise StoreUnavailable("it is away")

    offer = find_offer(history(repository), read, third.id, STORAGE, [KEY.public])
    assert offer == "Nobody can tell now which one before it is whole: it is away"
