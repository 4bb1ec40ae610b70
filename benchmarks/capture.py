"""How long an actor with a large state is held by a snapshot, against `ray.put` of that state inside an actor."""

import time
from typing import Any

import numpy as np
import ray

import rayshot
from benchmarks.cluster import fresh_cluster
from benchmarks.memory import check_memory
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios

HOLD_TARGET = Target("<=", 50.0)
BEAT_S = 0.001
MEMORY_PER_STATE = 8
"""Two actors hold the state, a spool file and up to three objects copies of it, a child what changes meanwhile."""
SHARED_MEMORY_PER_STATE = 5


def random_state(size_bytes: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Random numbers: nothing of them compresses, no two pages are alike."""
    return np.random.default_rng(1985).random(size_bytes // 8)


class Holder:
    """Holds the state. Between `begin` and `end` it beats once a millisecond and notes the longest pause."""

    def __init__(self, size_bytes: int) -> None:
        self.array = random_state(size_bytes)
        self.beating = False

    def begin(self, own: rayshot.ActorHandle) -> None:
        """Begin to beat."""
        self.own = own
        self.beating = True
        self.longest_s = 0.0
        self.beaten_at = time.perf_counter()
        own.beat.tell()

    def beat(self) -> None:
        """One beat."""
        now = time.perf_counter()
        self.longest_s = max(self.longest_s, now - self.beaten_at)
        self.beaten_at = now
        if self.beating:
            time.sleep(BEAT_S)
            self.own.beat.tell()

    def end(self) -> float:
        """Stop beating; returns the longest time between two beats, in seconds."""
        self.beating = False
        return self.longest_s


class Putter:
    """Holds the same state in a plain Ray actor."""

    def __init__(self, size_bytes: int) -> None:
        self.array = random_state(size_bytes)

    def put(self) -> float:
        """Put the state into the object store; returns the seconds for which this held the actor."""
        began_at = time.perf_counter()
        ref = ray.put(self.array)
        held_s = time.perf_counter() - began_at
        del ref
        return held_s


def run(*, short: bool) -> Report:
    """Measure in turn."""
    rounds, size_bytes = (2, 32 << 20) if short else (7, 1 << 30)
    check_memory(size_bytes, memory_per_state=MEMORY_PER_STATE, shared_memory_per_state=SHARED_MEMORY_PER_STATE)
    held_s: dict[str, list[float]] = {"hold": [], "longest pause": [], "ray.put": [], "durable": []}
    with (
        fresh_cluster(object_store_bytes=SHARED_MEMORY_PER_STATE * size_bytes) as folder,
        rayshot.init("capture", storage=folder, snapshot=rayshot.SnapshotConfig(num_to_keep=1)) as system,
    ):
        holder = rayshot.actor(capture="fork")(Holder).options(name="holder").remote(size_bytes)
        putter = ray.remote(Putter).remote(size_bytes)
        _snapshot(system, holder)  # once each to warm up
        ray.get(putter.put.remote())
        for _ in range(rounds):
            hold_s, longest_s, durable_s = _snapshot(system, holder)
            held_s["hold"].append(hold_s)
            held_s["longest pause"].append(longest_s)
            held_s["durable"].append(durable_s)
            held_s["ray.put"].append(ray.get(putter.put.remote()))
    held_ms = {name: [1e3 * seconds for seconds in samples] for name, samples in held_s.items()}
    return Report(
        "capture",
        "For how long does a snapshot hold an actor with a large state?",
        {"rounds": rounds, "state_bytes": size_bytes},
        tuple(Series(name, "ms", tuple(samples)) for name, samples in held_ms.items()),
        (
            Figure.median_of("hold p50", held_ms["hold"], "ms"),
            Figure("hold, longest", max(held_ms["hold"]), "ms", target=HOLD_TARGET),
            Figure("pause seen by the actor, longest", max(held_ms["longest pause"]), "ms"),
            Figure.median_of("ray.put p50", held_ms["ray.put"], "ms"),
            Figure.median_of("ray.put / hold", paired_ratios(held_ms["ray.put"], held_ms["hold"]), "x"),
            Figure.median_of("durable p50", held_ms["durable"], "ms"),
        ),
    )


def _snapshot(system: rayshot.System, holder: Any) -> tuple[float, float, float]:
    """Seconds: held as the snapshot says, the longest pause as the actor saw it, until it was durable."""
    ray.get(holder.begin.remote(holder))
    began_at = time.perf_counter()
    snapshot = system.snapshot()
    durable_s = time.perf_counter() - began_at
    return float(snapshot.stats["hold_max_s"]), float(ray.get(holder.end.remote())), durable_s
