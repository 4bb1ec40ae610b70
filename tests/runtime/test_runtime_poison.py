"""Poison on real processes: a message that kills its actor in each life. Its logic is asked on the fake."""

import contextlib
from dataclasses import replace

import pytest
import ray

import rayshot
from rayshot import FailureConfig
from rayshot.audit import prove
from rayshot.errors import ConfigError
from rayshot.keys.finder import find_key
from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.runtime.poisoned import Diner, Eater
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def fed(new_system, *, trace=False, **options):
    """A system with an eater and a snapshot; no snapshots come by themselves."""
    system = new_system(failure=replace(HEALS, on_poison="dead-letter"), trace=trace)
    eater = Eater.options(name="eater", **options).remote()
    ray.get(eater.read.remote())
    system.snapshot()
    return system, eater


def eaten(system, eater, within_s=60):
    """What the eater ate, once it answers: where its process dies, Ray gives an error."""
    system.wait_until_running(within_s)
    with contextlib.suppress(ray.exceptions.ActorDiedError):
        return ray.get(eater.read.remote())


def letters(system):
    return [(one.receiver, one.number, one.method) for one in system.dead_letters()]


def test_it_becomes_a_dead_letter_and_all_others_are_handled_once_in_order(new_system):
    system, eater = fed(new_system)
    for what in ("soup", "poison", "pie", "tea"):
        eater.eat.tell(what)
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == ["soup", "pie", "tea"], 30)
    assert letters(system) == [("eater", 4, "eat")]
    assert "lost twice in a row" in system.dead_letters()[0].error
    assert "becomes a dead letter" in system.status().recoveries[-1].detail


def test_the_program_whose_call_it_is_gets_an_error(new_system):
    system, eater = fed(new_system)
    eater.eat.tell("soup")
    eater.eat.remote("poison")  # its outcome is lost with the process: Ray says that the actor died
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == ["soup"], 30)
    assert letters(system) == [("eater", 4, "eat")]


def test_large_arguments_and_references_are_handled_with_care_too(new_system):
    system, eater = fed(new_system)
    large, reference = b"x" * (3 << 20), ray.put("tea")
    for what in (large, reference, "poison", reference, large):
        eater.eat.tell(what)
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == [large, "tea", "tea", large], 30)
    assert letters(system) == [("eater", 5, "eat")]


def test_of_a_traced_system_later_snapshots_are_proved_and_the_poison_is_not_run_again(new_system):
    system, eater = fed(new_system, trace="full", deterministic=True)
    eater.eat.tell("poison")
    until_it_runs(system, 5)
    eventually(lambda: letters(system), 30)
    system.wait_until_running(30)
    system.snapshot()
    eater.eat.tell("pie")
    ray.get(eater.read.remote())
    snapshot = system.snapshot()
    assert prove(snapshot, system.snapshots(), replay=True, keys=[find_key()]).sound


def test_a_loop_passes_over_the_item_that_kills_it_and_is_never_named_itself(new_system):
    system = new_system(failure=replace(HEALS, on_poison="dead-letter"))
    dishes = rayshot.Queue(actor_options={"name": "dishes"})
    diner = Diner.options(name="diner").remote(dishes)
    ray.get(diner.read.remote())
    system.snapshot()
    diner.dine.tell()
    for what in ("soup", "poison", "pie"):
        dishes.actor.put.tell(what)
    until_it_runs(system, 5)
    eventually(lambda: letters(system), 30)
    assert [(one.receiver, one.sender, one.method) for one in system.dead_letters()] == [("diner", "dishes", "get")]
    system.wait_until_running(30)
    eventually(lambda: system.snapshot().states()["diner"]["eaten"] == ["soup", "pie"], 30)
    for life in (6, 7, 8):
        system.snapshot()
        kill(system, "diner")
        until_it_runs(system, life)
    dishes.actor.put.tell("tea")
    eventually(lambda: system.snapshot().states()["diner"]["eaten"] == ["soup", "pie", "tea"], 30)


def test_an_unknown_way_with_poison_is_refused():
    with pytest.raises(ConfigError, match=r"on_poison='dead-leter': there are 'stop' and 'dead-letter'.*Did you mean"):
        FailureConfig(on_poison="dead-leter")
