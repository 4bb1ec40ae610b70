"""The pictures of `tables`, rows a second, and of `lake`, seconds behind."""

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from benchmarks.plots.style import OURS, PLAIN, TARGET, strips
from benchmarks.report import Report


def draw_tables(report: Report) -> Figure:
    """A bar for each kind of messages, beside parquet."""
    rates = [figure for figure in report.figures if figure.unit == "rows/s"]
    figure, axes = plt.subplots(figsize=(8, 3.2))
    axes.barh([rate.name for rate in rates][::-1], [rate.value for rate in rates][::-1])
    axes.set_xscale("log")
    axes.set_xlabel("rows a second, through Spark")
    figure.subplots_adjust(left=0.32, bottom=0.24, top=0.86)
    return figure


def draw_lake(report: Report) -> Figure:
    """A line for each format: how long each snapshot took into the lake. Beside them large snapshots, in both ways."""
    figure, (lags, large) = plt.subplots(1, 2, figsize=(13, 3.8), width_ratios=(5, 3))
    for series in report.series:
        if series.name.endswith(": lag"):
            label = series.name.removesuffix(": lag")
            lags.plot(range(1, len(series.samples) + 1), series.samples, linewidth=1.2, label=label)
    bound = report.figure("parquet: longest lag").target
    assert bound is not None
    lags.axhline(bound.bound, color=TARGET, linestyle="--", linewidth=1, label="two triggers")
    lags.set_ylim(bottom=0)
    lags.set_xlabel(f"snapshot, one every {report.settings['every_s']:g} s")
    lags.set_ylabel("s until it was in the lake")
    lags.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
    ways = {"driver": PLAIN, "executors": OURS}
    strips(large, report, {f"large snapshot: {way}": (f"by the {way}", color) for way, color in ways.items()})
    large.set_xlim(left=0)
    large.set_xlabel("s until it was in the lake, one dot per snapshot")
    large.set_title(f"{report.settings['messages_of_large']:,} messages, Parquet")
    return figure
