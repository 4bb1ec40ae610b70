"""Pictures of messages: how many, and how fast one arrives."""

from typing import Any

from matplotlib import pyplot as plt

from benchmarks.plots.style import OURS, PLAIN, distribution, log_x, strips
from benchmarks.report import Report
from benchmarks.table import number


def draw_messages(report: Report) -> Any:
    """Dots for each round."""
    figure, axes = plt.subplots(figsize=(8, 3.6))
    strips(axes, report, {"rayshot": ("rayshot\n.tell()", OURS), "ray": ("plain Ray\n.remote()", PLAIN)})
    log_x(axes)
    axes.set_xlabel("messages a second, one dot per round")
    axes.set_title(f"{number(report.figure('rayshot / ray').value)} times as many")
    return figure


def draw_latency(report: Report) -> Any:
    """The share that arrived by then, for two sorts of rallies."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axes, suffix, title in zip(panels, ("", ", quiet"), ("ball on ball", "5 ms of quiet before each"), strict=True):
        for name, color in (("rayshot", OURS), ("ray", PLAIN)):
            p50 = report.figure(f"{name}{suffix} p50").value
            label = f"{'plain Ray' if name == 'ray' else name}: p50 {number(p50)} us"
            distribution(axes, report.samples(f"{name}{suffix}"), color, label)
        highest = max(report.figure(f"{name}{suffix} p99").value for name in ("rayshot", "ray"))
        axes.set_xlim(0, highest * 1.1)
        axes.set_xlabel("one way, us")
        axes.set_title(f"{title}: {number(report.figure(f'rayshot / ray{suffix}').value)} times the call")
        axes.legend(loc="lower right")
    panels[0].set_ylabel("share that arrived by then")
    return figure
