"""Pictures of what snapshots cost a system that runs."""

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchmarks.plots.style import OURS, PLAIN, TARGET, distribution, log_x, plain, strips
from benchmarks.report import Report
from benchmarks.table import number


def draw_snapshot(report: Report) -> Any:
    """How long one takes, and throughput with and without, round by round."""
    figure, (times, windows) = plt.subplots(1, 2, figsize=(10, 4))
    for name, color in (("recorded", OURS), ("durable", "#0a3069")):
        p50 = report.figure(f"{name} p50").value
        distribution(times, report.samples(name), color, f"{name}: p50 {number(p50)} ms")
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
    windows.yaxis.set_major_formatter(FuncFormatter(plain))
    windows.xaxis.set_major_locator(MaxNLocator(integer=True))
    windows.set_xlabel("round")
    windows.set_ylabel("messages a second")
    windows.set_title(f"throughput lost: {number(report.figure('throughput lost').value)} %")
    windows.legend(loc="lower right")
    return figure


def draw_capture(report: Report) -> Any:
    """Dots for each round."""
    figure, axes = plt.subplots(figsize=(8, 3.6))
    labels = {
        "hold": ("rayshot: held\nby the snapshot", OURS),
        "longest pause": ("rayshot: longest pause\nthe actor saw", OURS),
        "ray.put": ("plain Ray:\nray.put", PLAIN),
    }
    strips(axes, report, labels)
    log_x(axes)
    axes.axvline(50, color=TARGET, linestyle="--", linewidth=1, label="target for the hold")
    axes.set_xlabel("ms, one dot per round")
    axes.set_title(f"a state of {report.settings['state_bytes'] >> 20:,} MB")
    axes.legend(loc="upper left", bbox_to_anchor=(0.7, 1.15))
    return figure
