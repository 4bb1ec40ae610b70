"""Actors of users of which one dies while the world runs: all go back to a snapshot, step by step, and go on."""

import pytest

import rayshot
from rayshot.errors import ActorExited, ActorNotFound
from rayshot.protocol.recovery import Phase
from rayshot.simulation import SimulatedSystem, explore
from rayshot.simulation.actors import network as actor_network
from rayshot.simulation.actors.recovery import RecoverableActors
from tests.simulation import mutants_of_recovery as mutants
from tests.simulation.mutation import MUTANTS, noticed
from tests.simulation.test_simulation_actor_world_schedules import Guest, keep_the_order_of_a_program, trade
from tests.simulation.test_simulation_actor_world_takeovers import all_goes_on
from tests.simulation.workloads import Account

SCHEDULES = 200
REPLACED = {"network": "hostile", "snapshots": 3, "crashes": 3, "takeovers": 3}
DYING = {"network": "hostile", "snapshots": 2, "crashes": 4}
WORLDS = {
    "replaced": REPLACED,
    "dying": DYING,
    "one dies": {"snapshots": 2, "crashes": 1},
    "aligned": {**REPLACED, "mode": "aligned", "deadlines": 1},
    "stopped": {**REPLACED, "mode": "stop-the-world", "network": "ordered"},
}


def goes_back(world):
    """Whether an actor is dead, or all are on their way back."""
    actors = world._actors
    dead = any(not p.alive and p.incarnation == actors.incarnation for p in actors.processes.values())
    return dead or actors.decider.machine.phase not in (Phase.NEW, Phase.RUNNING)


def worlds_on_their_way_back(seeds=range(40)):
    """Worlds that trade, each stopped at another moment of a rollback."""
    for seed in seeds:
        world = SimulatedSystem(seed, **{**REPLACED, "takeovers": seed % 3})
        trade(world)
        moments = iter(range(seed % 20))
        world.run(until=lambda: goes_back(world) and next(moments, None) is None)  # noqa: B023 - called before the next
        if goes_back(world):
            yield world


# What holds -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("world", WORLDS)
def test_whoever_dies_and_whenever_all_go_back_to_a_snapshot_and_go_on(world):
    seen = explore(trade, schedules=SCHEDULES, check=all_goes_on, **WORLDS[world])
    assert seen.rollbacks > 0.8 * SCHEDULES
    assert seen.in_flight > seen.snapshots > SCHEDULES


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("network", ["ordered", "hostile"])
def test_nothing_overtakes_what_the_program_had_seen_answered_whoever_dies_or_takes_over(network):
    assert keep_the_order_of_a_program(crashes=3, takeovers=2, network=network) > 100


@pytest.mark.wide("slow")
def test_the_schedules_meet_what_makes_a_rollback_hard():
    counts = {}
    for seed in range(SCHEDULES):
        with SimulatedSystem(seed, **REPLACED) as world:
            trade(world)
            world.run()
        for name, count in world._actors.counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in ("crashes in a restore", "coordinators replaced in a rollback", "rollbacks fenced"):
        assert counts[name] > 10, name
    assert counts["batches dropped: stale"] > 100
    assert counts["processes loaded again"] > 3


def test_a_death_is_seen_later_and_the_others_go_on_until_then():
    handled = 0
    for seed in range(20):
        with SimulatedSystem(seed, snapshots=2, crashes=1, story=True) as world:
            trade(world)
            world.run()
        (dead,) = (index for index, line in enumerate(world.story) if line.endswith(" dies"))
        name = world.story[dead].split()[1]
        (seen,) = (index for index, line in enumerate(world.story) if line.endswith(f"the death of {name} is seen"))
        between = world.story[dead:seen]
        assert not any(f" {name} handles " in line for line in between)
        handled += sum(" handles " in line for line in between)
        (back,) = (index for index, line in enumerate(world.story) if "all go back to " in line)
        assert dead < seen < back
        assert world.rollbacks == 1
    assert handled > 20


@pytest.mark.parametrize("settings", [REPLACED, DYING], ids=["replaced", "dying"])
def test_the_same_seed_and_the_same_choices_give_the_same_way_back(settings):
    def told(**source):
        with SimulatedSystem(**source, **settings, story=True) as world:
            trade(world)
            world.run()
        return world.story, world.choices

    story, choices = told(seed=5)
    assert told(seed=5) == told(choices=choices) == (story, choices)
    assert any("is loaded" in line for line in story)


def test_nobody_dies_before_there_is_a_snapshot():
    for seed in range(20):
        world = SimulatedSystem(seed, snapshots=0, crashes=3, takeovers=1, story=True)
        alice, bob = (world.create(Account, 100, name=name) for name in ("alice", "bob"))
        for _ in range(5):
            alice.transfer.tell(bob, 10)
        world.run()
        assert (world.rollbacks, world.takeovers, world.state("bob")) == (0, 1, {"balance": 150})
        assert not any(line.endswith(" dies") for line in world.story)


def dismiss(world):
    """The driver sees an answer of an actor that a crash may bring back, and that may end before it answers again."""
    worker, boss = world.create(Guest, 5, name="worker"), world.create(Boss, name="boss")
    book = world.create(Account, 0, name="book")
    answer = worker.read.remote()
    boss.dismiss.tell(worker)
    try:
        answer.result()
    except ActorExited:
        assert "worker" in world.ended
    book.deposit.tell(1)


@rayshot.actor
class Boss:
    """Sends others away."""

    def dismiss(self, guest):
        guest.leave.tell()


def test_nothing_waits_for_an_answer_of_an_actor_that_ended_before_the_program_heard_of_the_rollback():
    explore(
        dismiss,
        schedules=60,
        seed=1160,
        check=lambda world: world.state("book") == {"balance": 1} and "worker" in world.ended,
        network="hostile",
        snapshots=3,
        crashes=2,
        takeovers=1,
    )


# What a test may do meanwhile -------------------------------------------------------------------------------------


@pytest.mark.wide("slow")
def test_a_world_on_its_way_back_can_be_stepped_through():
    for world in worlds_on_their_way_back():
        world.step()
        assert not goes_back(world)
        while world.pending:
            world.step()
        world.run()
        all_goes_on(world)


def test_a_snapshot_that_is_asked_for_on_the_way_back_is_taken_when_all_are_back():
    for world in worlds_on_their_way_back():
        cut = world.snapshot(mode="chandy-lamport")
        assert cut.id.incarnation == world._actors.incarnation
        world.run()
        all_goes_on(world)


def test_a_world_on_its_way_back_can_be_branched():
    for world in worlds_on_their_way_back():
        branch = world.branch()
        for going_on in (world, branch):
            going_on.run()
            all_goes_on(going_on)


def test_when_all_crash_on_the_way_back_the_world_is_whole_again_when_this_returns():
    for world in worlds_on_their_way_back():
        before = world.rollbacks
        world.crash()
        assert not goes_back(world)
        assert world.rollbacks > before
        assert set(world.actors) <= world._actors.processes.keys()
        world.run()
        all_goes_on(world)


def test_an_actor_that_is_made_on_the_way_back_is_there_in_the_end_and_is_made_once():
    for world in worlds_on_their_way_back():
        account = world.create(Account, 5, name="account")
        account.deposit.tell(2)
        assert account.read.remote().result() == 7
        world.run()
        assert world.state("account") == {"balance": 7}


def test_an_actor_that_died_is_not_shown_until_it_is_back():
    missing = 0
    for world in worlds_on_their_way_back():
        actors = world._actors
        for name in [name for name, process in actors.processes.items() if not actors.is_current(process)]:
            assert name not in world.actors
            with pytest.raises(ActorNotFound, match="let the world run"):
                world.state(name)
            missing += 1
    assert missing > 20


# Mutants ----------------------------------------------------------------------------------------------------------

KILLED = {
    mutants.Hasty: REPLACED,
    mutants.Trusting: REPLACED,
    mutants.Finishing: REPLACED,
    mutants.Forgetful: DYING,
    mutants.Deaf: DYING,
    mutants.Lifeless: REPLACED,
}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("machine", KILLED, ids=lambda machine: machine.__name__)
def test_a_wrong_machine_of_recovery_is_noticed_by_what_a_users_test_says(machine, monkeypatch):
    (mutant,) = (mutant for mutant in MUTANTS if mutant.machines.recovery is machine)
    monkeypatch.setattr(actor_network, "Machines", lambda: mutant.machines)
    with noticed():
        explore(trade, schedules=2 * SCHEDULES, check=all_goes_on, **KILLED[machine])


def test_a_snapshot_that_an_actor_begins_after_a_death_would_lack_the_dead(monkeypatch):
    monkeypatch.setattr(RecoverableActors, "end_life", lambda self: None)
    with noticed():
        explore(trade, schedules=2 * SCHEDULES, check=all_goes_on, **WORLDS["one dies"])
