"""What `benchmarks rollouts` kills follows from its seed, and it finds what is lost, doubled or out of order."""

import pytest

from benchmarks.kills import plan
from benchmarks.rollouts import VICTIMS, made_again, wrong_in
from benchmarks.training import note, read_notes, sample

RIGHT = [sample(number) for number in range(1, 6)]


def test_the_same_seed_kills_the_same_and_another_one_does_not():
    assert plan(7, 100, VICTIMS) == plan(7, 100, VICTIMS) != plan(8, 100, VICTIMS)
    assert plan(7, 50, VICTIMS) == plan(7, 100, VICTIMS)[:50]


def test_each_actor_the_coordinator_and_both_are_killed_also_while_the_system_goes_back():
    kills = plan(1985, 100, VICTIMS)
    assert {victim for kill in kills for victim in kill.victims} == {*VICTIMS, "coordinator"}
    assert {len(kill.victims) for kill in kills} == {1, 2}
    assert {kill.at_once for kill in kills} == {True, False}


@pytest.mark.parametrize(
    ("trained", "lost", "doubled", "otherwise"),
    [
        (RIGHT, 0, 0, 0),
        (RIGHT[:3], 2, 0, 2),
        ([*RIGHT, RIGHT[-1]], 0, 1, 1),
        ([RIGHT[1], RIGHT[0], *RIGHT[2:]], 0, 0, 2),
        ([*RIGHT[:4], (5, (0, 0))], 1, 0, 1),
    ],
)
def test_a_sample_that_is_lost_doubled_out_of_order_or_another_one_is_found(trained, lost, doubled, otherwise):
    assert wrong_in(trained, RIGHT) == {
        "lost": lost,
        "trained more than once": doubled,
        "otherwise than in an undisturbed run": otherwise,
    }


def test_what_is_trained_again_counts_for_the_last_kill_before_it():
    notes = [(1.0, 1), (2.0, 2), (3.0, 3), (6.0, 2), (7.0, 3), (8.0, 4), (11.0, 5)]
    assert made_again(notes, [0.5, 4.0, 9.0]) == [0, 2, 0]


def test_a_sample_that_was_passed_over_is_an_error():
    with pytest.raises(AssertionError, match="sample 3 follows sample 1"):
        made_again([(1.0, 1), (2.0, 3)], [])


def test_notes_come_back_as_they_were_made(tmp_path):
    for number in (1, 2):
        note(tmp_path / "notes", number)
    assert [number for _, number in read_notes(tmp_path / "notes")] == [1, 2]
