"""Programs of examples/ports in Ray clusters of their own: one dies with its cluster, another one goes on elsewhere.

`python -m tests.examples.elsewhere begin|go_on PROGRAM STORAGE`.
"""

import importlib
import logging
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import ray

import rayshot
from examples.ports.moved import pool
from tests.examples.dying import held
from tests.waiting import eventually

SYSTEM = "elsewhere"
IN_THE_MIDDLE = "in the middle"
EDGES = [(k, k + 7) for k in range(0, 200, 3)] + [(k, 2 * k) for k in range(1, 60, 4)]
ROUNDS = 20


class Journey(NamedTuple):
    """A program whose cluster is killed.

    Attributes:
        args: Of its function `run`.
        actors: How many it makes.
        is_middle: Whether the states of a snapshot are of the middle of its work.
        go_on: What a new program does to bring the system to its end; returns what `run` would have returned, or what
            of it does not depend on the order in which actors run.
        calls: How many the program makes before the snapshot is there; 0: the actors go on without it.
    """

    args: tuple[Any, ...]
    actors: int
    is_middle: Callable[[Any], bool]
    go_on: Callable[[rayshot.System], Any]
    calls: int = 0


def by_class(named, beginning):
    """The states or handles of the actors of that class."""
    return [one for name, one in named.items() if name.startswith(f"{beginning}-")]


def until_all(system, keeper, attribute, count):
    """What that actor has collected, when it is so much: the actors need nobody for that."""

    def look():
        (state,) = by_class(system.snapshots()[-1].states(), keeper)
        return state[attribute] if len(state[attribute]) >= count else None

    return eventually(look, 60)


def collects(keeper, attribute, count, go_on):
    """For programs of which one actor collects so much."""

    def is_middle(states):
        return any(count // 20 <= len(state[attribute]) < count for state in by_class(states, keeper))

    return is_middle, lambda system: go_on(until_all(system, keeper, attribute, count))


def prompts(trained):
    """The version of each sample depends on who was faster."""
    return [prompt for prompt, _, _ in trained]


def has_edges(states):
    return any(buffer["edges"] for buffer in by_class(states, "buffer"))


def unite(system):
    """The last publication of the program may be half done: to publish again what is known does no harm."""
    owners = by_class(system.actors(), "shard")
    ray.get([owner.publish.remote() for owner in owners])
    while any(ray.get([owner.collect.remote() for owner in owners])):
        ray.get([owner.publish.remote() for owner in owners])
    found = ray.get([owner.groups.remote() for owner in owners])
    return {vertex: root for groups in found for vertex, root in groups.items()}


def has_looked(states):
    return any(len(leader["found"]) > 30 for leader in by_class(states, "leader"))


def look(system):
    """The first call comes behind all that the program told the leader."""
    (leader,) = by_class(system.actors(), "leader")
    _, looked = found = ray.get(leader.look.remote([]))
    for round_ in range(looked // 10, ROUNDS):
        found = ray.get(leader.look.remote(pool.ranges(round_, 40)))
    return found


JOURNEYS = {
    "training": Journey((120,), 9, *collects("trainer", "trained", 120, prompts)),
    "rollouter": Journey((300,), 6, *collects("trainer", "trained", 300, sorted)),
    "crawler": Journey((400,), 7, *collects("index", "found", 400, lambda found: (len(found), found))),
    "union_find": Journey((EDGES,), 6, has_edges, unite, 11),
    "pool": Journey((ROUNDS,), 4, has_looked, look, 5),
}


def begin(name, storage):
    """Take a snapshot in the middle of the work, say so, and work on for ever."""
    journey = JOURNEYS[name]
    run = importlib.import_module(f"examples.ports.moved.{name}").run
    system = rayshot.init(SYSTEM, storage=storage, snapshots=rayshot.SnapshotConfig())
    with held(pytest.MonkeyPatch(), journey.calls) as gate:
        threading.Thread(target=run, args=journey.args, daemon=True).start()
        eventually(lambda: len(system.status().actors) == journey.actors, 60)
        if not journey.calls:
            system.snapshot()
            gate.set()
        eventually(lambda: journey.is_middle(system.snapshot().states()), 60)
    print(IN_THE_MIDDLE, flush=True)
    while True:
        signal.pause()


def go_on(name, storage):
    """Restore the last snapshot, and print the result."""
    with rayshot.restore(SYSTEM, storage=storage, snapshots=rayshot.SnapshotConfig(interval_s=0.3)) as system:
        print(JOURNEYS[name].go_on(system))


if __name__ == "__main__":
    ray.init("local", num_cpus=16, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    {"begin": begin, "go_on": go_on}[sys.argv[1]](*sys.argv[2:])
    ray.shutdown()
