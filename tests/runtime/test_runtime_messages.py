"""Messages, calls, replies and timers on real Ray actors."""

import collections
import math
import os
import signal
import time
from unittest.mock import Mock

import numpy as np
import pytest
import ray

import rayshot
import rayshot.errors
from rayshot.errors import (
    ActorExited,
    ActorNotFound,
    ConfigError,
    MessageNotSerializable,
    NameTaken,
    StaleHandle,
    SystemStopped,
    UnknownMethod,
)
from tests.runtime.healed import STOPS
from tests.runtime.workloads import Account, Sink, Source
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def test_tells_and_calls_of_one_driver_keep_their_order(system):
    account = Account.options(name="alice").remote(0)
    for n in range(1, 2001):
        account.deposit.tell(n)
    assert ray.get(account.read.remote()) == 2000 * 2001 // 2
    account.deposit.tell(-1)
    refs = []
    for _ in range(50):
        account.deposit.tell(1)
        refs.append(account.read.remote())
    assert ray.get(refs) == [2_001_000 - 1 + k for k in range(1, 51)]


def test_more_calls_at_once_than_an_actor_has_threads_for(system):
    account = Account.remote(0)
    refs = []
    for _ in range(300):
        account.deposit.tell(1)
        refs.append(account.read.remote())
    assert ray.get(refs) == list(range(1, 301))


def test_actors_send_to_each_other(system):
    alice, bob = Account.options(name="alice").remote(100), Account.options(name="bob").remote(100)
    for _ in range(100):
        alice.transfer.tell(bob, 1)
    eventually(lambda: ray.get(bob.read.remote()) == 200)
    assert ray.get(alice.read.remote()) == 0


def test_a_handler_knows_where_it_runs_and_who_sent(system):
    alice = Account.options(name="alice").remote(1)
    name, sender, in_system = ray.get(alice.whoami.remote())
    assert (name, in_system) == ("alice", system.name)
    assert sender.startswith("driver:")


def test_a_reply_continues_in_the_caller(system):
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(42)
    alice.ask.tell(bob)
    assert eventually(lambda: ray.get(alice.last_heard.remote())) == ("bob", 42)


def test_a_reply_that_nobody_uses_costs_no_message(system):
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(42)
    for _ in range(10):
        alice.ask_and_forget.tell(bob)
    ray.get(alice.read.remote())
    snapshot = eventually(lambda: (s := system.snapshot()).channels.get(("alice", "bob")) and s)
    assert snapshot.channel("alice", "bob").sent == 10
    assert ("bob", "alice") not in snapshot.channels


def test_a_timer_fires_once(system):
    alice = Account.remote(0)
    alice.remind.tell(0.05)
    eventually(lambda: ray.get(alice.read.remote()) == 1)
    time.sleep(0.1)
    assert ray.get(alice.read.remote()) == 1


def test_an_async_handler_runs_to_completion(system):
    assert ray.get(Account.remote(7).read_soon.remote()) == 7


def test_arguments_are_copied_at_the_call(system):
    alice = Account.remote(0)
    value = [1, [2]]
    alice.keep.tell(value)
    value[1].append(3)
    assert ray.get(alice.kept_value.remote()) == [1, [2]]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize(
    "value",
    [2**70, -(2**64), math.inf, "", b"", (), set(), {}, {(1, 2): {3}}, frozenset({1}), bytearray(b"x"),
     collections.OrderedDict(a=1), 1 + 2j, [None, True], np.float32(1.5)],
    ids=repr,
)  # fmt: skip
def test_odd_values_arrive_as_they_were_sent(system, value):
    alice = Account.remote(0)
    alice.keep.tell(value)
    # As text: on the way back Ray itself makes bytes of a bytearray.
    assert ray.get(alice.kept_as_text.remote()) == f"{type(value).__name__} {value!r}"


def test_cycles_and_shared_references_inside_a_message_survive(system):
    alice = Account.remote(0)
    shared = [1]
    cycle = [shared, shared]
    cycle.append(cycle)
    alice.keep.tell(cycle)
    kept = ray.get(alice.kept_value.remote())
    assert kept[0] is kept[1]
    assert kept[2] is kept


def test_an_exception_reaches_its_caller_and_the_actor_lives(system):
    alice = Account.remote(5)
    with pytest.raises(ValueError, match="no such luck"):
        ray.get(alice.fail.remote())
    assert ray.get(alice.read.remote()) == 5


def test_an_exception_of_a_tell_becomes_a_dead_letter(system):
    alice = Account.options(name="alice").remote(5)
    alice.fail.tell()
    assert ray.get(alice.read.remote()) == 5
    (letter,) = system.dead_letters()
    assert (letter.receiver, letter.method) == ("alice", "fail")
    assert "no such luck" in letter.error


def test_an_unknown_method_is_refused_at_the_call(system):
    alice = Account.remote(1)
    with pytest.raises(UnknownMethod, match=r"withdraw.*deposit"):
        alice.withdraw.tell(1)
    assert not hasattr(alice, "withdraw")


def test_an_argument_that_cannot_be_sent_is_refused_with_its_path(system):
    alice = Account.remote(1)
    with pytest.raises(MessageNotSerializable, match=r"\.keep\['args'\]\[0\]\['lock'\]"):
        alice.keep.tell({"lock": (i for i in ())})
    assert ray.get(alice.read.remote()) == 1


def test_a_name_is_taken_once(system):
    Account.options(name="alice").remote(1)
    with pytest.raises(ConfigError, match="alice"):
        Account.options(name="alice").remote(1)


def test_a_constructor_that_raises_ends_the_actor_and_nothing_else(system):
    class Bad(Account):
        def __init__(self):
            raise TypeError("no such luck")

    bad = rayshot.actor(Bad).options(name="bad").remote()
    with pytest.raises(ActorExited, match="TypeError"):
        ray.get(bad.read.remote())
    good = Account.options(name="good").remote(3)
    assert ray.get(good.read.remote()) == 3
    assert sorted(system.snapshot().actors) == ["good"]


def test_an_actor_that_ended_is_told_at_the_call(system, monkeypatch):
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(2)
    ray.get([alice.read.remote(), bob.read.remote()])
    alice.leave.tell()
    eventually(lambda: "alice" not in system.actors())

    def refused():
        try:
            ray.get(alice.read.remote())
        except ActorExited as error:
            return "alice" in str(error)
        return False

    eventually(refused)

    def known():
        try:
            alice.read.tell()
        except ActorExited:
            return True
        return False

    eventually(known)
    with monkeypatch.context() as patch:
        patch.setattr("rayshot.runtime.driver.maker.spawn_host", spawned := Mock())
        with pytest.raises(NameTaken, match="alice"):
            Account.options(name="alice").remote(1)
    spawned.assert_not_called()
    bob.transfer.tell(alice, 1)
    eventually(system.dead_letters)
    assert sorted(system.snapshot().actors) == ["bob"]
    with pytest.raises(ActorNotFound, match="bob"):
        system.get_actor("alice")


def test_actors_make_actors(system):
    alice = Account.options(name="alice").remote(1)
    alice.open_account.tell("child", 10, 5)
    child = eventually(lambda: system.actors().get("child"))
    eventually(lambda: ray.get(child.read.remote()) == 15)


def test_a_handle_of_another_system_is_refused(new_system):
    new_system("first")
    alice = Account.options(name="alice").remote(1)
    second = new_system("second")
    bob = Account.options(name="bob", system=second).remote(1)
    with pytest.raises(StaleHandle, match="first"):
        bob.transfer.tell(alice, 1)
    with pytest.raises(StaleHandle, match="first"):
        bob.keep.tell({"friends": [alice]})
    assert ray.get(bob.read.remote()) == 1


def test_who_wants_to_end_handles_nothing_more_though_its_end_has_to_wait(system, tmp_path):
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(1)
    ray.get([alice.read.remote(), bob.read.remote()])
    alice.pause_until.tell(str(tmp_path / "all there"))
    alice.leave_after.tell(bob)
    for _ in range(3):
        alice.touch.tell(str(tmp_path / "handled"))
    time.sleep(0.3)  # behind the handler that waits they gather in one batch
    (tmp_path / "all there").touch()
    eventually(lambda: list(system.actors()) == ["bob"] or None)
    assert not (tmp_path / "handled").exists()
    assert ray.get(bob.read.remote()) == 2


def test_after_a_shutdown_everything_says_so(system):
    alice = Account.remote(1)
    ray.get(alice.read.remote())
    system.shutdown()
    with pytest.raises(SystemStopped, match="shut down"):
        alice.deposit.tell(1)
    with pytest.raises(SystemStopped, match="shut down"):
        system.snapshot()


def test_a_second_driver_attaches_to_a_running_system(system):
    Account.options(name="alice").remote(1).deposit.tell(1)

    @ray.remote(num_cpus=0)
    def other_driver(name, storage):
        attached = rayshot.init(name, storage=storage)
        alice = attached.get_actor("alice")
        alice.deposit.tell(10)
        return ray.get(alice.read.remote()), attached.incarnation

    balance, incarnation = ray.get(other_driver.remote(system.name, system.storage))
    assert balance in (11, 12)
    assert incarnation == 1


def test_ten_thousand_messages_through_four_sources_and_four_sinks_stay_in_order(system):
    sinks = [Sink.options(name=f"sink{n}").remote() for n in range(4)]
    sources = [Source.options(name=f"source{n}").remote(sinks, 2500, 100) for n in range(4)]
    for source in sources:
        source.go_on.tell(source)
    for sink in sinks:
        eventually(lambda sink=sink: sum(ray.get(sink.report.remote())[0].values()) == 10_000, 30)
        assert ray.get(sink.report.remote()) == ({f"source{n}": 2500 for n in range(4)}, [])


def test_killing_an_actor_gives_every_caller_a_typed_error(new_system):
    system = new_system(failure=STOPS)
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(2)
    ray.get([alice.read.remote(), bob.read.remote()])
    os.kill(system.status().actors["alice"].pid, signal.SIGKILL)

    def stopped():
        try:
            bob.deposit.tell(1)
            ray.get(bob.read.remote())
        except rayshot.errors.ActorDied as error:
            return error
        return None

    error = eventually(stopped)
    assert "'alice'" in str(error)
    assert "rayshot.restore" in str(error)
    for refused in (
        system.snapshot,
        lambda: system.connect("bob", "alice"),
        lambda: system.configure(rayshot.SnapshotConfig()),
    ):
        with pytest.raises(rayshot.errors.ActorDied, match="'alice'"):
            refused()
    status = system.status()
    assert status.state == "stopped"
    assert "alice" in status.detail
