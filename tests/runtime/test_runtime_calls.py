"""Calls of drivers: they return at once, whatever their receiver does, and each gets its own outcome."""

import contextlib
import threading
from unittest.mock import Mock

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError, NoAnswer, SnapshotAborted, SystemStopped
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.actor.outcomes import FETCHED_S, STAY_BYTES_MAX, Outcome, Outcomes
from rayshot.runtime.actor.waiting_fetches import FetchRetry
from rayshot.runtime.wire.host_identity import CALLS_AT_ONCE
from rayshot.runtime.wire.packets import pack
from tests.runtime.workloads import Account, Occupant
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.fixture
def no_room(cluster):
    """The cluster has no processor left; returns what gives them back."""
    occupant = ray.remote(num_cpus=32)(Occupant).remote()
    assert ray.get(occupant.is_there.remote())
    yield lambda: ray.kill(occupant)
    ray.kill(occupant)


@pytest.fixture
def other_driver(system):
    """A driver in a process of its own: `deposit` calls an actor, and returns what it says."""

    @ray.remote(num_cpus=0)
    class Driver:
        def __init__(self, name, storage):
            self.system = rayshot.init(name, storage=storage)

        def deposit(self, actor, amount):
            return ray.get(self.system.get_actor(actor).deposit.remote(amount))

    return Driver.remote(system.name, system.storage)


@pytest.mark.acceptance("O3")
def test_a_thousand_calls_in_flight_each_get_their_own_result(system):
    alice = Account.remote(0)
    refs = []
    for _ in range(1000):
        alice.deposit.tell(1)
        refs.append(alice.read.remote())
    assert ray.get(refs) == list(range(1, 1001))


@pytest.mark.acceptance("O3")
def test_a_call_to_an_actor_that_waits_for_room_returns_at_once_and_its_result_comes_later(system, no_room):
    alice = Account.options(num_cpus=1).remote(1)
    alice.deposit.tell(2)
    refs = [alice.read.remote() for _ in range(100)]
    assert ray.wait(refs, timeout=0)[0] == []
    no_room()
    assert ray.get(refs) == [3] * 100


@pytest.mark.acceptance("O3")
def test_a_call_that_mentions_an_actor_that_waits_for_room_returns_at_once(system, no_room):
    alice = Account.options(name="alice", num_cpus=0).remote(10)
    assert ray.get(alice.read.remote()) == 10
    bob = Account.options(name="bob", num_cpus=1).remote(0)
    moved, seen = alice.transfer.remote(bob, 4), alice.read.remote()
    assert ray.wait([moved, seen], timeout=0)[0] == []
    no_room()
    assert ray.get([moved, seen]) == [None, 6]
    eventually(lambda: ray.get(bob.read.remote()) == 4)


@pytest.mark.wide("slow")
@pytest.mark.acceptance("O6")
def test_a_snapshot_with_messages_to_an_actor_whose_creation_waits_is_given_up_naming_it(system, no_room):
    alice = Account.options(name="alice", num_cpus=0).remote(10)
    bob = Account.options(name="bob", num_cpus=1).remote(0)
    alice.transfer.tell(ray.put(bob), 4)  # an object hides what it holds, and the message waits for nobody
    assert ray.get(alice.read.remote()) == 6
    with pytest.raises(SnapshotAborted, match=r"actor 'bob' does not run yet.* when 'bob' runs"):
        system.snapshot()
    no_room()
    assert eventually(lambda: ray.get(bob.read.remote())) == 4
    assert system.snapshot().states() == {"alice": {"balance": 6}, "bob": {"balance": 4}}


@pytest.mark.acceptance("O3")
def test_calls_of_one_driver_that_are_held_back_keep_no_other_driver_waiting(system, other_driver, no_room):
    alice = Account.options(name="alice", num_cpus=0).remote(10)
    assert ray.get(alice.read.remote()) == 10
    bob = Account.options(name="bob", num_cpus=1).remote(0)
    held = [alice.transfer.remote(bob, 1) for _ in range(80)]
    for _ in range(3):
        assert ray.get(other_driver.deposit.remote("alice", 5), timeout=60) is None
    assert ray.wait(held, timeout=0)[0] == []
    no_room()
    assert ray.get([*held, alice.read.remote()]) == [None] * 80 + [10 + 15 - 80]


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.acceptance("O3")
@pytest.mark.parametrize("method", ["read", "fail", "fail_frozen"])
def test_whoever_has_seen_an_answer_or_an_error_knows_of_the_snapshots_behind_it(system, tmp_path, method):
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(2)
    ray.get([alice.read.remote(), bob.read.remote()])
    bob.pause_until.tell(str(tmp_path / "recorded"))
    taken = threading.Thread(target=system.snapshot)
    taken.start()
    eventually(lambda: [snapshot.missing for snapshot in system.status().snapshots] == [("bob",)])
    (snapshot,) = system.status().snapshots
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(getattr(alice, method).remote())
    alice.deposit.tell(1)
    eventually(lambda: snapshot.id in system._port.session.machine.tags)  # when the message is taken from the outbox
    (tmp_path / "recorded").touch()
    taken.join()


@pytest.mark.acceptance("O3")
def test_so_many_calls_wait_for_their_results_as_the_option_says(system, tmp_path):
    alice = Account.options(name="alice", max_pending_calls=3).remote(1)
    assert ray.get(alice.read.remote()) == 1
    gate = str(tmp_path / "gate")
    refs = [alice.pause_until.remote(gate), alice.read.remote(), alice.read.remote()]
    for handle in (alice, system.get_actor("alice")):
        with pytest.raises(ray.exceptions.PendingCallsLimitExceeded, match="max_pending_calls"):
            handle.read.remote()
    alice.deposit.tell(1)
    (tmp_path / "gate").touch()
    assert ray.get(refs) == [None, 1, 1]
    assert ray.get(alice.read.remote()) == 2


@pytest.mark.parametrize("limit", [0, -2, 1.5, True, "3"])
def test_a_limit_of_calls_that_is_no_count_is_refused(limit):
    with pytest.raises(ConfigError, match="max_pending_calls"):
        Account.options(max_pending_calls=limit)


def snapshot_with_in_flight(system, gate, send):
    """A snapshot of a system whose actor alice is busy until all record, after `send(alice)`: that is in flight."""
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    alice.pause_until.tell(str(gate))
    _sent = send(alice)
    assert system._port.session.await_taken(system._port.session.told(), 30) == []
    taken = []
    thread = threading.Thread(target=lambda: taken.append(system.snapshot()))
    thread.start()
    eventually(lambda: system.status().snapshots)
    gate.touch()
    thread.join()
    return taken[0]


def test_calls_that_come_out_of_a_snapshot_leave_no_outcomes_behind(new_system, tmp_path):
    system = new_system("bank")
    taken = snapshot_with_in_flight(system, tmp_path / "gate", lambda alice: alice.read.remote())
    (driver,) = {channel.sender for channel in taken.channels}
    assert taken.channel(driver, "alice").messages
    system.shutdown()
    restored = rayshot.restore(storage=system.storage)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("alice").read.remote()) == 1
    host = ray.get(restored._identity.coordinator.actors.remote())["alice"]
    assert ray.get(host.__ray_call__.remote(lambda self: len(self._process.outcomes._kept))) == 0


# Outcomes by themselves -----------------------------------------------------------------------------------------


@pytest.fixture
def outcomes():
    return Outcomes(threading.Lock())


def fetch_all(outcomes, keys):
    """Fetch each on a thread of its own; returns what came, in the order in which it came."""
    came = []

    def fetch(key):
        try:
            came.append((key, outcomes.fetch(*key).value))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            came.append((key, error))

    threads = [threading.Thread(target=fetch, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    return came, threads


def settle(outcomes, *calls):
    for call_id in calls:
        with outcomes._lock:
            outcomes.settle("driver:a", call_id, Outcome(call_id))


def test_an_outcome_is_fetched_again_until_its_driver_says_that_it_has_it(outcomes):
    settle(outcomes, 1, 2)
    for _ in range(2):
        assert [outcomes.fetch("driver:a", call_id, 1).value for call_id in (1, 2)] == [1, 2]
    assert not outcomes
    settle(outcomes, 3)
    assert outcomes.fetch("driver:a", 3, 2).value == 3
    assert outcomes.fetch("driver:a", 2, 2).value == 2
    with pytest.raises(NoAnswer, match="lost"):
        outcomes.fetch("driver:a", 1)


def test_an_outcome_that_shows_several_snapshots_waits_for_all_of_them(outcomes):
    first, second = (SnapshotId(1, COORDINATOR, counter) for counter in (1, 2))
    with outcomes._lock:
        outcomes.settle("driver:a", 1, Outcome(1), (first, second))
        outcomes.release(second)
        assert outcomes._kept == {}
        outcomes.release(first)
        assert list(outcomes._kept) == [("driver:a", 1)]


def test_an_outcome_that_is_owed_or_withheld_is_to_come_though_later_calls_are_answered():
    owed = {("driver:a", 1): 1, ("driver:a", 2): 2}
    outcomes = Outcomes(threading.Lock(), owed=owed)
    settle(outcomes, 4)
    came, threads = fetch_all(outcomes, [("driver:a", 1)])
    eventually(lambda: outcomes._waiting)
    snapshot = SnapshotId(1, COORDINATOR, 1)
    with outcomes._lock:
        outcomes.settle("driver:a", 1, Outcome(1), (snapshot,))
        del owed["driver:a", 1]
    again, more = fetch_all(outcomes, [("driver:a", 1)])  # Ray fetches again: the connection broke
    threads[0].join()
    assert [type(error) for _, error in came] == [FetchRetry]
    settle(outcomes, 2)
    del owed["driver:a", 2]
    with pytest.raises(NoAnswer, match="lost"):
        outcomes.fetch("driver:a", 3)
    with outcomes._lock:
        outcomes.release(snapshot)
    more[0].join()
    assert again == [(("driver:a", 1), 1)]


def test_an_outcome_that_a_thread_waited_for_is_fetched_again(outcomes):
    came, (thread,) = fetch_all(outcomes, [("driver:a", 1)])
    eventually(lambda: outcomes._waiting)
    settle(outcomes, 1)
    thread.join()
    assert came == [(("driver:a", 1), 1)]
    assert outcomes.fetch("driver:a", 1).value == 1


def test_an_outcome_that_was_fetched_goes_in_time_or_with_its_driver(outcomes, monkeypatch):
    timers = []
    timer = "rayshot.runtime.actor.outcomes.threading.Timer"
    monkeypatch.setattr(timer, lambda _seconds, age: timers.append(age) or Mock())
    settle(outcomes, 1)
    outcomes.fetch("driver:a", 1)
    timers.pop()()
    assert outcomes.fetch("driver:a", 1).value == 1
    timers.pop()()
    with pytest.raises(NoAnswer, match="lost"):
        outcomes.fetch("driver:a", 1)
    assert timers == []
    settle(outcomes, 2)
    outcomes.fetch("driver:a", 2)
    with outcomes._lock:
        outcomes.forget("driver:a")
    assert (outcomes._fetched, outcomes._fetched_before) == ({}, {})


def test_what_earlier_lives_gave_goes_in_time_however_often_the_system_goes_back(outcomes, monkeypatch):
    timers, now = [], [0.0]
    monkeypatch.setattr("rayshot.runtime.actor.outcomes.threading.Timer", lambda _s, age: timers.append(age) or Mock())
    monkeypatch.setattr("rayshot.runtime.actor.outcomes.time.monotonic", lambda: now[0])
    settle(outcomes, 1, 2, 3)
    outcomes.fetch("driver:a", 1)
    lives = [outcomes]
    for _ in range(3):  # the snapshot holds the calls 1 and 2 as handled
        now[0] += 2 * FETCHED_S / 3
        lives.append(Outcomes(threading.Lock()))
        lives[-1].go_on_from(SnapshotId(1, COORDINATOR, 1), {"driver:a": 2}, lives[-2])
    assert [lives[-1].fetch("driver:a", call_id, 0, call_id).value for call_id in (1, 2)] == [1, 2]
    settle(lives[-1], 3)
    assert lives[-1].fetch("driver:a", 3, 0, 3).value == 3
    now[0] += 2 * FETCHED_S
    for _ in range(3):
        for age in (*timers, timers.clear())[:-1]:
            age()
    assert timers == []
    for call_id in (1, 2):
        with pytest.raises(NoAnswer, match="before the snapshot to which the system went back"):
            lives[-1].fetch("driver:a", call_id, 0, call_id)


@pytest.mark.acceptance("O3")
def test_a_large_outcome_does_not_stay_when_it_was_fetched(outcomes):
    with outcomes._lock:
        outcomes.settle("driver:a", 1, Outcome("large", size=STAY_BYTES_MAX + 1))
    assert outcomes.fetch("driver:a", 1).value == "large"
    assert outcomes._fetched == {}


@pytest.mark.acceptance("O3")
def test_a_result_whose_connection_broke_on_its_way_is_fetched_again(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    host, port = ray.get(system._identity.coordinator.actors.remote())["alice"], system._port
    again = host.result.remote(pack((port.name, port.session.calls.last_id)))  # as Ray does where a connection broke
    assert ray.get(again[1]) == 1


def test_a_fetch_that_is_tried_again_takes_the_place_of_the_one_before(outcomes):
    came, threads = fetch_all(outcomes, [("driver:a", 1)])
    eventually(lambda: outcomes._waiting)
    first = outcomes._waiting._waiting["driver:a", 1]
    again, more = fetch_all(outcomes, [("driver:a", 1)])
    eventually(lambda: outcomes._waiting._waiting.get(("driver:a", 1)) is not first)
    outcomes.settle("driver:a", 1, Outcome("one"))
    for thread in (*threads, *more):
        thread.join()
    assert isinstance(came[0][1], FetchRetry)
    assert again == [(("driver:a", 1), "one")]


def test_all_places_are_given_up_once_where_nobody_gets_anything(outcomes):
    held = [("driver:a", n) for n in range(1, CALLS_AT_ONCE + 1)]
    came, threads = fetch_all(outcomes, held)
    eventually(lambda: len(outcomes._waiting) == CALLS_AT_ONCE)
    with outcomes._lock:
        outcomes.settle("driver:b", 1, Outcome("b"))
    for thread in threads:
        thread.join()
    assert [type(error) for _, error in came] == [FetchRetry] * CALLS_AT_ONCE
    with pytest.raises(FetchRetry):
        outcomes.fetch("driver:a", 1000)  # of those behind them, too, each gives its place up once
    assert outcomes.fetch("driver:b", 1).value == "b"


def test_nobody_waits_any_more_for_what_is_shut_or_gone(outcomes):
    came, threads = fetch_all(outcomes, [("driver:a", 1), ("driver:b", 1)])
    eventually(lambda: len(outcomes._waiting) == 2)
    with outcomes._lock:
        outcomes.forget("driver:a")
        outcomes.settle("driver:a", 1, Outcome("never fetched"))
        outcomes.shut(SystemStopped("over"))
    for thread in threads:
        thread.join()
    assert isinstance(dict(came)["driver:a", 1], NoAnswer)
    assert isinstance(dict(came)["driver:b", 1], SystemStopped)
    assert outcomes._kept == {}
