"""Two answers are compared by a few bytes: these differ if the answers do, and cost little."""

from dataclasses import dataclass, field
from enum import Enum, IntFlag
from typing import NamedTuple

import pytest

from rayshot.errors import ActorExited, SystemStopped
from rayshot.runtime.actor.outcomes import failure
from rayshot.runtime.wire.actor_errors import ActorDied, as_rays
from rayshot.runtime.wire.answer_digests import ITEMS_MAX, LENGTH_MAX, SHOWN_MAX, WHOLE_MAX, describe, digest


class Point(NamedTuple):
    x: int
    y: int


class Color(Enum):
    RED = 1
    BLUE = 2


class Right(IntFlag):
    READ = 1


@dataclass
class Later:
    number: int
    found: int = field(init=False)


class Gone(tuple):
    __slots__ = ()
    _fields = ()

    def __len__(self):
        raise KeyError


@dataclass
class Order:
    number: int
    lines: list = field(default_factory=list)


class Plain:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 2),
        ("a", "b"),
        (None, 0),
        (True, 1),
        (1, 1.0),
        ((1, "x"), (1, "y")),
        ([1.5], []),
        ([[1]], [[2]]),
        ("long" * 100, "Long" * 100),
        (b"x" * LENGTH_MAX, b"y" * LENGTH_MAX),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (Point(1, 2), Point(1, 3)),
        (Color.RED, Color.BLUE),
        (Right(0), Right(8)),
        (Order(1, ["a"]), Order(1, ["b"])),
        (5, Plain(5)),
        (5, failure(ValueError(), "till")),
        (failure(ValueError(), "till"), failure(KeyError(), "till")),
        (5, as_rays(ActorExited("it has ended", actor="till"))),
        ({}, []),
    ],
)
def test_answers_that_differ_have_other_bytes(first, second):
    assert digest(first) != digest(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (7, 7),
        (float("nan"), float("nan")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        ([1, 2], (1, 2)),
        (Order(1, ["a"]), Order(1, ["a"])),
        (failure(ValueError("words"), "till"), failure(ValueError("other words"), "a")),
    ],
)
def test_equal_answers_have_the_same_bytes(first, second):
    assert digest(first) == digest(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Plain(1), Plain(2)),
        (1 << 80, 1 << 81),
        ("\ud800", "a\ud800"),
        ("x" * (LENGTH_MAX + 1), "y" * (LENGTH_MAX + 1)),
        ([1] * ITEMS_MAX, [2] * ITEMS_MAX),
        ([[1] * 32, [2] * 32], [[1] * 32, [3] * 32]),
        ({(1, 2): 1}, {(1, 2): 2}),
        ([Plain(1)], [Plain(2)]),
        (Order, Later),
        (Later(1), Later(2)),
        (Gone(), Gone()),
    ],
)
def test_of_what_is_not_cheap_only_the_class_is_compared(first, second):
    assert digest(first) == digest(second) != digest(None)


def test_errors_of_a_system_that_stops_say_nothing_of_the_call():
    assert digest(ActorDied("it died", actor="till")) == b""
    assert digest(failure(SystemStopped("it stopped"), "till")) != b"", "a handler raised it"


@pytest.mark.parametrize("value", [0, "x" * LENGTH_MAX, {"key": "y" * 1000}, Plain(1), failure(KeyError(), "till")])
def test_no_digest_is_large(value):
    assert len(digest(value)) <= 1 + WHOLE_MAX + SHOWN_MAX


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (("a", 1.5), "('a', 1.5)"),
        ("line\n", r"'line\n'"),
        ({"done": True}, "{'done': True}"),
        (Color.RED, "'Color.RED'"),
        (Point(1, 2), "(1, 2)"),
        (Plain(1), "a value of class Plain"),
        (failure(KeyError("secret"), "till"), "the error KeyError"),
    ],
)
def test_what_a_person_sees_of_it(value, text):
    assert describe(digest(value)) == text


def test_of_a_large_value_a_person_sees_its_class_and_a_part_of_its_digest():
    texts = {describe(digest(letter * 1000)) for letter in "ab"}
    assert len(texts) == 2
    assert all(text.startswith("a value of class str (digest ") for text in texts)
