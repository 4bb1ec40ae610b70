"""How long an actor with a large state is held by a snapshot: by fork, inline, and by `ray.put` inside a plain actor.

And what else a capture costs: the time until it is durable, what the actor gets done just after the fork (its pages
are copied as it writes to them), and memory above the state itself.
"""

import gc
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.memory import check_memory, used_bytes
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios
from benchmarks.states import random_bits

GB, MB = 1 << 30, 1 << 20
BEAT_CHANGES = 200
"""So many places of the state are written to in each beat."""
MEMORY_PER_STATE = 8
"""Two actors hold the state; to be added: their spare while it is made, the spill, `ray.put`, and what is changed."""
SHARED_MEMORY_PER_STATE = 4
BIG_ARRAY, BIG_DICT = "numpy, 1 GB", "dict of 5,000,000"
HOLD_TARGETS = {BIG_ARRAY: Target("<=", 15.0), BIG_DICT: Target("<=", 60.0)}
PUT_TARGET = Target(">=", 100.0)
AFTER_TARGET = Target(">=", 80.0)
MEMORY_TARGET = Target("<=", 1.3)
GROWTH_TARGET = Target("<=", 0.1)


class Tree:
    """A small object that refers to others."""

    def __init__(self, name: str, children: list["Tree"]) -> None:
        self.name = name
        self.children = children
        self.weight = 0


def made_state(kind: str, size: int) -> Any:
    """A state of one kind: a numpy array of `size` bytes, a dict of so many entries, or a tree of so many objects."""
    match kind:
        case "numpy":
            return random_bits(size, seed=1985)
        case "dict":
            return {f"key-{index}": float(index) for index in range(size)}
        case _:
            leaves = [Tree(f"leaf-{index}", []) for index in range(size)]
            while len(leaves) > 1:
                leaves = [Tree(f"node-{index}", leaves[index : index + 8]) for index in range(0, len(leaves), 8)]
            return leaves[0]


STATES: dict[str, tuple[str, int]] = {
    "numpy, 1 MB": ("numpy", MB),
    "numpy, 100 MB": ("numpy", 100 * MB),
    BIG_ARRAY: ("numpy", GB),
    "numpy, 2 GB": ("numpy", 2 * GB),
    "dict of 10,000": ("dict", 10_000),
    "dict of 500,000": ("dict", 500_000),
    BIG_DICT: ("dict", 5_000_000),
    "tree of 200,000": ("tree", 200_000),
}
INLINE_MAX = {"numpy": 100 * MB, "dict": 500_000, "tree": 200_000}
"""Larger states are not captured inline: it takes seconds, and nobody would."""


class Holder:
    """Holds a state. Between `begin` and `end` it beats without a pause: each beat writes to places of the state."""

    def __init__(self, kind: str, size: int) -> None:
        self.state = made_state(kind, size)
        self.kind = kind
        self.beating = False
        gc.freeze()  # the collector would walk over millions of objects now and then: not what is measured here

    def size_bytes(self) -> int:
        """The bytes of the state, where it is an array."""
        return int(self.state.nbytes)

    def begin(self, own: rayshot.ActorHandle) -> None:
        """Begin to beat."""
        self.own = own
        self.beating = True
        self.beats = 0
        self.longest_s = 0.0
        self.places = np.random.default_rng(1).integers(0, 1 << 40, size=1 << 20)
        self.times: deque[float] = deque(maxlen=4_000_000)
        self.beaten_at = time.monotonic()
        own.beat.tell()

    def beat(self) -> None:
        """One beat."""
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.beaten_at)
        self.beaten_at = now
        self.times.append(now)
        self.beats += 1
        start = self.beats * BEAT_CHANGES % (len(self.places) - BEAT_CHANGES)
        places = self.places[start : start + BEAT_CHANGES]
        if self.kind == "numpy":
            self.state[places % len(self.state)] += np.uint64(1)
        elif self.kind == "dict":
            size = len(self.state)
            for place in places:
                self.state[f"key-{place % size}"] += 1.0
        else:
            for place in places:
                self.state.children[place % len(self.state.children)].weight += 1
        if self.beating:
            self.own.beat.tell()

    def end(self, asked_at: float, after_s: float) -> tuple[float, float]:
        """Stop. Returns the longest time between two beats, and the share of its pace just after `asked_at`."""
        self.beating = False
        times = np.array(self.times)
        before = int(np.sum(times < asked_at)) / (asked_at - times[0])
        after = int(np.sum((times >= asked_at) & (times < asked_at + after_s))) / after_s
        return self.longest_s, after / before


class Putter:
    """Holds the same state in a plain Ray actor."""

    def __init__(self, kind: str, size: int) -> None:
        self.state = made_state(kind, size)

    def put(self) -> float:
        """Put the state into the object store; returns the seconds for which this held the actor."""
        began_at = time.perf_counter()
        ref = ray.put(self.state)
        held_s = time.perf_counter() - began_at
        del ref
        return held_s


def run(*, short: bool) -> Report:
    """Measure in turn, state by state."""
    rounds, memory_rounds, seconds = (1, 2, 0.2) if short else (2, 50, 1.0)
    states = {BIG_ARRAY: ("numpy", 32 * MB), "dict of 10,000": ("dict", 10_000)} if short else STATES
    largest = max(size for kind, size in states.values() if kind == "numpy")
    check_memory(largest, memory_per_state=MEMORY_PER_STATE, shared_memory_per_state=SHARED_MEMORY_PER_STATE)
    found: dict[str, dict[str, list[float]]] = {}
    with fresh_cluster(object_store_bytes=SHARED_MEMORY_PER_STATE * largest) as folder:
        for number, (name, (kind, size)) in enumerate(states.items()):
            found[name] = _captures(f"capture-{number}", folder, kind, size, rounds, seconds)
        memory = _memory_above_state(folder, states[BIG_ARRAY][1], memory_rounds)
    series = {f"{name}: {what}": samples for name, by_what in found.items() for what, samples in by_what.items()}
    return Report(
        "capture",
        "For how long does a snapshot hold an actor with a large state?",
        {"rounds": rounds, "memory_rounds": memory_rounds, "states": list(states)},
        (
            *(Series(name, "%" if name.endswith("pace") else "ms", tuple(values)) for name, values in series.items()),
            Series("memory above the state", "states", tuple(memory)),
        ),
        (
            *(figure for name, by_what in found.items() for figure in _figures(name, by_what)),
            Figure("memory above the state, most", float(max(memory)), "states", target=MEMORY_TARGET),
            Figure("memory, last snapshots against first", _growth(memory), "states", target=GROWTH_TARGET),
        ),
    )


def _figures(name: str, found: dict[str, list[float]]) -> Iterator[Figure]:
    hold_target = HOLD_TARGETS.get(name)
    yield Figure(f"{name}: hold by fork, longest", max(found["hold by fork"]), "ms", target=hold_target)
    if "hold inline" in found:
        yield Figure.median_of(f"{name}: hold inline", found["hold inline"], "ms")
    yield Figure.median_of(f"{name}: ray.put", found["ray.put"], "ms")
    ratios = paired_ratios(found["ray.put"], found["hold by fork"])
    yield Figure.median_of(f"{name}: ray.put / hold by fork", ratios, "x", PUT_TARGET if hold_target else None)
    yield Figure.median_of(f"{name}: longest pause seen", found["longest pause"], "ms")
    after_target = AFTER_TARGET if hold_target else None
    yield Figure.median_of(f"{name}: pace in the second after the fork", found["pace"], "%", after_target)
    yield Figure.median_of(f"{name}: durable", found["durable"], "ms")


def _captures(
    system_name: str, folder: Path, kind: str, size: int, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """In ms, `pace` in %, of so many seconds before and after: by fork, inline and by ray.put, in turn."""
    found: dict[str, list[float]] = {"hold by fork": [], "longest pause": [], "pace": [], "durable": [], "ray.put": []}
    keeping = rayshot.SnapshotConfig(num_to_keep=1)
    with rayshot.init(system_name, storage=folder / system_name, snapshots=keeping, failure=ONE_LIFE) as system:
        holder = rayshot.actor(capture="fork")(Holder).options(name="holder").remote(kind, size)
        putter = ray.remote(Putter).remote(kind, size)
        _beating_snapshot(system, holder, 0.2)  # once each to warm up
        ray.get(putter.put.remote())
        for _ in range(rounds):
            hold_s, longest_s, pace, durable_s = _beating_snapshot(system, holder, seconds)
            found["hold by fork"].append(1e3 * hold_s)
            found["longest pause"].append(1e3 * longest_s)
            found["pace"].append(100 * pace)
            found["durable"].append(1e3 * durable_s)
            found["ray.put"].append(1e3 * ray.get(putter.put.remote()))
        ray.kill(putter)
    if size <= INLINE_MAX[kind]:
        with rayshot.init(
            f"{system_name}-inline", storage=folder / "inline", snapshots=keeping, failure=ONE_LIFE
        ) as system:
            rayshot.actor(capture="inline")(Holder).options(name="holder").remote(kind, size)
            system.snapshot()
            found["hold inline"] = [1e3 * float(system.snapshot().stats["hold_max_s"]) for _ in range(rounds)]
    shutil.rmtree(folder / system_name)
    return found


def _beating_snapshot(system: rayshot.System, holder: Any, seconds: float) -> tuple[float, float, float, float]:
    """Held as the snapshot says, the longest pause as the actor saw it, its pace after the fork, and until durable.

    The actor beats for so many seconds before and after.
    """
    ray.get(holder.begin.remote(holder))
    time.sleep(seconds)
    asked_at = time.monotonic()
    snapshot = system.snapshot()
    durable_s = time.monotonic() - asked_at
    time.sleep(max(0.0, seconds - durable_s))
    longest_s, pace = ray.get(holder.end.remote(asked_at, seconds))
    return float(snapshot.stats["hold_max_s"]), longest_s, pace, durable_s


def _memory_above_state(folder: Path, size_bytes: int, rounds: int) -> list[float]:
    """For each of so many snapshots the most memory that the machine used above what it used before, in states."""
    with rayshot.init(
        "memory", storage=folder / "memory", snapshots=rayshot.SnapshotConfig(num_to_keep=1), failure=ONE_LIFE
    ) as system:
        holder = rayshot.actor(capture="fork")(Holder).options(name="holder").remote("numpy", size_bytes)
        ray.get(holder.size_bytes.remote())  # returns when the state is there
        before = used_bytes()
        most = []
        for _ in range(rounds):
            with _most_used() as used:
                system.snapshot()
            most.append((used[0] - before) / size_bytes)
    return most


def _growth(memory: list[float]) -> float:
    """By how much the last fifth used more than the first, by medians."""
    share = max(1, len(memory) // 5)
    return float(np.median(memory[-share:]) - np.median(memory[:share]))


@contextmanager
def _most_used() -> Iterator[list[int]]:
    """A list whose one entry is the most memory in use since."""
    most = [used_bytes()]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], used_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield most
    finally:
        over.set()
        watching.join()
