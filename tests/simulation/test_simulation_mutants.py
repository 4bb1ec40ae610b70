"""Every known wrong version of the machines is killed by an oracle, within a bounded number of schedules."""

import pytest

from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.schedule import run_seed
from tests.simulation import mutants, mutants_of_alignment, mutants_of_senders, mutants_of_stops
from tests.simulation.mutation import MUTANTS

SCHEDULES_MAX = 600


def test_there_are_at_least_fifteen_mutants_and_each_has_a_name_of_its_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
    named = {mutants.NoMailbox, mutants_of_senders.Untagged, mutants_of_alignment.Unlimited, mutants_of_stops.Unpaused}
    assert named <= {mutant.machines.participant for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_killed(mutant):
    with mutant.at_work() as machines:
        for seed in range(SCHEDULES_MAX):
            failure = run_seed(seed, machines, **mutant.changes).failure
            if failure is not None and getattr(failure, "oracle", "assertion") != mutant.not_by:
                return
    pytest.fail(f"it survived {SCHEDULES_MAX} schedules")


def test_the_real_machines_pass_where_the_mutants_fail():
    for mutant in MUTANTS:
        for seed in range(5):
            failure = run_seed(seed, **mutant.changes).failure
            assert failure is None, f"{mutant.name}, seed {seed}: {failure}"


def test_a_failure_names_its_oracle():
    assert str(OracleFailure("order", "2 before 1")) == "order: 2 before 1"
