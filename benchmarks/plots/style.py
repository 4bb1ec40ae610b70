"""What all pictures share: colours, fonts, and the kinds of drawings that several of them use."""

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.report import Report
from benchmarks.table import number

OURS, PLAIN, TARGET = "#1f6feb", "#8b949e", "#d1242f"
STYLE: dict[Any, Any] = {
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


def strips(axes: Any, report: Report, labels: dict[str, tuple[str, str]]) -> None:
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


def log_x(axes: Any) -> None:
    """A logarithmic scale with plain numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(plain))


def log_y(axes: Any) -> None:
    """The same upwards; only powers of ten are labelled."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    axes.yaxis.set_minor_formatter(NullFormatter())


def plain(value: float, _position: int = 0) -> str:
    """Thousands and millions in short, for an axis."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


def distribution(axes: Any, samples: Sequence[float], color: str, label: str) -> None:
    """The share of samples up to each value."""
    ordered = sorted(samples)
    axes.step(
        ordered, [(rank + 1) / len(ordered) for rank in range(len(ordered))], where="post", color=color, label=label
    )
