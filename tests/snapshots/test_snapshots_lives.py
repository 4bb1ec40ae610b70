"""What retention keeps of lives before the present one."""

import pytest

from rayshot.places.memory import MemoryStore
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.retention import Keep
from tests.snapshots.snapshot_builder import Bank, committed, make_snapshot, open_bank, retain

TWO = Keep(last=2)


def live(repository: Repository, snapshots: int, keep: Keep = TWO) -> None:
    for counter in range(1, snapshots + 1):
        make_snapshot(repository, Bank(), counter)
        retain(repository, keep)


def names(store: MemoryStore) -> list[str]:
    return [str(snapshot.id) for snapshot in committed(store)]


@pytest.mark.parametrize("keep", [TWO, Keep(hourly=1), Keep(last=2, daily=3)])
def test_lives_that_begin_anew_leave_the_last_snapshot_of_each_life_before(keep: Keep) -> None:
    store = MemoryStore()
    for writer in ("w1", "w2", "w3", "w4"):
        live(open_bank(store, writer), 5 if writer != "w3" else 0, keep)
    assert {"1-coordinator-5", "2-coordinator-5", "4-coordinator-5"} <= set(names(store))
    assert "1-coordinator-3" not in names(store)


def spoil(store: MemoryStore, snapshot: str) -> None:
    (found,) = [one for one in committed(store) if str(one.id) == snapshot]
    for chunk in found.manifest.chunks:
        key = f"bank/{chunk.key}"
        content = store.read_range(key, 0, 1 << 20)
        store.delete(key)
        store.create(key, content[:-1])


@pytest.mark.acceptance("X5")
def test_of_a_life_whose_last_snapshot_is_damaged_the_last_sound_one_stays_too() -> None:
    store = MemoryStore()
    live(open_bank(store, "w1"), 3, Keep(last=3))
    spoil(store, "1-coordinator-3")
    live(open_bank(store, "w2"), 4)
    assert names(store) == ["1-coordinator-2", "1-coordinator-3", "2-coordinator-3", "2-coordinator-4"]


@pytest.mark.acceptance("X5")
def test_of_a_life_without_a_sound_snapshot_nothing_is_deleted() -> None:
    store = MemoryStore()
    live(open_bank(store, "w1"), 2, Keep(last=2))
    for snapshot in ("1-coordinator-1", "1-coordinator-2"):
        spoil(store, snapshot)
    live(open_bank(store, "w2"), 4)
    assert names(store) == ["1-coordinator-1", "1-coordinator-2", "2-coordinator-3", "2-coordinator-4"]


def test_only_a_person_deletes_the_last_snapshot_of_a_life_that_was_left() -> None:
    store = MemoryStore()
    live(open_bank(store, "w1"), 3)
    live(open_bank(store, "w2"), 3)
    delete_snapshot(store, "bank", "1-coordinator-3")
    assert names(store) == ["2-coordinator-2", "2-coordinator-3"]


def test_the_last_snapshot_goes_when_the_lives_restored_from_it_have_as_many_as_are_kept() -> None:
    store = MemoryStore()
    first = open_bank(store, "w1")
    live(first, 3)
    last = committed(store)[-1].id
    second = open_bank(store, "w2")
    second.note_restore(last, None, claimed=True)
    live(second, 1)
    assert names(store) == ["1-coordinator-3", "2-coordinator-1"]
    third = open_bank(store, "w3")
    third.note_restore(committed(store)[-1].id, None, claimed=True)
    live(third, 1)
    assert names(store) == ["2-coordinator-1", "3-coordinator-1"]  # together they are two
    live_on = open_bank(store, "w4")  # begins anew
    live(live_on, 4)
    assert names(store) == ["2-coordinator-1", "3-coordinator-1", "4-coordinator-3", "4-coordinator-4"]
