"""The pictures of `tables`, rows a second, and of `lake`, seconds behind."""

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

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
    """A line for each format: how long each snapshot took into the lake."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    for series in report.series:
        axes.plot(range(1, len(series.samples) + 1), series.samples, label=series.name)
    axes.set_xlabel("snapshot")
    axes.set_ylabel("seconds until it was in the lake")
    axes.legend()
    return figure
