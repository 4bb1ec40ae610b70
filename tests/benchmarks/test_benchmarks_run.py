"""The benchmarks run, from the command line, and leave nothing behind; their times are nobody's business here."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.__main__ import BENCHMARKS
from tests.processes import ROOT, marked
from tests.waiting import eventually

HUNG_S = 1800.0
"""Only a run that stands still takes so long: it takes five minutes on two cores, and is never alone here."""


SOME = ("messages", "snapshot", "growth")
ALL = pytest.param(tuple(BENCHMARKS), marks=pytest.mark.wide("each benchmark starts clusters of its own"))


@pytest.fixture(scope="module", params=[SOME, ALL], ids=len)
def short_run(tmp_path_factory, request):
    """One short run of some benchmarks: which, what it printed, what it wrote."""
    folder = tmp_path_factory.mktemp("benchmarks")
    mark = {"RAYSHOT_BENCHMARKS_RUN": str(folder)}  # inherited by every process that the run starts
    command = [sys.executable, "-m", "benchmarks", "--short", "--json", folder / "found.json", "--plots", folder]
    command += request.param
    finished = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **mark}, capture_output=True, text=True, timeout=HUNG_S, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return request.param, finished.stdout, json.loads((folder / "found.json").read_text()), folder


@pytest.mark.ray
def test_a_short_run_measures_all_but_what_the_machine_has_no_memory_for(short_run):
    names, printed, found, _ = short_run
    assert set(found["benchmarks"]) | set(found["not_run"]) == set(names)
    assert set(found["not_run"]) <= {"capture", "durable", "incremental", "restore"}
    for name, report in found["benchmarks"].items():
        assert f"{name}: {report['question'].split()[0]}" in printed
        assert name == "peers" or any(figure["target"] for figure in report["figures"]), "peers may not be there"


@pytest.mark.ray
def test_what_is_written_says_where_and_from_which_samples(short_run):
    _, _, found, _ = short_run
    assert found["short"] is True
    assert {"cores", "memory_bytes", "python", "ray", "rayshot", "commit"} <= set(found["machine"])
    for report in found["benchmarks"].values():
        assert set(report["medians"]) == set(report["samples"])
        assert all(report["samples"].values())
        assert all((figure["met"] is None) == (figure["target"] is None) for figure in report["figures"])


@pytest.mark.ray
def test_every_report_has_its_picture(short_run):
    _, _, found, folder = short_run
    assert {file.stem for file in folder.glob("*.png")} == set(found["benchmarks"])


@pytest.mark.ray
def test_no_process_stays(short_run):
    eventually(lambda: not marked(f"RAYSHOT_BENCHMARKS_RUN={short_run[3]}"))
