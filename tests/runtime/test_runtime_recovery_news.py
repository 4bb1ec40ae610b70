"""On Ray, too, a program hears of each time that its system went back; `tests/fake` has the rules."""

import pytest

import rayshot
from tests.runtime.healed import kill_in, report, started, until_it_runs
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def test_a_program_hears_and_one_that_attached_hears_too(new_system):
    system, _ = started(new_system)
    heard = []
    for one in (system, rayshot.attach(system.name)):
        one.on_recovery(heard.append)
    kill_in(report(system), "post1")
    until_it_runs(system)
    eventually(lambda: [(one.life, one.actor) for one in heard] == [(2, "post1")] * 2, 20)
