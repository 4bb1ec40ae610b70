"""Runs one schedule to its end and judges it; runs many and adds up what they saw."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AbortWanted, SnapshotWanted
from rayshot.protocol.events import DeadlinePassed
from rayshot.protocol.identity import ALIGNED, STOP_THE_WORLD, SnapshotId
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import SimulatedAccount
from rayshot.simulation.choices import Choices, RecordedChoices, SeededChoices
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from tests.simulate.oracles import judge_rest
from tests.simulate.recovery import RecoveringWorld
from tests.simulate.settings import Settings, Slow, draw_settings, narrow

REAL = Machines()
Fault = Callable[[RecoveringWorld], None]
CROWDS: Sequence[frozenset[Fault]] = (
    frozenset(
        {
            RecoveringWorld.fault_snapshot,
            RecoveringWorld.fault_rivals,
            RecoveringWorld.fault_lone_snapshot,
            RecoveringWorld.fault_aligned_snapshot,
            RecoveringWorld.fault_stop,
        }
    ),
    frozenset({RecoveringWorld.fault_crash}),
)
"""What comes within a short time where a schedule is crowded: snapshots overlap, and crashes meet restores."""
CROWD_EVENTS = 8
BLOCKING = (ALIGNED, STOP_THE_WORLD)
"""Modes of snapshots that keep messages from being processed as long as they are open."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One schedule. `failure` is None if every oracle was content; `choices` replay it."""

    settings: Settings
    counts: Counter[str]
    choices: Sequence[int]
    failure: Exception | None
    story: Sequence[str] = ()


@dataclass(slots=True)
class Summary:
    """Many schedules; `failures` by seed."""

    schedules: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, Outcome] = field(default_factory=dict)


def run_seed(
    seed: int,
    machines: Machines = REAL,
    *,
    story: bool = False,
    mode: str | None = None,
    topology: str | None = None,
    network: str | None = None,
    **changes: Any,
) -> Outcome:
    """Run the schedule of a seed; `mode`, `topology`, `network` (see `narrow`) and `changes` replace what it drew."""
    source = SeededChoices(seed)
    settings = narrow(draw_settings(source), mode, topology, network)
    if changes:
        settings = replace(settings, **changes)
    return run(source, source.taken, machines, settings, story=story)


def replay(
    choices: Sequence[int],
    machines: Machines = REAL,
    *,
    story: bool = True,
    mode: str | None = None,
    topology: str | None = None,
    network: str | None = None,
) -> Outcome:
    """Run a schedule again from the list of its choices."""
    source = RecordedChoices(choices)
    return run(source, source.taken, machines, narrow(draw_settings(source), mode, topology, network), story=story)


def run(
    source: Choices,
    taken: Sequence[int],
    machines: Machines = REAL,
    settings: Settings | None = None,
    *,
    story: bool = False,
) -> Outcome:
    """Run one schedule; `settings` are drawn from the source if they are not given.

    Oracles and the machines' own assertions both count as failures of the schedule.
    """
    settings = settings or draw_settings(source)
    world = RecoveringWorld(source, settings, machines, story=story)
    failure: Exception | None = None
    try:
        _run_to_the_end(world)
    except (AssertionError, LookupError) as error:
        failure = error
    return Outcome(settings, world.counts, taken, failure, world.story or ())


def _run_to_the_end(world: RecoveringWorld) -> None:
    _run_with_faults(world)
    world.calm = True
    _come_to_rest(world)
    if world.settings.restored:
        _bring_down_and_back(world)


def _bring_down_and_back(world: RecoveringWorld) -> None:
    _take_final_snapshot(world)
    before = _live(world)
    world.fault_crash()  # and everything comes back from the final snapshot as it was
    _come_to_rest(world)
    if before != _live(world):
        raise OracleFailure("restore", f"{before} came back as {_live(world)}")
    _take_final_snapshot(world)


def _run_with_faults(world: RecoveringWorld) -> None:
    settings = world.settings
    crowds = [world.choose(1 + settings.length // 2) for _ in CROWDS]

    def moment(fault: Fault) -> int:
        for crowd, faults in zip(crowds, CROWDS, strict=True) if settings.crowded else ():
            if fault in faults:
                return crowd + world.choose(CROWD_EVENTS)
        return world.choose(settings.length)

    counts: dict[Fault, int] = {
        RecoveringWorld.fault_snapshot: settings.snapshots,
        RecoveringWorld.fault_rivals: settings.rivals,
        RecoveringWorld.fault_lone_snapshot: settings.alone,
        RecoveringWorld.fault_aligned_snapshot: settings.aligned,
        RecoveringWorld.fault_stop: settings.stopped,
        RecoveringWorld.fault_alignment: settings.alignment_timeouts,
        RecoveringWorld.fault_crash: settings.crashes,
        RecoveringWorld.fault_coordinator: settings.coordinator_crashes,
        RecoveringWorld.fault_driver: settings.driver_deaths,
        RecoveringWorld.fault_abort: settings.aborts,
        RecoveringWorld.fault_deadline: settings.deadlines,
    }
    due = [(moment(fault), fault) for fault, count in counts.items() for _ in range(count)]
    due.sort(key=lambda planned: (planned[0], planned[1].__name__))
    while due or world.steps < settings.length:
        while due and world.steps >= due[0][0]:
            world.fault(due.pop(0)[1])
        if world.happen():
            continue
        if not due:
            break
        world.fault(due.pop(0)[1])  # nothing else is left to happen before it


def _come_to_rest(world: RecoveringWorld) -> None:
    """Let everything happen that is still to happen, without faults, and judge what is there then."""
    _drain(world)
    _give_up_whom_nobody_made_again(world)
    _pass_deadlines_that_block(world)
    _give_up_what_some_gave_up(world)
    collector = world.coordinator.collector
    if collector.open_snapshots:
        waiting = {str(k): (collector.missing(k), collector.open_channels(k)) for k in collector.open_snapshots}
        raise OracleFailure("termination", f"nothing can happen any more, but {waiting}")
    for process in _working(world):
        world.counts["messages released by deadlines"] += any(process.flight.values())
        for snapshot in process.machine.open_snapshots:
            _judge_memory(world, process, snapshot)
            process.tell(DeadlinePassed(snapshot))
    _drain(world)
    _judge_rest(world)


def _give_up_whom_nobody_made_again(world: RecoveringWorld) -> None:
    """Behind a rollback, drivers wait for no answer of a process that the new life does not have."""
    for driver in world.drivers.values():
        while driver.alive and (awaited := driver.machine.awaits) is not None:
            process = world.processes.get(awaited[0])
            if process is not None and world.is_current(process):
                raise OracleFailure("termination", f"{driver.name} waits for {process.name} to answer {awaited[1]}")
            world.counts["receivers that nobody made again"] += 1
            driver.receiver_ended(awaited[0])
            _drain(world)


def _working(world: RecoveringWorld) -> list[AccountProcess]:
    return [process for process in world.processes.values() if world.is_current(process) and not process.ended]


def _give_up_what_some_gave_up(world: RecoveringWorld) -> None:
    """The coordinator's deadline passes for each snapshot for which one at a process passed before it had recorded."""
    while hopeless := world.hopeless():
        world.coordinator.tell(AbortWanted(hopeless[0], AbortReason.TIMEOUT, "simulated"))
        _drain(world)
        _pass_deadlines_that_block(world)


def _pass_deadlines_that_block(world: RecoveringWorld) -> None:
    """Who did not hear of the end of a snapshot that holds messages back waits until its own deadline passes."""
    for process, snapshot in world.left_open():
        if snapshot.mode in BLOCKING:
            _judge_memory(world, process, snapshot)
            process.tell(DeadlinePassed(snapshot))
    _drain(world)


def _judge_memory(world: RecoveringWorld, process: AccountProcess, snapshot: SnapshotId) -> None:
    """A process keeps something at rest for a snapshot only if nobody could tell it of the end.

    Be it that the news was lost, or that a late marker brought it a snapshot of which no coordinator knows any more: of
    those that the processes named when they were found all are told.
    """
    here = (process.name, snapshot)
    if here in world.told_of_end or (here not in world.not_told_of_end and world.coordinator.knows(snapshot)):
        raise OracleFailure("memory", f"{process.name} still records {snapshot}")
    world.counts["snapshots forgotten at their deadline"] += 1


def _drain(world: RecoveringWorld) -> None:
    while world.happen():
        pass


def _judge_rest(world: RecoveringWorld) -> None:
    if not world.is_whole:
        machine = world.decider.machine
        raise OracleFailure("termination", f"the system is {machine.phase.value}: {machine.detail}, {machine.waiting}")
    if dead := [p.name for p in world.processes.values() if p.incarnation == world.incarnation and not p.alive]:
        raise OracleFailure("termination", f"{dead} died, and nobody brought them back")
    gone = world.ended
    for process in _working(world):
        left = {
            "outbox": {r: m for r, m in process.outbox.items() if m and r not in gone},
            "under way": {r: m for r, m in process.flight.items() if m},
            "early": {s: m for s, m in process.early.items() if m},
            "mailbox": {s: m for s, m in process.mailbox.items() if m and process.next_senders()},
            "captures": process.captures,
        }
        if any(left.values()):
            raise OracleFailure("rest", f"{process.name} still has {left}")
    judge_rest(world.truth, _live(world))


def _take_final_snapshot(world: RecoveringWorld) -> None:
    commits = len(world.commits)
    world.coordinator.tell(SnapshotWanted())
    _come_to_rest(world)
    if len(world.commits) != commits + 1 or not world.commits[-1].stored.cut.advances:
        raise OracleFailure("termination", "the last snapshot, taken at rest, was not committed")


def _live(world: RecoveringWorld) -> dict[str, SimulatedAccount]:
    return {process.name: process.account for process in _working(world) if process.account is not None}


def add(summary: Summary, seed: int, outcome: Outcome) -> None:
    """Count one schedule."""
    settings = outcome.settings
    summary.schedules += 1
    summary.counts.update(outcome.counts)
    summary.counts[f"on topology {settings.topology}"] += 1
    summary.counts[f"on network {settings.network}"] += 1
    summary.counts["with slow handlers"] += Slow.WORK in settings.slow
    summary.counts[f"with {len(settings.contacts)} processes"] += 1
    if outcome.failure is not None:
        summary.failures[seed] = outcome
