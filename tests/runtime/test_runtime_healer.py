"""Single steps of a coordinator that brings its system back, without Ray."""

from types import SimpleNamespace

import pytest

from rayshot.errors import NameTaken
from rayshot.protocol.recovering import Began, LoadProcess, Past, ProcessLoaded, ProcessLost, StopWanted
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.runtime.coordinator import loader as loader_module
from rayshot.runtime.coordinator.coordinator import Coordinator
from rayshot.runtime.coordinator.healing import Healer
from rayshot.runtime.coordinator.loader import Loader, _Load
from rayshot.runtime.coordinator.members import Living
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door import door

NO_LIFE = SimpleNamespace()


@pytest.fixture
def heard():
    return []


@pytest.fixture
def loader(heard):
    """It takes its steps one by one; `heard` is what becomes of its loads."""
    return Loader(NO_LIFE, lambda act: act(), heard.append, lambda _order: True)


class Quiet:
    """A life, of which these stories only want to know why it is over."""

    def __init__(self, number):
        self.incarnation, self.end = number, None
        self.members = SimpleNamespace(options={})

    def leave(self, _lost, detail):
        self.end = detail
        return {}

    def next(self, _began):
        return Quiet(self.incarnation + 1)


@pytest.fixture
def healer():
    """Of a system in life 1, which goes back as bob was lost. It does nothing that takes time."""
    healer = Healer.__new__(Healer)
    healer.lock, healer._life, healer._machine = SystemLock(), Quiet(1), Recovery(1)
    healer._settings, healer._owner = SimpleNamespace(system="bank"), "owner"
    healer._dead_drivers, healer._programs, healer._options = frozenset, dict, {}
    healer._install = lambda _life: None
    healer._work = SimpleNamespace(put=lambda _act: None)
    healer._loader = Loader(NO_LIFE, lambda _act: None, healer.hear, healer._is_wanted)
    healer.hear(Began(1))
    healer.hear(ProcessLost(1, "bob", 1, "it died", 0.0))
    return healer


def test_an_answer_to_an_earlier_load_says_nothing_of_the_one_that_is_under_way(loader, heard, monkeypatch):
    monkeypatch.setattr(door, "get", lambda *_, **__: None)
    first, second = (
        _Load(LoadProcess(2, "alice", start), NO_LIFE, "host", None, "answer", has_room=True) for start in (1, 2)
    )
    loader._loads["alice"] = second
    loader._answered(first, "near")
    assert heard == []
    loader._answered(second, "near")
    assert heard == [ProcessLoaded(2, "alice", 2)]


def test_a_process_whose_name_is_not_free_yet_is_begun_again(loader, heard, monkeypatch):
    def spawn(*_, **__):
        raise NameTaken("there is an actor named 'alice' already", actor="alice")

    monkeypatch.setattr(loader_module, "spawn_host", spawn)
    monkeypatch.setattr(loader_module.time, "time", lambda: 5.0)
    specification = SimpleNamespace(reloads_in_place=True)
    loader._spares = SimpleNamespace(take=lambda *_: None)
    loader.start({"alice": SimpleNamespace(specification=specification)})
    loader.load(LoadProcess(2, "alice", 1), SimpleNamespace(identity=lambda: None))
    assert heard == [ProcessLost(2, "alice", 1, "there is an actor named 'alice' already", 5.0)]


def test_a_process_that_was_made_behind_the_snapshot_is_ended_and_the_others_go_back_in_their_places(
    healer, monkeypatch
):
    killed = []
    monkeypatch.setattr(door, "kill", killed.append)
    healer._loader.left = {name: Living(f"the host of {name}", name, {}) for name in ("alice", "bob")}
    origin = SimpleNamespace(plans=lambda *_: {"alice": "a plan"}, manifest=SimpleNamespace(ended=()))
    healer._lead_on(SimpleNamespace(origin=origin, past=Past(rollbacks=1)))
    assert killed == ["the host of bob"]
    assert list(healer._loader.left) == ["alice"]
    assert (healer._life.incarnation, healer.phase_of(2)) == (2, Phase.LOADING)
    assert healer.phase_of(1) is Phase.WAITING, "the life before is left for ever"


def test_a_system_that_was_stopped_meanwhile_leads_no_further_life(healer):
    healer._stop = lambda *_, **__: None
    healer.hear(StopWanted("it was shut down"))
    origin = SimpleNamespace(plans=lambda *_: {"alice": "a plan"}, manifest=SimpleNamespace(ended=()))
    healer._lead_on(SimpleNamespace(origin=origin, past=Past(rollbacks=1)))
    assert healer._life.incarnation == 1


def test_what_is_said_for_a_life_that_is_over_changes_nothing_in_the_present_one():
    heard = []
    coordinator = Coordinator.__new__(Coordinator)
    coordinator._life = SimpleNamespace(incarnation=2, died=lambda *news: heard.append(news))
    for life in (1, 3):
        coordinator.failed("alice", "it raised", life)
    assert heard == []
    coordinator.failed("alice", "it raised", 2)
    assert heard == [("alice", "it raised")]
