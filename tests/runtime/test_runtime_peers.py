"""What a process does while Ray's control service does not answer: it asks again."""

import threading

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayshot.errors import NoAnswer, SystemRecovering
from rayshot.runtime.channel import peers
from rayshot.runtime.channel.peers import Peers
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import coordinator_name, named_actors
from rayshot.runtime.opening import system as runtime_system
from rayshot.runtime.wire import answers
from tests.runtime.workloads import Account
from tests.waiting import eventually

SILENT = ray.exceptions.RpcError("the control service does not answer")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(peers, "AGAIN_S", 0.01)


@pytest.fixture
def tried(monkeypatch):
    """Tries a task that fails `failures` times, until it is over after `over` checks; returns how often it ran."""
    monkeypatch.setattr(door, "is_joined", lambda: True)
    insisting = Peers("bank", 1)
    monkeypatch.setattr(insisting, "submit", lambda task: task())

    def trying(failures, over=99):
        ran, checks = [], iter(range(over))

        def task():
            ran.append(1)
            if len(ran) <= failures:
                raise SILENT

        insisting.insist(task, lambda: next(checks, None) is None)
        return len(ran)

    return trying


def test_a_task_that_fails_is_done_again_until_it_succeeds_or_nobody_needs_it(tried, monkeypatch):
    assert (tried(0), tried(3), tried(9, over=2), tried(9, over=0)) == (1, 4, 2, 0)
    monkeypatch.setattr(door, "is_joined", lambda: False)
    assert tried(0) == 0, "to ask Ray would start it"


def test_an_error_that_is_not_rays_ends_a_task(monkeypatch):
    monkeypatch.setattr(door, "is_joined", lambda: True)
    insisting = Peers("bank", 1)
    monkeypatch.setattr(insisting, "submit", lambda task: task())
    with pytest.raises(ZeroDivisionError):
        insisting.insist(lambda: 1 // 0, lambda: False)


def test_nobody_waits_for_a_control_service_that_says_nothing(monkeypatch):
    monkeypatch.setattr(answers, "CONTROL_SERVICE_S", 0.1)
    monkeypatch.setattr(answers, "was_just_away", lambda *_: threading.Event().wait())
    silent = NoAnswer("it is silent", whom=answers.the_coordinator("bank"), seconds=30.0)
    with pytest.raises(NoAnswer), answers.noticing_restart("bank", None):
        raise silent
    monkeypatch.setattr(answers, "was_just_away", lambda *_: True)
    with pytest.raises(SystemRecovering), answers.noticing_restart("bank", None):
        raise silent


@pytest.mark.ray
def test_an_actor_that_can_never_start_ends_its_channel(system):
    nowhere = NodeAffinitySchedulingStrategy("a" * 56, soft=False)
    alice = Account.options(name="alice", scheduling_strategy=nowhere).remote(1)
    with pytest.raises(ray.exceptions.ActorUnschedulableError):  # as of a plain actor
        ray.get(alice.read.remote(), timeout=60)
    eventually(lambda: [letter for letter in system.dead_letters() if letter.receiver == "alice"] or None)


@pytest.mark.ray
def test_a_receiver_that_cannot_be_looked_up_now_is_connected_later(system, monkeypatch):
    find, fails = Peers.find, iter([SILENT, SILENT])

    def unreliable(self, name):
        if threading.current_thread().name == "rayshot-peers":
            for error in fails:
                raise error
        return find(self, name)

    monkeypatch.setattr(Peers, "find", unreliable)
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote(), timeout=30) == 1
    assert list(fails) == []


@pytest.mark.ray
def test_a_shutdown_that_failed_is_done_by_the_next_one(system, monkeypatch):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1

    def fail(*_):
        raise SILENT

    with monkeypatch.context() as patch, pytest.raises(ray.exceptions.RpcError):
        patch.setattr(runtime_system, "take_down", fail)
        system.shutdown()
    system.shutdown()
    eventually(lambda: not named_actors(coordinator_name(system.name)) or None)
