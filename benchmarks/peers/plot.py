"""The picture of the benchmark `peers`."""

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from benchmarks.peers.comparison import FEW, MANY
from benchmarks.plots.style import OURS, PLAIN, plain
from benchmarks.report import Report
from benchmarks.table import number


def draw_peers(report: Report) -> Any:
    """Bars for each engine: records a second and core in both settings, and the time to recover."""
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.4))
    titles = {
        f", {FEW}: records per core": ("records a second and core", f"{FEW}, a checkpoint a second"),
        f", {MANY}: records per core": ("records a second and core", f"{MANY}, a checkpoint each 0.1 s"),
        ": recovery": ("seconds", "killed: until it counts again"),
    }
    medians = {series.name: series.median for series in report.series}
    for axes, (suffix, (unit, title)) in zip(panels, titles.items(), strict=True):
        bars = {name: medians[name + suffix] for name in report.settings["engines"] if name + suffix in medians}
        _bars(axes, bars)
        axes.set_xlabel(unit)
        axes.set_title(title)
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
    return figure


def _bars(axes: Any, bars: dict[str, float]) -> None:
    if not bars:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
        return
    colors = [OURS if name.startswith("rayshot") else PLAIN for name in bars]
    drawn = axes.barh(range(len(bars)), list(bars.values()), color=colors, height=0.6)
    axes.bar_label(drawn, [number(value) for value in bars.values()], padding=4)
    axes.set_yticks(range(len(bars)), [name.replace(", ", ",\n") for name in bars])
    axes.invert_yaxis()
    axes.margins(x=0.35)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
