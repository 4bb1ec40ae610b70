"""What a snapshot writes when a part of a large state changed, and what a restore from many such snapshots takes."""

import time
from pathlib import Path
from typing import Any

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.memory import check_memory
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios
from benchmarks.states import Holder

WRITTEN_TARGET = Target("<=", 3.0)
RESTORE_TARGET = Target("<=", 1.1)
FULL = "100 %"
CHANGES = {"1 %": (0.01, 1), "1 % in 10 pieces": (0.01, 10), "10 %": (0.1, 1), FULL: (1.0, 1)}
"""What is changed between two snapshots: the share of all bytes, and in how many pieces at random places."""
TARGETS = {"1 %": WRITTEN_TARGET, "1 % in 10 pieces": WRITTEN_TARGET}
INCREMENTS = 10


def run(*, short: bool) -> Report:
    """Change parts in turn, a snapshot after each; then restore, in turn, a full one and the last of ten increments."""
    rounds, restores, size_bytes = (1, 1, 32 << 20) if short else (2, 2, 1 << 30)
    check_memory(size_bytes, memory_per_state=6, shared_memory_per_state=4)
    written: dict[str, list[float]] = {name: [] for name in CHANGES}
    seconds: dict[str, list[float]] = {name: [] for name in CHANGES}
    with fresh_cluster(object_store_bytes=3 * size_bytes) as folder:
        with rayshot.init("incremental", storage=folder, failure=ONE_LIFE) as system:
            holder = rayshot.actor(capture="fork")(Holder).options(name="holder").remote(size_bytes)
            _snapshot(system, holder, *CHANGES[FULL])
            for _ in range(rounds):
                for name, change in CHANGES.items():
                    snapshot, took_s = _snapshot(system, holder, *change)
                    written[name].append(snapshot.stats["written_bytes"] / 1e6)
                    seconds[name].append(took_s)
            ids = {"full": str(snapshot.id)}
            for _ in range(INCREMENTS):
                snapshot, _ = _snapshot(system, holder, *CHANGES["1 %"])
            ids["tenth increment"] = str(snapshot.id)
        restored: dict[str, list[float]] = {name: [] for name in ids}
        for _ in range(restores):
            for name, which in ids.items():
                restored[name].append(_restore_s(folder, which))
    shares = {
        name: [100 * ratio for ratio in paired_ratios(written[name], written[FULL])] for name in CHANGES if name != FULL
    }
    ratios = paired_ratios(restored["tenth increment"], restored["full"])
    return Report(
        "incremental",
        "What does a snapshot write when a part of the state changed?",
        {"rounds": rounds, "restores": restores, "state_bytes": size_bytes, "increments": INCREMENTS},
        (
            *(Series(f"{name} changed: written", "MB", tuple(samples)) for name, samples in written.items()),
            *(Series(f"{name} changed: durable", "s", tuple(samples)) for name, samples in seconds.items()),
            *(Series(f"{name}: restore", "s", tuple(samples)) for name, samples in restored.items()),
        ),
        (
            *(
                Figure.median_of(f"{name} changed: delta / full bytes", samples, "%", TARGETS.get(name))
                for name, samples in shares.items()
            ),
            *(Figure.median_of(f"{name} changed: durable", samples, "s") for name, samples in seconds.items()),
            *(Figure.median_of(f"{name}: restore time", samples, "s") for name, samples in restored.items()),
            Figure.median_of("restore time, tenth increment / full", ratios, "x", RESTORE_TARGET),
        ),
    )


def _snapshot(system: rayshot.System, holder: Any, share: float, pieces: int) -> tuple[Any, float]:
    """Change so much, then take a snapshot; returns it, and the seconds until it was durable."""
    ray.get(holder.change.remote(share, pieces))
    began_at = time.perf_counter()
    snapshot = system.snapshot()
    return snapshot, time.perf_counter() - began_at


def _restore_s(folder: Path, which: str) -> float:
    """Seconds from the call until the restored actor has answered."""
    began_at = time.perf_counter()
    with rayshot.restore("incremental", storage=folder, snapshot=which, failure=ONE_LIFE) as system:
        ray.get(system.get_actor("holder").size_bytes.remote())
        return time.perf_counter() - began_at
