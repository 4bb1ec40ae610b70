"""The hooks of a class: what is refused at decoration, and that no message calls them."""

import asyncio

import pytest

import rayshot
from rayshot.errors import ConfigError, HookFailed, UnknownMethod
from rayshot.model.hooks import check_hooks
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
    ("hook", "why"),
    [
        (lambda self, state: state, "with self alone"),
        (staticmethod(lambda: None), "make it a method with self alone"),
        (classmethod(lambda cls: cls), "make it a method with self alone"),
        ("a text", "make it a method with self alone"),
    ],
)
@pytest.mark.parametrize("name", ["on_restore", "on_rollback"])
def test_a_hook_that_cannot_be_called_on_the_object_alone_is_refused(name, hook, why):
    with pytest.raises(ConfigError, match=f"Odd.{name} is called .*{why}"):
        rayshot.actor(class_with(hook, name))


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
