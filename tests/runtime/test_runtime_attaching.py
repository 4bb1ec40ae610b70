"""The drivers of a process, and what they remember, on the fake."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from weakref import WeakValueDictionary

import pytest

import rayshot
from rayshot.errors import SystemRecovering, SystemStopped
from rayshot.runtime.door import door
from rayshot.runtime.driver import life as driver_life
from rayshot.runtime.opening import ports
from rayshot.runtime.wire.host_identity import ActorOffer, Ending
from rayshot.runtime.wire.states import LOADING, RUNNING
from tests.fake.threads import Event, Thread
from tests.runtime.going_back import DIED, Thing, going_back


@pytest.fixture
def world(monkeypatch):
    with going_back() as world:
        yield world
        monkeypatch.undo()  # before what it patched is put back


def test_a_silent_coordinator_keeps_only_those_waiting_who_need_its_system(world, monkeypatch):
    answers, found = Event(), []
    silent = SimpleNamespace(state=SimpleNamespace(remote=lambda: None))

    def get_answer(_call, _whom):
        answers.wait()
        raise DIED

    monkeypatch.setattr(ports, "find_coordinator", lambda _system: silent)
    monkeypatch.setattr(ports, "noticing_restart", lambda *_: nullcontext())
    monkeypatch.setattr(ports, "get_answer", get_answer)

    def attach():
        with pytest.raises(SystemStopped, match="'silent' cannot be attached to"):
            ports.driver_port("silent")

    waiting = Thread(attach)
    waiting.begin()
    assert waiting.waits_for
    Thread(lambda: found.append(ports.driver_port())).begin()
    assert found == [world.port]
    answers.set()
    world.settle()
    assert not waiting.waits_for


def test_of_actors_that_were_made_and_have_ended_a_driver_remembers_only_why_the_last_ones_ended(world, monkeypatch):
    monkeypatch.setattr(driver_life, "ENDED_KEPT_MAX", 2)
    names = {f"thing-{number}" for number in range(5)}
    for name in sorted(names):
        thing = Thing.options(name=name).remote(1)
        thing.take.tell(2)
        thing.take.remote(3)
        world.settle()
        world.hosts[name].end()
        thing.take.tell(4)
        world.settle()
        world.commit()
        world.settle()
    del thing
    assert remembering(world, names) == {"ended"}
    assert world.port.life.ended.keys() == {"thing-3", "thing-4"}


def remembering(world, names):
    """The tables of a driver that have any of these names."""
    session, life = world.session, world.port.life
    tables = {**vars(life), **vars(session), **vars(session.creations), **vars(session.calls)}
    tables |= {"machine": session.machine._channels}
    order = session.machine._order
    tables |= {"order": dict.fromkeys(order.receivers), "held": order._held, "gone": order.gone, "over": order._over}
    kinds = dict | set | WeakValueDictionary
    return {name for name, table in tables.items() if issubclass(type(table), kinds) and names & set(table)}


def test_a_driver_of_a_system_that_stops_forgets_actors_that_it_kills(monkeypatch):
    monkeypatch.setattr(driver_life, "ENDED_KEPT_MAX", 2)
    names = {f"thing-{number}" for number in range(5)}
    with going_back(heals=False) as world:
        for name in sorted(names):
            thing = Thing.options(name=name).remote(1)
            thing.take.tell(2)
            world.settle()
            rayshot.kill(thing)
            world.settle()
            world.cluster.die(world.hosts[name].run.process)
            world.settle()
        del thing
        assert remembering(world, names) == {"ended"}
        assert world.port.life.ended.keys() == {"thing-3", "thing-4"}


def test_a_handle_that_the_program_has_dropped_is_not_remembered(world):
    for name in ("alice", "bob"):
        assert world.session.handle_of(name, ActorOffer(frozenset({"take"}), frozenset(), None)).name == name
    assert remembering(world, {"alice", "bob"}) == set()


def test_an_actor_that_ends_while_a_driver_connects_to_it_is_not_remembered(monkeypatch):
    with going_back("alice", heals=False) as world:

        def end_meanwhile(_hello):
            with world.session.lock:
                world.port.life.end("alice", Ending("it ended"))
            return ActorOffer(frozenset({"take"}), frozenset(), 7)

        monkeypatch.setattr(door, "get", end_meanwhile)
        world.handle("alice").take.tell(1)
        world.settle()
        assert remembering(world, {"alice"}) == {"ended"}
        monkeypatch.undo()


@pytest.fixture
def other(world, monkeypatch):
    """What a driver of another system must know."""
    questions = {name: SimpleNamespace(remote=lambda name=name: name) for name in ("state", "identity")}
    monkeypatch.setattr(ports, "find_coordinator", lambda _system: SimpleNamespace(**questions))
    monkeypatch.setattr(ports, "noticing_restart", lambda *_: nullcontext())
    return replace(world.identity(), system="other")


def test_a_program_that_leaves_its_cluster_while_a_thread_attaches_gets_no_port_of_that_cluster(other, monkeypatch):
    asked, told = [], []

    def get_answer(call, _whom):
        if call == "state":
            return RUNNING
        asked.append(None)
        if len(asked) == 1:
            ports._leave()
        told.append(replace(other, incarnation=len(asked)))
        return told[-1]

    monkeypatch.setattr(ports, "get_answer", get_answer)
    port = ports.driver_port("other")
    port.close(SystemStopped("the test has ended", system="other"))
    assert port.life.identity is told[1], "it asked in the cluster that the program has joined"


def test_a_handle_that_is_used_while_its_system_is_restored_waits_until_its_actors_are_there(other, monkeypatch):
    states = [LOADING, LOADING, RUNNING]
    monkeypatch.setattr(ports, "LOOK_S", 0.0)
    monkeypatch.setattr(ports, "get_answer", lambda call, _: states.pop(0) if call == "state" else other)
    port = ports.driver_port("other")
    port.close(SystemStopped("the test has ended", system="other"))
    assert states == []


def test_a_handle_whose_system_is_restored_for_ever_waits_not_for_ever(other, monkeypatch):
    monkeypatch.setattr(ports, "RECOVERY_WAIT_S", 0.0)
    monkeypatch.setattr(ports, "get_answer", lambda call, _: LOADING if call == "state" else other)
    with pytest.raises(SystemRecovering, match="'other' is still being restored"):
        ports.driver_port("other")


def test_a_program_that_attaches_under_a_name_gets_no_port_of_a_thread_that_attaches_beside_it(other, monkeypatch):
    lock, made = ports._lock, []

    class Turn:
        """When its first holder lets go of it, another thread attaches."""

        def __enter__(self):
            lock.acquire()

        def __exit__(self, *_):
            lock.release()
            if not made:
                made.append(ports._new_port(other))
                ports._attached["other"] = made[0]

    monkeypatch.setattr(ports, "_lock", Turn())
    port = ports.begin(other, "mine")
    assert port is not made[0]
    for one in (port, *made):
        one.close(SystemStopped("the test has ended", system="other"))
