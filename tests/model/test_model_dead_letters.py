"""How many dead letters a snapshot holds, and how large they may be."""

import pytest

from rayshot.errors import BadState
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.dead_letters import RECORDED_BYTES_MAX, RECORDED_MAX, DeadLetters
from rayshot.snapshots.state import read_dead_letters

pytestmark = pytest.mark.acceptance("S11")


def box(*errors, life=3):
    letters = DeadLetters(life)
    for number, error in enumerate(errors, 1):
        letters.add(DeadLetter("bob", "alice", number, "put", error))
    return letters


def test_a_snapshot_holds_the_last_ones_with_their_life():
    recorded = box(*["e"] * (RECORDED_MAX + 5)).recorded()
    assert len(recorded) == RECORDED_MAX
    assert recorded[-1] == ("bob", "alice", RECORDED_MAX + 5, "put", "e", 3)


def test_of_a_long_error_it_holds_the_end_and_of_many_wide_ones_as_many_as_fit():
    (one,) = box("x" * 1_000_000 + "\nValueError: why").recorded()
    assert len(one[4]) == 10_000
    assert one[4].endswith("ValueError: why")
    recorded = box(*["\U0001f600" * 20_000] * 60).recorded()
    assert 20 < len(recorded) < 27
    assert sum(len(letter[4].encode()) for letter in recorded) <= RECORDED_BYTES_MAX
    assert recorded[-1][2] == 60
    assert box("\ud800").recorded()[0][4] == "\ud800"


def test_what_is_taken_over_keeps_its_life_stands_first_and_is_not_counted():
    letters = box("new", life=4)
    letters.take_over(box("one", "two").recorded())
    assert [(one.error, one.life) for one in letters.all()] == [("one", 3), ("two", 3), ("new", 4)]
    assert (letters.count, len(letters)) == (1, 3)


@pytest.mark.parametrize(
    "hostile",
    [
        [],
        7,
        ("text",),
        (("bob", "alice", 1, "put", "e"),),
        (("bob", "alice", -1, "put", "e", 1),),
        (("bob", "alice", 1, "put", b"e", 1),),
        (("bob", "alice", 1, "put", "e", 2**64),),
        (("bob", "alice", 1, "put", "e", None),),
    ],
)
def test_what_no_actor_records_is_damage(hostile):
    with pytest.raises(BadState, match="dead letters of 'bob'"):
        list(read_dead_letters("bob", hostile))
    recorded = box("e").recorded()
    assert tuple(read_dead_letters("bob", recorded)) == recorded
