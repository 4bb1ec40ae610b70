"""A message that kills its actor in each life is found, named, and left out if the program wants this."""

import contextlib
from dataclasses import replace

import pytest
import ray

from rayshot import FailureConfig
from rayshot.audit import prove
from rayshot.errors import ConfigError, PoisonMessage
from rayshot.keys.finder import find_key
from tests.runtime.healed import HEALS, die_at, kill_in, report, ring, until_it_runs, until_it_stops
from tests.runtime.poisoned import Cook, Eater, Stillborn
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def fed(new_system, tmp_path, on_poison="dead-letter", **options):
    """A system with a ring, an eater and a snapshot; no snapshots come by themselves."""
    system = new_system(failure=replace(HEALS, on_poison=on_poison), trace=options.pop("trace", False))
    ring()
    eater = Eater.options(name="eater", **options).remote(str(tmp_path))
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


def test_a_message_that_kills_its_actor_in_each_life_is_named_when_the_system_stops(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path, "stop")
    for what in ("soup", "poison", "pie"):
        eater.eat.tell(what)
    why = until_it_stops(system)
    name = system._port.name
    assert f"eater was lost twice in a row while it handled message 4 from {name} (.eat)" in why
    assert "going back 3 times led nowhere" in why


def test_it_becomes_a_dead_letter_and_all_others_are_handled_once_in_order(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    for what in ("soup", "poison", "pie", "tea"):
        eater.eat.tell(what)
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == ["soup", "pie", "tea"], 30)
    assert letters(system) == [("eater", 4, "eat")]
    assert "lost twice in a row" in system.dead_letters()[0].error
    assert "becomes a dead letter" in system.status().recoveries[-1].detail


@pytest.mark.wide("slow")
def test_it_stays_out_of_later_lives_until_a_snapshot_holds_it_and_is_still_listed(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    eater.eat.tell("poison")
    eater.eat.tell("pie")
    until_it_runs(system, 5)
    eventually(lambda: letters(system), 20)
    for life in (6, 7):  # to the snapshot before it, then to one behind it
        kill_in(report(system), "post1")
        until_it_runs(system, life)
        system.wait_until_running(30)
        assert ray.get(eater.read.remote()) == ["pie"]
        assert letters(system) == [("eater", 3, "eat")]
        for _ in range(2):
            system.snapshot()
    cautions = lambda coordinator: dict(coordinator._life.poison.cautions)  # noqa: E731
    assert ray.get(system._identity.coordinator.__ray_call__.remote(cautions)) == {}


def test_the_program_whose_call_it_is_gets_an_error(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    eater.eat.tell("soup")
    eater.eat.remote("poison")  # its outcome is lost with the process: Ray says that the actor died
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == ["soup"], 30)
    assert letters(system) == [("eater", 4, "eat")]


@pytest.mark.wide("slow")
def test_the_actor_whose_call_it_is_gets_an_error(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    cook = Cook.options(name="cook").remote(eater)
    for what in ("soup", "poison", "pie"):
        cook.feed.tell(what)
    until_it_runs(system, 5)
    expected = [("soup", "fine"), ("poison", PoisonMessage.__name__), ("pie", "fine")]
    eventually(lambda: eaten(system, cook) == expected, 30)
    assert letters(system) == [("eater", 2, "eat")]


def test_two_poisons_one_behind_the_other_both_become_dead_letters(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    for what in ("poison1", "soup", "poison2", "pie"):
        eater.eat.tell(what)
    until_it_runs(system, 7)
    eventually(lambda: eaten(system, eater) == ["soup", "pie"], 30)
    assert letters(system) == [("eater", 3, "eat"), ("eater", 5, "eat")]


@pytest.mark.wide("slow")
def test_two_actors_that_die_by_turns_each_lose_their_poison_and_nothing_else(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    other = Eater.options(name="other").remote(str(tmp_path))
    for one in (eater, other):
        for what in ("soup", "poison", "pie"):
            one.eat.tell(what)
    eventually(lambda: len(letters(system)) == 2, 60)
    for one in (eater, other):
        eventually(lambda one=one: eaten(system, one) == ["soup", "pie"], 30)
    assert sorted(letters(system)) == [("eater", 4, "eat"), ("other", 3, "eat")]


@pytest.mark.wide("slow")
def test_more_than_three_in_a_row_stop_the_system(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    for k in range(4):
        eater.eat.tell(f"poison{k}")
    assert "these in a row became dead letters before: message 3 from" in until_it_stops(system)


def test_a_handler_that_raises_in_a_class_that_stops_then_is_found_too(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path, on_error="stop")
    eater.eat.tell("soup")
    eater.raise_again.tell("always")
    for what in range(50):
        eater.eat.tell(what)
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == ["soup", *range(50)], 30)
    assert letters(system) == [("eater", 4, "raise_again")]


@pytest.mark.wide("slow")
def test_a_creation_never_becomes_a_dead_letter(new_system, tmp_path):
    system, _ = fed(new_system, tmp_path)
    Stillborn.options(name="stillborn").remote()
    why = until_it_stops(system)
    assert "stillborn was lost twice in a row while it handled message 1 from" in why
    assert "cannot become a dead letter" in why


@pytest.mark.wide("slow")
def test_kills_from_outside_take_no_message_out(new_system, tmp_path):
    """Each kill comes between two messages, or while another one is handled."""
    system, eater = fed(new_system, tmp_path)
    told = []
    for life in range(2, 5):
        told.append(life)
        eater.eat.tell(life)
        system.wait_until_running(30)
        eventually(lambda: ray.get(eater.read.remote()) == told, 20)
        kill_in(report(system), "eater")
        until_it_runs(system, life)
    system.wait_until_running(30)
    eventually(lambda: ray.get(eater.read.remote()) == told, 20)
    kill_in(report(system), "eater")
    assert "led nowhere" in until_it_stops(system)
    assert "twice" not in until_it_stops(system)


def test_handlers_that_die_once_each_are_not_poison(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    for name in ("a", "b", "c", "d"):
        eater.die_once.tell(name)
        eater.eat.tell(name)
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == list("abcd"), 30)
    assert letters(system) == []


@pytest.mark.wide("slow")
def test_care_ends_with_the_second_snapshot_of_a_life(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    eater.eat.tell("poison")
    until_it_runs(system, 5)
    system.wait_until_running(30)
    is_watched = lambda host: ray.get(host.__ray_call__.remote(lambda self: self._worker._poison_watch is not None))  # noqa: E731
    host = ray.get(system._identity.coordinator.actors.remote())["eater"]
    ray.get(eater.read.remote())
    assert is_watched(host)
    for _ in range(2):
        system.snapshot()
    ray.get(eater.read.remote())
    assert not is_watched(host)


def test_large_arguments_and_references_are_handled_with_care_too(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    large, reference = b"x" * (3 << 20), ray.put("tea")
    for what in (large, reference, "poison", reference, large):
        eater.eat.tell(what)
    until_it_runs(system, 5)
    eventually(lambda: eaten(system, eater) == [large, "tea", "tea", large], 30)
    assert letters(system) == [("eater", 5, "eat")]


def test_a_timer_that_kills_its_actor_each_time_becomes_a_dead_letter(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    eater.eat_later.tell("poison")
    eater.eat.tell("pie")
    until_it_runs(system, 5)
    eventually(lambda: letters(system), 30)
    assert letters(system) == [("eater", 1, "eat")]
    assert ray.get(eater.read.remote()) == ["pie"]


def test_of_a_traced_system_later_snapshots_are_proved_and_the_poison_is_not_run_again(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path, trace="full", deterministic=True)
    eater.eat.tell("poison")
    until_it_runs(system, 5)
    eventually(lambda: letters(system), 30)
    system.wait_until_running(30)
    system.snapshot()
    eater.eat.tell("pie")
    ray.get(eater.read.remote())
    snapshot = system.snapshot()
    assert prove(snapshot, system.snapshots(), replay=True, keys=[find_key()]).sound


@pytest.mark.wide("slow")
def test_a_coordinator_that_comes_later_finds_the_poison_again(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    for what in ("soup", "poison", "pie"):
        eater.eat.tell(what)
    die_at(system, "before_mark_life", 4)  # in the life that has the letter
    eventually(lambda: eaten(system, eater) == ["soup", "pie"], 60)
    assert letters(system) == [("eater", 4, "eat")]
    assert report(system)["incarnation"] > 6


@pytest.mark.wide("slow")
def test_a_coordinator_that_dies_while_an_actor_is_watched_delays_nothing_for_long(new_system, tmp_path):
    system, eater = fed(new_system, tmp_path)
    eater.eat.tell("poison")
    until_it_runs(system, 3)
    eventually(lambda: report(system)["incarnation"] >= 5 and report(system)["state"] == "running", 30)
    kill_coordinator(system)
    for what in range(100):
        eater.eat.tell(what)
    eventually(lambda: eaten(system, eater) == list(range(100)), 60)


def test_an_unknown_way_with_poison_is_refused():
    with pytest.raises(ConfigError, match=r"on_poison='dead-leter': there are 'stop' and 'dead-letter'.*Did you mean"):
        FailureConfig(on_poison="dead-leter")
