"""Pictures of messages: how many, and how fast one arrives."""

from typing import Any

from matplotlib import pyplot as plt

from benchmarks.plots.style import OURS, PLAIN, distribution, log_y, strips
from benchmarks.report import Report
from benchmarks.table import number

SMALL_BATCHES, LARGE_BATCHES = "plain Ray, batches of 10 or 100 by hand", "batches of 1,000 by hand"
WAYS = {"rayshot": OURS, "plain Ray": PLAIN, SMALL_BATCHES: "#d4a72c", LARGE_BATCHES: "#9a6700"}


def draw_messages(report: Report) -> Any:
    """A panel for each pattern: bars for each size and way."""
    patterns = list(dict.fromkeys(series.name.split(", ")[0] for series in report.series))
    figure, panels = plt.subplots(1, len(patterns), figsize=(4 * len(patterns), 4.4), sharey=True, squeeze=False)
    for axes, pattern in zip(panels[0], patterns, strict=True):
        _bars(axes, report, pattern)
        axes.set_title(pattern)
    panels[0][0].set_ylabel("messages a second")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="upper right", ncols=len(WAYS), fontsize=9)
    return figure


def draw_latency(report: Report) -> Any:
    """One at a time after quiet; under load; beside snapshots."""
    figure, (quiet, loaded, beside) = plt.subplots(1, 3, figsize=(14, 4.2))
    for name, color in (("rayshot", OURS), ("ray", PLAIN)):
        p50 = report.figure(f"{name}, quiet p50").value
        label = f"{'plain Ray' if name == 'ray' else name}: p50 {number(p50)} us"
        distribution(quiet, report.samples(f"{name}, quiet"), color, label)
    quiet.set_xlim(0, 1.1 * max(report.figure(f"{name}, quiet p99").value for name in ("rayshot", "ray")))
    quiet.set_xlabel("one way, us")
    quiet.set_ylabel("share that arrived by then")
    quiet.set_title(f"idle channel: {number(report.figure('rayshot / ray, quiet').value)} times the call")
    quiet.legend(loc="lower right")
    loads = ("10%", "50%", "90%")
    for name, color in (("rayshot", OURS), ("rayshot at Ray's load", "#0a3069"), ("ray", PLAIN)):
        for quantile, line in (("p50", "-"), ("p99", "--")):
            values = [report.figure(f"{name}, {load} {quantile}").value for load in loads]
            loaded.plot(loads, values, line, marker="o", color=color, label=f"{name} {quantile}")
    log_y(loaded)
    loaded.set_xlabel("of its own peak")
    loaded.set_ylabel("ms after it was due")
    peaks = report.settings["peaks"]
    loaded.set_title(f"paced; peaks: {number(peaks['rayshot'])} and {number(peaks['ray'])} a second")
    loaded.legend(fontsize=8)
    for offset, (name, color) in enumerate((("without", PLAIN), ("with snapshots", OURS))):
        values = [report.figure(f"{name} {quantile}").value for quantile in ("p50", "p99", "p99.9")]
        beside.bar([place + 0.4 * offset for place in range(3)], values, 0.38, color=color, label=name)
    beside.set_xticks([0.2, 1.2, 2.2], ["p50", "p99", "p99.9"])
    beside.set_ylabel("ms after it was due")
    beside.set_title(f"at half of peak, one every {report.settings['snapshot_interval_s']:g} s")
    beside.legend()
    return figure


def draw_calls(report: Report) -> Any:
    """A panel for each thing that was measured against plain Ray."""
    found = list(dict.fromkeys(series.name.split(": ")[0] for series in report.series if ": " in series.name))
    figure, panels = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.8), squeeze=False)
    for axes, what in zip(panels[0], found, strict=True):
        for place, (way, color) in enumerate((("rayshot", OURS), ("ray", PLAIN))):
            samples = report.samples(f"{what}: {way}")
            axes.plot([place] * len(samples), samples, "o", color=color, alpha=0.45, markeredgewidth=0)
        axes.set_xticks([0, 1], ["rayshot", "plain Ray"])
        axes.set_xlim(-0.5, 1.5)
        axes.set_ylim(bottom=0)
        axes.set_title(f"{what}: {number(report.figure(f'{what}: rayshot / ray').value)} times")
    panels[0][0].set_ylabel("ms")
    return figure


def draw_commands(report: Report) -> Any:
    """A row for each command, beside a program that only joins the cluster."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 3), sharey=True)
    for axes, what in zip(panels, ("in all", "processor"), strict=True):
        names = [series.name for series in report.series if series.name.endswith(f": {what}")]
        labels = {name: (name.split(": ")[0], PLAIN if name.startswith("joins") else OURS) for name in names}
        strips(axes, report, labels)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"s, {what}")
    return figure


def draw_metrics(report: Report) -> Any:
    """Throughput as always, and where metrics are told far more often."""
    figure, axes = plt.subplots(figsize=(8, 2.2))
    often = number(report.figure("how much more often").value)
    strips(axes, report, {"as always": ("as always", PLAIN), "told more often": (f"told {often} times as often", OURS)})
    axes.set_xlim(left=0)
    axes.set_xlabel("messages a second")
    return figure


def _bars(axes: Any, report: Report, pattern: str) -> None:
    """Groups by size, in each a bar for each way; missing ways leave a gap."""
    found: dict[str, dict[str, float]] = {}
    for series in report.series:
        if series.name.startswith(f"{pattern}, "):
            size, way = series.name.removeprefix(f"{pattern}, ").split(": ")
            found.setdefault(size, {})[way] = series.median
    for group, ways in enumerate(found.values()):
        for place, (way, value) in enumerate(ways.items()):
            label = _label(way)
            axes.bar(group + 0.2 * place, value, 0.18, color=WAYS[label], label=label if group == 0 else None)
            axes.text(group + 0.2 * place, value, f"{number(value / 1e3)} k", ha="center", va="bottom", fontsize=6)
    log_y(axes)
    axes.set_xticks([group + 0.3 for group in range(len(found))], [size.replace(" ", "\n", 1) for size in found])


def _label(way: str) -> str:
    match way:
        case "rayshot":
            return way
        case "ray":
            return "plain Ray"
        case _:
            return LARGE_BATCHES if way.endswith("1,000") else SMALL_BATCHES
