"""One picture per report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchmarks.peers.plot import draw_peers
from benchmarks.report import Report
from benchmarks.table import number

OURS, PLAIN, TARGET = "#1f6feb", "#8b949e", "#d1242f"
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e6e8eb",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.dpi": 110,
}


def draw(report: Report, folder: Path, footnote: str) -> Path:
    """Draw the report's picture into `folder`; returns the file. `footnote` says where it was measured."""
    mpl.use("Agg")
    with mpl.rc_context(_STYLE):
        figure = _DRAWINGS[report.name](report)
        figure.suptitle(report.question, x=0.01, ha="left", fontsize=13, fontweight="bold")
        figure.text(0.01, 0.01, footnote, fontsize=8, color="#57606a")
        figure.tight_layout(rect=(0, 0.03, 1, 0.98))
        file = folder / f"{report.name}.png"
        figure.savefig(file)
        plt.close(figure)
    return file


def _draw_messages(report: Report) -> Any:
    figure, axes = plt.subplots(figsize=(8, 3.6))
    _strips(axes, report, {"rayshot": ("rayshot\n.tell()", OURS), "ray": ("plain Ray\n.remote()", PLAIN)})
    _log_x(axes)
    axes.set_xlabel("messages a second, one dot per round")
    axes.set_title(f"{number(report.figure('rayshot / ray').value)} times as many")
    return figure


def _draw_latency(report: Report) -> Any:
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axes, suffix, title in zip(panels, ("", ", quiet"), ("ball on ball", "5 ms of quiet before each"), strict=True):
        for name, color in (("rayshot", OURS), ("ray", PLAIN)):
            p50 = report.figure(f"{name}{suffix} p50").value
            label = f"{'plain Ray' if name == 'ray' else name}: p50 {number(p50)} us"
            _distribution(axes, report.samples(f"{name}{suffix}"), color, label)
        highest = max(report.figure(f"{name}{suffix} p99").value for name in ("rayshot", "ray"))
        axes.set_xlim(0, highest * 1.1)
        axes.set_xlabel("one way, us")
        axes.set_title(f"{title}: {number(report.figure(f'rayshot / ray{suffix}').value)} times the call")
        axes.legend(loc="lower right")
    panels[0].set_ylabel("share that arrived by then")
    return figure


def _draw_snapshot(report: Report) -> Any:
    figure, (times, windows) = plt.subplots(1, 2, figsize=(10, 4))
    for name, color in (("recorded", OURS), ("durable", "#0a3069")):
        p50 = report.figure(f"{name} p50").value
        _distribution(times, report.samples(name), color, f"{name}: p50 {number(p50)} ms")
    times.axvline(150, color=TARGET, linestyle="--", linewidth=1, label="target for recorded p50")
    times.set_xlim(left=0)
    times.set_ylim(0, 1.02)
    times.set_xlabel("ms after the snapshot was asked for")
    times.set_ylabel("share of snapshots")
    times.set_title("how long one takes")
    times.legend(loc="lower right")
    without, with_ = report.samples("without snapshots"), report.samples("with snapshots")
    rounds = range(1, len(without) + 1)
    windows.vlines(rounds, without, with_, color="#d0d7de", linewidth=2)
    windows.plot(rounds, without, "o", color=PLAIN, label="without snapshots")
    windows.plot(rounds, with_, "o", color=OURS, label=f"one every {report.settings['interval_s']:g} s")
    windows.set_ylim(0, max(*without, *with_) * 1.25)
    windows.yaxis.set_major_formatter(FuncFormatter(_plain))
    windows.xaxis.set_major_locator(MaxNLocator(integer=True))
    windows.set_xlabel("round")
    windows.set_ylabel("messages a second")
    windows.set_title(f"throughput lost: {number(report.figure('throughput lost').value)} %")
    windows.legend(loc="lower right")
    return figure


def _draw_capture(report: Report) -> Any:
    figure, axes = plt.subplots(figsize=(8, 3.6))
    labels = {
        "hold": ("rayshot: held\nby the snapshot", OURS),
        "longest pause": ("rayshot: longest pause\nthe actor saw", OURS),
        "ray.put": ("plain Ray:\nray.put", PLAIN),
    }
    _strips(axes, report, labels)
    _log_x(axes)
    axes.axvline(50, color=TARGET, linestyle="--", linewidth=1, label="target for the hold")
    axes.set_xlabel("ms, one dot per round")
    axes.set_title(f"a state of {report.settings['state_bytes'] >> 20:,} MB")
    axes.legend(loc="upper left", bbox_to_anchor=(0.7, 1.15))
    return figure


def _draw_growth(report: Report) -> Any:
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
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        axes.grid(visible=True, axis="x")
        axes.set_xlabel(x)
        axes.set_title(title)
        axes.legend(loc="upper left", fontsize=8)
    return figure


_GRAPH_COLORS = {"ring": "#0a3069", "star": "#bf8700", "random graph": "#1a7f37", "clique": "#8250df"}


def _strips(axes: Any, report: Report, labels: dict[str, tuple[str, str]]) -> None:
    """One row of dots per series, its median as a bar with its value."""
    for row, (name, (_, color)) in enumerate(labels.items()):
        samples = report.samples(name)
        (series,) = (series for series in report.series if series.name == name)
        axes.plot(samples, [row] * len(samples), "o", color=color, alpha=0.45, markeredgewidth=0)
        axes.plot([series.median] * 2, [row - 0.22, row + 0.22], color=color, linewidth=3)
        axes.text(series.median, row - 0.3, f"{number(series.median)}", color=color, ha="center", fontweight="bold")
    axes.set_yticks(range(len(labels)), [label for label, _ in labels.values()])
    axes.set_ylim(len(labels) - 0.5, -0.7)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def _log_x(axes: Any) -> None:
    """A logarithmic scale with plain numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))


def _plain(value: float, _position: int) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


def _distribution(axes: Any, samples: Sequence[float], color: str, label: str) -> None:
    """The share of samples up to each value."""
    ordered = sorted(samples)
    axes.step(
        ordered, [(rank + 1) / len(ordered) for rank in range(len(ordered))], where="post", color=color, label=label
    )


_DRAWINGS = {
    "messages": _draw_messages,
    "latency": _draw_latency,
    "snapshot": _draw_snapshot,
    "capture": _draw_capture,
    "growth": _draw_growth,
    "peers": draw_peers,
}
