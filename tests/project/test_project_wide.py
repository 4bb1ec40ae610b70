"""The page of what `make test` leaves out is made from the marks of the tests; the commit chooses a tenth of it."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from tests.processes import ROOT
from tests.wide import is_in_part
from tests.written import check_written

PAGE = ROOT / "tests/README.md"
HEAD = """# What the tests run, and where

| command | what it runs |
| --- | --- |
| `make test` | something of everything, in a quarter of an hour on two cores |
| `make test-all` | also the cases beyond the first ones of their kind, and the slow ones: the table below |
| `make acceptance` | the faults, bad inputs, races and loads of the acceptance table, at their full numbers |
| `make simulate`, `mistakes`, `chaos`, `fuzz`, `kills`, `heads` | long runs: see [CONTRIBUTING](../CONTRIBUTING.md) |

`.ci/run` runs `make check`, `make test`, and a tenth of what only `make test-all` runs. The commit chooses the tenth.
A test that fails there and fails at the commit before too is printed, and does not stop the change.

Before tests were left out, `make test` took 36 to 43 minutes on two cores. Then it took 13.5, with 8,870 cases; on a
slower machine it takes 16.5 to 19 now, with 9,350. The processors are nearly full. The seconds of the cases by room,
before and behind that cut, in two processes of tests:

| | runtime | spark | k8s | simulation | examples | benchmarks | ports | cli | store | page, metrics | others |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| before | 1,646 | 589 | 448 | 278 | 244 | 205 | 193 | 157 | 134 | 122 | 139 |
| now | 762 | 199 | 48 | 104 | 122 | 29 | 43 | 29 | 69 | 68 | 110 |

This page is made from the marks `wide`, `sampled` and `long` of the tests:
`RAYSHOT_REWRITE_PAGES=1 pytest tests/project/test_project_wide.py` writes it.

| file | tests | run by | why only there |
| --- | --- | --- | --- |
"""
RUN_BY = {"wide": "`make test-all`", "sampled": "`make test-all`", "long": "its own command"}
TESTS = """
import pytest
@pytest.mark.wide("slow")
def test_wide(): pass
@pytest.mark.sampled("all of one kind", keeps=2)
@pytest.mark.parametrize("n", range(5))
def test_sampled(n): pass
def test_plain(): pass
"""


def rows(file):
    """The row of each mark in a file of tests."""
    name = file.relative_to(ROOT / "tests").with_suffix("").as_posix()
    for statement in ast.parse(file.read_text()).body:
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            mark = ast.unparse(call.func).removeprefix("pytest.mark.")
            if mark in RUN_BY:
                yield f"| `{name}` | {which(statement, call)} | {RUN_BY[mark]} | {ast.literal_eval(call.args[0])} |\n"


def which(statement, call):
    """The tests that a mark in this statement of a module is for."""
    if isinstance(statement, ast.FunctionDef):
        return f"`{statement.name}`" + "".join(f" beyond {ast.unparse(one.value)}" for one in call.keywords)
    return "all" if "pytestmark" in ast.unparse(statement) else "some cases"


def test_the_page_says_what_is_left_out_and_why():
    made = HEAD + "".join(row for file in sorted(ROOT.glob("tests/**/test_*.py")) for row in rows(file))
    check_written(PAGE, made)


@pytest.mark.parametrize(("chosen", "count"), [("not wide", 3), ("", 7), ("wide", 4)])
def test_the_first_cases_of_a_kind_are_run_and_the_others_on_request(tmp_path, chosen, count):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    wide\n    sampled\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.wide", "-m", chosen]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert f"{count} passed" in done.stdout


def test_each_test_is_in_one_of_ten_parts():
    commits = [f"{number:08x}{number:032x}" for number in range(10)]
    found = [[commit for commit in commits if is_in_part(f"tests/test_some.py::test[{n}]", commit)] for n in range(500)]
    assert {len(chosen) for chosen in found} == {1}
    assert {chosen for (chosen,) in found} == set(commits)


def test_only_what_did_not_fail_at_the_commit_before_stops_a_change(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/test-tenth", tmp_path / "scripts")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    wide\n    long\n")
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--part-of')\n")
    tests = tmp_path / "test_some.py"

    def tenth(**bodies):
        named = "".join(f"@pytest.mark.wide\ndef test_{name}(): {body}\n" for name, body in bodies.items())
        tests.write_text(f"import pytest\n{named}")
        git("add", ".")
        git("commit", "--quiet", "--message", "changed")
        return subprocess.run(
            [sys.executable, "scripts/test-tenth", "-q"], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    def git(*arguments):
        name = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    assert tenth(one="assert True").returncode == 0
    broken = tenth(one="assert False", two="assert False")
    assert broken.returncode == 1
    assert {"FAILED: test_some.py::test_one", "FAILED: test_some.py::test_two"} <= set(broken.stdout.splitlines())
    again = tenth(one="assert False", two="assert True")
    assert again.returncode == 0
    assert "failed at the commit before too: test_some.py::test_one" in again.stdout.splitlines()
    assert tenth(**{"one(": "no python"}).returncode == 1
