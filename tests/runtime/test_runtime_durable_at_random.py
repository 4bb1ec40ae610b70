"""Fetches of durable outcomes in an actor that records, goes back and ends when chance says so; without Ray."""

import queue
import random
import threading
import time

import pytest

from rayshot.errors import ActorExited, NoAnswer, SystemRecovering, SystemStopped
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.actor import outcomes as of_actor
from rayshot.runtime.actor.durable import DURABLE_AT_ONCE
from rayshot.runtime.actor.not_yet import NotYet
from rayshot.runtime.actor.outcomes import CALLS_AT_ONCE, Outcome, Outcomes
from rayshot.runtime.driver.calls import DurableCalls
from tests.waiting import eventually

DRIVERS = ("driver:a", "driver:b", "driver:c")


class Threads:
    """Runs fetches as Ray does: so many at once, the others in a queue; what gives its place up goes to its end."""

    def __init__(self, actor, count, *, durable):
        self._actor, self._durable = actor, durable
        self._queue = queue.SimpleQueue()
        self.retries = 0
        for _ in range(count):
            threading.Thread(target=self._run, daemon=True).start()

    def put(self, fetch):
        self._queue.put(fetch)

    def _run(self):
        while (fetch := self._queue.get()) is not None:
            self.take(fetch)

    def take(self, fetch):
        driver, call_id, number = fetch
        try:
            value = self._fetch(driver, call_id, number)
        except NotYet:
            self.retries += 1
            self.put(fetch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self._actor.came(fetch, error, durable=self._durable)
        else:
            self._actor.came(fetch, value, durable=self._durable)

    def _fetch(self, driver, call_id, number):
        while True:
            outcomes = self._actor.outcomes
            try:
                return outcomes.fetch(driver, call_id, 0, number, durable=self._durable).value
            except SystemRecovering:
                while self._actor.outcomes is outcomes and not self._actor.has_ended:
                    time.sleep(0.001)

    def break_connection(self, fetch):
        """A fetch is tried again, though the one before is not over."""
        threading.Thread(target=self.take, args=(fetch,), daemon=True).start()


class Cut:
    """What a record holds: the numbers handled by driver, and the value of each call."""

    def __init__(self, actor, snapshot):
        self.snapshot = snapshot
        self.handled = dict(actor.handled)
        self.values = dict(actor.values)
        self.place = sum(self.handled.values())


class Actor:
    """An actor with a mailbox, of which only the outcomes are real. `durable` is the newest cut that advances."""

    def __init__(self, chance):
        self.chance = chance
        self.lock = threading.Lock()
        self.life = 1
        self.asked = 0
        self.outcomes = self.new_outcomes()
        self.told = dict.fromkeys(DRIVERS, 0)
        self.calls = {driver: {} for driver in DRIVERS}  # number -> whether durable
        self.handled, self.values = dict.fromkeys(DRIVERS, 0), {}
        self.open, self.count = {}, 0
        self.durable = Cut(self, snapshot(0))
        self.results, self.has_ended = {}, False
        self.plain = Threads(self, CALLS_AT_ONCE, durable=False)
        self.threads = Threads(self, DURABLE_AT_ONCE, durable=True)

    def new_outcomes(self):
        return Outcomes(self.lock, "till", lambda: setattr(self, "asked", self.asked + 1), goes_back=True)

    def came(self, fetch, value, *, durable):
        key = fetch[:2]
        if durable and not isinstance(value, Exception):
            assert value == self.durable.values.get(key), f"{key}: {value} is not durable"
        self.results.setdefault(key, []).append(value)

    # What may happen -------------------------------------------------------------------------------------------

    def call(self):
        driver = self.chance.choice(DRIVERS)
        self.told[driver] = number = self.told[driver] + 1
        durable = self.calls[driver][number] = self.chance.random() < 0.7
        fetch = driver, number, number
        threads = self.threads if durable else self.plain
        if self.chance.random() < 0.3:
            threading.Timer(self.chance.random() / 50, threads.put, (fetch,)).start()
        else:
            threads.put(fetch)

    def handle(self):
        waiting = [driver for driver in DRIVERS if self.handled[driver] < self.told[driver]]
        if waiting:
            driver = self.chance.choice(waiting)
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

    def commit(self):
        if self.open:
            snapshot = self.chance.choice(sorted(self.open))
            cut = self.open.pop(snapshot)
            with self.lock:
                if cut.place >= self.durable.place:  # otherwise it does not advance, and nobody is told
                    self.durable = cut
                    self.outcomes.durable.committed(snapshot)

    def abort(self):
        if self.open:
            snapshot = self.chance.choice(sorted(self.open))
            del self.open[snapshot]
            with self.lock:
                self.outcomes.durable.aborted(snapshot)

    def go_back(self):
        """All go back to the newest cut that advances; messages behind it come again."""
        before = self.outcomes
        with self.lock:
            before.shut(SystemRecovering("it goes back", system="bank"))
        self.life += 1
        self.open.clear()
        self.handled, self.values = dict(self.durable.handled), dict(self.durable.values)
        after = self.new_outcomes()
        with self.lock:
            after.go_on_from(self.durable.snapshot, dict(self.handled), before)
        self.outcomes = after

    def break_connection(self):
        driver = self.chance.choice(DRIVERS)
        durable = [number for number, is_durable in self.calls[driver].items() if is_durable]
        if durable:
            number = self.chance.choice(durable)
            self.threads.break_connection((driver, number, number))

    def finish(self):
        while self.handled != self.told:
            self.handle()
        self.record()
        while self.open:
            self.commit()
        self.record()
        self.commit()


@pytest.fixture
def actor(request, monkeypatch):
    monkeypatch.setattr(of_actor, "STUCK_S", 0.02)
    monkeypatch.setattr(threading, "excepthook", lambda failed: failures.append(failed.exc_value))
    failures = []
    actor = Actor(random.Random(getattr(request, "param", 0)))
    yield actor
    actor.has_ended = True
    with actor.lock:
        actor.outcomes.shut(SystemStopped("the test is over", system="bank"))
    for threads in (actor.plain, actor.threads):
        for _ in range(CALLS_AT_ONCE):
            threads.put(None)
    assert failures == []


@pytest.mark.sampled("more cases of one kind", keeps=14)
@pytest.mark.parametrize("actor", range(40), indirect=True)
def test_a_durable_answer_is_given_only_if_a_durable_snapshot_holds_it_and_every_fetch_ends(actor):
    deeds = [actor.call, actor.handle, actor.record, actor.commit, actor.abort, actor.go_back, actor.break_connection]
    for _ in range(400):
        actor.chance.choices(deeds, [8, 8, 2, 2, 0.7, 0.4, 1])[0]()
        if actor.chance.random() < 0.1:
            time.sleep(0.001)
    actor.finish()
    keys = {(driver, number) for driver in DRIVERS for number in actor.calls[driver]}
    eventually(lambda: actor.results.keys() == keys)
    for (driver, number), values in actor.results.items():
        if actor.calls[driver][number]:
            assert set(values) <= {actor.values[driver, number]}, f"{driver} {number}: {values}"


# One after the other -------------------------------------------------------------------------------------------


def snapshot(counter, life=1):
    return SnapshotId(life, COORDINATOR, counter)


def settled(actor, driver, count):
    """A driver made so many durable calls, and they are handled."""
    for number in range(1, count + 1):
        actor.told[driver] = number
        actor.calls[driver][number] = True
        actor.threads.put((driver, number, number))
    with actor.lock:
        for number in range(1, count + 1):
            actor.values[driver, number] = number
            actor.outcomes.settle(driver, number, Outcome(number))
            actor.handled[driver] = number


def test_a_fetch_that_comes_after_the_commit_of_the_snapshot_is_answered_at_once(actor):
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome("one"))
        actor.outcomes.recorded(snapshot(1), {"driver:a": 1})
        actor.outcomes.durable.committed(snapshot(1))
    assert actor.outcomes.fetch("driver:a", 1, 0, 1, durable=True).value == "one"
    assert actor.asked == 0


def test_news_of_an_older_snapshot_that_come_late_take_nothing_back(actor):
    with actor.lock:
        actor.outcomes.recorded(snapshot(1), {})
        actor.outcomes.settle("driver:a", 1, Outcome("one"))
        actor.outcomes.recorded(snapshot(2), {"driver:a": 1})
        for counter in (2, 1):
            actor.outcomes.durable.committed(snapshot(counter))
    assert actor.outcomes.fetch("driver:a", 1, 0, 1, durable=True).value == "one"


def test_a_fetch_asks_for_news_once_and_is_answered_by_a_snapshot_that_was_recorded_before_it_came(actor):
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome("one"))
        actor.handled["driver:a"], actor.values["driver:a", 1] = 1, "one"
    actor.record()
    for number in (1, 2):
        actor.threads.put(("driver:a", number, number))
    eventually(lambda: len(actor.outcomes.durable._waiting) == 2)
    assert actor.asked == 1
    actor.commit()
    eventually(lambda: actor.results == {("driver:a", 1): ["one"]})


def test_an_older_snapshot_and_one_that_was_aborted_answer_nobody(actor):
    actor.record()
    settled(actor, "driver:a", 1)
    eventually(lambda: actor.outcomes.durable._waiting)
    with actor.lock:
        actor.outcomes.recorded(snapshot(7), dict(actor.handled))
        actor.outcomes.durable.aborted(snapshot(7))
        for counter in (7, 1):
            actor.outcomes.durable.committed(snapshot(counter))
    time.sleep(0.1)
    assert actor.results == {}


def test_calls_of_one_driver_that_wait_on_keep_no_other_driver_from_what_is_durable(actor):
    for number in range(1, 3 * DURABLE_AT_ONCE):
        actor.threads.put(("driver:a", number, number))  # nobody handles these calls
    eventually(lambda: actor.outcomes.durable.is_full)
    settled(actor, "driver:b", 3)
    actor.record()
    actor.commit()
    eventually(lambda: len(actor.results) == 3 and actor.outcomes.durable.is_full)
    retries = actor.threads.retries
    time.sleep(0.2)
    assert retries <= 3 * DURABLE_AT_ONCE + 3
    assert actor.threads.retries == retries


def test_no_fetch_gives_its_place_up_where_it_helps_nobody(actor):
    settled(actor, "driver:a", 2)
    for number in range(3, 20):
        actor.threads.put(("driver:a", number, number))
    actor.record()
    actor.commit()
    eventually(lambda: len(actor.results) == 2)
    time.sleep(0.2)
    assert actor.threads.retries == 0


def test_on_the_way_back_no_fetch_gives_its_place_up_where_it_helps_nobody(actor):
    settled(actor, "driver:a", 20)
    eventually(lambda: actor.outcomes.durable.is_full)
    actor.go_back()
    eventually(lambda: actor.outcomes.durable.is_full)
    time.sleep(0.2)
    assert actor.threads.retries == 0
    actor.finish()
    eventually(lambda: len(actor.results) == 20)
    assert actor.threads.retries == 0


@pytest.mark.parametrize("is_told", [True, False])
def test_on_the_way_back_what_the_snapshot_holds_is_answered_though_others_have_all_threads(actor, is_told):
    for number in range(1, 3 * DURABLE_AT_ONCE):
        actor.threads.put(("driver:a", number, number))  # nobody handles these calls
    eventually(lambda: actor.outcomes.durable.is_full)
    settled(actor, "driver:b", 3)
    actor.record()
    if not is_told:
        actor.outcomes.durable.committed = lambda _: None
    actor.commit()
    actor.go_back()
    eventually(lambda: len(actor.results) == 3 and actor.outcomes.durable.is_full)
    retries = actor.threads.retries
    time.sleep(0.2)
    assert actor.threads.retries == retries <= 2 * (3 * DURABLE_AT_ONCE + 3)


def test_the_dead_and_those_whose_system_stops_wait_no_more(actor):
    settled(actor, "driver:a", 1)
    settled(actor, "driver:b", 1)
    eventually(lambda: len(actor.outcomes.durable._waiting) == 2)
    with actor.lock:
        actor.outcomes.forget("driver:a")
    eventually(lambda: len(actor.results) == 1)
    with actor.lock:
        actor.outcomes.shut(SystemStopped("over", system="bank"))
    eventually(lambda: len(actor.results) == 2)
    assert isinstance(actor.results["driver:a", 1][0], NoAnswer)
    assert isinstance(actor.results["driver:b", 1][0], SystemStopped)
    with pytest.raises(SystemStopped):
        actor.outcomes.fetch("driver:c", 1, 0, 1, durable=True)
    with pytest.raises(NoAnswer, match="counts as dead"):
        actor.outcomes.fetch("driver:a", 1, 0, 1, durable=True)


def test_what_was_handled_is_not_given_as_durable_where_the_actor_ends_and_the_rest_hears_that_it_ended(actor):
    settled(actor, "driver:a", 1)
    actor.threads.put(("driver:a", 2, 2))
    eventually(lambda: len(actor.outcomes.durable._waiting) == 2)
    with actor.lock:
        actor.outcomes.shut(ActorExited("actor 'till' ended", actor="till"))
    eventually(lambda: len(actor.results) == 2)
    assert isinstance(actor.results["driver:a", 1][0], NoAnswer)
    assert isinstance(actor.results["driver:a", 2][0], ActorExited)
    assert not actor.outcomes


# Answers that change -------------------------------------------------------------------------------------------


def answered_again(actor, first, second):
    """How many answers have changed, where a driver got `first`, and after going back the call gives `second`."""
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome(first))
    actor.outcomes.fetch("driver:a", 1)
    actor.go_back()
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome(second))
    return actor.outcomes.changed


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), ("a", "b"), (None, 0), ((1, "x"), (1, "y")), ([1.5], []), (True, 1), ("long" * 100, "Long" * 100)],
)
def test_another_answer_than_the_one_that_was_seen_is_counted_and_logged(actor, first, second, caplog):
    assert answered_again(actor, first, second) == 1
    assert "call 1 of driver:a is answered in another way" in caplog.text
    assert "till" in caplog.text


@pytest.mark.parametrize(
    ("first", "second"),
    [(7, 7), (float("nan"), float("nan")), ({1}, {2}), (1 << 80, 1 << 81), ("\ud800", "a"), ([[1]], [[2]])],
)
def test_the_same_answer_and_what_is_not_cheap_to_compare_count_for_nothing(actor, first, second, caplog):
    assert answered_again(actor, first, second) == 0
    assert caplog.text == ""


def test_an_answer_that_nobody_had_seen_may_be_another_one(actor):
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome(1))
    actor.go_back()
    with actor.lock:
        actor.outcomes.settle("driver:a", 1, Outcome(2))
    assert actor.outcomes.changed == 0


@pytest.mark.parametrize(("again", "changed"), [(ValueError("other words"), 0), (KeyError("k"), 1)])
def test_errors_are_compared_by_their_kinds(actor, again, changed):
    first, second = (of_actor.failure(error, "till") for error in (ValueError("words"), again))
    assert answered_again(actor, first, second) == changed


# Drivers ---------------------------------------------------------------------------------------------------------


def test_an_actor_that_nobody_has_a_handle_of_lives_until_its_last_durable_call_has_a_result(monkeypatch):
    told, ended = [], []
    monkeypatch.setattr("rayshot.runtime.door.door.when_there", lambda _tags, tell: told.append(tell))
    calls = DurableCalls(ended.append)
    for tags in range(2):
        calls.made("till", tags)
    assert calls.postpone("till")
    told.pop()(None)
    assert calls.postpone("till")
    assert ended == []
    told.pop()(None)
    eventually(lambda: ended == ["till"])
    assert not calls.postpone("till")
