"""The drivers of one process, without Ray."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from rayshot.errors import SystemStopped
from rayshot.runtime.life import attaching
from tests.runtime.going_back import DIED, World


@pytest.fixture
def world(monkeypatch):
    world = World(monkeypatch)
    yield world
    world.close()


def test_a_silent_coordinator_keeps_only_those_waiting_who_need_its_system(world, monkeypatch):
    asked, answers, found = threading.Event(), threading.Event(), []
    silent = SimpleNamespace(identity=SimpleNamespace(remote=lambda: None))

    def get_answer(_call, _whom):
        asked.set()
        assert answers.wait(60)
        raise DIED

    monkeypatch.setattr(attaching, "find_coordinator", lambda _system: silent)
    monkeypatch.setattr(attaching, "noticing_restart", lambda *_: nullcontext())
    monkeypatch.setattr(attaching, "get_answer", get_answer)

    def attach():
        with pytest.raises(SystemStopped, match="'silent' cannot be attached to"):
            attaching.driver_port("silent")

    waiting = threading.Thread(target=attach)
    waiting.start()
    assert asked.wait(60)
    making = threading.Thread(target=lambda: found.append(attaching.driver_port()))
    making.start()
    making.join(60)
    found_meanwhile = list(found)
    answers.set()
    waiting.join()
    making.join()
    assert found_meanwhile == [world.first]
