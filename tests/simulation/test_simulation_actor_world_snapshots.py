"""Snapshots of worlds, worlds out of snapshots, and steps through them."""

import numpy as np
import pytest

from rayshot.errors import (
    ActorNotFound,
    BadSignature,
    CodeMismatch,
    ConfigError,
    InconsistentCut,
    NotFound,
    SnapshotNotFound,
    UnknownKey,
    Unsigned,
)
from rayshot.keys.signing import SigningKey
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import Channel
from rayshot.simulation import SimulatedSystem, explore
from rayshot.simulation.bodies.world_snapshot import RecordedChannel
from tests.simulation.workloads import Account, Asker, Clock, Note, Notebook, Parent, Stuck, Trader
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_snapshot, open_bank

MOVED = {"bank.Account": Account}


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())


def stored(bank=None, **options):
    return make_snapshot(open_bank(MemoryStore()), bank, **options)


def bank(seed=0, **options):
    world = SimulatedSystem(seed, snapshots=0, **options)
    return world, *(world.create(Account, 100, name=name) for name in ("alice", "bob"))


# Snapshots of a world ---------------------------------------------------------------------------------------------


def test_a_snapshot_holds_what_was_done_before_it_states_and_messages():
    world, alice, bob = bank()
    alice.transfer.tell(bob, 30)
    world.step(channel=("driver:main", "alice"))
    cut = world.snapshot()
    assert cut.states() == {"alice": {"balance": 100}, "bob": {"balance": 100}}
    (message,) = cut.channel("driver:main", "alice").messages
    assert (message.number, message.method, message.args[1]) == (2, "transfer", 30)
    assert world.snapshots == (cut,)
    world.step(channel=("driver:main", "alice"))
    later = world.snapshot()
    assert later.state("alice") == {"balance": 70}
    assert [(m.number, m.args) for m in later.channel("alice", "bob").messages] == [(1, (30,))]
    assert (later.in_flight, later.channel("alice", "bob").count) == (1, 1)
    with pytest.raises(NotFound, match="alice -> bob"):
        later.channel("bob", "alice")
    with pytest.raises(ActorNotFound, match="alice, bob"):
        later.state("carol")


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_snapshot_can_be_taken_in_every_mode(mode):
    world, alice, bob = bank()
    for _ in range(3):
        alice.transfer.tell(bob, 10)
    world.run(until=lambda: world.events == 6)
    cut = world.snapshot(mode=mode)
    moving = sum(m.args[0] for channel in cut.channels.values() for m in channel.messages if m.method == "deposit")
    assert sum(state["balance"] for state in cut.states().values()) + moving == 200


def test_recorded_arrays_do_not_change_with_the_live_ones():
    world = SimulatedSystem()
    note = world.create(Notebook, name="notes")
    note.add.tell(np.zeros(100_000))
    world.run()
    cut = world.snapshot()
    world.actors["notes"].notes[0][:] = 1
    assert not cut.state("notes")["notes"][0].any()


def test_a_channel_that_holds_other_messages_than_its_counters_say_is_no_channel():
    with pytest.raises(InconsistentCut):
        RecordedChannel(Channel("a", "b"), 3, 1, (b"",))


# Crashes ----------------------------------------------------------------------------------------------------------


def test_after_a_crash_all_goes_on_from_the_last_snapshot_and_the_test_sends_again():
    world, alice, bob = bank()
    alice.transfer.tell(bob, 1)
    world.run()
    world.snapshot()
    alice.transfer.tell(bob, 10)
    world.run()
    before = world.actors["alice"]
    world.crash()
    assert world.state("alice") == {"balance": 99}
    assert world.actors["alice"] is not before
    world.run()
    assert (world.state("alice"), world.state("bob")) == ({"balance": 89}, {"balance": 111})
    assert alice.read.remote().result() == 89


def test_there_is_no_crash_without_a_snapshot():
    world, _, _ = bank()
    with pytest.raises(SnapshotNotFound, match=r"world.snapshot\(\)"):
        world.crash()


def test_actors_of_the_test_that_no_snapshot_holds_are_made_again():
    world, alice, _ = bank()
    world.run()
    world.snapshot()
    carol = world.create(Account, 7, name="carol")
    alice.transfer.tell(carol, 1)
    world.run()
    world.crash()
    assert set(world.actors) == {"alice", "bob"}
    world.run()
    assert world.state("carol") == {"balance": 8}


# Worlds out of snapshots ------------------------------------------------------------------------------------------


def test_a_stored_snapshot_goes_on_in_a_world(key):
    world = SimulatedSystem.from_snapshot(stored(), rename_classes=MOVED)
    assert world.state("alice") == {"balance": 90}
    assert world.actors["bob"].balance == 10
    assert [str(pending) for pending in world.pending] == ["alice -> bob 3: deposit(30)"]
    world.run()
    assert world.state("bob") == {"balance": 10 + 30 + 40 + 50}
    world.get_actor("alice").transfer.tell(world.get_actor("bob"), 1)
    world.run()
    cut = world.snapshot()
    assert cut.channel("alice", "bob").sent == 6
    assert cut.channel("driver:main", "alice").sent == 4
    assert cut.id.incarnation == 2


def test_a_world_trusts_what_a_restore_trusts(key, monkeypatch):
    with pytest.raises(Unsigned):
        SimulatedSystem.from_snapshot(stored(key=None), rename_classes=MOVED)
    world = SimulatedSystem.from_snapshot(stored(key=None), rename_classes=MOVED, allow_unsigned=True)
    assert world.state("bob") == {"balance": 10}
    with pytest.raises(ConfigError, match="allow_unsigned"):
        SimulatedSystem.from_snapshot(stored(), rename_classes=MOVED, allow_unsigned="me")
    with pytest.raises(UnknownKey):
        SimulatedSystem.from_snapshot(stored(key=SigningKey(b"x" * 32)), rename_classes=MOVED)
    assert issubclass(BadSignature, Exception)


def test_a_class_that_is_not_here_is_named(key):
    with pytest.raises(CodeMismatch, match=r"no bank\.Account"):
        SimulatedSystem.from_snapshot(stored())


def test_a_class_that_does_not_take_its_state_is_named(key):
    class Slotted:
        __slots__ = ("other",)

        def deposit(self, amount): ...

    with pytest.raises(CodeMismatch, match="'alice'"):
        SimulatedSystem.from_snapshot(stored(), rename_classes={"bank.Account": Slotted})


def test_an_unborn_actor_is_born_by_the_message_in_flight():
    world, _, _ = bank()
    again = SimulatedSystem.from_snapshot(world._schedule.take("chandy-lamport"))
    assert dict(again.actors) == {}
    assert [pending.kind for pending in again.pending] == ["create", "create"]
    again.run()
    assert again.state("alice") == {"balance": 100}


def test_a_world_out_of_a_snapshot_may_crash_back_to_it(key):
    world = SimulatedSystem.from_snapshot(stored(), rename_classes=MOVED, crashes=2, snapshots=0, seed=3)
    world.run()
    assert (world.rollbacks, world.state("bob")) == (2, {"balance": 130})


def test_timers_calls_and_handles_go_on_in_a_world_out_of_a_snapshot():
    world = SimulatedSystem(snapshots=0)
    asker, clock = world.create(Asker, name="asker"), world.create(Clock, 3.0, name="clock")
    parent = world.create(Parent, ["child"], name="parent")
    asker.ask.tell(world.get_actor("parent"), "make")
    world.run(seconds=4)
    asker.ask.tell(clock, "tick")
    world.step(channel=("driver:main", "asker"))
    cut = world.snapshot()
    again = SimulatedSystem.from_snapshot(cut)
    assert again.now == 4
    again.run(seconds=3)
    assert again.actors["clock"].times[:2] == [0, 1]
    assert ("clock", None) in again.actors["asker"].heard
    again.get_actor("parent").spread.tell(5)
    again.run(seconds=0)
    assert again.state("child") == {"balance": 7}
    assert parent.name == "parent"


def test_every_cut_of_every_schedule_can_be_loaded_and_ends_the_same():
    def scenario(world):
        accounts = [world.create(Account, 100, name=f"a{number}") for number in range(3)]
        for number in range(9):
            accounts[number % 3].transfer.tell(accounts[(number + 1) % 3], number)

    def loads(world):
        for cut in world.snapshots:
            again = SimulatedSystem.from_snapshot(cut, seed=5)
            again.run()
            covered = set(cut.actors)
            if (
                covered == set(world.actors)
                and sum(channel.sent for (sender, _), channel in cut.channels.items() if sender == "driver:main") == 12
            ):
                assert {name: again.state(name) for name in again.actors} == {
                    name: world.state(name) for name in world.actors
                }

    explore(scenario, schedules=100, check=loads, snapshots=2)


# Steps ------------------------------------------------------------------------------------------------------------


def test_a_step_handles_one_message_and_tells_what_it_did():
    world, alice, bob = bank()
    alice.transfer.tell(bob, 30)
    assert [str(pending) for pending in world.pending] == [
        "driver:main -> alice 1: __init__(100)",
        "driver:main -> bob 1: __init__(100)",
    ]
    born = world.step(0)
    assert str(born) == "driver:main -> alice 1: __init__(100)\n    alice.balance: (absent) -> 100"
    world.step(channel=("driver:main", "bob"))
    step = world.step()
    assert str(step) == (
        "driver:main -> alice 2: transfer(<actor bob>, 30)\n"
        "    alice.balance: 100 -> 70\n"
        "    sends alice -> bob 1: deposit(30)"
    )
    assert step.sent == world.pending
    assert str(world.step(world.pending[0])) == "alice -> bob 1: deposit(30)\n    bob.balance: 100 -> 130"
    assert (world.step(), world.pending) == (None, ())


def test_a_step_tells_of_errors_timers_and_replies():
    world = SimulatedSystem()
    asker, clock = world.create(Asker, name="asker"), world.create(Clock, 2, name="clock")
    assert "sets a timer: tick() at 2 s" in str(world.step(channel=("driver:main", "clock")))
    world.step(0)
    asker.ask.tell(clock, "nonsense")
    asked = str(world.step(channel=("driver:main", "asker")))
    assert "sends asker -> clock 1: nonsense()" in asked
    assert "awaits a reply: on_answer" in asked
    step = world.step(channel=("asker", "clock"))
    assert [sent.kind for sent in step.sent] == ["reply"]
    assert "asker.heard" in str(world.step(channel=("clock", "asker")))
    (timer,) = world.pending
    assert str(timer) == "clock: timer, due at 2 s: tick()"
    assert "clock -> clock 1: tick()" in str(world.step(timer))
    failing = world.create(Account, 1, name="account")
    world.step(channel=("driver:main", "account"))
    failing.fail.tell()
    assert "raises ValueError: on purpose" in str(world.step(channel=("driver:main", "account")))


def test_a_state_that_cannot_be_pickled_does_not_end_the_session():
    world = SimulatedSystem()
    world.create(Stuck, name="stuck")
    step = world.step()
    assert [change.name for change in step.changes] == ["(state)"]
    assert "['generator'] cannot be captured" in step.changes[0].new


def test_what_is_not_pending_cannot_be_stepped():
    world, _, _ = bank()
    with pytest.raises(NotFound, match="0: driver:main -> alice 1"):
        world.step(7)
    with pytest.raises(NotFound, match="alice -> bob is not pending"):
        world.step(channel=("alice", "bob"))
    done = world.pending[0]
    world.step(done)
    with pytest.raises(NotFound):
        world.step(done)
    with pytest.raises(NotFound):
        world.step(-1)


def test_branches_are_independent_worlds():
    world, alice, bob = bank()
    world.run()
    alice.transfer.tell(bob, 30)
    branch = world.branch()
    assert branch.pending == world.pending
    branch.run()
    assert (branch.state("bob"), world.state("bob")) == ({"balance": 130}, {"balance": 100})
    other = world.branch(seed=4)
    other.drop(0)
    other.run()
    assert other.state("bob") == {"balance": 100}
    world.run()
    assert world.state("bob") == {"balance": 130}
    assert world.snapshots == ()


def test_a_message_may_be_dropped_and_a_constructor_may_not():
    world, alice, bob = bank()
    with pytest.raises(ConfigError, match="constructed"):
        world.drop(0)
    world.run()
    for amount in (1, 2):
        alice.transfer.tell(bob, amount)
    world.step()
    world.step(channel=("driver:main", "alice"))
    assert str(world.drop(channel=("alice", "bob"))) == "alice -> bob 1: deposit(1)"
    world.run()
    assert world.state("bob") == {"balance": 102}


def test_a_view_shows_what_a_snapshot_would():
    world = SimulatedSystem()
    notes = world.create(Notebook, name="notes")
    assert world.view("notes") == {}
    notes.add.tell(Note("hello", ["x"]))
    world.run()
    view = world.view("notes")
    assert view["notes"][0]["text"] == "hello"
    assert "open" not in view


def test_stepping_goes_through_all_that_running_does():
    for seed in range(20):
        world = SimulatedSystem(seed, snapshots=0)
        traders = [world.create(Trader, 20, name=f"t{number}") for number in range(3)]
        traders[0].trade.tell(traders[1:], 3)
        world.snapshot()
        while world.step() is not None:
            pass
        world.run()
        assert not world.dead_letters
        assert sum(actor.money for actor in world.actors.values()) == 60
        assert set(world.actors) == {"t0", "t1", "t2"}


def test_a_flow_that_is_half_arrived_is_loaded_whole(key):
    flows = {("alice", "bob"): Flow(sent=9, arrived=6, received=2), ("bob", "alice"): Flow(sent=2, received=1)}
    world = SimulatedSystem.from_snapshot(stored(Bank(flows=flows)), rename_classes=MOVED)
    world.run()
    assert world.state("bob") == {"balance": 10 + sum(range(30, 100, 10))}
