"""Figures, intervals and targets."""

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.plots import _DRAWINGS
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import median_interval, paired_ratios, quantile
from benchmarks.table import number


def test_a_figure_without_a_target_is_neither_met_nor_missed():
    assert Figure("held", 3.0, "ms").met is None


@pytest.mark.parametrize(
    ("relation", "value", "met"), [(">=", 50.0, True), (">=", 49.9, False), ("<=", 50.0, True), ("<=", 50.1, False)]
)
def test_a_target_is_met_at_its_bound(relation, value, met):
    assert Figure("speed", value, "x", target=Target(relation, 50.0)).met is met


def test_the_interval_holds_the_median_and_is_the_same_every_time():
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    low, high = median_interval(samples)
    assert 1.0 <= low <= 3.0 <= high <= 5.0
    assert median_interval(samples) == (low, high)


def test_ratios_are_taken_round_by_round():
    assert paired_ratios([10.0, 30.0], [2.0, 3.0]) == [5.0, 10.0]
    with pytest.raises(ValueError, match="shorter"):
        paired_ratios([1.0, 2.0], [1.0])


def test_half_of_the_samples_lie_below_the_middle():
    assert quantile([1.0, 2.0, 3.0], 0.5) == 2.0


def test_a_report_is_written_with_its_samples_and_medians():
    report = Report(
        "speed",
        "How fast?",
        {"rounds": 3},
        (Series("ours", "1/s", (1.0, 2.0, 9.0)),),
        (Figure.median_of("ours", [1.0, 2.0, 9.0], "1/s", Target(">=", 5.0)),),
    )
    written = report.as_json()
    assert written["samples"] == {"ours": (1.0, 2.0, 9.0)}
    assert written["medians"] == {"ours": {"value": 2.0, "unit": "1/s"}}
    assert (written["figures"][0]["met"], written["figures"][0]["target"]["bound"]) == (False, 5.0)


def test_numbers_are_written_to_three_digits_or_whole():
    assert [number(value) for value in (1234567.8, 99.96, 1.234, 0.01234)] == ["1,234,568", "100", "1.23", "0.0123"]


def test_each_benchmark_has_a_picture():
    assert _DRAWINGS.keys() == BENCHMARKS.keys()
