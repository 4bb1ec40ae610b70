"""From samples to figures: quantiles, intervals, ratios."""

from collections.abc import Callable, Sequence

import numpy as np

Measure = Callable[[], float]
"""Takes one sample."""

_RESAMPLES = 10_000
_SEED = 1985


def in_turn(rounds: int, ways: dict[str, Measure], *, warm_up: bool = True) -> dict[str, list[float]]:
    """So many samples of each way, in turn."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for n in range(rounds + warm_up):
        for way, measure in ways.items():
            sample = measure()
            if n >= warm_up:
                found[way].append(sample)
    return found


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which `share` (0 .. 1) of the samples lie."""
    return float(np.quantile(samples, share))


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the samples' median, by bootstrap with a fixed seed."""
    values = np.asarray(samples, dtype=np.float64)
    chosen = np.random.default_rng(_SEED).integers(0, len(values), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[chosen], axis=1), (0.025, 0.975))
    return float(low), float(high)


def paired_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The ratio within each round: what slows both sides of a round alike drops out."""
    return [upper / lower for upper, lower in zip(numerators, denominators, strict=True)]
