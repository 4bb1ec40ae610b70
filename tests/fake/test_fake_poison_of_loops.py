"""What kills the process of a method that loops is found as an item, and the loop itself is never to blame."""

from contextlib import suppress
from typing import ClassVar

import pytest

import rayshot
from rayshot.errors import RayshotError
from rayshot.model.configuration import FailureConfig
from rayshot.runtime.actor.suspension import Suspension
from tests.fake.system import actor, await_life, await_stop, begin, coordinator, process_of, read
from tests.fake.threads import Present


@rayshot.actor(capture="inline")
class Trainer:
    """Trains what a queue gives, if it lives. `lives` outlives it."""

    lives: ClassVar = []

    def __init__(self, rollouts, slots):
        self.rollouts, self.slots, self.trained = rollouts, slots, []

    def fit(self):
        for rollout in rayshot.loop(self.rollouts.get):
            if str(rollout).startswith("poison"):
                Present.cluster.end_here()
            self.trained.append(rollout)

    def load_and_fit(self):
        Trainer.lives.append("loads")
        if len(Trainer.lives) < 5:
            Present.cluster.end_here()
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)

    async def fit_with_slots(self):
        async for rollout in rayshot.loop(self.rollouts.get):
            while True:
                self.trained.append((rollout, await self.slots.get_async()))

    def read(self):
        return self.trained


@rayshot.actor(on_error="stop")
class Strict(Trainer):
    def fit(self):
        for rollout in rayshot.loop(self.rollouts.get):
            if rollout == "poison":
                raise ValueError(rollout)
            self.trained.append(rollout)


@rayshot.actor
class Deck:
    """Deals its cards in an order of its own in each life."""

    dealt: ClassVar = []

    def __init__(self):
        self.cards = []

    def deal(self):
        if not self.cards:
            Deck.dealt.append(0)
            self.cards = ["poison", "a", "b", "c"]
            turns = len(Deck.dealt) % 2 if len(Deck.dealt) < 6 else 0
            self.cards = [*self.cards[1 : 1 + turns], self.cards[0], *self.cards[1 + turns :]]
        return self.cards.pop(0)

    def read(self):
        return len(Deck.dealt)


@rayshot.actor
class Player:
    def __init__(self, deck):
        self.deck, self.trained = deck, []

    def fit(self):
        for card in rayshot.loop(self.deck.deal):
            if card == "poison":
                Present.cluster.end_here()
            self.trained.append(card)
            if len(self.trained) == 3:
                return

    def read(self):
        return self.trained


@pytest.fixture
def training(cluster):
    """A system with a trainer and two queues in its only snapshot, that goes back where one dies."""
    Trainer.lives.clear()
    Deck.dealt.clear()

    def make(on_poison="dead-letter", kind=Trainer):
        system = begin(failure=FailureConfig(backoff_s=0.0, on_poison=on_poison))
        rollouts = rayshot.Queue(actor_options={"name": "rollouts"})
        slots = rayshot.Queue(actor_options={"name": "slots"})
        trainer = kind.options(name="trainer").remote(rollouts, slots)
        assert read(trainer) == []
        system.snapshot()
        return system, rollouts, slots, trainer

    return make


def await_letters(cluster, system, *expected):
    """Until it runs, and these are the receivers, senders and methods of its dead letters."""

    def are_there():
        with suppress(RayshotError):  # it is going back
            found = [(one.receiver, one.sender, one.method) for one in system.dead_letters()]
            return sorted(found) == sorted(expected) and system.status().state == "running"

    cluster.until(are_there)


def trained(cluster, name="trainer"):
    cluster.settle()
    return process_of(cluster, name).cell.instance.trained


def put_all(rollouts, *items):
    for item in items:
        rollouts.actor.put.tell(item)


@pytest.mark.parametrize("kind", [Trainer, Strict])
def test_an_item_that_kills_it_twice_is_named_with_its_queue_when_the_system_stops(cluster, training, kind):
    system, rollouts, _, trainer = training("stop", kind)
    trainer.fit.tell()
    put_all(rollouts, "a", "poison", "b")
    why = await_stop(cluster, system)
    assert "trainer was lost twice in a row while it handled message 2 from rollouts (answer of .get)" in why


@pytest.mark.parametrize("kind", [Trainer, Strict])
def test_an_item_that_kills_it_twice_is_passed_over_and_the_loop_asks_for_the_next(cluster, training, kind):
    system, rollouts, _, trainer = training("dead-letter", kind)
    trainer.fit.tell()
    put_all(rollouts, "a", "poison", "b", "c")
    await_letters(cluster, system, ("trainer", "rollouts", "get"))
    assert trained(cluster) == ["a", "b", "c"]
    life = system.status().incarnation
    for number in range(2):  # to the snapshot before the item, then to one behind it
        cluster.die(actor(cluster, "trainer"))
        await_life(cluster, system, life + 1 + number)
        await_letters(cluster, system, ("trainer", "rollouts", "get"))
        assert trained(cluster) == ["a", "b", "c"]
        for _ in range(2):
            system.snapshot()
    assert coordinator(cluster).run.instance._life.poison.cautions == {}


def test_two_items_and_two_trainers_each_lose_what_kills_them_and_nothing_else(cluster, training):
    system, rollouts, slots, trainer = training()
    other = Trainer.options(name="other").remote(slots, rollouts)
    assert read(other) == []
    for one, queue in ((trainer, rollouts), (other, slots)):
        one.fit.tell()
        put_all(queue, "a", "poison 1", "b", "poison 2", "c")
    await_letters(cluster, system, *[("trainer", "rollouts", "get")] * 2, *[("other", "slots", "get")] * 2)
    assert trained(cluster) == trained(cluster, "other") == ["a", "b", "c"]


def test_an_item_that_comes_in_another_order_behind_each_rollback_is_found_nevertheless(cluster, training):
    system, *_ = training()
    deck = Deck.options(name="deck").remote()
    player = Player.options(name="player").remote(deck)
    assert read(player) == []
    system.snapshot()
    player.fit.tell()
    await_letters(cluster, system, ("player", "deck", "deal"))
    assert trained(cluster, "player") == ["a", "b", "c"]
    assert len(Deck.dealt) >= 7


def die_in_a_row(cluster, system, between=lambda _life: None):
    """The trainer is killed until care has seen it twice, and the system goes back no more if it names nothing."""
    for life in range(2, 6):
        cluster.settle()
        cluster.die(actor(cluster, "trainer"))
        if life < 5:
            await_life(cluster, system, life)
            between(life)


@pytest.mark.parametrize("held", [False, True])
def test_a_loop_that_is_killed_from_outside_at_its_top_is_never_named(cluster, training, held):
    """`held`: a snapshot has it in its loop."""
    system, _, _, trainer = training()
    trainer.fit.tell()
    cluster.settle()
    if held:
        system.snapshot()
    die_in_a_row(cluster, system)
    why = await_stop(cluster, system)
    assert "led nowhere" in why
    assert ".fit" not in why
    assert system.dead_letters() == []


def test_a_method_that_is_killed_above_its_loop_is_never_named(cluster, training):
    system, rollouts, _, trainer = training()
    trainer.load_and_fit.tell()
    put_all(rollouts, "a")
    cluster.until(lambda: len(Trainer.lives) == 4)
    why = await_stop(cluster, system)
    assert "led nowhere" in why
    assert "twice" not in why


@pytest.mark.parametrize("same", [True, False])
def test_who_waits_in_a_pass_is_named_only_if_it_died_behind_the_same_answer_before(cluster, training, same):
    system, rollouts, slots, trainer = training()
    trainer.fit_with_slots.tell()
    put_all(rollouts, "a", "b")
    put_all(slots, 1)
    die_in_a_row(cluster, system, lambda life: same or put_all(slots, life))
    if same:
        await_letters(cluster, system, ("trainer", "rollouts", "get"))
        assert trained(cluster) == [("b", 1)]
    else:
        assert "twice" not in await_stop(cluster, system)


def test_a_snapshot_holds_the_answer_with_which_the_next_pass_begins_as_a_message(cluster, training, monkeypatch):
    system, rollouts, _, trainer = training()
    trainer.fit.tell()
    cluster.settle()
    with monkeypatch.context() as patch:
        patch.setattr(Suspension, "must_end", lambda _self: None)
        may_pass = Suspension._may_pass
        patch.setattr(Suspension, "_may_pass", lambda self, may_begin: may_pass(self, may_begin) and None)
        rollouts.put("poison")
        cluster.settle()
        snapshot = system.snapshot()
    (channel,) = [
        one for key, one in snapshot.channels.items() if (key.sender, key.receiver) == ("rollouts", "trainer")
    ]
    assert channel.entry.sent - channel.entry.received == 1
    put_all(rollouts, "a")
    await_letters(cluster, system, ("trainer", "rollouts", "get"))
    assert trained(cluster) == ["a"]
