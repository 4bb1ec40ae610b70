"""One picture per report."""

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.peers.plot import draw_peers
from benchmarks.plots.chaos import draw_chaos, draw_healing, draw_rollouts, draw_sinks
from benchmarks.plots.durability import draw_durable, draw_incremental, draw_log, draw_restore
from benchmarks.plots.growth import draw_growth, draw_scale
from benchmarks.plots.messaging import draw_calls, draw_commands, draw_latency, draw_messages, draw_metrics
from benchmarks.plots.pressure import draw_backlog, draw_concluding, draw_interval
from benchmarks.plots.snapshots import draw_capture, draw_proving, draw_snapshot
from benchmarks.plots.style import STYLE
from benchmarks.plots.tables import draw_lake, draw_tables
from benchmarks.plots.walk import draw_walk
from benchmarks.report import Report

_DRAWINGS = {
    "messages": draw_messages,
    "latency": draw_latency,
    "calls": draw_calls,
    "references": draw_calls,
    "snapshot": draw_snapshot,
    "capture": draw_capture,
    "proving": draw_proving,
    "growth": draw_growth,
    "scale": draw_scale,
    "interval": draw_interval,
    "concluding": draw_concluding,
    "backlog": draw_backlog,
    "durable": draw_durable,
    "incremental": draw_incremental,
    "restore": draw_restore,
    "healing": draw_healing,
    "chaos": draw_chaos,
    "rollouts": draw_rollouts,
    "sinks": draw_sinks,
    "log": draw_log,
    "tables": draw_tables,
    "lake": draw_lake,
    "commands": draw_commands,
    "metrics": draw_metrics,
    "walk": draw_walk,
    "peers": draw_peers,
}


def draw(report: Report, folder: Path, footnote: str) -> Path:
    """Draw the report's picture into `folder`; returns the file. `footnote` says where it was measured."""
    mpl.use("Agg")
    with mpl.rc_context(STYLE):
        figure = _DRAWINGS[report.name](report)
        figure.suptitle(report.question, x=0.01, ha="left", fontsize=13, fontweight="bold")
        figure.text(0.01, 0.01, footnote, fontsize=8, color="#57606a")
        figure.tight_layout(rect=(0, 0.03, 1, 0.98))
        file = folder / f"{report.name}.png"
        figure.savefig(file)
        plt.close(figure)
    return file
