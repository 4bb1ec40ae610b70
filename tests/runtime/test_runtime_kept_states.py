"""States of kinds that strangers lost: after a death, actors have them as they were."""

import pytest
import ray

from tests.runtime.healed import kill, until_it_runs
from tests.runtime.keeper import Keeper

pytestmark = [pytest.mark.ray]


@pytest.mark.acceptance("S1", "S6", "S11")
def test_what_pickles_and_is_hard_to_make_again_comes_back_after_a_death(system):
    killed, alive = (Keeper.options(name=name).remote() for name in ("killed", "alive"))
    before = ray.get([killed.look.remote(), alive.look.remote()])
    assert before == [[0, True, 5, 7, "Page", "a"]] * 2
    system.snapshot()
    kill(system, "killed")
    until_it_runs(system)
    system.wait_until_running(30)  # until then a call may go to the process that died
    assert ray.get([killed.look.remote(), alive.look.remote()]) == before
    assert ray.get([killed.are_set.remote(), alive.are_set.remote()]) == [False, False]


@pytest.mark.acceptance("O4")
def test_a_kept_error_has_the_errors_before_it_after_a_death(system):
    killed, alive = (Keeper.options(name=name).remote() for name in ("killed", "alive"))
    for keeper in (killed, alive):
        ray.get(keeper.stumble.remote())
    expected = ["Refused('no')", 7, "KeyError('stock')", True, None]
    assert ray.get([killed.errors.remote(), alive.errors.remote()]) == [expected] * 2
    system.snapshot()
    kill(system, "killed")
    until_it_runs(system)
    system.wait_until_running(30)  # until then a call may go to the process that died
    assert ray.get([killed.errors.remote(), alive.errors.remote()]) == [expected] * 2
