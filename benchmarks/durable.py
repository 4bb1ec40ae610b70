"""From a state in memory to committed bytes on local disk, against a write, a pickle and torch.save, all with fsync."""

import time
from functools import partial
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, SETTLE_S, fresh_cluster
from benchmarks.memory import check_memory
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, paired_ratios
from benchmarks.states import Holder

TARGET = Target(">=", 0.7)
NAMES = {"write": "write + fsync", "pickle": "pickle.dump + fsync", "torch": "torch.save + fsync"}


def run(*, short: bool) -> Report:
    """Measure in turn. Each round's bytes are all new, so no chunk is there already."""
    rounds, size_bytes = (2, 32 << 20) if short else (3, 1 << 30)
    check_memory(size_bytes, memory_per_state=6, shared_memory_per_state=4)
    ways = [way for way in NAMES if way != "torch" or find_spec("torch") is not None]
    seconds: dict[str, list[float]] = {"rayshot": [], **{NAMES[way]: [] for way in ways}}
    with (
        fresh_cluster(object_store_bytes=3 * size_bytes) as folder,
        rayshot.init(
            "durable", storage=folder / "shots", snapshots=rayshot.SnapshotConfig(num_to_keep=1), failure=ONE_LIFE
        ) as system,
    ):
        holder = rayshot.actor(capture="fork")(Holder).options(name="holder").remote(size_bytes)
        measures: dict[str, Measure] = {"rayshot": lambda: _snapshot_s(system, holder)}
        for way in ways:
            measures[NAMES[way]] = partial(_write_s, holder, folder / "plain", way)
        for turn in range(-1, rounds):  # once more than that, to warm up
            for name in _order(list(measures), turn, rounds):
                time.sleep(SETTLE_S)
                took_s = measures[name]()
                if turn >= 0:
                    seconds[name].append(took_s)
    rates = {name: [size_bytes / one / 1e6 for one in samples] for name, samples in seconds.items()}
    return Report(
        "durable",
        "How fast does a state of random bits become durable on local disk?",
        {"rounds": rounds, "state_bytes": size_bytes, "not_installed": [] if "torch" in ways else ["torch"]},
        tuple(Series(name, "MB/s", tuple(samples)) for name, samples in rates.items()),
        (
            *(Figure.median_of(name, samples, "MB/s") for name, samples in rates.items()),
            *(
                Figure.median_of(f"rayshot / {name}", paired_ratios(rates["rayshot"], samples), "x", _target(name))
                for name, samples in rates.items()
                if name != "rayshot"
            ),
        ),
    )


def _snapshot_s(system: rayshot.System, holder: Any) -> float:
    """Seconds from the call until the snapshot is committed."""
    ray.get(holder.change.remote(1.0))
    began_at = time.perf_counter()
    system.snapshot()
    return time.perf_counter() - began_at


def _write_s(holder: Any, file: Path, way: str) -> float:
    ray.get(holder.change.remote(1.0))
    return float(ray.get(holder.write.remote(str(file), way)))


def _order(names: list[str], turn: int, rounds: int) -> tuple[str, ...]:
    """Another one in each round: who comes after whom matters to a disk, as what was deleted last is written first."""
    orders = list(permutations(names))
    return orders[turn * len(orders) // rounds % len(orders)]


def _target(name: str) -> Target | None:
    return TARGET if name == NAMES["write"] else None
