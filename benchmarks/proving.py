"""What it costs that states are loaded for trial: the first snapshots of a system, and all behind them."""

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios

ACTORS, POSITIONS = 8, 100
CALM_S = 0.1
"""After each snapshot: trials that nobody waits for are over by then, and do not slow the other system."""
WAYS = {"proved": True, "not proved": False}
FIRST, SAMPLED, BEHIND = "first snapshot", "snapshots 2, 4, 8 ...", "all behind the first"
NOTHING_MEASURABLE = Target("<=", 1.0)
"""For the lower end of the interval of a ratio."""


class Position:
    """Its class is no plain type, so states that hold it need a trial."""

    def __init__(self, amount: int) -> None:
        self.amount = amount


class Keeper:
    """Holds some positions."""

    def __init__(self) -> None:
        self.positions = [Position(amount) for amount in range(POSITIONS)]

    def add(self) -> None:
        """Change the state, so that it is written again."""
        self.positions[0].amount += 1


def run(*, short: bool) -> Report:
    """Pairs of equal systems, one with `prove=False`, take their snapshots in turn, from the first one on.

    Which of a pair begins first is in turn too: two equal systems differ by one per cent, the older one is slower.
    """
    pairs, snapshots = (1, 4) if short else (8, 33)
    found: dict[tuple[str, str], list[float]] = {(when, way): [] for when in (FIRST, SAMPLED, BEHIND) for way in WAYS}
    with fresh_cluster() as folder:
        for pair in range(pairs):
            for number, took_ms in enumerate(_in_turn(folder / str(pair), snapshots, pair), 1):
                for way, value in took_ms.items():
                    found[FIRST if number == 1 else BEHIND, way].append(value)
                    if number > 1 and number & (number - 1) == 0:
                        found[SAMPLED, way].append(value)
    return Report(
        "proving",
        "What does it cost that states are loaded for trial?",
        {"pairs": pairs, "snapshots": snapshots, "actors": ACTORS, "positions": POSITIONS},
        tuple(Series(f"{when}: {way}", "ms", tuple(samples)) for (when, way), samples in found.items()),
        (
            *(Figure.median_of(f"{when}: {way}", samples, "ms") for (when, way), samples in found.items()),
            *(_ratio(when, found[when, "proved"], found[when, "not proved"]) for when in (FIRST, SAMPLED, BEHIND)),
        ),
    )


def _in_turn(folder: Path, snapshots: int, pair: int) -> list[dict[str, float]]:
    """For each snapshot of two systems, the milliseconds until it was durable, by way."""
    found, systems, keepers = [], {}, {}
    with ExitStack() as opened:
        for way in WAYS if pair % 2 else reversed(WAYS):
            system = rayshot.init(way.replace(" ", "-"), storage=folder, failure=ONE_LIFE)
            systems[way] = opened.enter_context(system)
            keepers[way] = [rayshot.actor(num_cpus=0, prove=WAYS[way])(Keeper).remote() for _ in range(ACTORS)]
        for number in range(snapshots):
            took_ms = {}
            for way in WAYS if (pair // 2 + number) % 2 else reversed(WAYS):
                ray.get([keeper.add.remote() for keeper in keepers[way]])
                began_at = time.perf_counter()
                systems[way].snapshot()
                took_ms[way] = 1e3 * (time.perf_counter() - began_at)
                time.sleep(CALM_S)
            found.append(took_ms)
    return found


def _ratio(when: str, proved: list[float], not_proved: list[float]) -> Figure:
    figure = Figure.median_of(f"{when}: proved / not proved", paired_ratios(proved, not_proved), "x")
    if when == FIRST or figure.interval is None:
        return figure
    return replace(figure, target=NOTHING_MEASURABLE, judged=figure.interval[0])
