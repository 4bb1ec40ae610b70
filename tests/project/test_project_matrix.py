"""The pairs of Ray and Python that `scripts/matrix` runs, and what it says of them."""

import argparse
import ast
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from rayshot.runtime.door.private_names import OLDEST
from tests.processes import ROOT

REPORT = """<testsuites><testsuite>
<testcase name="test_one"/><testcase name="test_two"><skipped/></testcase>
<testcase name="test_three"><failure/></testcase><testcase name="test_four"><error/></testcase>
</testsuite></testsuites>"""
RUN = {
    "README": "runs",
    "handed on": "runs",
    "demo": "not run",
    "tests": "9 passed",
    "part": "quick",
    "day": "2026-11-30",
    "commit": "abc",
}


@pytest.fixture(scope="module")
def matrix():
    loader = SourceFileLoader("matrix", str(ROOT / "scripts/matrix"))
    module = module_from_spec(spec_from_loader("matrix", loader))
    loader.exec_module(module)
    return module


def test_each_minor_release_from_the_oldest_on_is_there_once(matrix):
    minors = [tuple(int(number) for number in release.split(".")[:2]) for release in matrix.RELEASES]
    assert minors == [(OLDEST[0], minor) for minor in range(OLDEST[1], minors[-1][1] + 1)]


def test_the_pythons_are_those_of_the_package(matrix):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [f"Programming Language :: Python :: {python}" in project["classifiers"] for python in matrix.PYTHONS] == [
        True
    ] * len(matrix.PYTHONS)
    assert {matrix.Pair.of(one).python for one in matrix.FEW} == set(matrix.PYTHONS)


def test_the_oldest_and_the_newest_release_are_among_the_few(matrix):
    releases = [matrix.Pair.of(one).ray for one in matrix.FEW]
    assert (releases[0], releases[-1]) == (matrix.RELEASES[0], matrix.RELEASES[-1])


def test_each_test_of_both_parts_exists(matrix):
    for name in (*matrix.QUICK, *matrix.FULL):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), file
        if test:
            defined = [node.name for node in ast.parse((ROOT / file).read_text()).body if hasattr(node, "name")]
            assert test in defined, name


@pytest.mark.parametrize("text", ["3.11", "2.50.1", "3.11-", "3.11-ray", "../3.11-2.50.1"])
def test_what_is_no_pair_is_refused(matrix, text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is no pair such as 3\.12-2\.55\.1"):
        matrix.Pair.of(text)


def test_tests_that_failed_are_named(matrix, tmp_path):
    (tmp_path / "tests.xml").write_text(REPORT)
    assert matrix.counted(tmp_path / "tests.xml") == "1 passed, 1 skipped, 2 FAILED: test_four, test_three"
    assert matrix.counted(tmp_path / "none.xml") == "FAILED: no report, see the log"
    many = "".join(f'<testcase name="test_{n:02}"><failure/></testcase>' for n in range(30))
    (tmp_path / "many.xml").write_text(f"<testsuite>{many}</testsuite>")
    assert matrix.counted(tmp_path / "many.xml").endswith(
        "30 FAILED: " + ", ".join(f"test_{n:02}" for n in range(20)) + ", ..."
    )


def test_an_environment_that_was_moved_is_made_anew(matrix, tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "find_python", lambda _: None)
    monkeypatch.setattr(matrix, "FOLDER", tmp_path / "before")
    pair = matrix.Pair.of("3.12-2.55.1")
    pair.folder.mkdir(parents=True)
    (pair.folder / "ready").write_text(str(pair.folder))
    assert matrix.make(pair) == ""
    (tmp_path / "before").rename(tmp_path / "behind")
    monkeypatch.setattr(matrix, "FOLDER", tmp_path / "behind")
    assert matrix.make(pair) == "no Python 3.12 here"


def test_the_table_has_a_row_for_each_release_and_the_largest_part_of_each_pair(matrix, tmp_path, monkeypatch):
    newest, oldest = matrix.RELEASES[-1], matrix.RELEASES[0]
    full = RUN | {"part": "full", "tests": "99 passed", "demo": "runs"}
    results = {
        f"3.11-{newest}-quick": RUN,
        f"3.11-{newest}-full": full,
        f"3.12-{oldest}-quick": RUN | {"README": "FAILS"},
    }
    rows = dict(line.strip("| ").split(" | ", 1) for line in matrix.table(results).splitlines()[2:])
    assert list(rows) == matrix.RELEASES[::-1]
    assert rows[newest] == "full: 99 passed, demo runs (2026-11-30, abc) | not run | not run"
    assert rows[oldest] == "not run | quick: 9 passed, README FAILS (2026-11-30, abc) | not run"
    monkeypatch.setattr(matrix, "PAGE", tmp_path / "page.md")
    matrix.PAGE.write_text(f"before\n{matrix.BEGIN}an older table\n{matrix.END}behind\n")
    matrix.publish(results)
    assert matrix.PAGE.read_text() == f"before\n{matrix.BEGIN}\n{matrix.table(results)}\n{matrix.END}behind\n"


def test_the_published_table_has_the_oldest_and_the_newest_release_and_nothing_that_failed(matrix):
    _, _, rest = matrix.PAGE.read_text().partition(matrix.BEGIN)
    rows = dict(line.strip("| ").split(" | ", 1) for line in rest.partition(matrix.END)[0].splitlines()[3:] if line)
    assert list(rows) == matrix.RELEASES[::-1]
    assert all("passed" in rows[release] for release in (matrix.RELEASES[0], matrix.RELEASES[-1]))
    assert all(any("passed" in row.split(" | ")[column] for row in rows.values()) for column in range(3))
    assert "FAIL" not in str(rows)
