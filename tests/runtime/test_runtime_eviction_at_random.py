"""Programs that may keep little, in a system whose snapshots fail: they evict, and lose nothing all the same."""

from collections import Counter

import pytest

from rayshot.errors import SystemStopped
from tests.runtime.going_back import Process, Snapshot, going_back
from tests.runtime.test_runtime_going_back_at_random import Play

KEPT_MAX = 250
"""Some messages fill it."""


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr("rayshot.runtime.channel.retained.RETAINED_BYTES_MAX", KEPT_MAX)
    monkeypatch.setattr("rayshot.runtime.driver.channel.ROOM_WAIT_S", 0.1)
    with going_back("alice", "bob") as world:
        yield world


def fill(world, name="alice"):
    """Tell until the driver may keep no more; returns what was told."""
    count = 0
    while not world.session.budget.is_spent:
        count += 1
        world.handle(name).take.tell(count, "x" * 40)
        world.settle()
    return list(range(1, count + 1))


def test_who_may_keep_no_more_asks_and_goes_on_when_it_may_evict(world):
    told = fill(world)
    assert len(world.asked) == 1, "it asks once at a time"
    world.answer_eviction(may=False)
    world.settle()
    assert world.session.budget.is_spent
    world.answer_eviction()
    world.settle()
    assert world.session.budget.used == 0
    assert world.port.life.eviction.outstanding
    world.handle("alice").take.tell(0)
    world.settle()
    assert world.contents("alice") == [*told, 0]
    assert not world.can_roll_back
    world.commit()
    world.settle()
    assert not world.port.life.eviction.outstanding
    world.roll_back("alice")
    world.settle()
    assert world.contents("alice") == [*told, 0]


def test_a_snapshot_that_was_taken_before_does_not_hold_it(world):
    taken = Snapshot(world, 0)
    told = fill(world)
    world.answer_eviction()
    world.settle()
    world.commit(taken)
    world.settle()
    assert world.port.life.eviction.outstanding
    assert not world.can_roll_back
    world.commit()
    world.settle()
    assert world.can_roll_back
    world.roll_back()
    world.settle()
    assert world.contents("alice") == told


def test_what_was_evicted_first_is_owed_until_a_snapshot_holds_that_too(world):
    world.handle("alice").take.tell(1)
    world.settle()
    for offered in ({"alice", "bob"}, {"bob"}):
        fill(world, "bob")
        assert world.asked[0][0].sent.keys() == offered
        world.answer_eviction()
        world.settle()
    taken = Snapshot(world, 0)
    taken.processes["alice"] = Process(1)  # as it was before anything arrived
    world.commit(taken)
    world.settle()
    assert world.port.life.eviction.outstanding
    world.commit()
    world.settle()
    assert not world.port.life.eviction.outstanding


def test_nobody_asks_before_enough_has_arrived(world):
    world.handle("alice").take.tell("x" * 300)
    while not world.session.budget.is_spent:
        world.happen()  # it is numbered, and on its way
    assert world.session.machine.offer().sent == {}
    assert world.asked == []
    world.settle()
    assert [evicted.sent for evicted, _ in world.asked] == [{"alice": 1}]


def test_who_waits_for_room_goes_on_when_the_driver_evicts(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.driver.channel.ROOM_WAIT_S", 0.01)
    fill(world)
    with pytest.raises(SystemStopped, match="no durable snapshot holds"):
        world.handle("alice").take.tell(0)
    world.answer_eviction()
    world.settle()
    world.handle("alice").take.tell(0)


def test_a_permission_that_comes_in_the_next_life_is_void(world):
    told = fill(world)
    world.roll_back()
    world.tell_news()
    world.answer_eviction()
    world.settle()
    assert world.demand is None
    assert world.contents("alice") == told


class PlayOfFewBytes(Play):
    """As Play. Snapshots are taken, and durable later or never; the driver asks whether it may evict."""

    def __init__(self, world, seed):
        super().__init__(world, seed)
        self.counts, self.taken, self.own_commit = Counter(), [], world.commit
        world.commit = self.commit

    def run(self, steps):
        for _ in range(steps):
            chance = self.chance.random()
            if chance < 0.08 and self.world.asked:
                self.world.answer_eviction(may=self.chance.random() < 0.8)
                self.counts["answered"] += 1
            elif chance < 0.1 and self.world.running:
                self.taken.append(Snapshot(self.world, self.world.position))
            else:
                self.step()
        self.begin()
        self.world.settle()

    def step(self):
        """One step of a play."""
        if self.chance.random() < 0.6:
            self.let_happen()
            return
        deeds = [self.tell, self.call, self.see, self.make, self.kill, self.commit, self.fail, self.tell_news]
        deed = self.chance.choices(deeds, [8, 6, 6, 1, 0.3, 0.6, 0.7, 2])[0]
        if deed in (self.tell, self.call, self.kill) and self.world.session.budget.is_spent:
            self.counts["had to wait"] += 1
            return
        deed()

    def commit(self, taken=None):
        if taken is None and self.taken and self.chance.random() < 0.5:
            taken = self.taken.pop(0)
        else:
            self.taken.clear()  # they would be behind this one
        demand = self.world.demand
        self.own_commit(taken)
        self.counts["held"] += demand is not None and self.world.demand is None
        self.counts["not held"] += demand is not None and self.world.demand is not None

    def fail(self):
        if not self.world.running or self.world.can_roll_back:
            super().fail()
            self.counts["failed"] += 1
        else:
            self.counts["could not go back"] += 1

    def check_rest(self):
        self.taken.clear()
        super().check_rest()
        assert not self.world.port.life.eviction.outstanding
        assert self.world.demand is None


@pytest.fixture(scope="module")
def counts():
    """What happened in all plays together."""
    counts = Counter()
    yield counts
    if counts["plays"] == PLAYS:
        rare = {what: count for what, count in counts.items() if count < 20}
        assert not rare, counts


PLAYS = 100


@pytest.mark.sampled("more cases of one kind", keeps=74)
@pytest.mark.parametrize("seed", range(PLAYS))
def test_whatever_a_driver_evicts_nothing_is_lost_doubled_or_out_of_order(world, counts, seed):
    play = PlayOfFewBytes(world, seed)
    play.run(350)
    play.check()
    play.check_rest()
    counts.update(play.counts, plays=1)
