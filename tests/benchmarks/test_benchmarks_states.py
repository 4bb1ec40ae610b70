"""Large states for benchmarks: what changes, how much of it, and whether there is room."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.memory import check_memory
from benchmarks.report import NotRun
from benchmarks.states import Holder, random_bits

BYTES = 1 << 20


@pytest.mark.parametrize("pieces", [1, 10])
@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_exactly_the_share_that_was_asked_for_is_changed(share, pieces):
    holder = Holder(BYTES)
    before = holder.array.copy()
    changed_bytes = holder.change(share, pieces)
    assert changed_bytes == 8 * np.count_nonzero(before != holder.array)
    assert changed_bytes == pytest.approx(share * BYTES, rel=0.01)


def test_one_per_cent_in_ten_pieces_lies_in_ten_places():
    holder = Holder(BYTES)
    before = holder.array.copy()
    holder.change(0.01, 10)
    places = np.flatnonzero(before != holder.array)
    assert sum(after - place > 1 for place, after in pairwise(places)) + 1 == 10


def test_a_seed_says_which_bits():
    assert (random_bits(BYTES, 7) == random_bits(BYTES, 7)).all()
    assert (random_bits(BYTES, 7) != random_bits(BYTES, 8)).any()


@pytest.mark.parametrize("way", ["write", "pickle"])
def test_what_was_written_to_be_measured_is_removed(tmp_path, way):
    assert Holder(BYTES).write(str(tmp_path / "plain"), way) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_state_for_which_there_is_no_room_is_not_tried():
    check_memory(1 << 10, memory_per_state=1, shared_memory_per_state=1)
    with pytest.raises(NotRun, match="needs 4x of it"):
        check_memory(1 << 60, memory_per_state=4, shared_memory_per_state=2)
