"""Many schedules of a user's own actors: what holds in all of them, and how one in which it does not is told."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rayshot
from rayshot.errors import ConfigError, ScheduleFailed
from rayshot.protocol.participant import Participant
from rayshot.simulation import SimulatedSystem, explore
from tests.simulation.mutation import noticed
from tests.simulation.workloads import Account, Clock, Forgetful, Trader

ROOT = Path(__file__).parents[2]
SCHEDULES = 75
MONEY = 20
EVERYTHING = [
    {},
    {"snapshots": 3},
    {"snapshots": 2, "crashes": 2},
    {"mode": "aligned", "snapshots": 2, "crashes": 1},
    {"mode": "stop-the-world", "snapshots": 2, "crashes": 1},
    {"network": "ordered", "snapshots": 2, "crashes": 1},
    {"network": "duplicating", "snapshots": 2, "crashes": 1},
    {"network": "lossy", "mode": "aligned", "snapshots": 2, "crashes": 1},
    {"network": "hostile", "snapshots": 2, "crashes": 1},
    {"network": "hostile", "mode": "stop-the-world", "snapshots": 2, "crashes": 1},
]


def money_in(cut):
    """What actors hold and what is on its way; and what it should be: that of the actors that the test made."""
    held = sum(state["money"] for state in cut.states().values())
    messages = [message for channel in cut.channels.values() for message in channel.messages]
    moving = sum(message.args[0] for message in messages if message.method in ("take", "__init__"))
    made = MONEY * len({"t0", "t1", "t2"} & cut.actors.keys())
    return held + moving, made


def trade(world):
    traders = [world.create(Trader, MONEY, name=f"t{number}") for number in range(3)]
    for trader, other in itertools.pairwise([*traders, traders[0]]):
        trader.trade.tell([other, traders[0]], 3)


def all_is_well(world):
    for cut in world.snapshots:
        found, made = money_in(cut)
        assert found == made, f"{cut}: {found} of {made}"
    assert not world.dead_letters, world.dead_letters[0].error
    left = world.actors
    assert set(left) == {"t0", "t1", "t2"}
    assert sum(actor.money for actor in left.values()) == 3 * MONEY
    assert all(actor.asked == actor.answered == 4 and actor.bell == 4 for actor in left.values())


@pytest.mark.wide("slow")
@pytest.mark.parametrize("settings", EVERYTHING, ids=str)
def test_everything_that_actors_do_holds_in_every_schedule_and_every_cut(settings):
    seen = explore(trade, schedules=SCHEDULES, check=all_is_well, **settings)
    assert seen.schedules == SCHEDULES
    assert seen.snapshots > SCHEDULES
    assert seen.in_flight > seen.snapshots
    crashes = settings.get("crashes", 0)  # two that are close to each other need one rollback
    assert min(crashes, 1) * SCHEDULES <= seen.rollbacks <= crashes * SCHEDULES


@pytest.mark.sampled("more cases of one kind", keeps=3)
@pytest.mark.parametrize(
    ("network", "seen"),
    [
        ("ordered", {"overtaken": False, "lost": False, "twice": False}),
        ("reordering", {"overtaken": True, "lost": False, "twice": False}),
        ("duplicating", {"overtaken": True, "lost": False, "twice": True}),
        ("lossy", {"overtaken": True, "lost": True, "twice": False}),
        ("hostile", {"overtaken": True, "lost": True, "twice": True}),
    ],
)
def test_a_network_does_what_its_name_says(network, seen):
    worlds = [SimulatedSystem(seed, network=network, story=True) for seed in range(20)]
    for world in worlds:
        trade(world)
        world.run()
        all_is_well(world)
    stories = [line for world in worlds for line in world.story]
    found = {"lost": any("is lost: " in line for line in stories)}
    found["twice"] = any("will come again: " in line for line in stories)
    found["overtaken"] = any(world._actors.counts["batches held back"] for world in worlds)
    assert found == seen


def test_an_actor_on_a_lossy_network_can_be_stepped_through():
    world = SimulatedSystem(3, network="hostile")
    alice = world.create(Account, 100, name="alice")
    for amount in range(10):
        alice.deposit.tell(amount)
    world.run(until=lambda: world.events > 12)
    while world.pending:
        world.step()
    assert world.actors["alice"].balance == 145


def test_a_network_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match=r"network='wet': give one of 'ordered', 'reordering', 'duplicating'"):
        SimulatedSystem(network="wet")


@rayshot.actor
class Guest(Account):
    """Leaves when it is told to."""

    def leave(self):
        rayshot.current().exit()


def test_a_letter_to_one_that_ended_comes_once_however_often_the_network_brings_it():
    for seed in range(40):
        world = SimulatedSystem(seed, network="hostile", snapshots=0)
        bob = world.create(Guest, 100, name="bob")
        world.run()
        bob.leave.tell()
        for amount in range(4):
            bob.deposit.tell(amount)
        world.run()
        numbers = [letter.number for letter in world.dead_letters if letter.number]
        assert sorted(set(numbers)) == sorted(numbers)


def pay(world):
    alice, bob = (world.create(Forgetful, 100, name=name) for name in ("alice", "bob"))
    carol = world.create(Account, 100, name="carol")
    alice.transfer.tell(bob, 1)
    carol.transfer.tell(bob, 2)
    alice.transfer.tell(bob, 3)


def no_money_is_lost(world):
    assert sum(actor.balance for actor in world.actors.values()) == 300


def test_a_mistake_that_only_some_orders_show_is_found_told_and_repeated():
    with pytest.raises(ScheduleFailed) as failed:
        explore(pay, schedules=200, check=no_money_is_lost)
    error = failed.value
    assert isinstance(error, AssertionError)
    assert isinstance(error.__cause__, AssertionError)
    assert error.kind == "schedule_failed"
    seed, choices = error.evidence["seed"], error.evidence["choices"]
    assert f"the schedule of seed {seed} fails" in str(error)
    assert "bob handles deposit(3), number 2 from alice" in str(error)
    world = SimulatedSystem(choices=choices)
    pay(world)
    world.run()
    with pytest.raises(AssertionError):
        no_money_is_lost(world)


def test_a_failed_schedule_is_told_with_no_more_choices_than_it_needs():
    with pytest.raises(ScheduleFailed) as failed:
        explore(pay, schedules=200, check=no_money_is_lost)
    world = SimulatedSystem(seed=failed.value.evidence["seed"])
    pay(world)
    world.run()
    needed = failed.value.evidence["choices"]
    assert sum(map(bool, needed)) < sum(map(bool, world.choices))


def test_a_check_may_say_no_instead_of_raising():
    with pytest.raises(ScheduleFailed, match="<lambda> is False"):
        explore(trade, schedules=1, check=lambda world: not world.actors)


def test_a_failure_that_does_not_repeat_says_so():
    once = iter([True])

    def unsteady(world):
        world.create(Account, 1)
        assert not next(once, False)

    with pytest.raises(ScheduleFailed, match="did NOT fail when it was repeated"):
        explore(unsteady, schedules=1)


def test_an_error_of_the_scenario_is_a_failure_too():
    def wrong(world):
        world.create(Account, 1, name="alice").read.remote(1, 2, 3).result()

    with pytest.raises(ScheduleFailed, match="WrongArguments"):
        explore(wrong, schedules=1)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"snapshots": 3, "crashes": 2}, id="crashes"),
        pytest.param({"snapshots": 3}, id="cuts"),
    ],
)
def test_a_wrong_protocol_is_noticed_by_what_the_test_says(settings, monkeypatch):
    """The schedules reach the places where the protocol matters: a marker that says too little is found."""

    monkeypatch.setattr(Participant, "_learn", wrong_learn(Participant._learn))
    with noticed():
        explore(trade, schedules=SCHEDULES, check=all_is_well, **settings)


def wrong_learn(right):
    """News that markers bring is ignored; only the coordinator's own is heeded."""

    def learn(self, snapshot):
        caller = sys._getframe(1).f_code.co_name
        return () if caller in ("_hear", "_batch_acknowledged") else right(self, snapshot)

    return learn


def test_recorded_states_are_those_of_the_moment_of_recording():
    def scenario(world):
        one, other = (world.create(Account, 100, name=name) for name in ("one", "other"))
        for amount in range(1, 6):
            one.transfer.tell(other, amount)

    def counters_explain_states(world):
        for cut in world.snapshots:
            channel = cut.channels.get(("one", "other"))
            handled = sum(range(1, (channel.received if channel else 0) + 1))
            if "other" in cut.states():
                assert cut.state("other")["balance"] == 100 + handled
            if channel:
                assert [message.number for message in channel.messages] == list(
                    range(channel.received + 1, channel.sent + 1)
                )

    explore(scenario, schedules=200, check=counters_explain_states, snapshots=2)


def test_a_class_that_does_not_come_back_is_found_by_a_crash():
    class Lossy:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1

        def __getstate__(self):
            return {}

    def scenario(world):
        lossy = world.create(Lossy, name="lossy")
        for _ in range(3):
            lossy.add.tell()

    def counted(world):
        assert world.actors["lossy"].count == 3

    explore(scenario, schedules=30, check=counted)
    with pytest.raises(ScheduleFailed, match="all go back to"):
        explore(scenario, schedules=30, check=counted, crashes=1)


def test_a_scenario_whose_timers_never_end_is_given_so_many_seconds():
    def scenario(world):
        world.create(Clock, 1, name="clock")

    explore(scenario, schedules=5, seconds=3, check=lambda world: world.actors["clock"].times == [0, 1, 2])
    with pytest.raises(ScheduleFailed, match="StepsExhausted"):
        explore(scenario, schedules=1, steps_max=100)


def test_a_run_does_not_depend_on_the_order_of_sets():
    program = (
        "import hashlib; from rayshot.simulation import SimulatedSystem\n"
        "from tests.simulation.test_simulation_actor_world_schedules import trade\n"
        "for mode in ('chandy-lamport', 'aligned', 'stop-the-world'):\n"
        "    with SimulatedSystem(5, story=True, snapshots=3, crashes=2, mode=mode) as world:\n"
        "        trade(world)\n"
        "        world.run()\n"
        "    print(hashlib.sha256('\\n'.join(world.story).encode()).hexdigest())\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            cwd=ROOT,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_a_scenario_may_use_rays_own_spelling():
    def scenario(world):
        alice = Account.options(name="alice").remote(1)
        rayshot.ActorHandle.__hash__(alice)
        alice.deposit.tell(1)

    assert explore(scenario, schedules=5, check=lambda world: world.state("alice") == {"balance": 2}).schedules == 5


@pytest.mark.parametrize("verdict", [False, 0, np.bool_(False)])
def test_a_check_that_is_not_true_fails(verdict):
    with pytest.raises(ScheduleFailed):
        explore(lambda world: None, schedules=1, check=lambda world: verdict)


def test_a_check_that_nothing_awaits_and_no_schedules_at_all_are_refused():
    async def check(world):
        raise AssertionError

    with pytest.raises(ConfigError, match="nothing awaits"):
        explore(lambda world: None, schedules=1, check=check)
    with pytest.raises(ConfigError, match="at least one"):
        explore(lambda world: None, schedules=0)


def test_a_failure_of_pytest_tells_its_story_too():
    with pytest.raises(ScheduleFailed, match="seed 0"):
        explore(lambda world: pytest.fail("no"), schedules=1)


@pytest.mark.parametrize("choices", [[-1], [1.5], ["a"], [True]])
def test_choices_that_are_none_are_refused(choices):
    with pytest.raises(ConfigError, match="whole numbers"):
        SimulatedSystem(choices=choices)


@rayshot.actor
class Book:
    """Accounts by name; money for an account that is not open is refused."""

    def __init__(self):
        self.open, self.refused = {}, 0

    def begin(self, name):
        self.open[name] = 0
        return True

    def deposit(self, name, amount):
        if name in self.open:
            self.open[name] += amount
        else:
            self.refused += 1


@rayshot.actor
class Teller:
    """Brings money to the book."""

    def __init__(self, book):
        self.book = book

    def pay(self, name, amount):
        self.book.deposit.tell(name, amount)


def keep_the_order_of_a_program(**faults):
    """Play the book and the teller with 200 seeds, and check the book each time; returns the number of rollbacks."""
    rollbacks = 0
    for seed in range(200):
        world = SimulatedSystem(seed, snapshots=2, **faults)
        book = world.create(Book, name="book")
        teller = world.create(Teller, book, name="teller")
        for name in ("ann", "bob"):
            assert book.begin.remote(name).result()
            teller.pay.tell(name, 10)
        world.run()
        rollbacks += world.rollbacks
        assert (world.actors["book"].open, world.actors["book"].refused) == ({"ann": 10, "bob": 10}, 0), seed
    return rollbacks


@pytest.mark.parametrize("network", ["ordered", "hostile"])
def test_after_a_crash_nothing_overtakes_what_the_program_had_seen_answered_before(network):
    assert keep_the_order_of_a_program(crashes=2, network=network) > 100
