"""Pictures of what a system does while its processes are killed, and of what it costs that it could go back."""

from typing import Any

from matplotlib import pyplot as plt

from benchmarks import sinks
from benchmarks.chaos import CAUGHT_UP, KILLED_AT, TOLD
from benchmarks.healing import IN_A_ROW, LARGE, LARGE_SPARED, SMALL, SPARED
from benchmarks.plots.style import OURS, PLAIN, TARGET, strips
from benchmarks.report import Report
from benchmarks.rollouts import BACK, MADE_AGAIN, PASS, SAMPLES_A_SECOND

FAULTS_NAMED_MAX = 12


def draw_chaos(report: Report) -> Any:
    """Messages told in each second with the kills, and a dot for the time from each kill of an actor to caught up."""
    figure, (told, caught) = plt.subplots(2, 1, figsize=(11, 5.6), height_ratios=(2, 1))
    rate, killed_at, killed = report.samples(TOLD), report.samples(KILLED_AT), report.settings["killed"]
    told.step(range(len(rate)), rate, where="post", color=OURS)
    for at in killed_at:
        told.axvline(at, color=TARGET, linewidth=0.8, alpha=0.6)
    for at, fault in list(zip(killed_at, killed, strict=True))[:FAULTS_NAMED_MAX]:
        told.text(at, max(rate) * 1.02, fault, rotation=30, fontsize=7, color=TARGET)
    told.set_ylim(0, max(rate) * 1.35)
    told.set_xlabel("s; a line for each kill; the program tells nothing until all has caught up")
    told.set_ylabel("messages told in a second")
    strips(caught, report, {CAUGHT_UP: ("kill to caught up", OURS)})
    caught.set_xlim(left=0)
    caught.set_xlabel("s, one dot per kill of an actor")
    return figure


def draw_healing(report: Report) -> Any:
    """Rates of two equal systems, of which one could go back; rollbacks in a row; kills under load."""
    figure, (rates, row, kills) = plt.subplots(3, 1, figsize=(11, 8.5), height_ratios=(3, 3, 2))
    ways = {"heals": ("goes back by itself", OURS), "stops": ("stops", PLAIN)}
    strips(
        rates,
        report,
        {
            f"{what}: {way}": (f"{what}, {label}", color)
            for what in ("told", "calls")
            for way, (label, color) in ways.items()
        },
    )
    rates.set_xscale("log")
    rates.set_xlabel("messages a second from one program to eight actors")
    seconds = report.samples(IN_A_ROW)
    row.plot(range(1, len(seconds) + 1), seconds, "o-", color=OURS, markersize=3)
    row.set_ylim(bottom=0)
    row.set_xlabel("rollbacks in a row")
    row.set_ylabel("s until it runs again")
    strips(
        kills,
        report,
        {
            SMALL: ("small states", PLAIN),
            SPARED: ("small states, a spare process", OURS),
            LARGE: ("1 GB", PLAIN),
            LARGE_SPARED: ("1 GB, a spare process", OURS),
        },
    )
    kills.set_xlim(left=0)
    kills.set_xlabel("s from the kill of one of eight actors to caught up, at 3,000 messages a second")
    return figure


def draw_rollouts(report: Report) -> Any:
    """What each kill cost, and how fast the loops are beside plain Ray's."""
    figure, (costs, rates, passes) = plt.subplots(3, 1, figsize=(11, 6.4))
    strips(costs, report, {MADE_AGAIN: ("work made again", OURS), BACK: ("until it runs again", PLAIN)})
    costs.set_xlabel("s, a dot for each kill")
    ways = {"rayshot": ("rayshot", OURS), "ray": ("plain Ray", PLAIN)}
    strips(rates, report, {f"{SAMPLES_A_SECOND}: {way}": label for way, label in ways.items()})
    rates.set_xlabel("samples a second of the training that nothing disturbs")
    strips(passes, report, {f"{PASS}: {way}": label for way, label in ways.items()})
    passes.set_xlabel("ms, a pass of a loop that takes an item from a queue")
    for axes in (costs, rates, passes):
        axes.set_xlim(left=0)
    return figure


def draw_sinks(report: Report) -> Any:
    """How long each kill was felt, how soon rows are visible, and how fast they are written."""
    figure, panels = plt.subplots(3, 1, figsize=(11, 6.4))
    labels = {
        sinks.BACK: "s, a dot for each kill, until the system runs again",
        sinks.SOON: "s from the commit of a snapshot until its rows are visible",
        sinks.RATE: f"rows a second, in transactions of {sinks.BATCH:,}",
    }
    for axes, (what, label) in zip(panels, labels.items(), strict=True):
        strips(axes, report, {f"{what}: {name}": (name, OURS) for name in sinks.DATABASES})
        axes.set_xlim(left=0)
        axes.set_xlabel(label)
    return figure
