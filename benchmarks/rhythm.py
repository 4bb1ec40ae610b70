"""Throughput of a ring without snapshots and with them in a rhythm, in turn."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import rayshot
from benchmarks.cluster import settle
from benchmarks.phases import PACE, SNAPSHOTS_MIN, Phases
from benchmarks.report import Figure, Series, Target
from benchmarks.samples import paired_ratios
from benchmarks.tokens import NOTED, Ring

PARTS = 40
"""Of the time between two snapshots."""


@dataclass(slots=True)
class Rhythms:
    """What was measured, by the name of each of `intervals_s`, the seconds between two snapshots.

    `rates` are messages a second, by window, and those without snapshots; `recorded_ms` is by snapshot. `began` are the
    times at which snapshots began, and `passed`, by actor, those at which another NOTED messages had been processed.
    """

    intervals_s: Mapping[str, float]
    rates: dict[str, list[float]] = field(default_factory=dict)
    recorded_ms: dict[str, list[float]] = field(default_factory=dict)
    began: dict[str, list[float]] = field(default_factory=dict)
    passed: list[list[float]] = field(default_factory=list)

    def series(self, case: str = "") -> Iterator[Series]:
        """All samples."""
        for name, samples in self.recorded_ms.items():
            yield Series(f"recorded, {name}{case}", "ms", tuple(samples))
        for name, samples in self.rates.items():
            yield Series(f"messages a second, {name}{case}", "1/s", tuple(samples))

    def figures(self, case: str = "") -> Iterator[Figure]:
        """Their medians."""
        for name, samples in self.recorded_ms.items():
            if samples:
                yield Figure.median_of(f"recorded, {name}{case}", samples, "ms")
        for name, samples in self.rates.items():
            yield Figure.median_of(f"messages a second, {name}{case}", samples, "1/s")


def measure(rhythms: Rhythms, system: rayshot.System, ring: Ring, pairs: int, window_s: float) -> None:
    """Measure windows without and with each rhythm, in turn."""
    ring.go()
    system.snapshot()
    ring.noted()
    rhythms.passed = [[] for _ in range(ring.size)]
    for _ in range(pairs):
        rhythms.rates.setdefault("without", []).append(ring.messages_per_second(window_s))
        for name, interval_s in rhythms.intervals_s.items():
            before = {snapshot.id for snapshot in system.snapshots()}
            system.configure(rayshot.SnapshotConfig(interval_s=min(interval_s, window_s / 2)))
            rhythms.rates.setdefault(name, []).append(ring.messages_per_second(window_s))
            settle(system)
            taken = [snapshot for snapshot in system.snapshots() if snapshot.id not in before]
            recorded_s = (float(snapshot.stats["recorded_s"]) for snapshot in taken)
            rhythms.recorded_ms.setdefault(name, []).extend(1e3 * seconds for seconds in recorded_s)
            rhythms.began.setdefault(name, []).extend(snapshot.taken_at.timestamp() for snapshot in taken)
        for of_one, noted in zip(rhythms.passed, ring.noted(), strict=True):
            of_one.extend(noted)


def lost_in_windows(rhythms: Rhythms, name: str, target: Target, case: str = "", *, by_median: bool = False) -> Figure:
    """The median over the rounds. The target is for the upper end of its interval, or for itself with `by_median`."""
    ratios = paired_ratios(rhythms.rates[name], rhythms.rates["without"])
    figure = Figure.median_of(f"throughput lost, {name}{case}", [100 * (1 - ratio) for ratio in ratios], "%")
    assert figure.interval is not None
    return replace(figure, target=target, judged=None if by_median else figure.interval[1])


def lost_between(rhythms: Rhythms, name: str, target: Target, case: str = "") -> tuple[list[Series], list[Figure]]:
    """Just after snapshots, compared with before them; nothing where too few were in rhythm."""
    phases = Phases(rhythms.passed, NOTED, rhythms.began[name], rhythms.intervals_s[name])
    if phases.snapshots < SNAPSHOTS_MIN:
        return [], []
    lost, interval = phases.loss()
    figure = Figure(f"throughput lost between two, {name}{case}", lost, "%", interval, target, judged=interval[1])
    return [Series(f"{PACE}, {name}{case}", "%", tuple(phases.pace(PARTS)))], [figure]
