"""`rayshot.simulation.explore`: checks a test's claim about its actors under many schedules."""

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rayshot.errors import ConfigError, ScheduleFailed
from rayshot.model.configuration import CHOSEN, LoopsOfWorld
from rayshot.protocol.identity import CHANDY_LAMPORT, Mode
from rayshot.simulation.actors.schedule import STEPS_MAX
from rayshot.simulation.choices import Choices, RecordedChoices, SeededChoices
from rayshot.simulation.face.shrinking import same_failure, shrink
from rayshot.simulation.face.system import SimulatedSystem

STORY_LINES_MAX = 100
SHRINKS_MAX = 60
"""A failed schedule is run again at most this many times, to find a simpler one that also fails."""


@dataclass(slots=True)
class Exploration:
    """Counts over all schedules. A count of 0 shows that the test never saw what it was meant to see."""

    schedules: int = 0
    events: int = 0
    snapshots: int = 0
    in_flight: int = 0
    rollbacks: int = 0
    dead_letters: int = 0
    takeovers: int = 0
    aborted: int = 0
    functions: int = 0


def explore(
    scenario: Callable[[SimulatedSystem], Any],
    *,
    schedules: int = 1000,
    check: Callable[[SimulatedSystem], Any] | None = None,
    seed: int = 0,
    seconds: float | None = None,
    snapshots: int = 1,
    crashes: int = 0,
    takeovers: int = 0,
    deadlines: int = 0,
    mode: Mode = CHANDY_LAMPORT,
    loops: LoopsOfWorld = CHOSEN,
    network: str = "reordering",
    steps_max: int = STEPS_MAX,
) -> Exploration:
    """Run a scenario in `schedules` worlds, each with a different schedule.

    Args:
        scenario: makes actors in the world that it gets, and sends to them; afterwards the world runs until nothing is
            left to do.
        schedules: how many, with the seeds `seed`, `seed + 1` and so on.
        check: called with each world afterwards; it fails by raising, or by returning False.
        seed: the seed of the first schedule.
        seconds: a limit of virtual time, after which no timer fires; for actors whose timers set themselves again.
        snapshots: how many in each world; this and the following arguments are as for SimulatedSystem.
        crashes: how many times an actor dies, in each world.
        takeovers: how many in each world.
        deadlines: how many in each world.
        mode: the mode of the snapshots.
        loops: what happens at each top of a pass of a `rayshot.loop`; "chosen": choices say whether its method is begun
            anew, so that a method finds out which keeps something in local objects from one pass to the next.
        network: what happens to packets: "reordering", or "ordered", "duplicating", "lossy", "hostile".
        steps_max: the largest number of events in one run.

    Returns counts of what happened.

    Raises:
        ScheduleFailed: scenario, run or check raised; it is about the first such schedule. It is also an
            AssertionError. It names the seed, tells the story and gives the list of choices that repeats it, shortened
            if a shorter one fails too. The failure itself is its cause.
    """
    if inspect.iscoroutinefunction(scenario) or inspect.iscoroutinefunction(check):
        raise ConfigError("scenario and check are plain functions: nothing awaits one that is `async def`")
    if schedules < 1:
        raise ConfigError(f"schedules={schedules}: run at least one")
    faults = {"crashes": crashes, "takeovers": takeovers, "deadlines": deadlines}
    settings = {
        "snapshots": snapshots,
        **faults,
        "mode": mode,
        "loops": loops,
        "network": network,
        "steps_max": steps_max,
    }
    trial = _Trial(scenario, check, seconds, settings)
    seen = Exploration()
    for number in range(seed, seed + schedules):
        source = SeededChoices(number)
        world, error = trial.run(source)
        if error is not None:
            raise _failure(trial, number, source.taken, error) from error
        seen.schedules += 1
        seen.events += world.events
        seen.snapshots += len(world.snapshots)
        seen.in_flight += sum(snapshot.in_flight for snapshot in world.snapshots)
        seen.rollbacks += world.rollbacks
        seen.dead_letters += len(world.dead_letters)
        seen.takeovers += world.takeovers
        seen.aborted += len(world.aborted)
        seen.functions += world.functions
    return seen


@dataclass(frozen=True, slots=True)
class _Trial:
    """One scenario with its settings, run again and again."""

    scenario: Callable[[SimulatedSystem], Any]
    check: Callable[[SimulatedSystem], Any] | None
    seconds: float | None
    settings: dict[str, Any]

    def run(self, source: Choices, *, story: bool = False) -> tuple[SimulatedSystem, BaseException | None]:
        """Run one schedule; returns the world, and the error that was raised, or None."""
        world = SimulatedSystem(choices=source, story=story, **self.settings)
        try:
            with world:
                self.scenario(world)
                world.run(seconds=self.seconds)
            verdict = None if self.check is None else self.check(world)
            if verdict is not None and not verdict:
                raise AssertionError(f"{getattr(self.check, '__name__', self.check)} is {verdict}")  # noqa: TRY301
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - any error of a test means that it failed; pytest's own too
            return world, error
        finally:
            world._actors.close_loops()  # noqa: SLF001 - thousands of worlds would keep files open until they are collected
        return world, None


def _failure(trial: _Trial, seed: int, choices: list[int], error: BaseException) -> ScheduleFailed:
    def fails(candidate: Sequence[int]) -> bool:
        return same_failure(trial.run(RecordedChoices(candidate))[1], error)

    repeats = fails(choices)
    if repeats:
        choices = list(shrink(choices, fails, runs_max=SHRINKS_MAX).choices)
    world, found = trial.run(RecordedChoices(choices), story=True)
    lines = world.story
    if len(lines) > STORY_LINES_MAX:
        lines = [f"       ({len(lines) - STORY_LINES_MAX} lines before)", *lines[-STORY_LINES_MAX:]]
    what = "".join(traceback.format_exception_only(found or error)).strip()
    settings = "".join(
        f", {name}={value!r}" for name, value in trial.settings.items() if value != _DEFAULTS[name].default
    )
    of_seconds = "" if trial.seconds is None else f", and world.run(seconds={trial.seconds!r})"
    hint = (
        f"to repeat it: SimulatedSystem(choices={choices}{settings}){of_seconds}"
        if repeats
        else "it did NOT fail when it was repeated: do the actors look at a clock, at random numbers, at a set's order?"
    )
    story = "\n".join(lines)
    return ScheduleFailed(f"the schedule of seed {seed} fails: {what}\n{story}\n{hint}", seed=seed, choices=choices)


_DEFAULTS = inspect.signature(SimulatedSystem).parameters
