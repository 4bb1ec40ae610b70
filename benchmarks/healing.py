"""What it costs a healthy system that it could go back; what going back costs with large states, and 100 times."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, in_turn, paired_ratios
from rayshot import FailureConfig, SnapshotConfig

ACTORS = 8
INTERVAL_S = 1.0
HEALS = FailureConfig(scope="system", backoff_s=0.0)
EVERY_SECOND = SnapshotConfig(interval_s=INTERVAL_S, num_to_keep=3)
GIGABYTE = 1 << 30
CALLS_AT_ONCE = 50
COST, LARGE, IN_A_ROW = "cost", "kill to caught up, 1 GB of states", "100 in a row: one rollback"
COST_TARGET, LARGE_TARGET, SAME_TARGET = Target(">=", 0.97), Target("<=", 4.0), Target("<=", 1.2)
NONE_MORE = Target("<=", 0)
REST_S = 70.0
"""Timers and idle workers of Ray are over by then."""
PART = 10
"""The first so many of the rollbacks in a row, against the last so many."""


class Counter:
    """Counts what it is told, beside a state of some size."""

    def __init__(self, size_bytes: int = 0) -> None:
        self.count = 0
        self.weight = np.random.default_rng(size_bytes).integers(0, 256, size_bytes, np.uint8) if size_bytes else None

    def add(self) -> None:
        """One more."""
        self.count += 1

    def read(self) -> int:
        """The count."""
        return self.count


def run(*, short: bool) -> Report:
    """Two equal systems in turn, one of which could go back; then kills."""
    rounds, kills, in_a_row, size, rest_s = (2, 1, 3, 1 << 20, 0.0) if short else (15, 7, 100, GIGABYTE, REST_S)
    with fresh_cluster(object_store_bytes=max(512 << 20, 4 * size)) as folder:
        told = _in_both(folder / "told", rounds, short=short, way=_tell_rate)
        called = _in_both(folder / "called", rounds, short=short, way=_call_rate)
        large_s = _kills_with_large_states(folder / "large", size, kills)
        row_s, grown = _many_in_a_row(folder / "row", in_a_row, rest_s)
    first, last = row_s[:PART], row_s[-PART:]
    return Report(
        "healing",
        "What does it cost that a system heals itself?",
        {"rounds": rounds, "kills": kills, "in_a_row": in_a_row, "state_bytes": size, "interval_s": INTERVAL_S},
        (
            *(
                Series(f"{what}: {way}", "1/s", tuple(samples))
                for what, found in (("told", told), ("calls", called))
                for way, samples in found.items()
            ),
            Series(LARGE, "s", tuple(large_s)),
            Series(IN_A_ROW, "s", tuple(row_s)),
        ),
        (
            Figure.median_of(
                "told a second: healing / not", paired_ratios(told["heals"], told["stops"]), "x", COST_TARGET
            ),
            Figure.median_of("calls a second: healing / not", paired_ratios(called["heals"], called["stops"]), "x"),
            Figure.median_of(f"{LARGE}, p50", large_s, "s", LARGE_TARGET),
            Figure("the last ten of a row / the first ten", median(last) / median(first), "x", target=SAME_TARGET),
            *(
                Figure(f"{what} more after the row", float(count), "", target=NONE_MORE)
                for what, count in grown.items()
            ),
        ),
    )


# A healthy system ---------------------------------------------------------------------------------------------------


def _in_both(
    folder: Path, rounds: int, *, short: bool, way: Callable[[Sequence[Any], float], float]
) -> dict[str, list[float]]:
    """Messages a second that a program gets handled; both systems take a snapshot every second, and run in turn."""
    seconds = 0.05 if short else 2.0
    with contextlib.ExitStack() as systems:
        ways: dict[str, Measure] = {}
        for name, failure in (("heals", HEALS), ("stops", ONE_LIFE)):
            systems.enter_context(rayshot.init(name, storage=folder, failure=failure, snapshot=EVERY_SECOND))
            actors = [rayshot.actor(num_cpus=0)(Counter).remote() for _ in range(ACTORS)]
            ray.get([actor.read.remote() for actor in actors])
            ways[name] = partial(way, actors, seconds)
        return in_turn(rounds, ways)


def _tell_rate(actors: Sequence[Any], seconds: float) -> float:
    began, told = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for actor in actors:
            for _ in range(100):
                actor.add.tell()
        told += 100 * len(actors)
    ray.get([actor.read.remote() for actor in actors])
    return told / (time.perf_counter() - began)


def _call_rate(actors: Sequence[Any], seconds: float) -> float:
    began, called = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        ray.get([actor.read.remote() for actor in actors for _ in range(CALLS_AT_ONCE)])
        called += CALLS_AT_ONCE * len(actors)
    return called / (time.perf_counter() - began)


# Kills --------------------------------------------------------------------------------------------------------------


def _kills_with_large_states(folder: Path, size_bytes: int, kills: int) -> list[float]:
    """Seconds from the kill of one of the actors until all have handled what they were told before and behind it."""
    took_s = []
    with rayshot.init("large", storage=folder, failure=HEALS, snapshot=EVERY_SECOND) as system:
        actors = [
            rayshot.actor(num_cpus=0)(Counter).options(name=f"c{k}").remote(size_bytes // ACTORS) for k in range(ACTORS)
        ]
        ray.get([actor.read.remote() for actor in actors])
        system.snapshot()
        told = 0
        for _ in range(kills):
            for _ in range(int(3 * 3_000 / ACTORS)):
                for actor in actors:
                    actor.add.tell()
                told += 1
                time.sleep(ACTORS / 3_000)
            _await(actors, told)
            began = time.monotonic()
            _kill(system, f"c{told % ACTORS}")
            _await(actors, told)
            _await_recovered(system)
            took_s.append(time.monotonic() - began)
    return took_s


def _many_in_a_row(folder: Path, count: int, rest_s: float) -> tuple[list[float], dict[str, int]]:
    """The seconds of each rollback, and what processes that lived through all of them have more than after some."""
    with rayshot.init("row", storage=folder, failure=HEALS, snapshot=EVERY_SECOND) as system:
        actors = [rayshot.actor(num_cpus=0)(Counter).options(name=f"c{k}").remote() for k in range(4)]
        ray.get([actor.read.remote() for actor in actors])
        system.snapshot()
        before: dict[str, int] = {}
        took_s: list[float] = []
        for done in range(count):
            if done == min(PART, count - 1):  # what is made only once is there
                before = _held(system, rest_s)
            _kill(system, "c0")
            took_s.append(_await_recovered(system, done + 1).seconds)
            actors[0].add.tell()
            system.snapshot()  # a system that goes back again and again without a snapshot stops
            system.snapshot()
        counted = wait_for(lambda: _read(actors[0]), "an answer")
        assert counted == count, f"{counted} of {count} messages count"
        after = _held(system, rest_s)
    return took_s, {what: after[what] - before[what] for what in after}


def _kill(system: rayshot.System, name: str) -> None:
    pid = system.status().actors[name].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _await_recovered(system: rayshot.System, count: int = 1) -> Any:
    def last() -> Any | None:
        found = system.status()
        return found.recoveries[-1] if len(found.recoveries) >= count and found.state == "running" else None

    return wait_for(last, "the system")


def _await(actors: Sequence[Any], told: int) -> None:
    wait_for(lambda: all(_read(actor) == told for actor in actors) or None, "what was told")


def _read(actor: Any) -> int | None:
    """Its count; None if its process died with the question."""
    try:
        return int(ray.get(actor.read.remote()))
    except ray.exceptions.ActorDiedError:
        return None


def _held(system: rayshot.System, rest_s: float) -> dict[str, int]:
    """What this program, the coordinator and the actors that live on hold of the machine, after a while of rest."""
    time.sleep(rest_s)
    pids = [os.getpid(), *(actor.pid for name, actor in system.status().actors.items() if name != "c0" and actor.pid)]
    pids.append(ray.get(system._identity.coordinator.__ray_call__.remote(lambda _: os.getpid())))  # noqa: SLF001
    folders = [Path(f"/proc/{pid}") for pid in pids]
    return {
        "processes": len(_descendants(os.getpid())),
        "threads": sum(sum(1 for _ in (folder / "task").iterdir()) for folder in folders),
        "descriptors": sum(sum(1 for _ in (folder / "fd").iterdir()) for folder in folders),
    }


def _descendants(pid: int) -> list[int]:
    """The processes that this one started, and those started them; Ray's are among them."""
    found: list[int] = []
    for of_thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has just ended
            for child in map(int, of_thread.read_text().split()):
                found += [child, *_descendants(child)]
    return found
