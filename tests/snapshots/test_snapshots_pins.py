"""A pin, where the storage holds copies of snapshots that lives elsewhere have committed."""

import pytest

from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.upkeep.copying import copy_snapshot
from rayshot.snapshots.upkeep.pins import follow_pin, note_pin
from tests.snapshots.snapshot_builder import make_snapshot, open_bank


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


@pytest.mark.parametrize("life", [3, 2])
def test_a_copy_neither_ends_a_pin_nor_counts_under_it_be_it_of_a_later_life_or_of_the_same_number(store, life):
    pinned = make_snapshot(open_bank(store))
    note_pin(store, "bank", 2, pinned.id)
    under_it = make_snapshot(open_bank(store, writer="w2"))
    elsewhere, foreign = taken_elsewhere(life)
    copy_snapshot(elsewhere, store, foreign)
    assert follow(store, pinned) == under_it.id
