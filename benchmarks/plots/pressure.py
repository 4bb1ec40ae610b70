"""Pictures of snapshots under pressure: at short intervals, and behind long queues."""

from statistics import median
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from benchmarks.backlog import named
from benchmarks.interval import MODES, NONE, every
from benchmarks.plots.style import OURS, PLAIN, TARGET, plain
from benchmarks.report import Report

_COLORS = dict(zip(MODES, (TARGET, "#bf8700", "#1a7f37", OURS), strict=True))


def draw_interval(report: Report) -> Any:
    """Run time, and how many snapshots were taken meanwhile, over the interval, a line for each mode."""
    figure, (times, counts) = plt.subplots(1, 2, figsize=(11, 4.4))
    intervals = report.settings["intervals_s"]
    for (name, color), mark in zip(_COLORS.items(), "osD^", strict=True):
        for axes, what in ((times, "run time"), (counts, "snapshots")):
            medians = [median(report.samples(f"{name}, {every(one)}: {what}")) for one in intervals]
            axes.plot(intervals, medians, color=color, marker=mark, markersize=5, linewidth=1.4, label=name)
    times.axhline(report.figure(NONE).value, color=PLAIN, linewidth=1.4, linestyle="--", label=NONE)
    for axes, title in ((times, f"{report.settings['words']:,} words: run time, s"), (counts, "snapshots taken")):
        axes.set_xscale("log")
        axes.set_xticks(intervals, [f"{one:g}" for one in intervals])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("interval between snapshots, s")
        axes.set_title(title)
    counts.legend(*times.get_legend_handles_labels(), loc="upper right")
    return figure


def draw_concluding(report: Report) -> Any:
    """Conversations in each run, with snapshots and without."""
    figure, axes = plt.subplots(figsize=(10, 4.2))
    ways = {"with snapshots": (OURS, "s"), "without": (PLAIN, "o")}
    for way, (color, mark) in ways.items():
        rates = report.samples(way)
        axes.plot(range(1, len(rates) + 1), rates, color=color, marker=mark, markersize=6, linewidth=1.4, label=way)
    axes.set_xticks(range(1, report.settings["rounds"] + 1))
    axes.set_ylim(0, 1.15 * max(rate for way in ways for rate in report.samples(way)))
    axes.set_xlabel("run")
    axes.set_title("conversations a second")
    axes.legend(loc="lower right")
    return figure


def draw_backlog(report: Report) -> Any:
    """Duration, and bytes recorded in flight, over the messages that were queued."""
    figure, (durations, recorded) = plt.subplots(1, 2, figsize=(10, 4.2))
    there = {series.name for series in report.series}
    for mode, color, mark in (("chandy-lamport", OURS, "o"), ("aligned", "#bf8700", "s")):
        for axes, what in ((durations, "duration"), (recorded, "recorded in flight")):
            sizes = [size for size in report.settings["sizes"] if f"{named(mode, size)}: {what}" in there]
            medians = [median(report.samples(f"{named(mode, size)}: {what}")) for size in sizes]
            axes.plot(sizes, medians, color=color, marker=mark, markersize=5, linewidth=1.4, label=mode)
    handler_s = report.settings["handler_s"]
    sizes = report.settings["sizes"]
    waits = [size * handler_s for size in sizes]
    label = f"all that is queued, at {1e3 * handler_s:g} ms each"
    durations.plot(sizes, waits, color=PLAIN, linewidth=5, alpha=0.3, zorder=0, label=label)
    for axes, title in ((durations, "duration, s"), (recorded, "recorded in flight, kB")):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.set_xlabel("messages queued")
        axes.set_title(title)
        axes.legend(loc="upper left")
    durations.set_yscale("log")
    durations.yaxis.set_major_formatter(FuncFormatter(plain))
    recorded.set_yscale("symlog", linthresh=10)
    recorded.set_ylim(bottom=0)
    recorded.yaxis.set_major_formatter(FuncFormatter(plain))
    return figure
