"""Pictures of what is counted over the size of the system."""

from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from benchmarks.plots.style import OURS, PLAIN, plain
from benchmarks.report import Report
from benchmarks.scale import JOIN, RECOVERY, SNAPSHOT


def draw_growth(report: Report) -> Any:
    """Markers, bytes and rounds, a line for each kind of graph."""
    figure, (markers, sizes, rounds) = plt.subplots(1, 3, figsize=(13, 4.4))
    begins = "one process begins"
    for (name, color), mark in zip(_GRAPH_COLORS.items(), "osD^", strict=True):

        def counted(quantity: str, name: str = name) -> Any:
            return np.array(report.samples(f"{name}, {begins}: {quantity}"))

        look: dict[str, Any] = {"color": color, "marker": mark, "markersize": 4, "linewidth": 1.2, "label": name}
        system = counted("processes") + counted("channels")
        markers.plot(counted("channels"), counted("markers"), **look)
        sizes.plot(system, counted("marker_bytes") + counted("coordinator_bytes"), **look)
        rounds.plot(counted("processes"), counted("rounds"), **look)
    largest = 1e5
    markers.plot([10, largest], [10, largest], color=PLAIN, linewidth=5, alpha=0.3, label="one per channel", zorder=0)
    sizes.plot([20, largest], [20 * 60, largest * 60], color=PLAIN, linewidth=5, alpha=0.3, label="60 each", zorder=0)
    told = report.samples("random graph, the coordinator begins: rounds")
    processes = report.samples("random graph, the coordinator begins: processes")
    rounds.plot(processes, told, color=OURS, linewidth=2, linestyle="--", label="coordinator begins, any graph")
    for axes, x, title in (
        (markers, "channels", "one process begins: markers"),
        (sizes, "processes and channels", "one process begins: bytes"),
        (rounds, "processes", "rounds until all have recorded"),
    ):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.yaxis.set_major_formatter(FuncFormatter(plain))
        axes.grid(visible=True, axis="x")
        axes.set_xlabel(x)
        axes.set_title(title)
        axes.legend(loc="upper left", fontsize=8)
    return figure


def draw_scale(report: Report) -> Any:
    """The work of a coordinator, a line for each deed."""
    figure, axes = plt.subplots(figsize=(7, 4.4))
    actors = np.array(report.samples("actors"))
    for deed, color, mark in zip((SNAPSHOT, RECOVERY, JOIN), ("#0a3069", "#bf8700", "#1a7f37"), "osD", strict=True):
        calls = np.array(report.samples(deed))
        axes.plot(actors, calls, color=color, marker=mark, markersize=4, linewidth=1.2, label=deed)
        if deed != JOIN:
            axes.plot(actors, calls[0] * actors / actors[0], color=PLAIN, linewidth=5, alpha=0.3, zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("actors, ten on a node")
    axes.set_title("calls in the coordinator; grey: linear")
    axes.legend(loc="upper left", fontsize=8)
    return figure


_GRAPH_COLORS = {"ring": "#0a3069", "star": "#bf8700", "random graph": "#1a7f37", "clique": "#8250df"}
