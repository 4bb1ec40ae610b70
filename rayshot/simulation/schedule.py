"""Runs one schedule to its end and judges it; runs many and adds up what they saw."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector import AbortWanted, SnapshotWanted
from rayshot.protocol.events import DeadlinePassed
from rayshot.simulation.application import Account
from rayshot.simulation.choices import Choices, RecordedChoices, SeededChoices
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.machines import Machines
from rayshot.simulation.oracles import judge_rest
from rayshot.simulation.recovery import RecoveringWorld
from rayshot.simulation.settings import Settings, draw_settings, narrow

REAL = Machines()


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
    tell: bool = False,
    mode: str | None = None,
    topology: str | None = None,
    **changes: Any,
) -> Outcome:
    """Run the schedule of a seed; `mode`, `topology` (see `narrow`) and `changes` replace what it drew."""
    source = SeededChoices(seed)
    settings = replace(narrow(draw_settings(source), mode, topology), **changes)
    return run(source, source.taken, machines, settings, tell=tell)


def replay(
    choices: Sequence[int],
    machines: Machines = REAL,
    *,
    tell: bool = True,
    mode: str | None = None,
    topology: str | None = None,
) -> Outcome:
    """Run a schedule again from the list of its choices."""
    source = RecordedChoices(choices)
    return run(source, source.taken, machines, narrow(draw_settings(source), mode, topology), tell=tell)


def run(
    source: Choices,
    taken: Sequence[int],
    machines: Machines = REAL,
    settings: Settings | None = None,
    *,
    tell: bool = False,
) -> Outcome:
    """Run one schedule; `settings` are drawn from the source if they are not given.

    Oracles and the machines' own assertions both count as failures of the schedule.
    """
    settings = settings or draw_settings(source)
    world = RecoveringWorld(source, settings, machines, tell=tell)
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
    _take_final_snapshot(world)
    before = _live(world)
    world.fault_crash()  # and everything comes back from the final snapshot as it was
    _come_to_rest(world)
    if before != _live(world):
        raise OracleFailure("restore", f"{before} came back as {_live(world)}")
    _take_final_snapshot(world)


def _run_with_faults(world: RecoveringWorld) -> None:
    settings = world.settings
    kinds = {
        "snapshot": settings.snapshots,
        "lone_snapshot": settings.alone,
        "aligned_snapshot": settings.aligned,
        "stop": settings.stopped,
        "alignment": settings.alignment_timeouts,
        "crash": settings.crashes,
        "coordinator": settings.coordinator_crashes,
        "driver": settings.driver_deaths,
        "abort": settings.aborts,
        "deadline": settings.deadlines,
    }
    due = sorted((world.choose(settings.length), kind) for kind, count in kinds.items() for _ in range(count))
    while due:
        while due and (world.steps >= due[0][0] or not world.pending):
            world.fault(due.pop(0)[1])
        if world.pending:
            world.happen()
    while world.steps < settings.length and world.pending:
        world.happen()


def _come_to_rest(world: RecoveringWorld) -> None:
    """Let everything happen that is still to happen, without faults, and judge what is there then."""
    _drain(world)
    collector = world.coordinator.collector
    if collector.open_snapshots and not world.may_hang:
        waiting = {str(k): (collector.missing(k), collector.open_channels(k)) for k in collector.open_snapshots}
        raise OracleFailure("termination", f"nothing can happen any more, but {waiting}")
    while world.coordinator.collector.open_snapshots:
        oldest = world.coordinator.collector.open_snapshots[0]
        world.coordinator.tell(AbortWanted(oldest, AbortReason.TIMEOUT, "simulated"))
        _drain(world)
    world.may_hang = False
    for process in world.processes.values():
        if world.is_current(process):
            world.counts["messages released by deadlines"] += any(process.flight.values())
            for snapshot in process.machine.open_snapshots:
                process.tell(DeadlinePassed(snapshot))
    _drain(world)
    _judge_rest(world)


def _drain(world: RecoveringWorld) -> None:
    while world.pending:
        world.happen()


def _judge_rest(world: RecoveringWorld) -> None:
    gone = world.ended
    for process in world.processes.values():
        if not world.is_current(process) or process.ended:
            continue
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


def _live(world: RecoveringWorld) -> dict[str, Account]:
    return {
        process.name: process.account
        for process in world.processes.values()
        if world.is_current(process) and process.account is not None and not process.ended
    }


def run_many(seeds: Sequence[int], machines: Machines = REAL) -> Summary:
    """Run the schedules of these seeds."""
    summary = Summary()
    for seed in seeds:
        add(summary, seed, run_seed(seed, machines))
    return summary


def add(summary: Summary, seed: int, outcome: Outcome) -> None:
    """Count one schedule."""
    summary.schedules += 1
    summary.counts += outcome.counts
    if outcome.failure is not None:
        summary.failures[seed] = outcome
