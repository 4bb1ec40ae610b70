"""How actors end: by order, by leaving, and when nobody holds a handle of them any more."""

import copy
import gc
import pickle

import pytest

import rayshot
from rayshot.errors import ActorExited, ConfigError
from rayshot.model.handle import ActorHandle, Hold


class Worker:
    def __init__(self):
        self.heard = []

    def ask(self, peer):
        peer.read.remote().then(self.hear)

    def hear(self, value):
        self.heard.append(value)

    def remind(self):
        rayshot.current().after(1.0, self.hear, 1)

    def leave(self, status=0):
        raise SystemExit(status)


@pytest.fixture
def running(world):
    world.construct(Worker)
    return world


def calls(world, method, *args):
    world.cell.now.sender = "driver:1"
    world.receive(world.codec.call(1, world.codec.tell(method, args)))


@pytest.mark.acceptance("O4")
def test_kill_is_a_message_in_its_turn(world):
    bob = world.handle("bob", ["read"])
    bob.read.tell()
    rayshot.kill(bob)
    rayshot.kill(bob, no_restart=True)
    assert world.sent["bob"][1:] == [world.codec.end(dropped=False)] * 2


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize(("given", "no_restart"), [(7, True), ("bob", True), (Worker, True), (0, False)])
def test_kill_takes_handles_and_begins_no_actor_anew(world, given, no_restart):
    with pytest.raises(ConfigError, match=r"rayshot help porting#ray-kill"):
        rayshot.kill(given or world.handle("bob"), no_restart=no_restart)
    assert world.sent == {}


@pytest.mark.acceptance("O4")
def test_kill_of_an_actor_that_has_ended_is_fine(world, monkeypatch):
    def ended(receiver):
        raise ActorExited("it ended")

    monkeypatch.setattr(world, "channel", ended)
    rayshot.kill(world.handle("bob"))


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("dropped", [True, False])
def test_the_order_to_end_ends_an_idle_actor(running, dropped):
    running.receive(running.codec.end(dropped=dropped))
    assert running.requests == ["end"]
    assert running.moved().cell.ending


BUSY = {
    "a timer": lambda world: world.tell("remind"),
    "a pending call": lambda world: world.tell("ask", world.handle("bob")),
    "its own handle": lambda world: setattr(world.cell, "shared", True),
    "mail of its own": lambda world: setattr(world, "has_own_mail", lambda: True),
}


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("why", BUSY)
def test_an_actor_that_was_dropped_lives_on_while_something_can_come_of_it(running, why):
    BUSY[why](running)
    running.receive(running.codec.end(dropped=True))
    assert running.requests == []
    running.receive(running.codec.end(dropped=False))
    assert running.requests == ["end"]


@pytest.mark.acceptance("O4")
def test_that_an_actor_has_its_own_handle_is_part_of_its_state(running):
    assert "shared" not in running.cell.state()
    running.cell.shared = True
    assert running.moved().cell.shared


@pytest.mark.acceptance("O4")
def test_a_handler_that_leaves_python_ends_its_actor_and_its_caller_hears_of_it(running):
    calls(running, "leave", 3)
    assert running.requests == ["end"]
    ((_, _, error, ok),) = running.answers
    assert (type(error), ok) == (ActorExited, False)
    assert str(error).startswith("actor 'alice' ended, its handler .leave left with sys.exit()")


@pytest.mark.acceptance("O4")
def test_every_actor_has_rays_own_methods(running):
    calls(running, "__ray_ready__")
    calls(running, "__ray_call__", lambda actor, value: actor.heard.append(value) or len(actor.heard), "a")
    assert [(value, ok) for _, _, value, ok in running.answers] == [(True, True), (1, True)]
    assert running.cell.instance.heard == ["a"]
    running.receive(running.codec.tell("__ray_terminate__", ()))
    assert running.requests == ["end"]
    bob = running.handle("bob", ["hear"])
    for name in ("__ray_ready__", "__ray_call__", "__ray_terminate__"):
        getattr(bob, name).tell()
    assert [method for method, _ in running.messages("bob")] == ["__ray_ready__", "__ray_call__", "__ray_terminate__"]


def held(world, dropped):
    return ActorHandle("bank", "bob", frozenset({"read"}), world, hold=Hold(lambda: dropped.append("bob")))


@pytest.mark.acceptance("O4")
def test_a_handle_is_dropped_when_it_and_all_that_was_got_from_it_are_gone(world):
    dropped = []
    gc.disable()
    try:
        bob = held(world, dropped)
        bob.read.tell()
        read = bob.read.options(name="reading")
        del bob
        assert dropped == []
        read.tell()
        del read
        assert dropped == ["bob"]
    finally:
        gc.enable()


OUT = {
    "pickled": pickle.dumps,
    "copied": copy.copy,
    "in a state": lambda handle: pickle.dumps({"peer": handle}),
}


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("way", OUT)
def test_a_handle_that_left_its_process_is_never_dropped(world, way):
    dropped = []
    bob = held(world, dropped)
    OUT[way](bob)
    del bob
    gc.collect()
    assert dropped == []


@pytest.mark.acceptance("O4")
def test_nothing_is_dropped_when_the_interpreter_exits(world, monkeypatch):
    dropped = []
    bob = held(world, dropped)
    monkeypatch.setattr("sys.is_finalizing", lambda: True)
    del bob
    assert dropped == []
