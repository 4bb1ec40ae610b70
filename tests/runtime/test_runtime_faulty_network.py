"""Calls between processes fail and come late, as Ray itself makes them fail: all arrives once and in order."""

import subprocess
import sys

import pytest

from tests.processes import ROOT

pytestmark = [pytest.mark.ray]


def run(case, storage, numbers):
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.faulty_network", case, storage, str(numbers)],
        capture_output=True, text=True, timeout=600, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{case}: all heard all of" in done.stdout


@pytest.mark.wide("slow")
def test_a_network_that_loses_and_delays_loses_doubles_and_disorders_nothing(tmp_path):
    run("all", tmp_path / "shots", 400)


@pytest.mark.long("a case of the acceptance table that takes minutes")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param("requests", marks=pytest.mark.acceptance("C1")),
        pytest.param("responses", marks=pytest.mark.acceptance("C2")),
        pytest.param("in flight", marks=pytest.mark.acceptance("C3")),
        pytest.param("delays", marks=pytest.mark.acceptance("C4")),
    ],
)
def test_each_fault_of_a_network_alone_does_not_either(tmp_path, case):
    run(case, tmp_path / "shots", 4_000)
