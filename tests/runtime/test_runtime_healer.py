"""Single steps of a coordinator that brings its system back, without Ray."""

import threading
from types import SimpleNamespace

import pytest

from rayshot.protocol.recovering import LifeBegan, LoadProcess, Past, ProcessLoaded
from rayshot.runtime.coordinator.coordinator import Coordinator
from rayshot.runtime.coordinator.healing import Healer, _Load
from rayshot.runtime.coordinator.members import Living
from rayshot.runtime.door import door


@pytest.fixture
def healer():
    """It takes its steps one by one; `events` are what its machine hears."""
    healer = Healer.__new__(Healer)
    healer._ending, healer._closed = threading.RLock(), False
    healer._loads, healer._left, healer._options, healer.events = {}, {}, {}, []
    healer._dead_drivers, healer._programs = frozenset, dict
    healer._stopwatch = SimpleNamespace(lap=lambda _name: None)
    healer._machine = SimpleNamespace(letters=())
    healer._install = lambda _life: None
    healer._handle = healer.events.append
    return healer


def test_an_answer_to_an_earlier_load_says_nothing_of_the_one_that_is_under_way(healer, monkeypatch):
    monkeypatch.setattr(door, "get", lambda *_, **__: None)
    first, second = (_Load(LoadProcess(2, "alice", start), "host", None, "answer", True) for start in (1, 2))
    healer._loads["alice"] = second
    healer._answered(first, "near")
    assert healer.events == []
    healer._answered(second, "near")
    assert healer.events == [ProcessLoaded(2, "alice", 2)]


def test_a_process_that_was_made_behind_the_snapshot_is_ended_and_the_others_go_back_in_their_places(
    healer, monkeypatch
):
    killed, past = [], Past(rollbacks=1)
    monkeypatch.setattr(door, "kill", killed.append)
    healer._left.update({name: Living(f"the host of {name}", name, {}) for name in ("alice", "bob")})
    healer._life = SimpleNamespace(next=lambda _began: SimpleNamespace(incarnation=2))
    origin = SimpleNamespace(plans=lambda *_: {"alice": "a plan"}, manifest=SimpleNamespace(ended=()))
    healer._lead_on(SimpleNamespace(origin=origin, past=past))
    assert killed == ["the host of bob"]
    assert list(healer._left) == ["alice"]
    assert healer.events == [LifeBegan(2, ("alice",), past, frozenset())]


def test_what_is_said_for_a_life_that_is_over_changes_nothing_in_the_present_one():
    heard = []
    coordinator = Coordinator.__new__(Coordinator)
    coordinator._life = SimpleNamespace(incarnation=2, died=lambda *news: heard.append(news))
    for life in (1, 3):
        coordinator.failed("alice", "it raised", life)
    assert heard == []
    coordinator.failed("alice", "it raised", 2)
    assert heard == [("alice", "it raised")]
