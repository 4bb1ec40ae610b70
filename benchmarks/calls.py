"""What calls cost, of a driver and of an actor that asks another, and making actors; against plain Ray."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, in_turn, paired_ratios

AT_ONCE = 100
AT_ONCE_TARGET = Target("<=", 1.6)
ABSENT_CALLS = 1_000
ABSENT_TARGET = Target("<=", 1.0)
MADE = (10, 50)
MADE_TARGET = Target("<=", 1.2)
ASKED_AT_ONCE = 1_000
ASKING_TARGET, ASKED_AT_ONCE_TARGET = Target("<=", 2.0), Target("<=", 0.2)


class Counter:
    """Counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        """One more."""
        self.count += 1
        return self.count


class Asker:
    """Waits for the answers of another actor; each method returns milliseconds."""

    async def one_by_one(self, other: Any, calls: int) -> float:
        """From a question to its answer."""
        times = []
        for _ in range(calls):
            began_at = time.perf_counter()
            await other.add.remote()
            times.append(time.perf_counter() - began_at)
        return median(times) * 1e3

    async def at_once(self, other: Any, count: int) -> float:
        """Until so many questions are answered."""
        began_at = time.perf_counter()
        await asyncio.gather(*(other.add.remote() for _ in range(count)))
        return (time.perf_counter() - began_at) * 1e3


def run(*, short: bool) -> Report:
    """Measure in turn: calls one by one and many at once, those of an actor, calls to one that is not there, making."""
    rounds, calls, made = (1, 20, (2,)) if short else (15, 200, MADE)
    making_rounds = 1 if short else 3
    ours, plain = rayshot.actor(num_cpus=0)(Counter), ray.remote(num_cpus=0)(Counter)
    our_asker, plain_asker = rayshot.actor(num_cpus=0)(Asker), ray.remote(num_cpus=0)(Asker)
    with fresh_cluster() as folder:
        with rayshot.init("calls", storage=folder, failure=ONE_LIFE):
            actors = {"rayshot": ours.remote(), "ray": plain.remote()}
            askers = {"rayshot": our_asker.remote(), "ray": plain_asker.remote()}
            found: dict[str, dict[str, list[float]]] = {
                "one by one": in_turn(rounds, {way: _one_by_one(actor, calls) for way, actor in actors.items()}),
                f"{AT_ONCE} at once": in_turn(rounds, {way: _at_once(actor) for way, actor in actors.items()}),
                "an actor asks one by one": in_turn(
                    rounds, {way: _asked(one.one_by_one, actors[way], calls) for way, one in askers.items()}
                ),
                f"an actor asks {ASKED_AT_ONCE:,} at once": in_turn(
                    rounds, {way: _asked(one.at_once, actors[way], ASKED_AT_ONCE) for way, one in askers.items()}
                ),
            }
            absent_ms = [_absent_ms(100 if short else ABSENT_CALLS) for _ in range(rounds)]
        for count in made:
            ways: dict[str, Measure] = {
                "rayshot": partial(_make_ours_ms, ours, count, folder),
                "ray": partial(_make_plain_ms, plain, count),
            }
            found[f"making {count} actors"] = in_turn(making_rounds, ways, warm_up=False)
    targets = {
        f"{AT_ONCE} at once": AT_ONCE_TARGET,
        "an actor asks one by one": ASKING_TARGET,
        f"an actor asks {ASKED_AT_ONCE:,} at once": ASKED_AT_ONCE_TARGET,
        **{f"making {count} actors": MADE_TARGET for count in MADE},
    }
    return Report(
        "calls",
        "What do calls cost, of a driver and of an actor that asks, and making actors?",
        {"rounds": rounds, "calls": calls, "absent_calls": ABSENT_CALLS, "making_rounds": making_rounds},
        (
            *(
                Series(f"{what}: {way}", "ms", tuple(samples))
                for what, ways in found.items()
                for way, samples in ways.items()
            ),
            Series("a call to an actor that is not there", "ms", tuple(absent_ms)),
        ),
        (
            *(
                Figure.median_of(
                    f"{what}: rayshot / ray", paired_ratios(ways["rayshot"], ways["ray"]), "x", targets.get(what)
                )
                for what, ways in found.items()
            ),
            Figure.median_of("a call to an actor that is not there", absent_ms, "ms", ABSENT_TARGET),
        ),
    )


def _one_by_one(actor: Any, calls: int) -> Callable[[], float]:
    """Milliseconds from a call to its result."""

    def measure() -> float:
        times = []
        for _ in range(calls):
            began_at = time.perf_counter()
            ray.get(actor.add.remote())
            times.append(time.perf_counter() - began_at)
        return median(times) * 1e3

    return measure


def _at_once(actor: Any) -> Callable[[], float]:
    """Milliseconds until the results of AT_ONCE calls are there."""

    def measure() -> float:
        began_at = time.perf_counter()
        ray.get([actor.add.remote() for _ in range(AT_ONCE)])
        return (time.perf_counter() - began_at) * 1e3

    return measure


def _asked(method: Any, other: Any, count: int) -> Callable[[], float]:
    return lambda: float(ray.get(method.remote(other, count)))


def _absent_ms(calls: int) -> float:
    """Milliseconds that a call takes its caller where its actor waits for room."""
    absent = rayshot.actor(num_cpus=0, resources={"not there": 1})(Counter).remote()
    began_at = time.perf_counter()
    refs = [absent.add.remote() for _ in range(calls)]
    took_s = time.perf_counter() - began_at
    assert not ray.wait(refs, timeout=0)[0]
    return took_s / calls * 1e3


def _make_ours_ms(cls: Any, count: int, folder: Path) -> float:
    with rayshot.init("making", storage=folder, failure=ONE_LIFE):
        return _make_ms(cls, count)[0]


def _make_plain_ms(cls: Any, count: int) -> float:
    took_ms, actors = _make_ms(cls, count)
    for actor in actors:
        ray.kill(actor)
    return took_ms


def _make_ms(cls: Any, count: int) -> tuple[float, list[Any]]:
    """Milliseconds until so many new actors have answered a call each."""
    began_at = time.perf_counter()
    actors = [cls.remote() for _ in range(count)]
    ray.get([actor.add.remote() for actor in actors])
    return (time.perf_counter() - began_at) * 1e3, actors
