"""What it costs a healthy system that it could go back; what going back costs, and 100 times."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, in_turn, paired_ratios, quantile
from rayshot import FailureConfig, SnapshotConfig

ACTORS = 8
INTERVAL_S = 1.0
HEALS = FailureConfig(scope="system", backoff_s=0.0)
EVERY_SECOND = SnapshotConfig(interval_s=INTERVAL_S, num_to_keep=3)
GIGABYTE = 1 << 30
CALLS_AT_ONCE = 50
RATE = 3_000
"""Messages a second while actors are killed."""
BETWEEN_KILLS_S, TICK_S = 3.0, 0.05
PAUSES = FailureConfig()
"""As a user has it: a system that goes back again and again for one cause pauses longer each time."""
UNRELATED, BETWEEN_UNRELATED_S = 10, 10.0
SMALL, SPARED, LARGE, LARGE_SPARED = (
    f"kill to caught up, {states}{spare}"
    for states in ("small states", "1 GB of states")
    for spare in ("", " and a spare process")
)
IN_A_ROW = "100 in a row: one rollback"
WITHOUT_TARGET, SPARED_TARGET, SLOWEST_TARGET = Target("<=", 4.0), Target("<=", 1.5), Target("<=", 3.0)
COST_TARGET, SAME_TARGET, UNRELATED_TARGET = Target(">=", 0.97), Target("<=", 1.2), Target("<=", 1.3)
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
    rounds, kills, in_a_row, size, rest_s = (2, 1, 3, 1 << 20, 0.0) if short else (15, 20, 100, GIGABYTE, REST_S)
    count = 1 if short else ACTORS
    with fresh_cluster(object_store_bytes=max(512 << 20, 4 * size)) as folder:
        told = _in_both(folder / "told", count, rounds, short=short, way=_tell_rate)
        called = _in_both(folder / "called", count, rounds, short=short, way=_call_rate)
        small_s = _kills(folder / "small", count, 0, kills)
        spared_s = _kills(folder / "spared", count, 0, kills, spares=1)
        large_s = _kills(folder / "large", count, size, kills)
        large_spared_s = _kills(folder / "large-spared", count, size, kills, spares=1)
        firsts_s, tenths_s = _unrelated(folder / "unrelated", count, short=short)
        row_s, grown = _many_in_a_row(folder / "row", in_a_row, rest_s)
    first, last = row_s[:PART], row_s[-PART:]
    killed = (
        (SMALL, small_s, WITHOUT_TARGET, None),
        (SPARED, spared_s, SPARED_TARGET, SLOWEST_TARGET),
        (LARGE, large_s, WITHOUT_TARGET, None),
        (LARGE_SPARED, large_spared_s, SPARED_TARGET, SLOWEST_TARGET),
    )
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
            *(Series(which, "s", tuple(found)) for which, found, *_ in killed),
            Series("ten unrelated kills: the first to caught up", "s", tuple(firsts_s)),
            Series("ten unrelated kills: the tenth to caught up", "s", tuple(tenths_s)),
            Series(IN_A_ROW, "s", tuple(row_s)),
        ),
        (
            Figure.median_of(
                "told a second: healing / not", paired_ratios(told["heals"], told["stops"]), "x", COST_TARGET
            ),
            Figure.median_of("calls a second: healing / not", paired_ratios(called["heals"], called["stops"]), "x"),
            *(Figure.median_of(f"{which}: p50", found, "s", target) for which, found, target, _ in killed),
            *(Figure(f"{which}: p99", quantile(found, 0.99), "s", target=target) for which, found, _, target in killed),
            Figure.median_of(
                "kill to caught up: the tenth of ten unrelated kills / the first",
                paired_ratios(tenths_s, firsts_s),
                "x",
                UNRELATED_TARGET,
            ),
            Figure("the last ten of a row / the first ten", median(last) / median(first), "x", target=SAME_TARGET),
            *(
                Figure(f"{what} more after the row", float(count), "", target=NONE_MORE)
                for what, count in grown.items()
            ),
        ),
    )


# A healthy system ---------------------------------------------------------------------------------------------------


def _in_both(
    folder: Path, count: int, rounds: int, *, short: bool, way: Callable[[Sequence[Any], float], float]
) -> dict[str, list[float]]:
    """Messages a second that a program gets handled; both systems take a snapshot every second, and run in turn."""
    seconds = 0.05 if short else 2.0
    with contextlib.ExitStack() as systems:
        ways: dict[str, Measure] = {}
        for name, failure in (("heals", HEALS), ("stops", ONE_LIFE)):
            systems.enter_context(rayshot.init(name, storage=folder, failure=failure, snapshots=EVERY_SECOND))
            actors = [rayshot.actor(num_cpus=0)(Counter).remote() for _ in range(count)]
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


def _unrelated(folder: Path, count: int, *, short: bool) -> tuple[list[float], list[float]]:
    """The seconds of the first and of the last of some kills of one actor after the other, in some systems."""
    rounds, kills, between_s = (1, 2, 0.0) if short else (3, UNRELATED, BETWEEN_UNRELATED_S)
    took_s = [
        _kills(folder / str(number), count, 0, kills, failure=PAUSES, between_s=between_s) for number in range(rounds)
    ]
    return [row_s[0] for row_s in took_s], [row_s[-1] for row_s in took_s]


def _kills(
    folder: Path,
    count: int,
    size_bytes: int,
    kills: int,
    spares: int = 0,
    *,
    failure: FailureConfig = HEALS,
    between_s: float = BETWEEN_KILLS_S,
) -> list[float]:
    """Seconds from the kill of one actor until all have handled what they were told, while a program goes on to tell.

    The states of the `count` actors have `size_bytes` together.
    """
    took_s: list[float] = []
    failure = replace(failure, spares=spares)
    with rayshot.init("killed", storage=folder, failure=failure, snapshots=EVERY_SECOND) as system:
        actors = [
            rayshot.actor(num_cpus=0)(Counter).options(name=f"c{k}").remote(size_bytes // count) for k in range(count)
        ]
        ray.get([actor.read.remote() for actor in actors])
        system.snapshot()
        with _told(actors) as told:
            for done in range(kills):
                time.sleep(between_s)
                wait_for(lambda: system.status().spares == spares or None, "the spare processes")
                began = time.monotonic()
                _kill(system, f"c{done % count}")
                _await_recovered(system, done + 1)
                _await_counts(actors)
                took_s.append(time.monotonic() - began)
        counts = _await_counts(actors)
        assert counts == [told[0]] * count, f"told {told[0]} each, counted {counts}"
    return took_s


@contextlib.contextmanager
def _told(actors: Sequence[Any]) -> Iterator[list[int]]:
    """Meanwhile all actors are told, RATE messages a second together. Yields how many each was told, so far."""
    over, told = threading.Event(), [0]

    def tell() -> None:
        while not over.wait(TICK_S):
            for _ in range(round(RATE * TICK_S / len(actors))):
                for actor in actors:
                    actor.add.tell()
                told[0] += 1

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join()


def _many_in_a_row(folder: Path, count: int, rest_s: float) -> tuple[list[float], dict[str, int]]:
    """The seconds of each rollback, and what processes that lived through all of them have more than after some."""
    with rayshot.init("row", storage=folder, failure=HEALS, snapshots=EVERY_SECOND) as system:
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


def _await_counts(actors: Sequence[Any]) -> list[int]:
    """The count of each, behind all that this program has told it."""
    return [wait_for(partial(_read, actor), "an answer") for actor in actors]


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
