"""Single steps of a coordinator that brings its system back, without Ray."""

from contextlib import ExitStack, contextmanager
from threading import Lock, Thread
from types import SimpleNamespace

import pytest

from rayshot.errors import Damaged, HookFailed, NameTaken, SystemStopped
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.protocol.recovery_events import (
    Began,
    Evicted,
    LifeFenced,
    LoadProcess,
    Past,
    ProcessLoaded,
    ProcessLost,
    RecoveryPolicy,
    RestoreWanted,
    StarterDied,
    StopWanted,
)
from rayshot.runtime.coordinator import healer as healer_module
from rayshot.runtime.coordinator import loader as loader_module
from rayshot.runtime.coordinator.coordinator import Coordinator
from rayshot.runtime.coordinator.evictions import Evictions
from rayshot.runtime.coordinator.healer import Healer
from rayshot.runtime.coordinator.life import Life
from rayshot.runtime.coordinator.loader import Loader, _Load
from rayshot.runtime.coordinator.members import Living, Members
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door import door
from rayshot.runtime.wire.host_identity import Ending, Stop
from rayshot.runtime.wire.orders import Issuer

NO_LIFE = SimpleNamespace()


@pytest.fixture
def heard():
    return []


@pytest.fixture
def loader(heard):
    """It takes its steps one by one; `heard` is what becomes of its loads."""
    return Loader(NO_LIFE, SystemLock(), lambda act: act(), heard.append, lambda _order: True)


class Quiet:
    """A life, of which these stories only want to know why it is over."""

    def __init__(self, number):
        self.incarnation, self.end = number, None
        self.members, self.issuer = SimpleNamespace(options={}), "issuer"

    stopped = property(lambda self: self.end)

    @property
    def over(self):
        return self.end and self.end.error()

    def leave(self, _lost, detail):
        self.end = detail
        return {}

    def stop(self, stop, *, told):
        self.end = stop

    def next(self, _began):
        return Quiet(self.incarnation + 1)


@pytest.fixture
def healer():
    """Of a system in life 1, which goes back as bob was lost. It does nothing that takes time."""
    healer = Healer.__new__(Healer)
    healer.lock, healer._life, healer._machine = SystemLock(), Quiet(1), Recovery(1)
    healer._settings, healer._owner = SimpleNamespace(system="bank", storage="/shots"), "owner"
    healer._way, healer._leases, healer._origin = "", ExitStack(), None
    healer._dead_drivers, healer._programs, healer._options = frozenset, dict, {}
    healer._install = lambda _life: None
    healer._work = SimpleNamespace(put=lambda _act: None)
    healer._loader = Loader(NO_LIFE, healer.lock, lambda _act: None, healer._hear_of_load, healer._is_wanted)
    healer.hear(Began(1))
    healer.hear(ProcessLost(1, "bob", 1, "it died", 0.0))
    return healer


def test_an_answer_to_an_earlier_load_says_nothing_of_the_one_that_is_under_way(loader, heard, monkeypatch):
    monkeypatch.setattr(door, "get", lambda *_, **__: None)
    life = SimpleNamespace(members=SimpleNamespace(watch=lambda _name: None))
    first, second = (
        _Load(LoadProcess(2, "alice", start), life, "host", None, "answer", has_room=True) for start in (1, 2)
    )
    loader._loads["alice"] = second
    loader._answered(first, "near")
    assert heard == []
    loader._answered(second, "near")
    assert heard == [ProcessLoaded(2, "alice", 2)]


def test_a_host_that_cannot_be_reached_load_after_load_is_killed_when_it_was_silent_for_long(loader, monkeypatch):
    monkeypatch.setattr(door, "wait", lambda *_, **__: ([], ["no answer"]))
    monkeypatch.setattr(door, "get", lambda *_, **__: None)
    monkeypatch.setattr(door, "when_answered", lambda *_: None)
    remote, killed = SimpleNamespace(remote=lambda *_: "pending"), []
    host = SimpleNamespace(roll_back=remote, hello=remote)
    with loader._lock:
        loader.start({"alice": SimpleNamespace(specification=SimpleNamespace(reloads_in_place=True))}, silent_s=30.0)
    loader.left["alice"] = Living(host, "alice", {})
    loader._detector._kill = killed.append
    life = SimpleNamespace(identity=lambda: None, issuer="issuer")
    for now in range(0, 60, 5):  # each load fails sooner than a silent process is killed
        loader.load(LoadProcess(2, "alice", 1), life)
        loader.look(float(now))
        loader._answered(loader._loads["alice"], door.Unavailable("no connection", None))
        loader.look(now + 1.0)
        assert bool(killed) == (now >= 30)


def test_a_process_whose_name_is_not_free_yet_is_begun_again(loader, heard, monkeypatch):
    def spawn(*_, **__):
        raise NameTaken("there is an actor named 'alice' already", actor="alice")

    monkeypatch.setattr(loader_module, "spawn_host", spawn)
    monkeypatch.setattr(loader_module.time, "time", lambda: 5.0)
    specification = SimpleNamespace(reloads_in_place=True)
    loader._spares = SimpleNamespace(take=lambda *_: None)
    with loader._lock:
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


@pytest.fixture
def quiet_door(monkeypatch):
    for name in ("get", "kill", "when_answered"):
        monkeypatch.setattr(door, name, lambda *_, **__: None)


def refused(cause):
    error = door.Raised.__new__(door.Raised)
    error.cause = cause
    return error


def answer(healer, name, start, result):
    life = SimpleNamespace(lose=lambda _name: None, members=SimpleNamespace(watch=lambda _name: None))
    load = _Load(LoadProcess(healer._life.incarnation, name, start), life, "host", None, "answer", has_room=True)
    healer._loader._loads[name] = load
    healer._loader._answered(load, result)


def test_the_way_past_a_damaged_snapshot_is_looked_for_once(healer, monkeypatch, quiet_door):
    names = ("alice", "bob", "carol")
    origin = SimpleNamespace(plans=lambda *_: dict.fromkeys(names), manifest=SimpleNamespace(ended=()))
    healer._lead_on(SimpleNamespace(origin=origin, past=Past(rollbacks=1)))
    healer._keyring, looks = (lambda: "keys"), []
    monkeypatch.setattr(healer_module, "find_fallback", lambda *_: looks.append(1) or "a way")
    answer(healer, "alice", 1, refused(Damaged("a chunk is gone")))
    answer(healer, "bob", 1, "near")
    answer(healer, "carol", 1, "near")
    assert (len(looks), healer._way) == (1, "a way")


def test_what_cannot_be_done_stops_the_system_on_whatever_thread_it_was_tried(healer):
    def leave(_lost, _detail):
        raise RuntimeError("can't start new thread")

    healer._machine = Recovery(1)
    healer._life, healer._stop = Quiet(1), lambda effect, _event: setattr(healer._life, "end", effect.detail)
    healer._life.leave = leave
    healer.hear(Began(1))
    healer.hear(ProcessLost(1, "bob", 1, "it died", 0.0))
    assert healer.phase_of(1) is Phase.STOPPED
    assert "can't start new thread" in healer._life.end


@pytest.mark.parametrize("ends", [LifeFenced(1, "another life has it"), ProcessLost(1, "alice", 1, "killed", 0.0)])
def test_a_restore_fails_for_the_sake_of_what_stopped_it_and_not_of_what_was_mended(healer, quiet_door, ends):
    healer._machine, healer._life = Recovery(1, RecoveryPolicy(rolls_back=False)), Quiet(1)
    with healer.lock:
        healer._loader.start(dict.fromkeys(("alice", "bob")))
    healer.hear(RestoreWanted(1, ("alice", "bob")))
    answer(healer, "bob", 1, refused(HookFailed("no such socket")))
    answer(healer, "bob", 2, "near")
    answer(healer, "alice", 1, "near")
    healer.hear(ends)
    assert (healer.progress().stop is None, healer.progress().cause) == (False, None)


def test_no_host_goes_back_behind_the_order_to_stop(healer, quiet_door):
    told = []
    host = SimpleNamespace(
        stop=SimpleNamespace(remote=lambda *_: told.append("stop")),
        roll_back=SimpleNamespace(remote=lambda *_: told.append("go back")),
    )
    healer._loader.left = {"alice": Living(host, "alice", {})}
    plan = SimpleNamespace(specification=SimpleNamespace(reloads_in_place=True))
    origin = SimpleNamespace(plans=lambda *_: {"alice": plan}, manifest=SimpleNamespace(ended=()))
    healer._lead_on(SimpleNamespace(origin=origin, past=Past(rollbacks=1)))

    def identity():
        other = Thread(target=healer.hear, args=(LifeFenced(2, "another life has it"),))
        other.start()
        other.join()

    healer._life.identity = identity
    healer._load(LoadProcess(2, "alice", 1))
    assert told == ["stop"]


def test_a_program_that_dies_while_its_order_is_written_leaves_no_lease(healer, monkeypatch):
    leases = []

    @contextmanager
    def reading(_log, snapshot):
        leases.append(snapshot)
        try:
            yield
        finally:
            leases.clear()

    monkeypatch.setattr(healer_module, "reading", reading)
    storage = SimpleNamespace(system=lambda _name: SimpleNamespace(log=None))
    monkeypatch.setattr(healer_module, "open_storage", lambda _address: storage)
    healer._machine, healer._life = Recovery(1), Quiet(1)
    healer._life.restore = lambda _order: healer.hear(StarterDied(1, "the program died"))
    with pytest.raises(SystemStopped, match="the program died"):
        healer.restore(SimpleNamespace(snapshot="snapshot", origin=None, plans={}, patience_s=1.0))
    assert leases == []


def test_only_a_process_without_room_makes_a_restore_late_and_each_answer_is_news(loader, monkeypatch, quiet_door):
    now = [0.0]
    monkeypatch.setattr(loader_module.time, "monotonic", lambda: now[0])
    life = SimpleNamespace(lose=lambda _name: None)
    with loader._lock:
        loader.start(dict.fromkeys(("alice", "bob")))
    loads = [
        _Load(LoadProcess(1, name, 1), life, "host", None, "answer", has_room=name == "alice")
        for name in ("alice", "bob")
    ]
    loader._loads.update(alice=loads[0])
    assert loader.why_late(301.0, 300.0) == "", "it answers, and is only slow"
    loader._loads.update(bob=loads[1])
    assert loader.why_late(301.0, 300.0) == "bob did not start within 300 s: has the cluster the resources?"
    now[0] = 290.0
    loader._answered(loads[0], refused(HookFailed("no such socket")))
    assert loader.why_late(301.0, 300.0) == ""


def test_a_driver_that_dies_while_it_is_noted_that_it_evicts_evicts_nothing():
    lock, notes, heard = SystemLock(), {}, []
    evictions = Evictions("bank", 1, lock)

    def put(driver, note):
        notes[driver] = note
        with lock:  # by another thread
            evictions.forget_dead(driver)

    evictions._notes = SimpleNamespace(put=put, remove=notes.pop)
    assert not evictions.take(Evicted(1, "driver:1", {"alice": 10}), heard.append)
    assert (heard, evictions.since, notes) == ([], None, {})


class Roster(dict):
    """That of a life; `meanwhile` happens while it is written for the first time."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def add(self, name, ray_name, _options):
        self[name] = ray_name
        self.meanwhile()

    def remove(self, name):
        self.pop(name, None)


@pytest.mark.parametrize("what", ["it goes back", "it was lost", "it has ended"])
def test_a_host_that_is_of_no_use_when_it_is_written_down_is_no_member(what):
    life = Life.__new__(Life)
    life.lock, life._joining, life.incarnation, life.term, life.end = SystemLock(), Lock(), 2, 0, None
    life._healer = SimpleNamespace(phase_of=lambda _life: Phase.LOADING)
    life.members = Members("bank", Issuer(2, 0), "/shots", lambda *_: None, life.lock)
    life.members._vaults["near"] = "vault"

    def meanwhile():
        if what == "it goes back":
            life.end = Stop("bank", "/shots", None, "bob was lost", rolls_back=True)
        elif what == "it was lost":
            life.lose("alice")
        else:
            life.members._ended["alice"] = Ending("it ended")

    life.members.roster = Roster(meanwhile)
    assert life.join("alice", "near", Living("host", "spare1", {})) is None
    assert (life.members.hosts, dict(life.members.roster)) == ({}, {})


def test_what_is_said_for_a_life_that_is_over_changes_nothing_in_the_present_one():
    heard = []
    coordinator = Coordinator.__new__(Coordinator)
    coordinator._life = SimpleNamespace(incarnation=2, died=lambda *news: heard.append(news))
    for life in (1, 3):
        coordinator.failed("alice", "it raised", life)
    assert heard == []
    coordinator.failed("alice", "it raised", 2)
    assert heard == [("alice", "it raised")]
