"""What a user's own actors do in a simulated world, and what its schedules find."""

import subprocess
import sys
from pathlib import Path

import pytest

from rayshot.errors import (
    ActorDied,
    ActorExited,
    ActorNotFound,
    ConfigError,
    NotAnObjectRef,
    OutsideHandler,
    StateNotSerializable,
    StepsExhausted,
    SystemStopped,
    UnknownMethod,
)
from rayshot.simulation import SimulatedSystem
from tests.simulation.workloads import (
    Account,
    Asker,
    Clock,
    Note,
    Notebook,
    Parent,
    Plain,
    Sneaky,
    Strict,
    Stuck,
    Undecorated,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=range(5))
def world(request):
    return SimulatedSystem(seed=request.param, story=True)


def test_the_same_decorated_class_runs_without_ray(world):
    alice, bob = (world.create(Account, 100, name=name) for name in ("alice", "bob"))
    alice.transfer.tell(bob, 10)
    world.run()
    assert (world.actors["alice"].balance, world.state("bob")) == (90, {"balance": 110})
    assert type(world.actors["alice"]) is Account
    assert world.dead_letters == ()
    assert world.pending == ()


def test_a_call_of_the_test_runs_the_world_until_it_is_answered(world):
    alice, bob = (world.create(Account, 100, name=name) for name in ("alice", "bob"))
    alice.transfer.tell(bob, 10)
    assert alice.read.remote().result() == 90
    future = alice.fail.remote()
    assert not future.done()
    with pytest.raises(ValueError, match="on purpose"):
        future.result()
    assert future.done()


def test_one_seed_gives_one_run_and_its_choices_repeat_it():
    def run(**how):
        world = SimulatedSystem(story=True, snapshots=2, crashes=1, **how)
        accounts = [world.create(Account, 100, name=f"a{number}") for number in range(3)]
        for number in range(6):
            accounts[number % 3].transfer.tell(accounts[(number + 1) % 3], number)
        world.run()
        return world

    first, again, other = run(seed=7), run(seed=7), run(seed=8)
    assert first.story == again.story != other.story
    assert run(choices=first.choices).story == first.story


def test_rays_own_spelling_makes_actors_of_the_world_while_it_is_entered(world):
    with world:
        alice = Account.options(name="alice").remote(7)
        anonymous = Account.remote(balance=8)
    assert (alice.read.remote().result(), anonymous.read.remote().result()) == (7, 8)
    assert list(world.actors) == ["alice", "account-1"]
    with pytest.raises(SystemStopped):
        Account.remote(9)  # outside there is no system


def test_messages_are_copied_at_the_call(world):
    one, other = (world.create(Notebook, name=name) for name in ("one", "other"))
    one.add_twice.tell(other, note := Note("hello", []))
    note.text = "changed by the test"
    world.run()
    assert world.actors["other"].notes == [Note("hello", []), Note("hello", ["changed"])]
    assert other.read_soon.remote().result() == ["hello", "hello"]


def test_replies_reach_their_continuations_and_errors_theirs(world):
    asker, account = world.create(Asker, name="asker"), world.create(Account, 5, name="account")
    asker.ask.tell(account, "read")
    asker.ask.tell(account, "fail")
    asker.ask_in_vain.tell(account)
    world.run(until=lambda: len(getattr(world.actors.get("asker"), "heard", ())) == 3)
    heard = world.actors["asker"].heard
    assert heard[0] == ("account", 5) or ("account", 5) in heard
    assert ("account", "ValueError") in heard


def test_timers_fire_in_virtual_time_and_a_run_may_be_limited_by_it(world):
    world.create(Clock, 2.0, name="clock")
    world.run(seconds=7)
    assert (world.actors["clock"].times, world.now) == ([0, 1, 2], 7)
    world.run(seconds=1)
    assert (len(world.actors["clock"].times), world.now) == (4, 8)


def test_a_world_that_never_rests_says_what_to_do():
    world = SimulatedSystem(steps_max=200)
    world.create(Clock, 1)
    with pytest.raises(StepsExhausted, match=r"run\(seconds=...\)"):
        world.run()


def test_actors_are_made_inside_handlers_and_constructors(world):
    parent = world.create(Parent, ["first"], name="parent")
    parent.make.tell("second")
    parent.spread.tell(10)
    world.run()
    assert {name: world.actors[name].balance for name in ("first", "second")} == {"first": 12, "second": 15}
    assert world.get_actor("second").read.remote().result() == 15


def test_a_constructor_that_raises_has_sent_nothing_and_made_nobody(world):
    parent = world.create(Parent, ["first"], fail=True, name="parent")
    future = parent.make.remote("second")
    world.run()
    assert dict(world.actors) == {}
    assert set(world.ended) == {"parent", "first"}
    with pytest.raises(ActorExited):
        future.result()
    assert any("no such luck" in letter.error for letter in world.dead_letters)
    with pytest.raises(ActorExited):
        world.get_actor("parent")


def test_an_exception_of_a_tell_becomes_a_dead_letter(world):
    world.create(Account, 1, name="alice").fail.tell()
    world.run()
    (letter,) = world.dead_letters
    assert (letter.receiver, letter.sender, letter.method) == ("alice", "driver:main", "fail")
    assert "on purpose" in letter.error
    assert any("ValueError: on purpose" in line for line in world.story)


def test_a_class_may_count_its_failure_as_the_systems(world):
    world.create(Strict, name="strict").fail.tell()
    with pytest.raises(ActorDied, match="strict"):
        world.run()


def test_a_plain_class_can_be_an_actor(world):
    world.create(Plain, name="plain").add.tell(3)
    world.run()
    assert world.state("plain") == {"count": 3}


def test_a_state_that_cannot_be_captured_is_named():
    world = SimulatedSystem()
    world.create(Stuck, name="stuck")
    with pytest.raises(StateNotSerializable, match=r"stuck\['state'\]\['generator'\]"):
        world.snapshot()


def test_what_cannot_be_is_refused():
    world = SimulatedSystem()
    alice = world.create(Account, 1, name="alice")
    with pytest.raises(ConfigError, match="already"):
        world.create(Account, 1, name="alice")
    with pytest.raises(UnknownMethod):
        alice.nonsense.tell()
    with pytest.raises(ActorNotFound, match="alice"):
        world.get_actor("bob")
    with pytest.raises(ActorNotFound, match="not constructed yet"):
        world.state("alice")
    with pytest.raises(ConfigError, match="mode"):
        SimulatedSystem(mode="nonsense")
    with pytest.raises(ConfigError, match="0 or more"):
        SimulatedSystem(snapshots=-1)
    with pytest.raises(ConfigError, match="class"):
        world.create("Account")
    with pytest.raises(ConfigError, match=r"Undecorated is not decorated with @rayshot\.actor itself"):
        world.create(Undecorated, 1)
    with pytest.raises(NotAnObjectRef, match="result"):
        alice.deposit.tell(alice.read.remote())


def test_a_handle_out_of_a_state_does_not_speak_for_its_actor(world):
    world.create(Parent, ["child"], name="parent")
    world.run()
    with pytest.raises(OutsideHandler, match="get_actor"):
        world.actors["parent"].children[0].deposit.tell(1)


def test_a_handle_of_the_test_is_refused_inside_a_handler():
    world = SimulatedSystem()
    alice = world.create(Account, 1, name="alice")
    Sneaky.handle = alice
    world.create(Sneaky, name="sneaky").sneak.tell()
    world.run()
    assert "as an argument" in world.dead_letters[0].error


def test_a_world_needs_no_ray_and_leaves_no_trace():
    program = (
        "import sys\n"
        "from rayshot.simulation import SimulatedSystem, explore\n"
        "from tests.simulation.workloads import Account\n"
        "world = SimulatedSystem(crashes=1)\n"
        "world.create(Account, 1, name='alice').deposit.tell(2)\n"
        "world.run()\n"
        "assert world.actors['alice'].balance == 3 and world.rollbacks == 1\n"
        "from rayshot.model.port import find_port\n"
        "assert find_port() is None\n"
        "assert not {'ray', 'pyspark', 'numpy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
