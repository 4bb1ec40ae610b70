"""What users read is plain English: pages, and the texts of errors and of the command line."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / page for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "k8s/README.md")),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
]
SOURCES = [*ROOT.glob("rayshot/**/*.py"), *ROOT.glob("integrations/**/*.py")]
HABITS = {
    r"(?<![Tt]here )\bis no (?!longer|more)": "is not a",
    r"\b[Ww]hoever\b": "who it is: a program, an actor, anybody who",
    r"(?<!so )(?<!like )\bthat one\b(?! comes| coordinator| of)": "its name",
    r"\blies in\b(?! wait)": "is in",
    r"\bvouch": "is signed by",
    r"\bbe had\b": "can be read, exists, is free",
    r"\blies? (?:before|after|behind|between|with|where|here|there)\b": "is",
    r"\bunder way\b": "open (a snapshot), in flight (a message), running",
    r"\b(?:in|out)side of\b": "inside, outside",
    r"\bbut for\b": "except",
    r"\b(?:come|comes|came) (?:about|to nothing)\b": "fail, is aborted, exists",
    r"\b(?:lest|hence|thereof|whereof)\b": "everyday words",
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_none_of_the_worst_habits(path):
    text = re.sub(r"`[^`\n]*`", "", path.read_text())
    assert found_in(text.splitlines()) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_text_of_a_program_has_none_of_the_worst_habits(path):
    tree = ast.parse(path.read_text())
    explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert found_in(node.value for node in texts if id(node) not in explained) == []


def found_in(lines):
    """The lines with a habit, and what to write instead."""
    return [
        f"{line.strip()[:120]!r}: {better}"
        for line in lines
        for habit, better in HABITS.items()
        if re.search(habit, line)
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("it is no file", "Whoever reads", "take that one", "it lies in the log", "he vouches", "is not to be had"),
        *("it lies before the other", "a snapshot under way", "outside of it", "all but for one", "none came about"),
        "hence it is one",
    ],
)
def test_each_habit_is_seen(line):
    assert found_in([line])
    assert not found_in(["there is no file; it is no longer there, so that one comes"])
