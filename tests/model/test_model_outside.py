"""Which commit an actor's class is told of, and which function runs, in any order of snapshots, commits and ends."""

import random

import pytest

from rayshot.model.outside import TOLD_MAX, ActorCut, FencingToken, ToldCut, ToldCuts
from rayshot.protocol.identity import SnapshotId


def told(number, *, is_last=False):
    snapshot = SnapshotId(1, "coordinator", number)
    return ToldCut(snapshot, ActorCut("s", "a", FencingToken("r", 1, "o"), str(snapshot)), is_last=is_last)


def with_told(*numbers):
    cuts, made = ToldCuts(), {number: told(number) for number in numbers}
    for one in made.values():
        cuts.add(one)
    return cuts, made


def work():
    """A function of on_commit."""


def test_a_commit_stands_for_those_told_before_it():
    cuts, made = with_told(1, 2, 3)
    assert cuts.committed(made[2].snapshot)
    assert not cuts.committed(made[1].snapshot)
    assert cuts.take_due() is made[2]
    assert cuts.take_due() is None
    assert cuts.all() == (made[3],)


def test_of_commits_that_are_due_only_the_newest_is_told():
    cuts, made = with_told(1, 2)
    cuts.committed(made[1].snapshot)
    cuts.committed(made[2].snapshot)
    assert cuts.take_due() is made[2]


def test_a_commit_of_which_nothing_was_told_is_none():
    cuts, _ = with_told(1)
    assert not cuts.committed(told(7).snapshot)
    assert cuts.due is None


def test_one_function_runs_and_the_newest_takes_its_place():
    cuts, made = with_told()
    assert cuts.returned(told(1), work)
    newer = told(2)
    assert not cuts.returned(newer, work)
    assert cuts.publishing == (newer, work)
    assert not made


def test_what_runs_is_not_dropped_where_nothing_more_follows():
    cuts, _ = with_told()
    cuts.returned(told(1), work)
    last = told(2, is_last=True)
    assert not cuts.returned(last, None)
    assert not cuts.is_over
    cuts.published(cuts.publishing)
    assert cuts.publishing is None
    assert cuts.is_over


def test_a_function_that_ends_leaves_a_newer_one_to_run():
    cuts, _ = with_told()
    cuts.returned(told(1), work)
    runs = cuts.publishing
    newer = told(2, is_last=True)
    cuts.returned(newer, lambda: None)
    cuts.published(runs)
    assert cuts.publishing is not None
    assert cuts.publishing[0] is newer
    assert not cuts.is_over


def test_an_actor_remembers_only_so_many():
    cuts, made = with_told(*range(1, TOLD_MAX + 2))
    assert made[1].snapshot not in cuts
    assert made[2].snapshot in cuts


def test_nobody_waits_for_what_is_told_when_the_life_is_over():
    cuts, made = with_told(1, 2)
    cuts.cancel()
    assert all(one.cut.cancelled.is_set() for one in made.values())


@pytest.mark.parametrize("seed", range(200))
def test_in_any_order_all_commits_settle_and_none_settles_before_its_function_or_a_newer_one_has_ended(seed):
    dice, cuts, number, committed, done = random.Random(seed), ToldCuts(), 0, 0, 0
    for _ in range(60):
        match dice.choice(("tell", "commit", "call", "end")):
            case "tell":
                number += 1
                cuts.add(told(number))
            case "commit" if cuts.all():
                chosen = dice.choice(cuts.all())
                assert cuts.committed(chosen.snapshot)
                committed = chosen.snapshot.counter
            case "call" if cuts.due is not None:
                due, runs = cuts.take_due(), cuts.publishing is not None
                starts = cuts.returned(due, work if dice.random() < 0.7 else None)
                assert not (starts and runs), "two functions run"
                done = max(done, due.snapshot.counter) if cuts.publishing is None else done
            case "end" if cuts.publishing is not None:
                runs = cuts.publishing
                if dice.random() < 0.7:
                    cuts.published(runs)
                    done = max(done, runs[0].snapshot.counter)
    while cuts.due is not None or cuts.publishing is not None:
        if cuts.due is not None:
            due = cuts.take_due()
            cuts.returned(due, None)
            done = max(done, due.snapshot.counter) if cuts.publishing is None else done
        else:
            runs = cuts.publishing
            cuts.published(runs)
            done = max(done, runs[0].snapshot.counter)
    assert done == committed
