"""The hooks of a class: what is refused at decoration, and that no message calls them."""

import asyncio
import json
from functools import reduce

import pytest

import rayshot
from rayshot.errors import ConfigError, HookFailed, OutsideFailed, UnknownMethod
from rayshot.format.bounds import PAYLOAD_BYTES_MAX
from rayshot.model.hooks import check_hooks
from rayshot.model.outside import FencingToken, pack_payload
from rayshot.model.specification import ActorSpecification
from rayshot.simulation import SimulatedSystem


@rayshot.actor
class Clerk:
    """Keeps the number of its file in the state, and the file outside of it."""

    def __init__(self):
        self.name, self.file = "ledger", "opened at birth"
        self.restores = 0

    def __getstate__(self):
        return {"name": self.name, "restores": self.restores}

    def on_restore(self):
        self.file = f"{self.name} opened anew"
        self.restores += 1

    def on_rollback(self):
        raise AssertionError("the simulator makes new processes")

    def read(self):
        return self.file, self.restores


@rayshot.actor
class Teller:
    """Tells of its restore."""

    def __init__(self, to):
        self.to = to

    def on_restore(self):
        self.to.hear.tell("restored")

    def ready(self):
        return True


@rayshot.actor
class Ear:
    def __init__(self):
        self.heard = []

    def hear(self, what):
        self.heard.append(what)

    def read(self):
        return self.heard


@rayshot.actor
class Awaiting:
    """Opens what it needs on the loop of its handlers."""

    def __init__(self):
        self.loop = None

    def __getstate__(self):
        return {"loop": None}

    async def on_restore(self):
        await asyncio.sleep(0)
        self.loop = asyncio.get_running_loop()

    async def is_here(self):
        return self.loop is asyncio.get_running_loop()


@rayshot.actor
class Broken:
    def on_restore(self):
        raise OSError("no such socket")

    def ready(self):
        return True


@rayshot.actor
class Asking:
    def on_restore(self):
        rayshot.current()

    def ready(self):
        return True


def class_with(hook, name="on_restore"):
    return type("Odd", (), {name: hook})


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("on_restore", "self, or self and the cut"),
        ("on_rollback", "self alone"),
        ("on_snapshot", "self and the cut"),
        ("on_commit", "self and the cut"),
    ],
)
@pytest.mark.parametrize(
    "hook", [lambda self, cut, more: (cut, more), staticmethod(lambda: None), classmethod(lambda cls: cls), "a text"]
)
def test_a_hook_that_cannot_be_called_as_it_will_be_is_refused(name, hook, takes):
    with pytest.raises(ConfigError, match=f"Odd.{name} is called .*with {takes}"):
        rayshot.actor(class_with(hook, name))


def test_a_class_that_is_deterministic_has_nothing_outside():
    odd = class_with(lambda self, cut: cut, "on_snapshot")
    with pytest.raises(ConfigError, match="declared deterministic, and its on_snapshot"):
        rayshot.actor(deterministic=True)(odd)


@pytest.mark.parametrize("payload", [None, True, 7, 1.5, "text", [1, [2]], {"a": {"b": []}}])
def test_a_payload_comes_back_from_its_json(payload):
    assert json.loads(pack_payload(payload, "a")) == payload


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (float("nan"), "Out of range float values are not JSON"),
        (object(), "Object of type object is not JSON serializable"),
        (b"bytes", "Object of type bytes is not JSON serializable"),
        ((1, 2), "it would come back otherwise"),
        ({1: "one"}, "the payload has the key 1, which is not a string"),
        (reduce(lambda inner, _: [inner], range(17), 0), "the payload is nested more than 16 deep"),
        ("\ud800", "'utf-8' codec can't encode"),
        ("x" * PAYLOAD_BYTES_MAX, "the payload has 65538 bytes, above the limit of 65536"),
    ],
)
def test_a_payload_that_no_manifest_can_hold_is_refused(payload, why):
    with pytest.raises(OutsideFailed, match=f"actor 'a': on_snapshot gave no payload: {why}") as failed:
        pack_payload(payload, "a")
    assert failed.value.evidence == {"actor": "a"}


def test_a_payload_that_holds_itself_is_refused():
    circle = []
    circle.append(circle)
    with pytest.raises(OutsideFailed, match="the payload is nested more than 16 deep"):
        pack_payload(circle, "a")


def test_only_who_has_it_and_later_lives_of_one_log_may_take_what_is_outside():
    held = FencingToken("run", 3, "x")
    assert held.may_take(None)
    assert held.may_take(held)
    assert FencingToken("run", 4, "y").may_take(held)
    assert not FencingToken("run", 2, "w").may_take(held)
    assert not FencingToken("run", 3, "y").may_take(held)
    assert not FencingToken("other", 9, "x").may_take(held)


def test_a_hook_that_yields_is_refused():
    def on_restore(self):
        yield self

    with pytest.raises(ConfigError, match="is a generator"):
        check_hooks(class_with(on_restore))


def test_a_hook_with_defaults_is_taken():
    check_hooks(class_with(lambda self, times=3: times))


def test_no_message_calls_a_hook():
    specification = ActorSpecification.of(Clerk, {})
    assert specification.methods == ("read",)
    with SimulatedSystem() as world:
        clerk = world.create(Clerk, name="clerk")
        with pytest.raises(UnknownMethod, match="has no method 'on_restore'"):
            clerk.on_restore.tell()


# In the simulator ---------------------------------------------------------------------------------------------------


def gone_back(world):
    world.run()
    world.snapshot()
    world.crash()
    world.run()


def test_on_restore_is_called_on_the_object_that_has_its_state():
    with SimulatedSystem() as world:
        clerk = world.create(Clerk, name="clerk")
        gone_back(world)
        assert clerk.read.remote().result() == ("ledger opened anew", 1)


def test_an_async_hook_runs_on_the_loop_of_the_handlers():
    with SimulatedSystem() as world:
        actor = world.create(Awaiting, name="awaiting")
        gone_back(world)
        assert actor.is_here.remote().result()


def test_what_on_restore_tells_arrives_when_all_are_loaded():
    with SimulatedSystem() as world:
        ear = world.create(Ear, name="ear")
        world.create(Teller, ear, name="a-teller")
        world.create(Teller, ear, name="z-teller")
        gone_back(world)
        assert ear.read.remote().result() == ["restored"] * 2


def test_an_error_in_on_restore_names_actor_class_hook_and_line():
    with SimulatedSystem() as world:
        world.create(Broken, name="broken")
        with pytest.raises(
            HookFailed, match=r"'broken': .*Broken\.on_restore raised OSError\('no such socket'\) at .*\.py:\d+"
        ) as raised:
            gone_back(world)
    assert (raised.value.kind, raised.value.evidence["hook"]) == ("hook_failed", "on_restore")


def test_in_a_hook_there_is_no_current_handler():
    with SimulatedSystem() as world:
        world.create(Asking, name="asking")
        with pytest.raises(HookFailed, match="OutsideHandler"):
            gone_back(world)
