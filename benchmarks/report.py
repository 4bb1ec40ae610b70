"""What a benchmark found: series of samples, and figures drawn from them, some with a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.samples import median_interval


@dataclass(frozen=True, slots=True)
class Series:
    """Every sample of one thing that was measured, in the order it was measured."""

    name: str
    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.samples)


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is to reach: at least (`>=`) or at most (`<=`) `bound`."""

    relation: str
    bound: float

    def met_by(self, value: float) -> bool:
        """Whether it is reached."""
        return bool(value >= self.bound if self.relation == ">=" else value <= self.bound)  # numpy has its own True


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit; `interval` is its 95 % interval where it is known.

    `judged` is what the target is held against where that is not `value`, as an end of the interval.
    """

    name: str
    value: float
    unit: str
    interval: tuple[float, float] | None = None
    target: Target | None = None
    judged: float | None = None

    @classmethod
    def median_of(cls, name: str, samples: Sequence[float], unit: str, target: Target | None = None) -> "Figure":
        """The median of the samples with its bootstrap interval."""
        return cls(name, median(samples), unit, median_interval(samples), target)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.target.met_by(self.value if self.judged is None else self.judged)

    def as_json(self) -> dict[str, Any]:
        """For the JSON file."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "interval_95": self.interval,
            "target": None if self.target is None else {"relation": self.target.relation, "bound": self.target.bound},
            "met": self.met,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's outcome. `settings` are the sizes it ran with."""

    name: str
    question: str
    settings: dict[str, Any]
    series: tuple[Series, ...]
    figures: tuple[Figure, ...]

    def samples(self, name: str) -> tuple[float, ...]:
        """The samples of one series."""
        (found,) = (series.samples for series in self.series if series.name == name)
        return found

    def figure(self, name: str) -> Figure:
        """One figure."""
        (found,) = (figure for figure in self.figures if figure.name == name)
        return found

    def as_json(self) -> dict[str, Any]:
        """For the JSON file."""
        return {
            "name": self.name,
            "question": self.question,
            "settings": self.settings,
            "figures": [figure.as_json() for figure in self.figures],
            "medians": {series.name: {"value": series.median, "unit": series.unit} for series in self.series},
            "samples": {series.name: series.samples for series in self.series},
        }


class NotRun(Exception):
    """This machine cannot run a benchmark; the message says why."""
