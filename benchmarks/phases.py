"""What a rhythm of snapshots costs, by the time that has passed since each began.

Windows with and without snapshots say little of a few per cent on a machine whose own speed changes by a third between
two of them. So the messages of the moments just after a snapshot began are compared with those of the moments before it
and before the next one: the changes of the machine fall on both.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

PACE = "pace since a snapshot began"
"""What begins the name of a series of `Phases.pace`."""
SETTLED = (0.6, 0.98)
"""The part of the time between two snapshots in which the earlier one is durable, and the pace is steady."""
IN_RHYTHM = (0.9, 1.25)
"""Only a snapshot that the next one follows after so many intervals counts."""
SNAPSHOTS_MIN = 10
"""Fewer say nothing."""
_BLOCK = 5
"""Neighbours share the time between them, and the moods of the machine: they are drawn together."""
_RESAMPLES = 10_000
_SEED = 1985


class Phases:
    """The times between two snapshots, laid upon each other.

    `passed` are, by actor, the times at which it had processed another `every` messages; `began` those at which
    snapshots began, about `interval_s` apart; all in seconds. `snapshots` is how many of them count.
    """

    def __init__(
        self, passed: Sequence[Sequence[float]], every: int, began: Sequence[float], interval_s: float
    ) -> None:
        self._passed = [(np.asarray(times, dtype=np.float64), every * np.arange(len(times))) for times in passed]
        gaps = ((at, after - at) for at, after in pairwise(began))
        self._counted = [(at, gap) for at, gap in gaps if IN_RHYTHM[0] <= gap / interval_s <= IN_RHYTHM[1]]
        self.snapshots = len(self._counted)

    def loss(self) -> tuple[float, tuple[float, float]]:
        """The throughput lost, in per cent, and its 95 % interval, by bootstrap over runs of snapshots.

        What snapshots in rhythm cost all the time between them is not in it.
        """
        starts = range(0, self.snapshots, _BLOCK)
        settled, whole = (np.add.reduceat(part, starts) for part in (self._settled(), self._between(0.0, SETTLED[1])))
        chosen = np.random.default_rng(_SEED).integers(0, len(starts), size=(_RESAMPLES, len(starts)))
        low, high = np.quantile(_lost(whole[chosen].sum(axis=1), settled[chosen].sum(axis=1)), (0.025, 0.975))
        return float(_lost(whole.sum(), settled.sum())), (float(low), float(high))

    def pace(self, parts: int) -> list[float]:
        """For so many equal parts of the time between two snapshots the throughput, in per cent of the settled one."""
        pace = self._settled().sum() / (SETTLED[1] - SETTLED[0])
        edges = np.linspace(0.0, 1.0, parts + 1)
        return [100 * float(self._between(low, high).sum() / (high - low) / pace) for low, high in pairwise(edges)]

    def _settled(self) -> Any:
        """Of before each snapshot and before the next one, on a line between: a steadily slower machine is no loss."""
        before, after = self._between(SETTLED[0] - 1, SETTLED[1] - 1), self._between(*SETTLED)
        middle = 1 + SETTLED[1] / 2 - sum(SETTLED) / 2  # of the time compared with, from the one to the other
        return (1 - middle) * before + middle * after

    def _between(self, low: float, high: float) -> Any:
        """By snapshot, the messages processed in this part of the time until the next one."""
        return np.array([self._count(at + low * gap, at + high * gap) for at, gap in self._counted])

    def _count(self, begin: float, end: float) -> float:
        """Messages processed between two times; between two noted ones as if at a steady pace."""
        return float(sum(np.diff(np.interp((begin, end), times, counts)).item() for times, counts in self._passed))


def _lost(whole: Any, settled: Any) -> Any:
    """What is missing to the settled pace, in per cent of all that this pace would have brought until the next one."""
    by_pace = settled / (SETTLED[1] - SETTLED[0])
    return 100 * (SETTLED[1] * by_pace - whole) / by_pace
