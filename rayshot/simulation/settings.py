"""What a schedule is made of: drawn anew for each one, so that faults meet each other in all combinations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rayshot.simulation.choices import Choices
from rayshot.simulation.topologies import TOPOLOGIES, Contacts, random_graph

PROCESSES_MAX = 9


@dataclass(frozen=True, slots=True)
class Settings:
    """One schedule. Numbers of faults count events; `one_in` odds are 0 for never.

    `length` counts the events before the faults stop; `activity` the messages that handlers may start in all.
    `slow` are the kinds of events that are put off again and again. `alone` counts snapshots that one process begins
    and nobody but their markers spreads, `aligned` those that are aligned on the channels that were used until then,
    `stopped` those for which the world stops.
    """

    topology: str
    contacts: Contacts
    drivers: int = 1
    length: int = 250
    activity: int = 40
    timers: int = 2
    lost_one_in: int = 0
    duplicated_one_in: int = 0
    slow: frozenset[str] = frozenset()
    snapshots: int = 2
    alone: int = 0
    aligned: int = 0
    alignment_timeouts: int = 0
    stopped: int = 0
    own_snapshots_one_in: int = 0
    creations_one_in: int = 0
    ends_one_in: int = 0
    crashes: int = 0
    coordinator_crashes: int = 0
    driver_deaths: int = 0
    aborts: int = 0
    deadlines: int = 0
    capture_failures_one_in: int = 0
    store_failures_one_in: int = 0
    lost_ends_one_in: int = 0


SLOW_KINDS = ("deliver", "acknowledge", "work", "take", "tell_coordinator", "tell_process", "connect", "store", "fire")


def draw_settings(choices: Choices) -> Settings:
    """Draw one schedule; each kind of fault is there in some schedules and not in others."""

    def pick(*options: int) -> int:
        return options[choices.choose(len(options))]

    names = [f"p{index}" for index in range(pick(2, 3, 3, 4, 5))]
    kinds = [*TOPOLOGIES, "random"]
    topology = kinds[choices.choose(len(kinds))]
    contacts = random_graph(names, choices) if topology == "random" else TOPOLOGIES[topology](names)
    calm = choices.choose(3) == 0
    settings = Settings(
        topology=topology,
        contacts=contacts,
        drivers=pick(0, 1, 1, 2),
        length=pick(100, 200, 300, 400),
        activity=pick(15, 30, 60),
        timers=pick(1, 2, 3),
        lost_one_in=pick(0, 10, 4),
        duplicated_one_in=pick(0, 10, 3),
        slow=frozenset(kind for kind in SLOW_KINDS if choices.choose(5) == 0),
        snapshots=pick(1, 2, 3, 4),
        own_snapshots_one_in=pick(0, 0, 10, 25),
        creations_one_in=pick(0, 0, 5, 10),
        ends_one_in=pick(0, 0, 6, 12),
        crashes=0 if calm else pick(0, 1, 1, 2),
        coordinator_crashes=0 if calm else pick(0, 0, 0, 1, 2),
        driver_deaths=0 if calm else pick(0, 0, 1),
        aborts=0 if calm else pick(0, 0, 1),
        deadlines=0 if calm else pick(0, 0, 0, 2),
        capture_failures_one_in=0 if calm else pick(0, 0, 0, 20),
        store_failures_one_in=0 if calm else pick(0, 0, 4),
        lost_ends_one_in=0 if calm else pick(0, 0, 0, 5),
        alone=pick(0, 0, 1, 2),
        aligned=pick(0, 1, 2),
        stopped=pick(0, 0, 1),
        alignment_timeouts=pick(0, 0, 1, 2),
    )
    return _with_fixed_membership(settings) if settings.alone else settings


def _with_fixed_membership(settings: Settings) -> Settings:
    """Nobody comes, goes or forgets: whom markers can reach at the start they do reach."""
    return replace(settings, creations_one_in=0, ends_one_in=0, crashes=0, coordinator_crashes=0, aborts=0, deadlines=0)


MODES: Mapping[str, Callable[[Settings], Settings]] = {
    "chandy-lamport": lambda settings: _only(settings, snapshots=_some(settings)),
    "markers-alone": lambda settings: _with_fixed_membership(_only(settings, alone=_some(settings))),
    "aligned": lambda settings: _only(
        settings, aligned=_some(settings), alignment_timeouts=settings.alignment_timeouts, own_snapshots_one_in=0
    ),
    "stop-the-world": lambda settings: _only(settings, stopped=_some(settings), own_snapshots_one_in=0),
}
"""How to make a drawn schedule one of a single mode."""


def narrow(settings: Settings, mode: str | None = None, topology: str | None = None) -> Settings:
    """A drawn schedule with snapshots of one mode only, and with that graph at the start."""
    if topology is not None:
        contacts = TOPOLOGIES[topology](tuple(settings.contacts))
        settings = replace(settings, topology=topology, contacts=contacts)
    return settings if mode is None else MODES[mode](settings)


def _only(settings: Settings, **kept: int) -> Settings:
    changes: dict[str, Any] = dict.fromkeys(("snapshots", "alone", "aligned", "alignment_timeouts", "stopped"), 0)
    return replace(settings, **{**changes, **kept})


def _some(settings: Settings) -> int:
    return max(1, settings.snapshots)
