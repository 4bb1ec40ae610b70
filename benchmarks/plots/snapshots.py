"""Pictures of what snapshots cost a system that runs."""

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchmarks.phases import PACE
from benchmarks.plots.style import OURS, PLAIN, TARGET, log_x, log_y, plain, strips
from benchmarks.report import Report
from benchmarks.table import number

WAYS = {"chandy-lamport": OURS, "stop-the-world": "#0a3069", "hand-written save": PLAIN}
RHYTHMS = {"one a second": OURS, "four a second": "#0a3069"}


def draw_snapshot(report: Report) -> Any:
    """How long one takes by system and way, idle and busy; throughput with and without, and between two of them."""
    figure, (idle, busy, windows, between) = plt.subplots(1, 4, figsize=(19, 4.6))
    for axes, load in ((idle, "idle"), (busy, "busy")):
        names = {found.name for found in report.figures}
        every = {
            f"{n} actors, {keys:,} keys": f"{n} actors\n{plain(keys)} keys" for n, keys in report.settings["cases"]
        }
        cases = [case for case in every if f"recorded, {case}, {load}: chandy-lamport" in names]
        for offset, (way, color) in enumerate(WAYS.items()):
            values = [report.figure(f"recorded, {case}, {load}: {way}").value for case in cases]
            places = [place + 0.27 * offset for place in range(len(cases))]
            axes.bar(places, values, 0.25, color=color, label=way)
            for place, value in zip(places, values, strict=True):
                axes.text(place, value, number(value), ha="center", va="bottom", fontsize=7)
        axes.set_xticks([place + 0.27 for place in range(len(cases))], [every[case] for case in cases])
        axes.tick_params(axis="x", labelsize=8)
        log_y(axes)
        axes.set_ylabel("ms until recorded")
        axes.set_title(f"{load} channels")
    idle.legend(loc="upper left", fontsize=8)
    missed = [found for found in report.figures if found.name.startswith("messages lost")]
    busy.set_title(f"busy; a hand-written save loses {number(max(lost.value for lost in missed))} messages")
    without = report.samples("messages a second, without")
    rounds = range(1, len(without) + 1)
    windows.plot(rounds, without, "o", color=PLAIN, label="without snapshots")
    for name, color in RHYTHMS.items():
        lost = report.figure(f"throughput lost, {name}")
        samples = report.samples(f"messages a second, {name}")
        windows.plot(rounds, samples, "o", color=color, label=f"{name}: {number(lost.value)} % lost")
    windows.set_ylim(bottom=0)
    windows.yaxis.set_major_formatter(FuncFormatter(plain))
    windows.xaxis.set_major_locator(MaxNLocator(integer=True))
    windows.set_xlabel("round")
    windows.set_ylabel("messages a second")
    windows.set_title("throughput, 100,000 keys")
    windows.legend(loc="lower right")
    _draw_pace(between, report)
    return figure


def _draw_pace(axes: Any, report: Report) -> None:
    """Where in the time between two snapshots messages come more slowly; empty after a run too short for that."""
    axes.set_title("throughput between two snapshots, 1,000 keys")
    axes.set_xlabel("part of the time until the next one")
    axes.set_ylabel("per cent of what it is before a snapshot")
    for series in report.series:
        if series.name.startswith(PACE):
            edges = [part / len(series.samples) for part in range(len(series.samples) + 1)]
            axes.stairs(series.samples, edges, color=OURS, fill=True, alpha=0.35)
            (lost,) = (found for found in report.figures if found.name.startswith("throughput lost between two"))
            axes.text(0.98, 20, f"{number(lost.value)} % lost", ha="right", color=OURS, fontweight="bold")
    axes.set_ylim(bottom=0)


def draw_capture(report: Report) -> Any:
    """Bars for each state: held by fork, inline, and by ray.put; and memory above the state, snapshot by snapshot."""
    figure, (holds, memory) = plt.subplots(1, 2, figsize=(14, 4.6), width_ratios=(3, 1))
    states = report.settings["states"]
    ways = {"hold by fork, longest": OURS, "hold inline": "#0a3069", "ray.put": PLAIN}
    values = {figure.name: figure.value for figure in report.figures}
    for offset, (way, color) in enumerate(ways.items()):
        found = [(place + 0.27 * offset, values.get(f"{state}: {way}")) for place, state in enumerate(states)]
        shown = [(place, value) for place, value in found if value is not None]
        holds.bar([place for place, _ in shown], [value for _, value in shown], 0.25, color=color, label=way)
        for place, value in shown:
            holds.text(place, value, number(value), ha="center", va="bottom", fontsize=7)
    log_y(holds)
    holds.set_xticks(
        [place + 0.27 for place in range(len(states))], [state.replace(" of ", "\nof ") for state in states]
    )
    holds.tick_params(axis="x", labelsize=8)
    holds.set_ylabel("ms for which the actor is held")
    holds.legend(loc="upper left", fontsize=8)
    samples = report.samples("memory above the state")
    memory.plot(range(1, len(samples) + 1), samples, color=OURS)
    memory.axhline(1.3, color=TARGET, linestyle="--", linewidth=1, label="target")
    memory.set_ylim(bottom=0)
    memory.set_xlabel("snapshot")
    memory.set_ylabel("memory above the state, in states")
    memory.legend(loc="lower right")
    return figure


def draw_proving(report: Report) -> Any:
    """A row for the first snapshots, for those with samples and for all behind the first, with and without trials."""
    figure, axes = plt.subplots(figsize=(10, 4))
    names = [series.name for series in report.series]
    strips(axes, report, {name: (name, PLAIN if name.endswith("not proved") else OURS) for name in names})
    log_x(axes)
    axes.set_xlabel("ms until a snapshot is durable")
    return figure
