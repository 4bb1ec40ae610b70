"""`hash_seed=`: states that depend on `hash()` of texts find what they had, in whatever process they go on."""

import subprocess
import sys

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError
from rayshot.model.configuration import draw_hash_seed
from tests.processes import ROOT
from tests.runtime.hashed import WORDS, Index
from tests.runtime.healed import kill, pid_of, report, until_it_runs
from tests.waiting import eventually


def index(name, **options):
    made = Index.options(name=name, **options).remote()
    for word in WORDS:
        made.put.tell(word)
    return made


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.ray
@pytest.mark.parametrize("spares", [0, 1])
def test_all_keys_are_found_behind_a_kill_and_a_restore_elsewhere(new_system, spares):
    """100 of 100, as in the actors that these actors make."""
    system = new_system("bank", hash_seed=7, failure=rayshot.FailureConfig(spares=spares))
    actor = index("first")
    actor.make.tell("second")
    eventually(lambda: found(system) == {"first": 100, "second": 100}, 60)  # two processes start
    assert system.snapshot().manifest.stats["hash_seed"] == 7
    eventually(lambda: report(system)["spares"] == spares, 60)
    before = pid_of(system, "first")
    kill(system, "first", "second")
    until_it_runs(system)
    system.wait_until_running(30)
    assert pid_of(system, "first") != before
    assert found(system) == {"first": 100, "second": 100}
    system.snapshot()
    system.shutdown()
    again = subprocess.run(
        [sys.executable, "-m", "tests.runtime.hashed", system.storage],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.stdout.split() == ["100", "100"], again.stderr


@pytest.mark.wide("slow")
@pytest.mark.ray
def test_a_variable_that_the_user_gave_wins_and_only_its_value_is_asked_for_at_a_restore(new_system):
    system = new_system("bank", hash_seed="random")
    given = {"env_vars": {"PYTHONHASHSEED": "3"}}
    made = [index("plain"), index("own", runtime_env=given)]
    assert ray.get([actor.look.remote() for actor in made]) == [100, 100]
    drawn = str(system.snapshot().manifest.stats["hash_seed"])
    seeds = {name: ray.get(system.get_actor(name).seed.remote()) for name in system.actors()}
    assert seeds == {"plain": drawn, "own": "3"}
    system.shutdown()
    with pytest.raises(ConfigError, match="'own' was made with the environment variables PYTHONHASHSEED"):
        rayshot.restore(storage=system.storage)
    with rayshot.restore(storage=system.storage, options={"own": {"runtime_env": given}}) as restored:
        assert found(restored) == {"plain": 100, "own": 100}


def found(system):
    return {name: ray.get(system.get_actor(name).look.remote()) for name in system.actors()}


@pytest.mark.parametrize("seed", [-1, 2**32, True, 7.0, "7", ""])
def test_a_seed_is_a_number_that_python_takes(seed):
    with pytest.raises(ConfigError, match="hash_seed is"):
        draw_hash_seed(seed)


def test_a_random_seed_is_drawn_once():
    assert (draw_hash_seed(None), draw_hash_seed(0), draw_hash_seed(2**32 - 1)) == (None, 0, 2**32 - 1)
    drawn = {draw_hash_seed("random") for _ in range(3)}
    assert len(drawn) > 1
    assert all(draw_hash_seed(seed) == seed for seed in drawn)
