"""Actors of users whose coordinator is lost, and deadlines that pass: a snapshot is aborted, or committed and right."""

import pytest

from rayshot.errors import ConfigError, SnapshotAborted
from rayshot.protocol.collector_events import SnapshotAnnounced
from rayshot.protocol.participant import Participant
from rayshot.simulation import SimulatedSystem, explore
from rayshot.simulation.world.coordination import CoordinatedNetwork
from tests.simulation.mutation import noticed
from tests.simulation.test_simulation_actor_world_schedules import all_is_well, trade
from tests.simulation.workloads import Account

SCHEDULES = 200
ALL_FAULTS = {"network": "hostile", "snapshots": 3, "takeovers": 2, "deadlines": 1, "crashes": 1}
WORLDS = {
    "takeovers": {"snapshots": 3, "takeovers": 2},
    "deadlines": {"snapshots": 3, "deadlines": 2},
    "all faults": ALL_FAULTS,
    "all faults, aligned": {**ALL_FAULTS, "mode": "aligned"},
    "all faults, stopped": {**ALL_FAULTS, "mode": "stop-the-world"},
    "stopped": {"network": "ordered", "mode": "stop-the-world", "snapshots": 3, "takeovers": 3, "deadlines": 3},
}


def each_snapshot_is_committed_or_aborted(world):
    committed = [cut.id for cut in world.snapshots]
    assert len(set(committed)) == len(committed)
    assert not world.aborted.keys() & set(committed)
    assert not world._actors.coordinator.collector.open_snapshots


def all_goes_on(world):
    """Messages are untouched, each snapshot is right, and another one can be taken."""
    all_is_well(world)
    each_snapshot_is_committed_or_aborted(world)
    try:
        snapshot = world.snapshot()
    except SnapshotAborted as aborted:
        raise AssertionError("another one was wanted at rest") from aborted
    assert snapshot.id == world.snapshots[-1].id
    all_is_well(world)
    each_snapshot_is_committed_or_aborted(world)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("world", WORLDS)
def test_whatever_becomes_of_coordinators_and_deadlines_cuts_are_right(world):
    settings = WORLDS[world]
    seen = explore(trade, schedules=SCHEDULES, check=all_goes_on, **settings)
    assert seen.takeovers == settings.get("takeovers", 0) * SCHEDULES
    assert seen.rollbacks >= 0.9 * settings.get("crashes", 0) * SCHEDULES  # in some schedules nothing is committed
    assert seen.aborted > SCHEDULES / 3
    assert seen.in_flight > seen.snapshots > SCHEDULES


@pytest.mark.wide("slow")
def test_the_schedules_see_rivals_fenced_snapshots_and_every_reason_to_give_one_up():
    counts, reasons = {}, set()
    for seed in range(SCHEDULES):
        with SimulatedSystem(seed, **ALL_FAULTS) as world:
            trade(world)
            world.run()
        for name in ("coordinators racing", "commits fenced", "deadlines passed"):
            counts[name] = counts.get(name, 0) + world._actors.counts[name]
        reasons |= {reason.partition(":")[0] for reason in world.aborted.values()}
    assert min(counts.values()) > 20, counts
    assert reasons == {"actor_died", "coordinator_lost", "fenced", "timeout"}


def test_a_run_with_takeovers_and_deadlines_repeats_from_its_seed_and_from_its_choices():
    def told(**source):
        with SimulatedSystem(**source, **ALL_FAULTS, story=True) as world:
            trade(world)
            world.run()
        return world.story, world.choices

    story, choices = told(seed=3)
    assert told(seed=3) == (story, choices)
    assert told(choices=choices) == (story, choices)
    assert any("is lost" in line for line in story)


def test_who_waits_for_a_snapshot_whose_coordinator_is_lost_hears_that_it_was_aborted():
    heard = []
    for seed in range(60):
        world = SimulatedSystem(seed, snapshots=0, takeovers=1, mode="stop-the-world")
        trade(world)
        world.run(until=lambda: world.events > 10)  # noqa: B023 - called before the next world is made
        try:
            world.snapshot()
        except SnapshotAborted as error:
            heard.append(str(error).partition("was not taken: ")[2])
        world.run()
        all_goes_on(world)
    assert "its coordinator was lost" in heard


def test_an_actor_that_is_made_while_a_coordinator_finds_the_others_waits_and_is_in_the_next_snapshot():
    late = 0
    for seed in range(60):
        world = SimulatedSystem(seed, snapshots=0, takeovers=1)
        alice = world.create(Account, 100, name="alice")
        alice.deposit.tell(1)
        world.run(until=lambda: world._actors.coordinator.finding)  # noqa: B023 - called before the next world is made
        bob = world.create(Account, 100, name="bob")
        late += world._actors.processes["bob"].joining
        alice.transfer.tell(bob, 10)
        assert world.snapshot().states().keys() == {"alice", "bob"}
        world.run()
        assert world.state("bob") == {"balance": 110}
    assert late > 10


def announced_while_finding(world):
    coordinator = world._actors.coordinator
    reports = (event for event, _ in coordinator.waiting if coordinator.finding)
    return {event.snapshot for event in reports if isinstance(event, SnapshotAnnounced)}


def test_what_actors_say_while_a_coordinator_finds_the_others_is_heard_when_it_has_found_all():
    committed = 0
    for seed in range(100):
        world = SimulatedSystem(seed, snapshots=0, takeovers=1)
        trade(world)
        world.run(until=lambda: announced_while_finding(world))  # noqa: B023 - called before the next world is made
        announced = announced_while_finding(world)
        world.run()
        all_goes_on(world)
        committed += len(announced & {cut.id for cut in world.snapshots})
    assert committed > 3


@pytest.mark.sampled("more cases of one kind", keeps=7)
@pytest.mark.parametrize("seed", range(20))
def test_a_world_can_be_stepped_through_and_branched_in_the_middle_of_a_takeover(seed):
    world = SimulatedSystem(seed, takeovers=1)
    trade(world)
    world.run(until=lambda: world._actors.coordinator.finding)
    branch = world.branch()
    for going_on in (world, branch):
        while going_on.pending:
            going_on.step()
        all_goes_on(going_on)


@pytest.mark.parametrize("name", ["takeovers", "deadlines"])
def test_a_negative_number_of_faults_is_refused(name):
    with pytest.raises(ConfigError, match=name):
        SimulatedSystem(**{name: -1})


# Mutants ----------------------------------------------------------------------------------------------


def all_are_heeded(self, name, generation, event):
    process = self.processes.get(name)
    if process is None:  # it never began
        return
    if event.snapshot.by_coordinator:
        process.highest_heard = max(process.highest_heard, event.snapshot.counter)
    self.tell(process, event)


def found_without_giving_up(self, name, generation):
    coordinator, process = self.coordinators[generation], self.processes[name]
    process.generation = generation
    coordinator.highest = max(coordinator.highest, process.highest_heard)
    coordinator.finding.discard(name)
    if not coordinator.finding:
        self.found_all(coordinator)


def taken_over(change):
    right = CoordinatedNetwork.found_all

    def take_over(self, coordinator):
        change(self, coordinator)
        right(self, coordinator)

    return take_over


def counters_begin_again(world, coordinator):
    coordinator.highest = 0


def the_ended_are_alive(world, coordinator):
    for process in world.processes.values():
        process.last_record = None


def reports_are_lost(world, coordinator):
    coordinator.waiting.clear()


MUTANTS = {
    "a commit of a replaced coordinator is accepted": ("stopped", CoordinatedNetwork, "is_fenced", lambda *_: False),
    "an actor listens to a coordinator that was replaced": (
        "all faults, stopped",
        CoordinatedNetwork,
        "on_tell_process",
        all_are_heeded,
    ),
    "who is found gives no snapshot up": ("takeovers", CoordinatedNetwork, "on_find", found_without_giving_up),
    "a new coordinator counts from 1": ("stopped", CoordinatedNetwork, "found_all", taken_over(counters_begin_again)),
    "a new coordinator takes the ended for alive": (
        "takeovers",
        CoordinatedNetwork,
        "found_all",
        taken_over(the_ended_are_alive),
    ),
    "a deadline forgets the record": ("deadlines", Participant, "_abandon", Participant._forget),
    "the deadline of the coordinator never passes": ("deadlines", CoordinatedNetwork, "hopeless", lambda _: []),
}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_takeover_or_deadline_is_noticed_by_what_the_test_says(name, monkeypatch):
    world, owner, method, wrong = MUTANTS[name]
    monkeypatch.setattr(owner, method, wrong)
    with noticed():
        explore(trade, schedules=2 * SCHEDULES, check=all_goes_on, **WORLDS[world])


def test_a_report_that_is_lost_because_not_all_are_found_is_noticed(monkeypatch):
    monkeypatch.setattr(CoordinatedNetwork, "found_all", taken_over(reports_are_lost))
    with pytest.raises(AssertionError):
        test_what_actors_say_while_a_coordinator_finds_the_others_is_heard_when_it_has_found_all()
