import pytest

from rayshot.errors import KeyNotFound, StoreFull, StoreUnavailable
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore


def test_a_call_that_fails_before_has_no_effect() -> None:
    store = FaultyStore()
    store.fault = Fault(1)
    with pytest.raises(StoreUnavailable):
        store.create("a", b"x")
    with pytest.raises(KeyNotFound):
        store.read("a")


def test_a_call_that_fails_after_has_its_effect_and_loses_its_answer() -> None:
    store = FaultyStore()
    store.fault = Fault(1, FaultEffect.AFTER)
    with pytest.raises(StoreUnavailable):
        store.create("a", b"x")
    assert store.read("a") == b"x"


def test_a_short_answer_is_no_error() -> None:
    store = FaultyStore()
    store.create("a", b"1234")
    store.fault = Fault(2, FaultEffect.SHORT)
    assert store.read("a") == b"12"
    assert store.read("a") == b"1234"


def test_a_storm_lasts_as_long_as_it_is_told_and_raises_what_it_is_told() -> None:
    store = FaultyStore()
    store.fault = Fault(2, count=2, error=lambda: StoreFull("full"))
    store.create("a", b"x")
    for _ in range(2):
        with pytest.raises(StoreFull):
            store.delete("a")
    store.delete("a")
    assert store.journal == [("create", "a"), ("delete", "a"), ("delete", "a"), ("delete", "a")]
