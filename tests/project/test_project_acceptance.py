"""The count of acceptance cases counts what it says, and fails where a case does not hold."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.acceptance import AcceptancePlugin, cases, in_full
def pytest_configure(config):
    config.addinivalue_line("markers", "acceptance(*rows): counted")
    config.pluginmanager.register(AcceptancePlugin())
"""
TESTS = """
import pytest
@pytest.mark.acceptance("D1", "D2")
def test_that_holds_several(cases, in_full):
    assert in_full
    for _ in range(1200):
        cases.held()
@pytest.mark.acceptance("D3")
def test_that_fails_at_its_third_case(cases):
    cases.held()
    cases.held()
    raise AssertionError
@pytest.mark.acceptance("G1")
@pytest.mark.parametrize("n", range(3))
def test_of_parameters(n): pass
@pytest.mark.acceptance("G2")
@pytest.mark.skip
def test_skipped(): pass
def test_of_something_else():
    raise AssertionError
"""


def run(folder, tests, processes=0):
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "acceptance", "-n", str(processes)]
    return subprocess.run(
        [*command, "--rootdir", folder, folder],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("processes", [0, 2])
def test_cases_are_counted_by_row_and_in_all_and_failures_and_skips_are_seen(tmp_path, processes):
    done = run(tmp_path, TESTS, processes)
    rows = dict(re.findall(r"^([DEG]\d+) +(\S+)", done.stdout, re.MULTILINE))
    assert (rows["D1"], rows["D2"], rows["D3"]) == ("1,200/1,200", "1,200/1,200", "2/3")
    assert (rows["G1"], rows["G2"]) == ("3/3", "0/1")
    assert "faults survived 1,202/1,203" in done.stdout
    assert "bad inputs refused 3/4" in done.stdout
    assert done.returncode == 1


def test_a_row_without_a_test_is_a_row_that_does_not_hold(tmp_path):
    done = run(tmp_path, TESTS.replace("raise AssertionError", "pass").replace("@pytest.mark.skip\n", ""))
    assert "E1          no test   <- not held" in done.stdout
    assert done.returncode == 1


def test_a_row_that_the_table_does_not_have_is_refused(tmp_path):
    done = run(tmp_path, TESTS.replace('"G2"', '"G17"'))
    assert "the acceptance table has no row 'G17'" in done.stdout + done.stderr
    assert done.returncode != 0
