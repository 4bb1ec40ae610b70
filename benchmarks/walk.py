"""Through how many files of rayshot a tell goes, and a death: counted in all processes of a real system, not timed.

What is also called while the system rests, by the same file, is left out: heartbeats go on beside a tell.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, Report, Series, Target
from benchmarks.steps import ROOT, Step, read_steps
from benchmarks.walked import ACTORS, DEATH_S, DEATHS, RECOVERED_S, RESTS, TELL_S, TELLS, WINDOWS, Window

TELL_TARGET, TWICE_TARGET, DEATH_TARGET = Target("<=", 16), Target("<=", 0), Target("<=", 80)
A_TELL, A_DEATH = "a tell", "a death"
Walk = Sequence[Step]
"""The steps of one tell or one death, in order."""


def run(*, short: bool) -> Report:
    """Follow a program that tells an actor, and lets one die, some times each."""
    tells, deaths, rest_s = (1, 1, 2.0) if short else (15, 3, 20.0)
    with tempfile.TemporaryDirectory(prefix="rayshot-benchmark-") as name:
        folder = Path(name)
        notes = folder / "steps"
        # Python runs this module in every process before all else; Ray's workers inherit where it is.
        (folder / "sitecustomize.py").write_text(f"from benchmarks.steps import follow\nfollow({str(notes)!r})\n")
        paths = os.pathsep.join(filter(None, [name, str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "benchmarks.walked", name, *map(str, (tells, deaths, rest_s))]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, check=True)
        steps, found = read_steps(notes), json.loads((folder / WINDOWS).read_text(encoding="utf-8"))
    told, died = (walks(steps, found[which], found[RESTS]) for which in (TELLS, DEATHS))
    assert all(len({step.process for step in walk}) > 1 for walk in (*told, *died)), "only one process was followed"
    settings = {"tells": tells, "deaths": deaths, "rest_s": rest_s, "tell_s": TELL_S, "death_s": DEATH_S}
    return report_of(told, died, found[RECOVERED_S], {**settings, "actors": ACTORS})


def walks(steps: Sequence[Step], windows: Sequence[Window], rests: Sequence[Window]) -> list[Walk]:
    """The steps in each window, without those that are taken in a rest too."""
    always = {_way(step) for rest in rests for step in _within(steps, rest)}
    return [[step for step in _within(steps, window) if _way(step) not in always] for window in windows]


def visits(walk: Walk) -> Counter[str]:
    """How often a thread enters each file from another one, where it does so most often; to return is not to enter.

    Calls of one file after the other are one visit. A file that is not left, as that of a loop, may have none.
    """
    most: Counter[str] = Counter()
    for thread in {(step.process, step.thread) for step in walk}:
        entered = [step.file for step in walk if (step.process, step.thread) == thread and step.caller != step.file]
        most |= Counter(file for file, _ in groupby(entered))
    return most


def report_of(told: Sequence[Walk], died: Sequence[Walk], recovered_s: Sequence[float], settings: Any) -> Report:
    """The files, and the visits of each, in the order in which a walk passes them."""
    twice = [sum(count > 1 for count in visits(walk).values()) for walk in told]
    counted = {what: _counted(what, of) for what, of in ((A_TELL, told), (A_DEATH, died))}
    return Report(
        "walk",
        "Through how many files does a tell go, and a death?",
        settings,
        (
            *counted[A_TELL],
            Series(f"{A_TELL}: files passed twice", "files", tuple(twice)),
            *counted[A_DEATH],
            Series(f"{A_DEATH}: noticed, until all ran again", "s", tuple(recovered_s)),
            *_visits_by_file(A_TELL, told),
            *_visits_by_file(A_DEATH, died),
        ),
        (
            Figure.median_of(f"{A_TELL}: files", counted[A_TELL][0].samples, "files", TELL_TARGET),
            Figure.median_of(f"{A_TELL}: files passed twice", twice, "files", TWICE_TARGET),
            Figure.median_of(f"{A_DEATH}: files", counted[A_DEATH][0].samples, "files", DEATH_TARGET),
            *(Figure.median_of(one.name, one.samples, one.unit) for pair in counted.values() for one in pair[1:]),
        ),
    )


def _counted(what: str, of: Sequence[Walk]) -> tuple[Series, ...]:
    return (
        Series(f"{what}: files", "files", tuple(len({step.file for step in walk}) for walk in of)),
        Series(f"{what}: functions", "functions", tuple(len({_function(step) for step in walk}) for walk in of)),
        Series(f"{what}: calls", "calls", tuple(map(len, of))),
    )


def _visits_by_file(what: str, of: Sequence[Walk]) -> list[Series]:
    """Of each file that most walks pass, in the order of the walk that passes most files."""
    files = [dict.fromkeys(step.file for step in walk) for walk in of]
    times, visited = Counter(file for one in files for file in one), [visits(walk) for walk in of]
    return [
        Series(f"{what}: {file}", "visits", tuple(one[file] for one in visited))
        for file in max(files, key=len)
        if 2 * times[file] > len(of)
    ]


def _within(steps: Iterable[Step], window: Window) -> list[Step]:
    began, ended = window
    return [step for step in steps if began <= step.at_s < ended]


def _way(step: Step) -> tuple[str, str, str]:
    return step.caller, step.file, step.function


def _function(step: Step) -> tuple[str, str]:
    return step.file, step.function
