"""Arrays that share memory in the states of actors that go back, of the one that died and of the one that lived."""

import pytest
import ray

from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.runtime.mixer import Mixer

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("S9")]


def test_what_is_written_through_a_view_reaches_the_array_after_each_rollback(new_system):
    system = new_system(failure=HEALS)
    killed = Mixer.options(name="killed").remote()
    alive = Mixer.options(name="alive", capture="fork").remote()
    plain = Mixer()
    for rounds in (1, 2):
        for mixer in (killed, alive):
            ray.get(mixer.play.remote())
        plain.play()
        system.snapshot()
        kill(system, "killed")
        until_it_runs(system, life=rounds + 1)
        for mixer in (killed, alive):
            ray.get(mixer.play.remote())
        plain.play()
        assert ray.get([killed.look.remote(), alive.look.remote()]) == [plain.look()] * 2
