"""Dead letters before a snapshot survive a rollback and a restore, and say in which life they came."""

import pytest
import ray

import rayshot
from tests.runtime.clumsy import Clumsy
from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("S11")]


def letters(system):
    found = [
        (one.receiver, one.error.splitlines()[-1].removeprefix("ValueError: "), one.life)
        for one in system.dead_letters()
    ]
    return sorted(found)


def test_letters_of_before_the_snapshot_stay_and_those_behind_it_come_again_in_the_new_life(new_system):
    system = new_system()
    actors = [Clumsy.options(name=name).remote() for name in ("killed", "alive")]
    for what in ("cup", "plate"):
        for actor in actors:
            actor.drop.tell(what)
            ray.get(actor.look.remote())
        if what == "cup":
            snapshot = system.snapshot()
    kill(system, "killed")
    until_it_runs(system, life=2)
    ray.get([actor.look.remote() for actor in actors])
    expected = [
        (name, f"dropped {what}", life) for name in ("alive", "killed") for what, life in (("cup", 1), ("plate", 2))
    ]
    assert letters(system) == expected
    assert [system.status().actors[name].dead_letters for name in ("alive", "killed")] == [2, 2]
    system.shutdown()

    restored = rayshot.restore(system.name, storage=system.storage, snapshot=snapshot.id)
    new_system.made.append(restored)
    assert letters(restored) == [(name, "dropped cup", 1) for name in ("alive", "killed")]


def test_letters_of_an_actor_that_ended_before_the_snapshot_stay_and_those_of_one_that_comes_back_come_again(
    new_system,
):
    system = new_system(failure=HEALS)
    names = ("early", "killed", "late")
    early, killed, late = (Clumsy.options(name=name).remote() for name in names)
    for actor in (early, killed, late):
        actor.drop.tell("cup")
        ray.get(actor.look.remote())
    rayshot.kill(early)
    eventually(lambda: "early" not in system.status().actors)
    system.snapshot()
    late.drop.tell("plate")
    rayshot.kill(late)
    eventually(lambda: "late" not in system.status().actors)
    cups = [(name, "dropped cup", 1) for name in names]
    kill(system, "killed")
    until_it_runs(system, life=2)
    eventually(lambda: letters(system) == [*cups, ("late", "dropped plate", 2)])
    kill(system, "killed")
    until_it_runs(system, life=3)
    eventually(lambda: letters(system) == [*cups, ("late", "dropped plate", 3)])
