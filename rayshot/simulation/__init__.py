"""A world that runs the protocol's machines. Choices decide what happens next, and nothing else decides anything.

A world is one thread, one list of pending events and one source of choices. The list holds everything that could happen
next; the source picks the event that happens. So a run is its list of choices: the same list gives exactly the same
run. A failure reports its seed and its choices, and prints its story, one line per event.

    choices   where decisions come from: a seed, a recorded list, or a test's own source
    world/    one world for all
        process, driver, coordinator    each drives one machine (Participant, Driver, Collector) and keeps its duties
        events, network    what may happen next; packets that are delayed, lost, doubled, overtaken
        coordination       what coordinators hear and say; how a new one takes over; deadlines
        rollback           how all go back to a snapshot, step by step, as the machine of recovery decides
        networks, packets, machines    the kinds of networks; what travels; which machines a world runs
        failure, story     the error of a run that broke a promise; events as words
    bodies/   what a process or a driver contains; the world does not look inside
        application, account_process    accounts that transfer, create, end; the judges in `tests/simulate` know them
        actor_process, actor_port       a user's actor, in a Cell; what it sends
        actor_driver                    the test, which sends as a driver
        suspension, strand       how a handler waits for another actor
        interleaving             handlers of one actor that run at once
        outside                  the hooks of a class that fixes something outside
        world_snapshot, future, virtual_loop    the contents of records; answers to come; the loop of async handlers
    actors/   a world of a user's actors
        network, recovery    which exist, their snapshots; rollback, take-over, deadlines
        outside              what actors with something outside hear of commits, and their files
        schedule, steps      running by choices; one message at a time
        snapshot_loading, stepping    how a stored snapshot becomes a world; the effects of a step, and their words
    face/     what a user sees
        system, exploration    SimulatedSystem; explore: a scenario under many schedules, and the story of a failed one
        shrinking              makes a failing list of choices short
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayshot.simulation.actors.stepping import Pending, Step
    from rayshot.simulation.bodies.future import Future
    from rayshot.simulation.bodies.world_snapshot import WorldSnapshot
    from rayshot.simulation.face.exploration import Exploration, explore
    from rayshot.simulation.face.system import SimulatedSystem

_HOMES = {
    "Exploration": "face.exploration",
    "Future": "bodies.future",
    "Pending": "actors.stepping",
    "Step": "actors.stepping",
    "SimulatedSystem": "face.system",
    "WorldSnapshot": "bodies.world_snapshot",
    "explore": "face.exploration",
}

__all__ = ["Exploration", "Future", "Pending", "SimulatedSystem", "Step", "WorldSnapshot", "explore"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rayshot.simulation' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rayshot.simulation.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
