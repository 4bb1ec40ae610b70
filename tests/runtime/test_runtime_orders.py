"""Whose orders a host follows."""

import pytest
import ray

from rayshot.runtime.wire.host_identity import Stop
from rayshot.runtime.wire.orders import Issuer
from tests.runtime.take_over import after_take_over, kill_coordinator
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def term_of(system):
    return ray.get(system._identity.coordinator.__ray_call__.remote(lambda self: self._life.term))


def test_a_coordinator_that_was_replaced_and_does_not_know_it_stops_nobody(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    before = term_of(system)
    kill_coordinator(system)
    after_take_over(system.snapshot)
    after = term_of(system)
    assert after > before
    host = ray.get(system._identity.coordinator.actors.remote())["alice"]
    stop = Stop("bank", "/shots", None, "the storage belongs to another coordinator")
    for issuer in (Issuer(1, before), Issuer(0, after)):
        assert ray.get(host.stop.remote(issuer, stop)) is None
        assert ray.get(host.abandon.remote(issuer, stop)) is None
    assert ray.get(host.abandon.remote(Issuer(2, after), stop)) is None, "it is not in that life"
    alice.deposit.tell(1)
    assert ray.get(alice.read.remote()) == 2
    assert system.status().state == "running"
    ray.get(host.stop.remote(Issuer(1, after), stop))
    assert eventually(lambda: ray.get(host.status.remote())["down"] or None)
