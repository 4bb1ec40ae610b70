"""The picture of `walk`: which files a tell passes, and in which rooms a death passes how many."""

from collections import Counter
from pathlib import PurePath
from typing import Any

from matplotlib import pyplot as plt

from benchmarks.plots.style import OURS, TARGET
from benchmarks.report import Report
from benchmarks.table import number
from benchmarks.walk import A_DEATH, A_TELL


def draw_walk(report: Report) -> Any:
    """Visits of each file of a tell, the first one on top; files for each room of a death."""
    figure, (told, died) = plt.subplots(1, 2, figsize=(13, 8))
    _bars(told, {name: series.median for name, series in _files(report, A_TELL).items()})
    told.axvline(1, color=TARGET, linewidth=1)
    told.set_xlabel("visits by a thread, the most; aim 1")
    told.set_title(_title(report, A_TELL))
    rooms = Counter(_room(name) for name in _files(report, A_DEATH))
    _bars(died, dict(rooms.most_common()))
    died.set_xlabel("files")
    died.set_title(_title(report, A_DEATH))
    return figure


def _files(report: Report, what: str) -> dict[str, Any]:
    """The series of the files, by their paths in the package."""
    start = f"{what}: rayshot/"
    return {one.name.removeprefix(start): one for one in report.series if one.name.startswith(start)}


def _room(name: str) -> str:
    room = str(PurePath(name).parent)
    return "ground" if room == "." else room


def _bars(axes: Any, values: dict[str, float]) -> None:
    axes.barh(range(len(values)), list(values.values()), color=OURS, height=0.7)
    axes.set_yticks(range(len(values)), list(values), fontsize=8)
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def _title(report: Report, what: str) -> str:
    files = report.figure(f"{what}: files")
    assert files.target is not None
    return f"{what}: {number(files.value)} files, aim {number(files.target.bound)}"
