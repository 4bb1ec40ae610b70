"""Pictures of bytes: written, written again in part, and read back."""

from statistics import median
from typing import Any

from matplotlib import pyplot as plt

from benchmarks.incremental import CHANGES
from benchmarks.plots.style import OURS, PLAIN, TARGET, log_x, strips
from benchmarks.report import Report
from benchmarks.restore import ACTORS_LOAD, OPEN, RESTORE, UNPICKLE
from benchmarks.table import number


def draw_durable(report: Report) -> Any:
    """Dots for each round, a row for each way to write."""
    figure, axes = plt.subplots(figsize=(8, 3.6))
    names = [series.name for series in report.series]
    strips(axes, report, {name: (name, OURS if name == "rayshot" else PLAIN) for name in names})
    axes.set_xlim(left=0)
    axes.set_xlabel("MB/s, one dot per round")
    ratio = number(report.figure("rayshot / write + fsync").value)
    axes.set_title(f"a state of {report.settings['state_bytes'] >> 20:,} MB: {ratio} times write + fsync")
    return figure


def draw_incremental(report: Report) -> Any:
    """Bytes and seconds for each change, and the two restores."""
    figure, (written, durable, restored) = plt.subplots(1, 3, figsize=(13, 3.8))
    strips(written, report, {f"{name} changed: written": (name, OURS) for name in CHANGES})
    full = report.samples("100 % changed: written")
    bound = report.figure("1 % changed: delta / full bytes").target
    assert bound is not None
    limit = bound.bound / 100 * max(full)
    written.axvline(limit, color=TARGET, linestyle="--", linewidth=1, label=f"{bound.bound:g} % of full")
    log_x(written)
    written.set_xlabel("MB written")
    written.legend(loc="upper left", bbox_to_anchor=(0, 1.17))
    strips(durable, report, {f"{name} changed: durable": (name, OURS) for name in CHANGES})
    durable.set_xlim(left=0)
    durable.set_xlabel("s until durable")
    rows = {f"{name}: restore": (name.replace(" ", "\n"), OURS) for name in ("full", "tenth increment")}
    strips(restored, report, rows)
    restored.set_xlim(left=0)
    restored.set_xlabel("s to restore")
    return figure


def draw_restore(report: Report) -> Any:
    """Dots for each round: with the processes' start, and without."""
    figure, axes = plt.subplots(figsize=(9, 4))
    labels = {RESTORE: OURS, ACTORS_LOAD: PLAIN, OPEN: OURS, UNPICKLE: PLAIN}
    strips(
        axes, report, {name: (name.replace(": ", ":\n").replace(" that", "\nthat"), labels[name]) for name in labels}
    )
    log_x(axes)
    axes.set_xlabel("s, one dot per round; page cache warm")
    axes.set_title(f"{report.settings['actors']} actors, {report.settings['state_bytes'] >> 20:,} MB in all")
    return figure


def draw_log(report: Report) -> Any:
    """How long a log of that many commits takes to open, read record by record and with segments; the next commit."""
    figure, (opens, commits) = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=(3, 2))
    for suffix, label, color in ((" without segments", "record by record", PLAIN), ("", "with segments", OURS)):
        named = {
            int(series.name.removeprefix("open ").removesuffix(suffix).replace(",", "")): series.samples
            for series in report.series
            if series.name.startswith("open ") and series.name.endswith(" without segments") == bool(suffix)
        }
        opens.plot(list(named), [median(samples) for samples in named.values()], color=color, label=label)
        for count, samples in named.items():
            opens.plot([count] * len(samples), samples, ".", color=color, alpha=0.4)
    opens.axhline(0.2, color=TARGET, linestyle="--", linewidth=1, label="bar at 10,000")
    opens.set_xscale("log")
    opens.set_yscale("log")
    opens.set_xlabel("commits in the log")
    opens.set_ylabel("s to open it")
    opens.legend()
    at = [series.name for series in report.series if series.name.startswith("commit at ")]
    strips(commits, report, {name: (name, OURS) for name in at})
    commits.set_xlim(left=0)
    commits.locator_params(axis="x", nbins=4)
    commits.set_xlabel("s, one dot per commit")
    return figure
