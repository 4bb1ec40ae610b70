import datetime as dt
import json
import pickle
from collections import deque
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from rayshot.analysis import values
from rayshot.inert.inert_object import HandleRecord
from rayshot.inert.reader import read


class Ledger:
    def __init__(self, entries: list[int]) -> None:
        self.entries = entries


def inert(value: Any) -> Any:
    return read(pickle.dumps(value, protocol=5))


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 1),
        (True, 1),
        (0, 1),
        (2**70, 9),
        (1.5, 8),
        ("Zoë", 4),
        (b"123", 3),
        ([1, 2, "ab"], 4),
        ({"ab": [1.0]}, 10),
        (deque([1, {2}]), 2),
        (np.zeros((3, 4), dtype=np.int16), 24),
        (np.float32(1), 4),
        (HandleRecord("bank", "bob"), 7),
        (Decimal("1.50"), 4),
    ],
)
def test_a_value_is_as_large_as_what_it_holds(value: Any, size: int) -> None:
    assert values.size_bytes(value) == size


def test_shared_parts_and_cycles_count_once() -> None:
    shared = "x" * 1000
    knot: list[Any] = [shared, shared, {"again": shared}]
    knot.append(knot)
    assert values.size_bytes(knot) == 1000 + len("again")


def test_a_deep_value_is_measured_without_recursion() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert values.size_bytes(deep) == 0
    assert "$omitted" in values.as_json(deep)


def test_an_object_of_an_unknown_class_is_named_and_measured_by_what_it_holds() -> None:
    ledger = inert(Ledger([1, 2, 3]))
    assert values.type_name(ledger).endswith("Ledger")
    assert json.loads(values.as_json(ledger)) == {"$class": f"{__name__}.Ledger", "entries": [1, 2, 3]}
    assert values.size_bytes(ledger) > 3
    assert values.type_name(inert(Ledger)) == "(global)"
    assert values.type_name(HandleRecord("bank", "bob")) == "rayshot.ActorHandle"
    assert values.type_name(dt.datetime(2026, 1, 1)) == "datetime.datetime"  # noqa: DTZ001


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        (2**63 - 1, (2**63 - 1, None, None, None)),
        (-(2**63) - 1, (None, -(2.0**63), None, None)),
        (10**400, (None, None, None, None)),
        (np.uint64(2**64 - 1), (None, 2.0**64, None, None)),
        (np.float32(0.5), (None, 0.5, None, None)),
        (np.bool_(1), (None, None, None, True)),
        (np.timedelta64(5, "ns"), (None, None, None, None)),
        (np.timedelta64(5, "us"), (None, None, None, None)),
        (np.timedelta64(5), (None, None, None, None)),
        (np.str_("a"), (None, None, "a", None)),
        (float("-inf"), (None, float("-inf"), None, None)),
        (b"a", (None, None, None, None)),
        ([1], (None, None, None, None)),
    ],
)
def test_a_value_is_in_the_typed_column_that_carries_it_and_in_no_other(value: Any, cells: tuple[Any, ...]) -> None:
    found = values.as_long(value), values.as_double(value), values.as_string(value), values.as_bool(value)
    assert found == cells


@pytest.mark.parametrize(
    ("value", "decimal"),
    [
        (2**63, 2**63),
        (-(2**63) - 1, -(2**63) - 1),
        (10**38 - 1, 10**38 - 1),
        (10**38, None),
        (2**63 - 1, None),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (1e30, None),
        (True, None),
    ],
)
def test_an_integer_wider_than_64_bits_is_a_decimal_and_text_in_json(value: Any, decimal: int | None) -> None:
    assert values.as_decimal(value) == decimal
    if decimal is not None:
        assert values.as_json(value) == f'"{decimal}"'


def test_halves_of_characters_are_escaped_everywhere() -> None:
    half = inert({"\udc80": "\udc80"})
    assert values.sound_text("\udc80") == "\\udc80"
    assert values.as_string("\udc80") == "\\udc80"
    assert values.as_json(half).isascii()


def test_json_is_bounded_whatever_the_value_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "TEXT_LENGTH_MAX", 20_000)
    assert values.as_json(["x" * 9_000] * 2) == json.dumps(["x" * 9_000] * 2)
    assert values.in_json({"x" * 9_000: "y" * 9_000, "z" * 9_000: 1}) == ('{"$omitted": 1}', True)
    assert 'x", {"$omitted": 9991}]' in values.as_json(["x" * 1_000] * 10_000)
    assert values.as_string("x" * 20_001) is None
