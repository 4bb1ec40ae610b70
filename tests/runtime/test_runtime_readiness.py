"""How it is seen that an object is ready, on a Ray that does not tell of it."""

import os
import queue
import threading
from types import SimpleNamespace

import pytest
import ray

from rayshot.runtime.door import door, here, private_names, readiness, state
from rayshot.runtime.door.readiness import Lookout
from tests.waiting import eventually

pytestmark = pytest.mark.ray
ANSWER_S = 60


@ray.remote(num_cpus=0)
class Gate:
    """Its answers come when it is opened; opened wrongly, they fail."""

    def __init__(self):
        self.opened = threading.Event()
        self.wrongly = False

    def passed(self):
        self.opened.wait()
        if self.wrongly:
            raise ValueError("opened wrongly")
        return 7

    def open(self, wrongly):
        self.wrongly = wrongly
        self.opened.set()


@pytest.fixture
def gate(cluster):
    made = Gate.options(max_concurrency=3).remote()
    yield made
    ray.kill(made)


@pytest.mark.parametrize("wrongly", [False, True])
def test_it_is_told_once_that_an_object_is_ready_or_has_failed(gate, wrongly):
    told, lookout = queue.Queue(), Lookout()
    reference = gate.passed.remote()
    for name in ("one", "another"):
        lookout.tell_when_ready(reference, lambda found, name=name: told.put((name, found)))
    lookout.tell_when_ready(ray.put(0), lambda found: told.put(("there", found)))
    assert told.get(timeout=ANSWER_S) == ("there", None)
    assert told.empty()
    gate.open.remote(wrongly)
    assert sorted(told.get(timeout=ANSWER_S) for _ in range(2)) == [("another", None), ("one", None)]
    assert not lookout._told


def test_the_door_looks_by_itself_where_ray_does_not_tell(gate, monkeypatch):
    monkeypatch.setattr(private_names, "tells_ready", lambda: False)
    told = queue.Queue()
    door.when_there(gate.passed.remote(), told.put)
    gate.open.remote(False)
    assert told.get(timeout=ANSWER_S) is None


def test_whoever_has_left_the_cluster_waits_for_no_object_of_it(gate, monkeypatch):
    lookout, reference = Lookout(), gate.passed.remote()
    monkeypatch.setattr(readiness, "ray", SimpleNamespace(is_initialized=lambda: False))
    lookout.tell_when_ready(reference, lambda _: pytest.fail("it was told of an object that is gone"))
    eventually(lambda: not lookout._told)


def test_a_look_that_fails_is_not_the_last_one(gate, monkeypatch):
    told, lookout, waits = queue.Queue(), Lookout(), iter([ray.exceptions.RaySystemError("now"), None])

    def wait(*args, **options):
        if (error := next(waits, None)) is not None:
            raise error
        return look(*args, **options)

    look = ray.wait
    monkeypatch.setattr(ray, "wait", wait)
    lookout.tell_when_ready(ray.put(0), told.put)
    assert told.get(timeout=ANSWER_S) is None


@ray.remote(num_cpus=0)
class Owner:
    """Owns a reference to an answer that never comes."""

    def own(self, gate):
        self.owned = gate.passed.remote()
        return [self.owned], here.place()

    def end(self):
        os._exit(1)


def test_the_death_of_an_owner_is_told_once_where_ray_tells_it_late(gate, monkeypatch):
    monkeypatch.setattr(private_names, "tells_of_owners_at_once", lambda: False)
    owners, told = [Owner.remote(), Owner.remote()], queue.Queue()
    held = ray.get([owner.own.remote(gate) for owner in owners])
    for number, ((reference,), place) in enumerate(held):
        state.when_owner_dies(reference, place, lambda number=number: told.put(number))
    owners[1].end.remote()
    assert told.get(timeout=ANSWER_S) == 1
    owners[0].end.remote()
    assert told.get(timeout=ANSWER_S) == 0
    eventually(lambda: all(thread.name != "rayshot-owners" for thread in threading.enumerate()))
