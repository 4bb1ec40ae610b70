"""Fetches of durable outcomes in an actor that records, goes back and ends when chance says so; on the fake."""

import random

import pytest

from rayshot.errors import ActorExited, NoAnswer, SystemRecovering, SystemStopped
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.actor.durable_fetches import DURABLE_AT_ONCE
from rayshot.runtime.actor.outcomes import Outcome, Outcomes
from rayshot.runtime.actor.waiting_fetches import STUCK_S, FetchRetry
from rayshot.runtime.door import door
from rayshot.runtime.driver.calls import DurableCalls
from rayshot.runtime.wire.host_identity import CALLS_AT_ONCE
from tests.fake.door import fake
from tests.fake.schedule import Choices
from tests.fake.threads import Condition, Lock

DRIVERS = ("driver:a", "driver:b", "driver:c")
GROUPS = {"calls": CALLS_AT_ONCE, "durable": DURABLE_AT_ONCE}


class Cut:
    """What a record holds: the numbers handled by driver, and the value of each call."""

    def __init__(self, actor, snapshot):
        self.snapshot = snapshot
        self.handled = dict(actor.handled)
        self.values = dict(actor.values)
        self.place = sum(self.handled.values())


class Actor:
    """A process of which only the outcomes are real. `durable` is the newest cut that advances.

    The test calls what may happen.
    """

    def __init__(self):
        self.lock = Lock()
        self.another = Condition(self.lock)
        self.life = 1
        self.asked = self.retries = 0
        self.outcomes = self.new_outcomes()
        self.told = dict.fromkeys(DRIVERS, 0)
        self.calls = {driver: {} for driver in DRIVERS}  # number -> whether durable
        self.handled, self.values = dict.fromkeys(DRIVERS, 0), {}
        self.open, self.count = {}, 0
        self.durable = Cut(self, snapshot(0))
        self.results, self.fetched = {}, {}

    def new_outcomes(self):
        return Outcomes(self.lock, "till", lambda: setattr(self, "asked", self.asked + 1))

    @door.method("calls", again=FetchRetry)
    def result(self, *fetch):
        return self._fetch(*fetch, durable=False)

    @door.method("durable", again=FetchRetry)
    def durable_result(self, *fetch):
        return self._fetch(*fetch, durable=True)

    def _fetch(self, driver, call_id, number, *, durable):
        while True:
            outcomes = self.outcomes
            try:
                return outcomes.fetch(driver, call_id, 0, number, durable=durable).value
            except FetchRetry:
                self.retries += 1
                raise
            except SystemRecovering:
                with self.another:
                    self.another.wait_for(lambda now=outcomes: self.outcomes is not now)

    def put(self, handle, driver, number, *, durable=True):
        """A driver fetches an outcome."""
        self.told[driver] = max(number, self.told[driver])
        self.calls[driver][number] = durable
        method = handle.durable_result if durable else handle.result
        fetched = self.fetched[driver, number] = method.remote(driver, number, number)
        door.when_answered(fetched, lambda value: self.came((driver, number), value, durable=durable))

    def came(self, key, value, *, durable):
        value = value.cause if isinstance(value, door.Raised) else value
        if durable and not isinstance(value, Exception):
            assert value == self.durable.values.get(key), f"{key}: {value} is not durable"
        self.results.setdefault(key, []).append(value)

    # What may happen -------------------------------------------------------------------------------------------

    def handle(self, driver):
        number = self.handled[driver] + 1
        with self.lock:
            self.values[driver, number] = f"{number} of {driver} in life {self.life}"
            self.outcomes.settle(driver, number, Outcome(self.values[driver, number]))
            self.handled[driver] = number

    def record(self):
        self.count += 1
        snapshot = SnapshotId(self.life, COORDINATOR, self.count)
        with self.lock:
            self.open[snapshot] = Cut(self, snapshot)
            self.outcomes.recorded(snapshot, dict(self.handled))
        return snapshot

    def commit(self, snapshot):
        cut = self.open.pop(snapshot)
        with self.lock:
            if cut.place >= self.durable.place:  # otherwise it does not advance, and nobody is told
                self.durable = cut
                self.outcomes.durable.committed(snapshot)

    def abort(self, snapshot):
        del self.open[snapshot]
        with self.lock:
            self.outcomes.durable.aborted(snapshot)

    def roll_back(self):
        """All go back to the newest cut that advances; messages behind it come again."""
        before = self.outcomes
        with self.lock:
            before.shut(SystemRecovering("it goes back", system="bank"))
        self.life += 1
        self.open.clear()
        self.handled, self.values = dict(self.durable.handled), dict(self.durable.values)
        after = self.new_outcomes()
        with self.another:
            after.go_on_from(self.durable.snapshot, dict(self.handled), before)
            self.outcomes = after
            self.another.notify_all()


def all_wait(actor):
    """Whether all threads for durable outcomes are taken."""
    return len(actor.outcomes.durable._waiting) == DURABLE_AT_ONCE


@pytest.fixture
def cluster():
    with fake() as cluster:
        cluster.handle = door.make(Actor, GROUPS, "till")
        cluster.settle()
        yield cluster


@pytest.fixture
def actor(cluster):
    return cluster.named["till"].run.instance


class Play:
    """What happens to an actor where chance says it."""

    def __init__(self, cluster, actor, seed):
        self.cluster, self.actor, self.chance = cluster, actor, random.Random(seed)

    def run(self, steps):
        deeds = [self.call, self.handle, self.record, self.commit, self.abort, self.actor.roll_back, self.fetch_again]
        for _ in range(steps):
            self.chance.choices(deeds, [8, 8, 2, 2, 0.7, 0.4, 1])[0]()
            for _ in range(self.chance.randrange(20)):
                self.cluster.schedule.step(self.cluster.schedule.now_s)
            if self.chance.random() < 0.1:
                self.cluster.schedule.pass_s(STUCK_S)
        while self.handle():
            pass
        for _ in range(2):
            self.record()
            while self.actor.open:
                self.commit()

    def call(self):
        driver = self.chance.choice(DRIVERS)
        self.actor.put(self.cluster.handle, driver, self.actor.told[driver] + 1, durable=self.chance.random() < 0.7)

    def fetch_again(self):
        """A fetch is tried again, though the one before is not over."""
        driver = self.chance.choice(DRIVERS)
        if durable := [number for number, is_durable in self.actor.calls[driver].items() if is_durable]:
            self.actor.fetched[driver, self.chance.choice(durable)].value.task.arrive()

    def handle(self):
        waiting = [driver for driver in DRIVERS if self.actor.handled[driver] < self.actor.told[driver]]
        if waiting:
            self.actor.handle(self.chance.choice(waiting))
        return bool(waiting)

    def record(self):
        self.actor.record()

    def commit(self):
        if self.actor.open:
            self.actor.commit(self.chance.choice(sorted(self.actor.open)))

    def abort(self):
        if self.actor.open:
            self.actor.abort(self.chance.choice(sorted(self.actor.open)))


@pytest.mark.sampled("more cases of one kind", keeps=14)
@pytest.mark.parametrize("seed", range(40))
def test_a_durable_answer_is_given_only_if_a_durable_snapshot_holds_it_and_every_fetch_ends(cluster, actor, seed):
    cluster.schedule.choose = Choices.of_seed(seed)
    Play(cluster, actor, seed).run(400)
    keys = {(driver, number) for driver in DRIVERS for number in actor.calls[driver]}
    cluster.until(lambda: actor.results.keys() == keys)
    for (driver, number), values in actor.results.items():
        if actor.calls[driver][number]:
            assert set(values) <= {actor.values[driver, number]}, f"{driver} {number}: {values}"


# One after the other -------------------------------------------------------------------------------------------


def snapshot(counter, life=1):
    return SnapshotId(life, COORDINATOR, counter)


def settled(cluster, actor, driver, count):
    """A driver made so many durable calls, and they are handled."""
    for number in range(1, count + 1):
        actor.put(cluster.handle, driver, number)
        actor.handle(driver)
    cluster.settle()


def unhandled(cluster, actor, numbers):
    """A driver makes calls that nobody handles now."""
    for number in numbers:
        actor.put(cluster.handle, "driver:a", number)
    cluster.settle()


def test_a_fetch_that_comes_after_the_commit_of_the_snapshot_is_answered_at_once(cluster, actor):
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome("one"))
        actor.outcomes.recorded(snapshot(1), {"driver:a": 1})
        actor.outcomes.durable.committed(snapshot(1))
    assert actor.outcomes.fetch("driver:a", 1, 0, 1, durable=True).value == "one"
    assert actor.asked == 0


def test_news_of_an_older_snapshot_that_come_late_take_nothing_back(cluster, actor):
    with actor.lock:
        actor.outcomes.recorded(snapshot(1), {})
        actor.outcomes.settle("driver:a", 1, Outcome("one"))
        actor.outcomes.recorded(snapshot(2), {"driver:a": 1})
        for counter in (2, 1):
            actor.outcomes.durable.committed(snapshot(counter))
    assert actor.outcomes.fetch("driver:a", 1, 0, 1, durable=True).value == "one"


def test_a_fetch_asks_for_news_once_and_is_answered_by_a_snapshot_that_was_recorded_before_it_came(cluster, actor):
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome("one"))
        actor.handled["driver:a"], actor.values["driver:a", 1] = 1, "one"
    taken = actor.record()
    unhandled(cluster, actor, (1, 2))
    assert len(actor.outcomes.durable._waiting) == 2
    assert actor.asked == 1
    actor.commit(taken)
    cluster.until(lambda: actor.results == {("driver:a", 1): ["one"]})


def test_an_older_snapshot_and_one_that_was_aborted_answer_nobody(cluster, actor):
    actor.record()
    settled(cluster, actor, "driver:a", 1)
    cluster.until(lambda: actor.outcomes.durable._waiting)
    with actor.lock:
        actor.outcomes.recorded(snapshot(7), dict(actor.handled))
        actor.outcomes.durable.aborted(snapshot(7))
        for counter in (7, 1):
            actor.outcomes.durable.committed(snapshot(counter))
    cluster.schedule.pass_s(5.0)
    assert actor.results == {}


def test_calls_of_one_driver_that_wait_on_keep_no_other_driver_from_what_is_durable(cluster, actor):
    unhandled(cluster, actor, range(1, 3 * DURABLE_AT_ONCE))
    assert all_wait(actor)
    settled(cluster, actor, "driver:b", 3)
    taken = actor.record()
    actor.commit(taken)
    cluster.until(lambda: len(actor.results) == 3 and all_wait(actor))
    retries = actor.retries
    cluster.schedule.pass_s(5.0)
    assert retries <= 3 * DURABLE_AT_ONCE + 3
    assert actor.retries == retries


def test_no_fetch_gives_its_place_up_where_it_helps_nobody(cluster, actor):
    settled(cluster, actor, "driver:a", 2)
    unhandled(cluster, actor, range(3, 20))
    taken = actor.record()
    actor.commit(taken)
    cluster.until(lambda: len(actor.results) == 2)
    cluster.schedule.pass_s(5.0)
    assert actor.retries == 0


def test_an_outcome_that_nobody_fetches_begins_one_round(cluster, actor):
    for number in range(1, 2 * CALLS_AT_ONCE + 1):
        actor.put(cluster.handle, "driver:a", number, durable=False)
    cluster.settle()
    actor.handle("driver:b")
    cluster.schedule.pass_s(10.0)
    assert actor.retries == 2 * CALLS_AT_ONCE
    actor.put(cluster.handle, "driver:b", 1, durable=False)
    cluster.settle()
    actor.handle("driver:b")  # this outcome is news
    cluster.until(lambda: actor.results)
    assert actor.results == {("driver:b", 1): ["1 of driver:b in life 1"]}


def test_what_a_restored_snapshot_holds_is_answered_though_others_have_all_threads(cluster, actor):
    actor.told["driver:b"] = 1
    actor.handle("driver:b")
    actor.commit(actor.record())
    actor.roll_back()
    for number in range(1, CALLS_AT_ONCE + 1):
        actor.put(cluster.handle, "driver:a", number, durable=False)
    actor.put(cluster.handle, "driver:b", 1, durable=False)
    cluster.until(lambda: actor.results)
    assert actor.results == {("driver:b", 1): ["1 of driver:b in life 1"]}


def test_on_the_way_back_no_fetch_gives_its_place_up_where_it_helps_nobody(cluster, actor):
    settled(cluster, actor, "driver:a", 20)
    cluster.until(lambda: all_wait(actor))
    actor.roll_back()
    cluster.until(lambda: all_wait(actor))
    cluster.schedule.pass_s(5.0)
    assert actor.retries == 0
    for number in range(1, 21):
        if actor.handled["driver:a"] < number:
            actor.handle("driver:a")
    actor.commit(actor.record())
    cluster.until(lambda: len(actor.results) == 20)
    assert actor.retries == 0


@pytest.mark.parametrize("is_told", [True, False])
def test_on_the_way_back_what_the_snapshot_holds_is_answered_though_others_have_all_threads(cluster, actor, is_told):
    unhandled(cluster, actor, range(1, 3 * DURABLE_AT_ONCE))
    assert all_wait(actor)
    settled(cluster, actor, "driver:b", 3)
    taken = actor.record()
    if not is_told:
        actor.outcomes.durable.committed = lambda _: None
    actor.commit(taken)
    actor.roll_back()
    cluster.until(lambda: len(actor.results) == 3 and all_wait(actor))
    retries = actor.retries
    cluster.schedule.pass_s(5.0)
    assert actor.retries == retries <= 2 * (3 * DURABLE_AT_ONCE + 3)


def test_the_dead_and_those_whose_system_stops_wait_no_more(cluster, actor):
    settled(cluster, actor, "driver:a", 1)
    settled(cluster, actor, "driver:b", 1)
    cluster.until(lambda: len(actor.outcomes.durable._waiting) == 2)
    with actor.lock:
        actor.outcomes.forget("driver:a")
    cluster.until(lambda: len(actor.results) == 1)
    with actor.lock:
        actor.outcomes.shut(SystemStopped("over", system="bank"))
    cluster.until(lambda: len(actor.results) == 2)
    assert isinstance(actor.results["driver:a", 1][0], NoAnswer)
    assert isinstance(actor.results["driver:b", 1][0], SystemStopped)
    with pytest.raises(SystemStopped):
        actor.outcomes.fetch("driver:c", 1, 0, 1, durable=True)
    with pytest.raises(NoAnswer, match="counts as dead"):
        actor.outcomes.fetch("driver:a", 1, 0, 1, durable=True)


def test_what_was_handled_is_not_given_as_durable_where_the_actor_ends_and_the_rest_hears_that_it_ended(cluster, actor):
    settled(cluster, actor, "driver:a", 1)
    unhandled(cluster, actor, [2])
    cluster.until(lambda: len(actor.outcomes.durable._waiting) == 2)
    with actor.lock:
        actor.outcomes.shut(ActorExited("actor 'till' ended", actor="till"))
    cluster.until(lambda: len(actor.results) == 2)
    assert isinstance(actor.results["driver:a", 1][0], NoAnswer)
    assert isinstance(actor.results["driver:a", 2][0], ActorExited)
    assert not actor.outcomes


# Drivers ---------------------------------------------------------------------------------------------------------


def test_an_actor_that_nobody_has_a_handle_of_lives_until_its_last_durable_call_has_a_result(cluster, monkeypatch):
    told, ended = [], []
    calls = DurableCalls(ended.append)
    with monkeypatch.context() as patch:
        patch.setattr("rayshot.runtime.door.door.when_there", lambda _tags, tell: told.append(tell))
        for tags in range(2):
            calls.made("till", tags)
    assert calls.postpone("till")
    told.pop()(None)
    assert calls.postpone("till")
    assert ended == []
    told.pop()(None)
    cluster.until(lambda: ended == ["till"])
    assert not calls.postpone("till")
