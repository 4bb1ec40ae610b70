"""The picture of `tables`: rows a second."""

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
