"""A pin, where the storage holds copies of snapshots that lives elsewhere have committed."""

import pytest

from rayshot.store.catalog import Storage
from rayshot.store.copying import copy_snapshot
from rayshot.store.memory import MemoryStore
from rayshot.store.pinning import follow_pin, note_pin
from tests.store.snapshot_builder import make_snapshot, open_bank


def taken_elsewhere(life):
    """A store where that life has committed more than others, and its last snapshot."""
    elsewhere = MemoryStore()
    for _ in range(life - 1):
        open_bank(elsewhere, writer="elsewhere")
    bank = open_bank(elsewhere, writer="elsewhere")
    return elsewhere, [make_snapshot(bank, counter=number) for number in range(1, 10)][-1]


@pytest.fixture
def store():
    return MemoryStore()


def follow(store, pin):
    return follow_pin(store, Storage(store).system("bank"), pin.id).id


def test_a_copy_from_another_life_does_not_end_a_pin(store):
    pinned = make_snapshot(open_bank(store))
    note_pin(store, "bank", 2, pinned.id)
    under_it = make_snapshot(open_bank(store, writer="w2"))
    elsewhere, foreign = taken_elsewhere(life=3)
    copy_snapshot(elsewhere, store, foreign)
    assert follow(store, pinned) == under_it.id


def test_a_copy_from_a_life_of_the_same_number_is_not_what_the_lives_under_a_pin_committed(store):
    pinned = make_snapshot(open_bank(store))
    note_pin(store, "bank", 2, pinned.id)
    under_it = make_snapshot(open_bank(store, writer="w2"))
    elsewhere, foreign = taken_elsewhere(life=2)
    copy_snapshot(elsewhere, store, foreign)
    assert follow(store, pinned) == under_it.id
