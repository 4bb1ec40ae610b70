"""A message that kills its actor in each life is found, named, and left out if the program wants this."""

from contextlib import suppress
from typing import ClassVar

import pytest

import rayshot
from rayshot.errors import PoisonMessage, RayshotError
from rayshot.model.configuration import FailureConfig
from rayshot.runtime.door import door
from tests.fake.system import actor, await_life, await_stop, begin, coordinator
from tests.fake.threads import Present


@rayshot.actor
class Eater:
    """Keeps what it ate, if it lives. `harmless` outlives it: what killed it once, and must not do so again."""

    harmless: ClassVar = set()

    def __init__(self):
        self.eaten = []

    def eat(self, what):
        if str(what).startswith("poison"):
            Present.cluster.end_here()
        self.eaten.append(what)

    def read(self):
        return list(self.eaten)

    def die_once(self, name):
        if name not in Eater.harmless:
            Eater.harmless.add(name)
            Present.cluster.end_here()

    def eat_later(self, what):
        rayshot.current().after(0.1, self.eat, what)

    def raise_again(self, what):
        raise ValueError(what)


@rayshot.actor
class Cook:
    """Feeds an eater by a call, and keeps what came of it."""

    def __init__(self, eater):
        self.eater, self.said = eater, []

    def feed(self, what):
        self.eater.eat.remote(what).then(self.fine, what, on_error=self.failed)

    def fine(self, _result, what):
        self.said.append((what, "fine"))

    def failed(self, error, what):
        self.said.append((what, type(error).__name__))

    def read(self):
        return list(self.said)


@rayshot.actor
class Stillborn:
    def __init__(self):
        Present.cluster.end_here()


@pytest.fixture
def fed(cluster):
    """A system with an eater in its only snapshot, that goes back where it dies."""

    Eater.harmless.clear()

    def make(on_poison="dead-letter", **options):
        system = begin(failure=FailureConfig(backoff_s=0.0, on_poison=on_poison))
        eater = Eater.options(name="eater", **options).remote()
        door.get(eater.read.remote())
        system.snapshot()
        return system, eater

    return make


def await_letters(cluster, system, *expected):
    """Until it runs, and these are the receivers, numbers and methods of its dead letters."""

    def are_there():
        with suppress(RayshotError):  # it is going back
            found = {(one.receiver, one.number, one.method) for one in system.dead_letters()}
            return found == set(expected) and system.status().state == "running"

    cluster.until(are_there)


def test_it_is_named_when_the_system_stops(cluster, fed):
    system, eater = fed("stop")
    for what in ("soup", "poison", "pie"):
        eater.eat.tell(what)
    why = await_stop(cluster, system)
    assert f"eater was lost twice in a row while it handled message 4 from {system._port.name} (.eat)" in why
    assert "going back 3 times led nowhere" in why


def test_it_stays_out_of_later_lives_until_a_snapshot_holds_it_and_is_still_listed(cluster, fed):
    system, eater = fed()
    for what in ("poison", "pie"):
        eater.eat.tell(what)
    letter = ("eater", 3, "eat")
    await_letters(cluster, system, letter)
    for _ in range(2):  # to the snapshot before it, then to one behind it
        life = system.status().incarnation
        cluster.die(actor(cluster, "eater"))
        await_life(cluster, system, life + 1)
        await_letters(cluster, system, letter)
        assert door.get(eater.read.remote()) == ["pie"]
        for _ in range(2):
            system.snapshot()
    assert coordinator(cluster).run.instance._life.poison.cautions == {}


def test_the_actor_whose_call_it_is_gets_an_error(cluster, fed):
    system, eater = fed()
    cook = Cook.options(name="cook").remote(eater)
    for what in ("soup", "poison", "pie"):
        cook.feed.tell(what)
    await_letters(cluster, system, ("eater", 2, "eat"))
    cluster.schedule.pass_s(5.0)
    assert door.get(cook.read.remote()) == [("soup", "fine"), ("poison", PoisonMessage.__name__), ("pie", "fine")]
    assert door.get(eater.read.remote()) == ["soup", "pie"]


def test_two_poisons_one_behind_the_other_both_become_dead_letters(cluster, fed):
    system, eater = fed()
    for what in ("poison1", "soup", "poison2", "pie"):
        eater.eat.tell(what)
    await_letters(cluster, system, ("eater", 3, "eat"), ("eater", 5, "eat"))
    assert door.get(eater.read.remote()) == ["soup", "pie"]


def test_two_actors_that_die_by_turns_each_lose_their_poison_and_nothing_else(cluster, fed):
    system, eater = fed()
    other = Eater.options(name="other").remote()
    for one in (eater, other):
        for what in ("soup", "poison", "pie"):
            one.eat.tell(what)
    await_letters(cluster, system, ("eater", 4, "eat"), ("other", 3, "eat"))
    for one in (eater, other):
        assert door.get(one.read.remote()) == ["soup", "pie"]


def test_more_than_three_in_a_row_stop_the_system(cluster, fed):
    system, eater = fed()
    for k in range(4):
        eater.eat.tell(f"poison{k}")
    assert "these in a row became dead letters before: message 3 from" in await_stop(cluster, system)


def test_a_handler_that_raises_in_a_class_that_stops_then_is_found_too(cluster, fed):
    system, eater = fed(on_error="stop")
    eater.eat.tell("soup")
    eater.raise_again.tell("always")
    for what in range(50):
        eater.eat.tell(what)
    await_letters(cluster, system, ("eater", 4, "raise_again"))
    assert door.get(eater.read.remote()) == ["soup", *range(50)]


def test_a_creation_never_becomes_a_dead_letter(cluster, fed):
    system, _ = fed()
    Stillborn.options(name="stillborn").remote()
    why = await_stop(cluster, system)
    assert "stillborn was lost twice in a row while it handled message 1 from" in why
    assert "cannot become a dead letter" in why


def test_kills_from_outside_take_no_message_out(cluster, fed):
    """Each kill comes between two messages."""
    system, eater = fed()
    for life in range(2, 6):
        eater.eat.tell(life)
        cluster.settle()
        cluster.die(actor(cluster, "eater"))
        if life < 5:
            await_life(cluster, system, life)
            assert door.get(eater.read.remote()) == list(range(2, life + 1))
    why = await_stop(cluster, system)
    assert "led nowhere" in why
    assert "twice" not in why


def test_handlers_that_die_once_each_are_not_poison(cluster, fed):
    system, eater = fed()
    for name in ("a", "b", "c", "d"):
        eater.die_once.tell(name)
        eater.eat.tell(name)
    await_life(cluster, system, 5)
    assert door.get(eater.read.remote()) == list("abcd")
    await_letters(cluster, system)


def test_care_ends_with_the_second_snapshot_of_a_life(cluster, fed):
    system, eater = fed()
    eater.eat.tell("poison")
    await_letters(cluster, system, ("eater", 3, "eat"))
    worker = actor(cluster, "eater").run.instance._worker
    assert worker.poison_watch is not None
    for _ in range(2):
        system.snapshot()
    door.get(eater.read.remote())
    assert worker.poison_watch is None


def test_a_timer_that_kills_its_actor_each_time_becomes_a_dead_letter(cluster, fed):
    system, eater = fed()
    eater.eat_later.tell("poison")
    eater.eat.tell("pie")
    await_letters(cluster, system, ("eater", 1, "eat"))
    assert door.get(eater.read.remote()) == ["pie"]


def test_a_coordinator_that_comes_later_finds_the_poison_again(cluster, fed):
    system, eater = fed()
    for what in ("soup", "poison", "pie"):
        eater.eat.tell(what)
    cluster.failpoints["before_mark_life"] = 4  # in the life that has the letter
    await_letters(cluster, system, ("eater", 4, "eat"))
    assert system.status().incarnation > 5
    assert door.get(eater.read.remote()) == ["soup", "pie"]


def test_a_coordinator_that_dies_while_an_actor_is_watched_delays_nothing_for_long(cluster, fed):
    system, eater = fed()
    eater.eat.tell("poison")
    await_letters(cluster, system, ("eater", 3, "eat"))
    cluster.die(coordinator(cluster))
    for what in range(100):
        eater.eat.tell(what)
    cluster.schedule.pass_s(60.0)
    assert door.get(eater.read.remote()) == list(range(100))
