"""What a rhythm of snapshots costs, by the time that has passed since each began.

Windows with and without snapshots say little of a few per cent on a machine whose own speed changes by a third between
two of them. So the messages of the moments just after a snapshot began are compared with those of the moments before it
and before the next one: the changes of the machine fall on both.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

SETTLED = (0.6, 0.98)
"""The part of the time between two snapshots in which the earlier one has ended, and left no trace."""
IN_RHYTHM = (0.9, 1.25)
"""Only a snapshot that the next one follows after so many intervals counts."""
COUNTED_MIN = 2
_RESAMPLES = 10_000
_SEED = 1985


def loss(
    passed: Sequence[Sequence[float]], every: int, began: Sequence[float], interval_s: float
) -> tuple[float, tuple[float, float]] | None:
    """The throughput lost, in per cent, and its 95 % interval, by bootstrap over the snapshots.

    `passed` are, by actor, the times at which it had processed another `every` messages; `began` those at which
    snapshots began, all in seconds. None where fewer than COUNTED_MIN snapshots were in rhythm.
    """
    gaps = ((at, after - at) for at, after in pairwise(began))
    counted = [(at, gap) for at, gap in gaps if IN_RHYTHM[0] <= gap / interval_s <= IN_RHYTHM[1]]
    if len(counted) < COUNTED_MIN:
        return None
    settled = np.array([_settled(passed, every, at, gap) for at, gap in counted])
    whole = np.array([_count(passed, every, at, at + SETTLED[1] * gap) for at, gap in counted])
    chosen = np.random.default_rng(_SEED).integers(0, len(counted), size=(_RESAMPLES, len(counted)))
    low, high = np.quantile(_lost(whole[chosen].sum(axis=1), settled[chosen].sum(axis=1)), (0.025, 0.975))
    return float(_lost(whole.sum(), settled.sum())), (float(low), float(high))


def _lost(whole: Any, settled: Any) -> Any:
    """What is missing to the pace of the settled time, in per cent of all that this pace would have brought."""
    by_pace = settled / (SETTLED[1] - SETTLED[0])
    return 100 * (SETTLED[1] * by_pace - whole) / by_pace


def _settled(passed: Sequence[Sequence[float]], every: int, began: float, gap_s: float) -> float:
    """The mean of before a snapshot and before the next one: a machine that slows down steadily is no loss."""
    before, after = ([at + share * gap_s for share in SETTLED] for at in (began - gap_s, began))
    return (_count(passed, every, *before) + _count(passed, every, *after)) / 2


def _count(passed: Sequence[Sequence[float]], every: int, begin: float, end: float) -> float:
    """Messages processed between two times; between two noted ones as if at a steady pace."""
    counts = (np.diff(np.interp((begin, end), times, every * np.arange(len(times)))) for times in passed)
    return float(sum(count.item() for count in counts))
