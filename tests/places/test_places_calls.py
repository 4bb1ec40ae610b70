from collections.abc import Callable

import pytest

from rayshot.errors import AlreadyExists, StoreError, StoreFull, StoreUnavailable
from rayshot.places.calls import ATTEMPTS_MAX, create_once
from tests.places.faulty_store import FaultyStore


class Moody(FaultyStore):
    """A store whose creations answer with these errors in turn, then as usual."""

    def __init__(self, *moods: Callable[[], StoreError]) -> None:
        super().__init__()
        self.moods = list(moods)

    def create(self, key, data) -> None:
        if self.moods:
            mood = self.moods.pop(0)
            raise mood()
        super().create(key, data)


def full() -> StoreError:
    return StoreFull("full")


def away() -> StoreError:
    return StoreUnavailable("away")


def taken() -> StoreError:
    return AlreadyExists("taken")


def test_what_is_there_already_with_the_same_bytes_is_done() -> None:
    store = FaultyStore()
    for _ in range(2):
        create_once(store, "a", [b"by", b"tes"])
    with pytest.raises(AlreadyExists):
        create_once(store, "a", b"other")
    assert store.read("a") == b"bytes"


def test_a_part_of_the_bytes_is_a_short_answer_and_no_rival() -> None:
    store = FaultyStore()
    store.create("a", b"bytes")
    with pytest.raises(StoreUnavailable, match="returned only a part"):
        create_once(store, "a", b"bytes and more")


@pytest.mark.acceptance("D4")
def test_a_conflict_that_nobody_won_is_tried_again() -> None:
    store = Moody(taken)
    create_once(store, "a", b"x")
    assert store.read("a") == b"x"


def test_a_full_store_is_a_clear_answer_only_where_no_earlier_one_was_lost() -> None:
    with pytest.raises(StoreFull):
        create_once(Moody(full), "a", b"x")
    with pytest.raises(StoreUnavailable, match="not known"):
        create_once(Moody(away, *[full] * ATTEMPTS_MAX), "a", b"x")


@pytest.mark.acceptance("D5")
def test_attempts_are_bounded() -> None:
    store = Moody(*[away] * 100)
    with pytest.raises(StoreUnavailable, match=f"after {ATTEMPTS_MAX} attempts: away"):
        create_once(store, "a", b"x")
    assert len(store.moods) == 100 - ATTEMPTS_MAX
