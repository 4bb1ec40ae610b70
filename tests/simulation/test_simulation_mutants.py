"""Every known wrong version of the machines is killed by an oracle, within a bounded number of schedules."""

import pytest

from rayshot.simulation.world.failure import OracleFailure
from tests.simulate.schedule import run_seed
from tests.simulation import (
    mutants,
    mutants_of_alignment,
    mutants_of_drivers,
    mutants_of_ends,
    mutants_of_recording,
    mutants_of_recovery,
    mutants_of_senders,
    mutants_of_stops,
)
from tests.simulation.mutation import MUTANTS

SCHEDULES_MAX = 1500


CLASSICS = {
    "in-flight message recorded in only one of two open snapshots": [
        "a message in flight is recorded in only one of two open snapshots",
        "of several snapshots messages are kept for one only",
    ],
    "reversed channel": ["a channel is recorded in reverse"],
    "marker overtaken by data": ["data goes ahead of the marker that it should carry"],
    "state captured one message late": ["the captured state is one message late"],
    "state captured one message early": ["the captured state is one message early"],
    "duplicate applied": ["a duplicate is applied"],
    "stale incarnation accepted": ["a batch of an old incarnation is accepted"],
    "commit with a record missing": ["a snapshot is stored with a record missing"],
    "back-edge not logged": ["messages on channels that lead back are not recorded"],
    "alignment released early": ["messages behind a marker are not held back", "one marker is enough"],
    "tombstone forgotten": ["it is forgotten that a snapshot has ended"],
    "restored messages delivered after new ones": ["restored messages are delivered after new ones"],
    "outbox part of a channel lost": ["a record says that all is released that is sent, and the outbox is lost"],
    "cut equation without m <= n": ["the cut equation does not ask for m <= n"],
    "tags dropped when the sender's own channels are closed": ["tags end when the sender's own channels are closed"],
    "local instead of collected completion": [
        "a snapshot is complete when those who were there at its beginning have recorded"
    ],
    "a capture repeated later under the same id": ["a capture that failed is repeated later under the same id"],
}
"""The mistakes that such systems are known for, and the mutants that make them."""


def test_there_are_at_least_fifteen_mutants_and_each_has_a_name_of_its_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
    named = {mutants.NoMailbox, mutants_of_senders.Untagged, mutants_of_alignment.Unlimited, mutants_of_stops.Unpaused}
    named |= {mutants_of_recording.NoTombstones, mutants_of_ends.ClosedOneTooHigh, mutants_of_drivers.NameForgotten}
    assert named <= {mutant.machines.participant for mutant in MUTANTS}
    assert mutants_of_recovery.Hasty in {mutant.machines.recovery for mutant in MUTANTS}


def test_every_classical_mistake_is_made_by_a_mutant():
    names = {mutant.name for mutant in MUTANTS}
    assert {mistake: made for mistake, made in CLASSICS.items() if not names.issuperset(made)} == {}


@pytest.mark.sampled("more cases of one kind", keeps=20)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_killed(mutant):
    with mutant.at_work() as machines:
        for seed in range(SCHEDULES_MAX):
            failure = run_seed(seed, machines, **mutant.changes).failure
            if failure is not None and getattr(failure, "oracle", "assertion") != mutant.not_by:
                assert isinstance(failure, AssertionError), f"it does not fit the code any more: {failure!r}"
                return
    pytest.fail(f"it survived {SCHEDULES_MAX} schedules")


def test_the_real_machines_pass_where_the_mutants_fail():
    for mutant in MUTANTS:
        for seed in range(5):
            failure = run_seed(seed, **mutant.changes).failure
            assert failure is None, f"{mutant.name}, seed {seed}: {failure}"


def test_a_failure_names_its_oracle():
    assert str(OracleFailure("order", "2 before 1")) == "order: 2 before 1"
