"""What snapshots cost: how long they take, against stop-the-world and a hand-written save, and the throughput lost."""

import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.rhythm import Rhythms, lost_between, lost_in_windows, measure
from benchmarks.tokens import Ring, lost_and_orphaned
from rayshot.protocol.identity import Mode

ACTORS, KEYS, FEW_KEYS = 16, 100_000, 1_000
"""What the targets are for, and the throughput; with few keys a snapshot is nearly all protocol."""
CASES = {2: (KEYS,), ACTORS: (FEW_KEYS, KEYS, 1_000_000), 64: (KEYS,)}
"""By the number of actors, how many keys they hold in all."""
BUSY = {(2, KEYS), (ACTORS, FEW_KEYS), (ACTORS, KEYS)}
"""Of others only idle channels are measured: plain Ray takes long to work off the tokens, for 64 actors minutes."""
RECORDED_TARGETS = {
    (KEYS, "idle"): Target("<=", 25.0),
    (KEYS, "busy"): Target("<=", 100.0),
    (FEW_KEYS, "busy"): Target("<=", 150.0),
}
RHYTHMS, FEW_KEYS_RHYTHMS = {"one a second": 1.0, "four a second": 0.25}, {"one a second": 1.0}
"""Seconds between two snapshots."""
CALM_S = {"idle": 0.1, "busy": 1.0}
"""After each snapshot, so that none meets the messages that the last one, which may stop the world, has piled up."""
LOSS_TARGETS = {"one a second": Target("<=", 3.0), "four a second": Target("<=", 10.0)}
FEW_KEYS_LOSS_TARGET = Target("<=", 5.0)
BY_HAND: Final = "hand-written save"
WAYS: tuple[Mode | Literal["hand-written save"], ...] = ("chandy-lamport", "stop-the-world", BY_HAND)


def run(*, short: bool) -> Report:
    """Take single snapshots of several systems, then compare windows without and with a rhythm of them."""
    rounds, pairs, window_s = (1, 1, 0.5) if short else (3, 10, 5.0)
    rhythmic, cases = (2, {2: CASES[2]}) if short else (ACTORS, CASES)
    found: dict[str, list[float]] = {}
    many, few = Rhythms(RHYTHMS), Rhythms(FEW_KEYS_RHYTHMS)
    with fresh_cluster(object_store_bytes=1 << 30) as folder:
        for actors in cases:
            with rayshot.init(f"snapshot-{actors}", storage=folder / str(actors), failure=ONE_LIFE) as system:
                ours, plain = Ring(actors), Ring(actors, plain=True)
                for keys in cases[actors]:
                    blocks = 2 if actors == ACTORS and any(keys == aimed_at for aimed_at, _ in RECORDED_TARGETS) else 1
                    for name, value in _single_snapshots(system, ours, plain, keys, folder, rounds, blocks):
                        found.setdefault(name, []).append(value)
                for node in plain.nodes:
                    ray.kill(node)
                if actors == rhythmic:
                    for keys, rhythms in ((KEYS, many), (FEW_KEYS, few)):
                        ours.fill(keys)
                        measure(rhythms, system, ours, pairs, window_s)
    pace, between = lost_between(few, "one a second", FEW_KEYS_LOSS_TARGET, f", {FEW_KEYS:,} keys")
    return Report(
        "snapshot",
        "What does a snapshot of many actors cost?",
        {
            "cases": [(actors, keys) for actors in cases for keys in cases[actors]],
            "snapshots": {"with a target": 2 * rounds, "others": rounds},
            "pairs": pairs,
            "window_s": window_s,
        },
        (
            *(Series(name, _unit(name), tuple(samples)) for name, samples in found.items()),
            *many.series(),
            *few.series(f", {FEW_KEYS:,} keys"),
            *pace,
        ),
        (
            *(Figure.median_of(name, samples, _unit(name), _target(name)) for name, samples in found.items()),
            *many.figures(),
            *(lost_in_windows(many, name, target) for name, target in LOSS_TARGETS.items()),
            *few.figures(f", {FEW_KEYS:,} keys"),
            lost_in_windows(few, "one a second", FEW_KEYS_LOSS_TARGET, f", {FEW_KEYS:,} keys", by_median=True),
            *between,
        ),
    )


def _single_snapshots(
    system: rayshot.System, ours: Ring, plain: Ring, keys: int, folder: Path, rounds: int, blocks: int
) -> Iterator[tuple[str, float]]:
    """All ways in turn, on idle channels; then on busy ones, where only one of the two rings may be busy at a time."""
    case = f"{ours.size} actors, {keys:,} keys"
    for ring in (ours, plain):
        ring.fill(keys)
    for ring, way in ((ours, WAYS[0]), (ours, WAYS[1]), (plain, WAYS[2])):  # to warm up
        list(_one(system, ring, way, folder, idle=True))
    for load in ("idle", "busy") if (ours.size, keys) in BUSY else ("idle",):
        for _ in range(blocks):
            for ring, ways in ((ours, WAYS[:2]), (plain, WAYS[2:])):
                if load == "busy":
                    ring.go()
                    time.sleep(CALM_S[load])
                for _ in range(rounds):
                    for way in ways:
                        for quantity, value in _one(system, ring, way, folder, idle=load == "idle"):
                            yield f"{quantity}, {case}, {load}: {way}", value
                        time.sleep(CALM_S[load])
                if load == "busy":
                    ring.halt()


def _one(
    system: rayshot.System, ring: Ring, way: Mode | Literal["hand-written save"], folder: Path, *, idle: bool
) -> Iterator[tuple[str, float]]:
    """One snapshot: ms until it was recorded and durable, and what it lacks."""
    began_at = time.perf_counter()
    if way != BY_HAND:
        snapshot = system.snapshot(mode=way)
        yield "durable", 1e3 * (time.perf_counter() - began_at)
        yield "recorded", 1e3 * float(snapshot.stats["recorded_s"])
        in_flight = float(snapshot.stats["in_flight"])
        if not idle:
            assert in_flight == ring.tokens, f"{snapshot.id} holds {in_flight:g} of {ring.tokens} tokens"
        return
    saved = ray.get([node.save.remote() for node in ring.nodes])
    recorded_s = time.perf_counter() - began_at
    with (folder / "saved.pickle").open("wb") as file:
        pickle.dump(saved, file, protocol=5)
        file.flush()
        os.fsync(file.fileno())
    yield "durable", 1e3 * (time.perf_counter() - began_at)
    yield "recorded", 1e3 * recorded_s
    if not idle:
        lost, orphaned = lost_and_orphaned(saved)
        yield "messages lost", lost
        yield "messages orphaned", orphaned


def _unit(name: str) -> str:
    return "messages" if name.startswith("messages") else "ms"


def _target(name: str) -> Target | None:
    for (keys, load), target in RECORDED_TARGETS.items():
        if name == f"recorded, {ACTORS} actors, {keys:,} keys, {load}: chandy-lamport":
            return target
    return None
