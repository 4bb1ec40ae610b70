"""What a schedule is made of: drawn anew for each one, so that faults meet each other in all combinations.

A bug shows in a few processes, messages and faults that meet at a bad moment, and a short schedule gives as many bad
moments an event as a long one: so most are short, and one in LONG_ONE_IN is long, for what takes many snapshots, lives
or members to come about.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rayshot.simulation.choices import Choices
from rayshot.simulation.world.networks import NETWORKS
from tests.simulate.topologies import TOPOLOGIES, Contacts, random_graph

PROCESSES_MAX = 9
LONG_ONE_IN = 32
RESTORED_ONE_IN = 12


class Slow(Enum):
    """The events that are put off again and again in some schedules."""

    TAKE = "the transport takes messages"
    DELIVER = "a packet arrives"
    ACKNOWLEDGE = "an acknowledgement arrives"
    WORK = "a process works"
    CONNECT = "a process looks for a receiver"
    FIRE = "a timer fires"
    TELL_COORDINATOR = "a coordinator hears"
    TELL_PROCESS = "a process hears from a coordinator"
    STORE = "a snapshot is stored"
    LOAD = "a process is loaded"
    LOADED = "a coordinator hears that a process is loaded"
    RESUME = "a loaded process goes on"


@dataclass(frozen=True, slots=True)
class Settings:
    """One schedule. Numbers of faults count events; `one_in` odds are 0 for never.

    `length` counts the events before the faults stop; `activity` the messages that handlers may start in all.
    `slow` are the events that are put off again and again. `alone` counts snapshots that `initiators`
    processes begin, as one, and nobody but their markers spreads, `aligned` those that are aligned on the channels that
    were used until then, `stopped` those for which the world stops. `rivals` counts moments at which several processes
    begin a snapshot each. `crowded`: all that is wanted of snapshots is wanted within a short time. `restored`: at the
    end the system is brought down once more, and comes back from a last snapshot as it was.
    """

    topology: str
    contacts: Contacts
    network: str = "reordering"
    drivers: int = 1
    length: int = 250
    activity: int = 40
    timers: int = 2
    lost_one_in: int = 0
    duplicated_one_in: int = 0
    slow: frozenset[Slow] = frozenset()
    snapshots: int = 2
    crowded: bool = False
    alone: int = 0
    initiators: int = 1
    rivals: int = 0
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
    restored: bool = True

    @property
    def has_fixed_membership(self) -> bool:
        """Whether nobody comes, goes or forgets: whom markers can reach at the start they do reach."""
        return not any(getattr(self, name) for name in FIXED_MEMBERSHIP)

    @property
    def has_faults(self) -> bool:
        """Whether something is to be survived."""
        return any(getattr(self, name) for name in FAULTS)


FAULTS = (
    "crashes",
    "coordinator_crashes",
    "driver_deaths",
    "aborts",
    "deadlines",
    "capture_failures_one_in",
    "store_failures_one_in",
    "lost_ends_one_in",
    "lost_one_in",
    "duplicated_one_in",
)
"""The settings that count faults."""


SLOW_ONE_IN: Mapping[Slow, int] = {
    Slow.TAKE: 2,  # full outboxes are a third of what a snapshot has to get right
    **dict.fromkeys((Slow.DELIVER, Slow.ACKNOWLEDGE, Slow.WORK, Slow.CONNECT, Slow.FIRE), 5),
    **dict.fromkeys((Slow.TELL_COORDINATOR, Slow.TELL_PROCESS, Slow.STORE), 5),
}


def draw_settings(choices: Choices) -> Settings:
    """Draw one schedule; each kind of fault is there in some schedules and not in others."""

    def pick(*options: int) -> int:
        return options[choices.choose(len(options))]

    names = [f"p{index}" for index in range(pick(2, 3, 4, 4, 4, 4, 4, 5))]
    kinds = [*TOPOLOGIES, "random"]
    topology = kinds[choices.choose(len(kinds))]
    contacts = random_graph(names, choices) if topology == "random" else TOPOLOGIES[topology](names)
    network = tuple(NETWORKS)[choices.choose(len(NETWORKS))]
    slow = [kind for kind, one_in in SLOW_ONE_IN.items() if choices.choose(one_in) == 0]
    crowded = choices.choose(4) > 0
    is_long = choices.choose(LONG_ONE_IN) == LONG_ONE_IN - 1  # a list of zeros is a small schedule
    drawn = _long(pick) if is_long else _short(pick)
    if choices.choose(3):
        drawn |= _faults(pick) if is_long else _few_faults(pick)
    if drawn.get("alone"):
        drawn |= FIXED_MEMBERSHIP
    return Settings(
        topology=topology,
        contacts=contacts,
        network=network,
        lost_one_in=pick(10, 4) if NETWORKS[network].loses else 0,
        duplicated_one_in=pick(10, 3) if NETWORKS[network].duplicates else 0,
        slow=frozenset(slow),
        crowded=crowded,
        **drawn,
    )


Pick = Callable[..., int]


def _long(pick: Pick) -> dict[str, Any]:
    return {
        "drivers": pick(0, 1, 1, 2),
        "length": pick(100, 200, 300, 400),
        "activity": pick(15, 30, 60),
        "timers": pick(1, 2, 3),
        "snapshots": pick(1, 2, 3, 4),
        "alone": pick(0, 0, 1, 2),
        "initiators": pick(1, 1, 2, 3),
        "rivals": pick(0, 0, 1),
        "aligned": pick(0, 1, 2),
        "alignment_timeouts": pick(0, 0, 1, 2),
        "stopped": pick(0, 0, 1),
        "own_snapshots_one_in": pick(0, 0, 10, 25),
        "creations_one_in": pick(0, 0, 5, 10),
        "ends_one_in": pick(0, 0, 6, 12),
    }


def _short(pick: Pick) -> dict[str, Any]:
    """Few snapshots, most of one mode, in a system that is busy when they come."""
    return {
        "drivers": pick(0, 0, 1),
        "length": pick(30, 60, 90),
        "activity": pick(8, 12, 16),
        "timers": 1,
        "creations_one_in": pick(0, 0, 0, 5),
        "ends_one_in": pick(0, 0, 3, 6),
        "restored": pick(*range(RESTORED_ONE_IN)) == RESTORED_ONE_IN - 1,
        "snapshots": 0,
        **SHORT_SNAPSHOTS[pick(*range(len(SHORT_SNAPSHOTS)))],
    }


def _few_faults(pick: Pick) -> dict[str, int]:
    """One fault of a kind, and of few kinds."""
    return {
        "crashes": pick(0, 0, 1, 1, 1, 2),
        "coordinator_crashes": pick(0, 0, 0, 1, 1),
        "driver_deaths": pick(0, 0, 1),
        "aborts": pick(0, 0, 0, 1),
        "deadlines": pick(0, 0, 0, 1),
        "capture_failures_one_in": pick(0, 0, 0, 10),
        "store_failures_one_in": pick(0, 0, 0, 3),
        "lost_ends_one_in": pick(0, 0, 0, 5),
    }


SHORT_SNAPSHOTS: tuple[Mapping[str, int], ...] = (
    {"snapshots": 1},
    {"snapshots": 2},
    {"snapshots": 2},
    {"snapshots": 2},
    {"rivals": 1},
    {"rivals": 1},
    {"snapshots": 1, "own_snapshots_one_in": 5},
    {"alone": 1},
    {"snapshots": 1, "alone": 1},
    {"snapshots": 1, "alone": 1, "initiators": 2},
    {"aligned": 1, "alignment_timeouts": 1},
    {"snapshots": 1, "aligned": 1},
    {"stopped": 1},
    {"snapshots": 1, "stopped": 1},
    {"aligned": 1, "stopped": 1},
    {"snapshots": 1, "aligned": 1, "stopped": 1},
)
"""The snapshots of a short schedule: what may meet."""


def _faults(pick: Pick) -> dict[str, int]:
    return {
        "crashes": pick(0, 0, 1, 1, 1, 2),
        "coordinator_crashes": pick(0, 0, 0, 1, 2),
        "driver_deaths": pick(0, 0, 1),
        "aborts": pick(0, 0, 1),
        "deadlines": pick(0, 0, 0, 2),
        "capture_failures_one_in": pick(0, 0, 0, 20),
        "store_failures_one_in": pick(0, 0, 4),
        "lost_ends_one_in": pick(0, 0, 0, 5),
    }


FIXED_MEMBERSHIP: Mapping[str, int] = dict.fromkeys(
    ("creations_one_in", "ends_one_in", "crashes", "coordinator_crashes", "aborts", "deadlines"), 0
)
"""See Settings.has_fixed_membership."""


MODES: Mapping[str, Callable[[Settings], Settings]] = {
    "chandy-lamport": lambda settings: _only(settings, snapshots=_some(settings), rivals=settings.rivals),
    "markers-alone": lambda settings: _only(settings, alone=_some(settings), **FIXED_MEMBERSHIP),
    "aligned": lambda settings: _only(
        settings, aligned=_some(settings), alignment_timeouts=settings.alignment_timeouts, own_snapshots_one_in=0
    ),
    "stop-the-world": lambda settings: _only(settings, stopped=_some(settings), own_snapshots_one_in=0),
}
"""How to make a drawn schedule one of a single mode."""


def narrow(
    settings: Settings, mode: str | None = None, topology: str | None = None, network: str | None = None
) -> Settings:
    """A drawn schedule with snapshots of one mode only, with that graph at the start, and on that network."""
    if topology is not None:
        contacts = TOPOLOGIES[topology](tuple(settings.contacts))
        settings = replace(settings, topology=topology, contacts=contacts)
    if network is not None:
        _, duplicates, loses = NETWORKS[network]
        odds: dict[str, Any] = {"lost_one_in": (settings.lost_one_in or 4) * loses}
        odds["duplicated_one_in"] = (settings.duplicated_one_in or 3) * duplicates
        settings = replace(settings, network=network, **odds)
    return settings if mode is None else MODES[mode](settings)


def _only(settings: Settings, **kept: int) -> Settings:
    modes = ("snapshots", "alone", "rivals", "aligned", "alignment_timeouts", "stopped")
    changes: dict[str, Any] = dict.fromkeys(modes, 0)
    return replace(settings, **{**changes, **kept})


def _some(settings: Settings) -> int:
    return max(1, settings.snapshots)
