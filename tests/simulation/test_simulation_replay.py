"""A run is its list of choices: the same list gives the same run, to the bit, in any process."""

import os
import subprocess
import sys
from hashlib import sha256

import pytest

from rayshot.simulation.choices import RecordedChoices, SeededChoices
from rayshot.simulation.world.machines import Machines
from tests.simulate.schedule import replay, run_seed
from tests.simulation.mutants import NoMailbox

TELL = """
import sys
from hashlib import sha256
from tests.simulate.schedule import run_seed
stories = [line for seed in range(12) for line in run_seed(seed, story=True).story]
print(sha256("\\n".join(stories).encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", range(50))
def test_replaying_the_choices_tells_the_same_story(seed):
    first = run_seed(seed, story=True)
    second = replay(first.choices)
    assert second.settings == first.settings
    assert second.choices == first.choices
    assert second.counts == first.counts
    assert second.story == first.story


@pytest.mark.wide("slow")
def test_a_thousand_choice_lists_replay_to_the_same_counts():
    for seed in range(1000):
        first = run_seed(seed)
        second = replay(first.choices, story=False)
        assert (second.choices, second.counts) == (first.choices, first.counts)


def test_a_run_does_not_depend_on_the_seed_of_string_hashes():
    stories = [line for seed in range(12) for line in run_seed(seed, story=True).story]
    here = sha256("\n".join(stories).encode()).hexdigest()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", TELL], env=environment, capture_output=True, check=True, text=True
        )
        assert there.stdout.strip() == here


def test_a_failure_replays_as_the_same_failure_and_tells_its_story():
    machines = Machines(participant=NoMailbox)
    failed = next(outcome for outcome in (run_seed(seed, machines) for seed in range(50)) if outcome.failure)
    again = replay(failed.choices, machines)
    assert str(again.failure) == str(failed.failure)
    assert len(again.story) > 10
    assert replay(failed.choices).failure is None, "the real machines pass the same schedule"


def test_recorded_choices_end_in_zeros_and_are_cut_to_size():
    source = RecordedChoices([5, 1])
    assert [source.choose(3), source.choose(2), source.choose(7)] == [2, 1, 0]
    assert source.taken == [2, 1, 0]


def test_seeded_choices_stay_in_range_and_repeat():
    one, two = SeededChoices(7), SeededChoices(7)
    assert [one.choose(n) for n in range(1, 50)] == [two.choose(n) for n in range(1, 50)]
    assert all(choice < n for n, choice in enumerate(one.taken, 1))
