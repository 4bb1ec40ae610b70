"""The schedule of a world of actors: choices decide what happens next, and when snapshots and crashes happen."""

import math
from collections.abc import Callable, Sequence

from rayshot.errors import ConfigError, SnapshotAborted, StepsExhausted, SystemStopped, WaitsForHandler
from rayshot.model.configuration import LoopsOfWorld
from rayshot.protocol.identity import Mode
from rayshot.simulation.actors.recovery import RecoverableActors
from rayshot.simulation.actors.steps import settle
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.simulation.bodies.world_snapshot import WorldSnapshot
from rayshot.simulation.choices import CheckedChoices, Choices, RecordedChoices, SeededChoices
from rayshot.simulation.world.networks import Traffic

STEPS_MAX = 10_000

_SCALES = (4, 16, 64, 256)
"""Moments are at most this many events after the start: some early, some in the middle, some late."""

_AGAIN = 8
"""After this many more events a planned action that was not possible is tried again."""


class ActorSchedule:
    """See the module. `actors` are the scheduled actors."""

    def __init__(
        self,
        choices: Choices,
        system: str,
        traffic: Traffic,
        *,
        snapshots: int,
        crashes: int,
        takeovers: int,
        deadlines: int,
        mode: Mode,
        loops: LoopsOfWorld,
        steps_max: int,
        story: bool,
    ) -> None:
        self.choices = choices
        self.mode = mode
        self.steps_max = steps_max
        self.actors = RecoverableActors(choices, system, self._run_until, traffic, story=story)
        self.actors.loops = loops
        counts = {"snapshot": snapshots, "crash": crashes, "takeover": takeovers, "deadline": deadlines}
        self._plan = sorted((self._moment(), kind) for kind, count in counts.items() for _ in range(count))

    def run(self, seconds: float | None, until: Callable[[], bool] | None) -> int:
        """Let events happen: see SimulatedSystem.run."""
        horizon = math.inf if seconds is None else self.actors.now + seconds
        before = self.actors.steps
        while not (until is not None and until()):
            if self.actors.steps - before >= self.steps_max:
                raise StepsExhausted(
                    f"{self.steps_max:,} events, and there is still something to do. Do timers set themselves again "
                    "for ever? Then say run(seconds=...). Else raise steps_max"
                    + "".join(f". {trouble}" for trouble in self.actors.outside.troubles.values()),
                    steps=self.steps_max,
                )
            if not self._happen(horizon):
                if horizon < math.inf:
                    self.actors.now = max(self.actors.now, horizon)
                self._check_that_nobody_waits()
                break
        return self.actors.steps - before

    def _check_that_nobody_waits(self) -> None:
        """Nothing can happen any more: raise WaitsForHandler if handlers wait for ever."""
        if waiting := self.actors.waiting:
            chain = "; ".join(f"{name} waits for {', '.join(callees)}" for name, callees in sorted(waiting.items()))
            raise WaitsForHandler(f"nothing can happen any more, and handlers wait: {chain}", waiting=waiting)

    def _run_until(self, done: Callable[[], bool], what: str) -> None:
        if self.actors.running is not None:
            raise ConfigError("a handler cannot wait for the world that it runs in: use reply.then(self.on_result)")
        self.run(None, done)
        if not done():
            raise SystemStopped(f"nothing is left to do, and no actor answered {what}")

    def _happen(self, horizon: float) -> bool:
        """Let one event happen; returns False if nothing is left to do."""
        actors = self.actors
        while self._plan and self._plan[0][0] <= actors.steps:
            self._follow_plan(at_rest=False)
        events = actors.pending
        timed = [name for name, process in actors.processes.items() if process.cell.timers]
        if timed:
            timed = [name for name in timed if self._may_fire(actors.processes[name], horizon)]
        count = len(events) + len(timed)
        if count == 0:
            if actors.pass_overdue():
                return True
            if not self._plan:
                return False
            self._follow_plan(at_rest=True)
            return True
        actors.steps += 1
        index = actors.choose(count)
        if index < len(events):
            method, args, _ = actors.take_event(index)
            method(*args)
        else:
            actors.on_fire(actors.processes[timed[index - len(events)]])
        return True

    def _may_fire(self, process: SimulatedActor, horizon: float) -> bool:
        due = process.cell.timers.next_due()
        may_fire = due is not None and due <= horizon and not (process.machine.paused or process.ending)
        return may_fire and self.actors.is_at_work(process)

    def _moment(self) -> int:
        return self.choices.choose(_SCALES[self.choices.choose(len(_SCALES))])

    def _follow_plan(self, *, at_rest: bool) -> None:
        """Do the next planned action. If it is impossible now, it is tried again later; at rest it is dropped."""
        actors = self.actors
        if at_rest and actors.target() is None:  # snapshots first: crashes need one
            self._plan.sort(key=lambda planned: planned[1], reverse=True)
        _, kind = self._plan.pop(0)
        done = self._act(kind)
        if done and kind == "crash":  # others that waited for the same snapshot come later
            self._plan = sorted(self._later(*planned) if planned[1] == kind else planned for planned in self._plan)
        elif not done and not at_rest:
            self._plan.append((actors.steps + _AGAIN, kind))
            self._plan.sort()

    def _later(self, moment: int, kind: str) -> tuple[int, str]:
        """What is planned, or if its moment has come, the same at another moment."""
        steps = self.actors.steps
        return (moment, kind) if moment > steps else (steps + self._moment(), kind)

    def _act(self, kind: str) -> bool:
        """Do a planned action; returns False if it is impossible now."""
        actors = self.actors
        match kind:
            case "snapshot":
                return bool(actors.processes) and not actors.waiting and actors.want_snapshot(self.mode)
            case "takeover":
                return actors.lose_coordinator(self.mode)
            case "deadline":
                return actors.pass_deadline()
        return actors.lose_actor()

    def take(self, mode: Mode) -> WorldSnapshot:
        """Take a snapshot now. Raises StateNotSerializable and SnapshotAborted."""
        actors = self.actors
        known, before = set(actors.coordinator.collector.open_snapshots), len(actors.snapshots)
        takeovers = actors.takeovers
        if not actors.want_snapshot(mode):
            raise SnapshotAborted("another aligned snapshot is open: let it end with world.run()")
        opened = [k for k in actors.coordinator.collector.open_snapshots if k not in known]
        settle(actors)
        if opened:
            collector = actors.coordinator.collector
            self.run(None, lambda: opened[0] not in collector.open_snapshots or actors.takeovers > takeovers)
        taken = [one for one in actors.snapshots[before:] if not opened or one.id == opened[0]]
        if not taken:
            actors.refused = None
            detail = actors.aborted.get(opened[0], "its coordinator was lost")
            raise SnapshotAborted(f"snapshot {opened[0]} was not taken: {detail}", snapshot=str(opened[0]))
        settle(actors)
        return taken[-1]


def source_of(seed: int, choices: Sequence[int] | Choices | None) -> Choices:
    """The choices for a world: from a seed, or as given. Raises ConfigError for anything else."""
    if choices is None:
        if type(seed) is not int:
            raise ConfigError(f"seed={seed!r}: give a whole number, so that the run can be repeated")
        return SeededChoices(seed)
    if isinstance(choices, Sequence):
        return RecordedChoices(choices)
    if not callable(getattr(choices, "choose", None)):
        raise ConfigError(f"choices={choices!r}: give a list of whole numbers, or an object with choose(count)")
    return CheckedChoices(choices)
