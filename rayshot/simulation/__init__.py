"""A world that runs the protocol's machines. Choices decide what happens next, and nothing else decides anything.

A world is one thread, one list of pending events and one source of choices. The list holds everything that could happen
next; the source picks the event that happens. So a run is its list of choices: the same list gives exactly the same
run. A failure reports its seed and its choices, and prints its story, one line per event.

    choices       where decisions come from: a seed, a recorded list, or a test's own source
    process, driver, coordinator    each drives one machine (Participant, Driver, Collector) and keeps its duties
    events, network    what may happen next; packets that are delayed, lost, doubled, overtaken
    coordination  what coordinators hear and say; how a new one takes over; deadlines
    networks, packets, machines    the kinds of networks; what travels; which machines a world runs
    shrinking     makes a failing list of choices short
    failure, story    the error of a run that broke a promise; events as words

A process contains an account of a bare application, which knows nothing of snapshots, or a user's actor:

    application, account_process    accounts that transfer, create, end; the judges in `tests/simulate` know them

A user's own actors run on the same machines:

    actor_world   SimulatedSystem: actors made, run, stepped through, branched; loaded from a snapshot
    exploration   explore: a scenario under many schedules, and the story of the one that fails
    actor_process, actor_driver    a process with a Cell inside, and the test as a driver
    actor_network, actor_recovery, actor_schedule, actor_steps    the world of actors: which exist; beginning from a
                  snapshot; running by choices; one message at a time
    world_snapshot, snapshot_loading    the contents of records; how a stored snapshot becomes a WorldSnapshot
    future, stepping, wording    answers to come; the effects of a step; messages as words
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayshot.simulation.actor_world import SimulatedSystem
    from rayshot.simulation.exploration import Exploration, explore
    from rayshot.simulation.future import Future
    from rayshot.simulation.stepping import Pending, Step
    from rayshot.simulation.world_snapshot import WorldSnapshot

_HOMES = {
    "Exploration": "exploration",
    "Future": "future",
    "Pending": "stepping",
    "Step": "stepping",
    "SimulatedSystem": "actor_world",
    "WorldSnapshot": "world_snapshot",
    "explore": "exploration",
}

__all__ = ["Exploration", "Future", "Pending", "SimulatedSystem", "Step", "WorldSnapshot", "explore"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rayshot.simulation' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rayshot.simulation.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
