"""A failing schedule is made short: by the project's own shrinker, and by Hypothesis, which draws schedules as well."""

import json
import re
import tempfile
from functools import partial

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

from rayshot.simulation.face.shrinking import same_failure, shrink
from rayshot.simulation.world import events
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from tests.simulate import __main__ as command
from tests.simulate.__main__ import main
from tests.simulate.schedule import replay, run_seed
from tests.simulation import mutants, mutants_of_senders

HOME = tempfile.TemporaryDirectory(prefix="rayshot-hypothesis-")
"""Hypothesis keeps what it finds in the tests' code in a folder, even without a database: here nothing stays of it."""
set_hypothesis_home_dir(HOME.name)

BROKEN = {
    "no mailbox": mutants.NoMailbox,
    "early batches are delivered": mutants.EarlyDelivered,
    "acknowledgements are not tagged": mutants_of_senders.Untagged,
}
CHOICES = st.lists(st.integers(0, 40), min_size=40, max_size=200)
STEADY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)


@pytest.fixture(autouse=True)
def ends_soon(monkeypatch):
    """A schedule that never ends is told from others early: those here take some hundred events."""
    monkeypatch.setattr(events, "STEPS_MAX", 5000)


def first_failure(machines):
    return next(outcome for outcome in (run_seed(seed, machines) for seed in range(100)) if outcome.failure)


# Lists in general ----------------------------------------------------------------------------------


def test_what_does_not_matter_is_dropped_and_the_rest_is_lowered():
    short = shrink(list(range(1, 60)), lambda choices: sum(choice >= 7 for choice in choices) >= 3)
    assert short.choices == (7, 7, 7)
    assert short.minimal


def test_places_that_matter_keep_their_place():
    short = shrink([9] * 30, lambda choices: len(choices) > 12 and choices[12] >= 5 and choices[3] >= 1)
    assert short.choices == (0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5)


def test_a_failure_that_needs_no_choice_needs_none():
    assert shrink([3, 1, 2], lambda choices: True).choices == ()


def test_the_number_of_runs_is_bounded_and_no_list_is_run_twice():
    seen = []

    def fails(choices):
        seen.append(tuple(choices))
        return sum(choices) >= 40

    short = shrink([7] * 50, fails, runs_max=25)
    assert short.runs == len(seen) == len(set(seen)) == 25
    assert not short.minimal
    assert sum(short.choices) >= 40


def test_what_does_not_fail_is_refused():
    with pytest.raises(ValueError, match="do not fail"):
        shrink([1, 2], lambda choices: False)


def test_failures_are_told_apart_by_their_oracle_and_their_words():
    hangs, runs_on = OracleFailure("termination", "nothing can happen"), OracleFailure("termination", "50 events")
    assert same_failure(OracleFailure("order", "got 2 of p"), OracleFailure("order", "got 7 of q"))
    assert not same_failure(hangs, runs_on)
    assert not same_failure(hangs, AssertionError("termination: nothing can happen"))
    assert not same_failure(None, None)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 40))
@settings(STEADY, max_examples=200)
def test_the_result_fails_and_is_never_greater(choices, bound):
    if sum(choices) >= bound:
        short = shrink(choices, lambda found: sum(found) >= bound)
        assert sum(short.choices) == bound
        assert len(short.choices) <= len(choices)


# Schedules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_failed_schedule_becomes_a_short_one_with_the_same_failure(broken):
    machines = Machines(participant=broken)
    first = first_failure(machines)
    short = shrink(
        first.choices, lambda c: same_failure(replay(c, machines, story=False).failure, first.failure), runs_max=600
    )
    before, after = replay(first.choices, machines), replay(short.choices, machines)
    assert same_failure(after.failure, first.failure)
    assert len(short.choices) * 4 < len(first.choices)
    assert len(after.story) * 2 < len(before.story)
    assert replay(short.choices).failure is None, "the real machines pass the same schedule"


def test_shrinking_finds_the_same_every_time():
    machines = Machines(participant=mutants.NoMailbox)
    first = first_failure(machines)

    def fails(choices):
        return same_failure(replay(choices, machines, story=False).failure, first.failure)

    assert shrink(first.choices, fails) == shrink(first.choices, fails)


def last_that_matters(choices):
    """Zeros at the end say nothing."""
    return max((place for place, choice in enumerate(choices, 1) if choice), default=0)


def is_unfair(failure):
    """Zeros for ever may be unfair: of two events that put themselves off, each is picked again and again."""
    return isinstance(failure, OracleFailure) and "events and no end" in str(failure)


@given(CHOICES)
@settings(STEADY)
def test_hypothesis_finds_no_schedule_that_breaks_a_promise(choices):
    failure = replay(choices, story=False).failure
    assert failure is None or is_unfair(failure)


@pytest.mark.wide("slow")
@pytest.mark.parametrize("broken", [mutants.NoMailbox, mutants.EarlyDelivered])
def test_hypothesis_shrinks_a_failing_schedule_to_a_short_one(broken):
    machines = Machines(participant=broken)
    failed = []

    def fails(choices):
        failure = replay(choices, machines, story=False).failure
        if failure is None or is_unfair(failure) or (failed and not same_failure(failure, failed[0][1])):
            return False
        failed.append((choices, failure))
        return True

    found = find(CHOICES, fails, settings=settings(STEADY, max_examples=300, phases=[Phase.generate, Phase.shrink]))
    first, _ = failed[0]
    assert last_that_matters(found) * 2 < last_that_matters(first)
    assert len(replay(found, machines).story) < len(replay(first, machines).story)
    assert replay(found).failure is None, "the real machines pass the same schedule"


# The command ---------------------------------------------------------------------------------------


def test_the_command_tells_the_short_story_and_saves_its_choices(monkeypatch, tmp_path):
    machines, saved = Machines(participant=mutants.NoMailbox), tmp_path / "failed.json"
    monkeypatch.setattr(command, "run_seed", partial(run_seed, machines=machines))
    monkeypatch.setattr(command, "replay", partial(replay, machines=machines))
    done = CliRunner().invoke(main, ["simulate", "--schedules", "1", "--seed", "2", "--save", str(saved)])
    assert done.exit_code == 1
    before = int(re.search(r"shrunk from (\d+) choices to ", done.stderr)[1])
    choices = json.loads(saved.read_text())["choices"]
    assert len(choices) < 20 < before
    assert f"choices of seed 2: {choices}" in done.stderr
    assert CliRunner().invoke(main, ["simulate", "--replay", str(saved)]).exit_code == 1
    whole = CliRunner().invoke(
        main, ["simulate", "--schedules", "1", "--seed", "2", "--no-shrink", "--save", str(saved)]
    )
    assert "shrunk" not in whole.stderr
    assert len(json.loads(saved.read_text())["choices"]) == before
