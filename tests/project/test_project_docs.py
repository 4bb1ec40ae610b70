"""The pages in docs name tests; each of these exists, in the file that the page says."""

import re

import pytest

from tests.processes import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
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
