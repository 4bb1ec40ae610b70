"""The pages in docs name tests, files and methods; each of these exists, in the file that the page says."""

import ast
import re
from functools import cache

import pytest

from tests.processes import ROOT

PAGES = sorted((*(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md", ROOT / "README.md"))
FILES = {file.relative_to(ROOT / "tests").with_suffix("").as_posix(): file for file in ROOT.glob("tests/**/test_*.py")}
TESTS = {name: set(re.findall(r"(?m)^ *(?:async )?def (test_\w+)", file.read_text())) for name, file in FILES.items()}
KNOWN = {name.rpartition("/")[2] for name in FILES} | set().union(*TESTS.values())


def test_a_page_names_tests():
    assert any("::test_" in page.read_text() for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_test_that_a_page_names_exists(page):
    text = page.read_text()
    missing = set(re.findall(r"\btest_\w+", text)) - KNOWN
    misplaced = {pair for pair in re.findall(r"([\w/]+)::(test_\w+)", text) if pair[1] not in TESTS.get(pair[0], ())}
    assert (missing, misplaced) == (set(), set())


@cache
def paths():
    """All ends of the paths of Python files: `worker.py`, `actor/worker.py`, `runtime/actor/worker.py` ..."""
    tops = ("rayshot", "integrations", "tests", "examples", "benchmarks")
    parts = [file.relative_to(ROOT).parts for top in tops for file in (ROOT / top).rglob("*.py")]
    return {"/".join(one[start:]) for one in parts for start in range(len(one))}


@cache
def names_of_classes():
    """What each class of the package defines, by the class's name; two may share one. The demo has a user's classes."""
    found = {}
    for file in {*(ROOT / "rayshot").rglob("*.py")} - {*(ROOT / "rayshot/demo").rglob("*.py")}:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                names = {getattr(one, "name", None) or _annotated(one) for one in node.body}
                found.setdefault(node.name, set()).update(names)
    return found


def _annotated(node):
    return ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_and_method_that_a_page_names_exists(page):
    text = page.read_text()
    files = set(re.findall(r"`([\w./-]+/[\w.-]+\.py)`", text)) - paths()
    classes = names_of_classes()
    named = re.findall(r"`([A-Z]\w+)\.(\w+)`", text)
    methods = {f"{owner}.{name}" for owner, name in named if owner in classes and name not in classes[owner]}
    assert (files, methods) == (set(), set())
