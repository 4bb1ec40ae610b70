"""The mistakes that `make mistakes` makes: how an edit is made and marked, and what counts as noticed."""

import subprocess
from collections import Counter

import pytest

from tests.mistakes import __main__ as command
from tests.mistakes.mistake import MARK, DoesNotFit, Mistake, read_mistakes
from tests.processes import ROOT

CODE = '''"""A module."""


def first(numbers, least):
    """The first number that is large enough."""
    for number in numbers:
        if number < 0:
            raise ValueError
        elif number >= least:
            return number
    return None


def unused():
    return 1
'''
TEST = """
from product import first
def test_first():
    assert first([1, 2, 3], 2) == 2
"""


def mistake(old, new):
    return Mistake("room", "something is wrong", "product.py", old, new, ("test_product.py",))


def test_there_are_at_least_ten_in_each_room_each_with_a_sentence_of_its_own_and_tests_that_exist():
    mistakes = read_mistakes()
    count = Counter(one.room for one in mistakes)
    assert count.keys() == {"actor", "channel", "coordinator", "driver", "outside"}
    assert min(count.values()) >= 10
    assert len({one.says for one in mistakes}) == len(mistakes)
    assert {name for one in mistakes for name in one.tests if not (ROOT / name).is_file()} == set()


@pytest.mark.parametrize("one", read_mistakes(), ids=lambda one: one.says)
def test_each_fits_the_code_of_today(one):
    assert MARK in one.edit((ROOT / one.file).read_text(), one.new)


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("            return number\n", "            return least\n", "            return least"),
        ("    return None\n", "", "    return 1"),
        ("elif number >= least", "elif number > least", "        if number < 0:"),
        ("first(numbers, least)", "first(numbers, least=0)", "    for number in numbers:"),
    ],
)
def test_a_mark_stands_before_the_statement_that_the_mistake_changes(old, new, marked):
    one = mistake(old, new)
    lines = one.edit(CODE, new).splitlines()
    place = next(number for number, line in enumerate(lines) if line.strip() == f"import {MARK}")
    following = next(line for line in lines[place + 1 :] if line.strip())
    assert following == marked or new == ""
    right = [line for line in one.edit(CODE, old).splitlines() if line.strip() != f"import {MARK}"]
    assert right == CODE.splitlines()


@pytest.mark.parametrize(
    ("old", "new"), [("return nothing", "return 0"), ("return", "yield"), ("    return None", "    return None)")]
)
def test_an_edit_that_does_not_fit_says_so(old, new):
    with pytest.raises(DoesNotFit):
        mistake(old, new).edit(CODE, new)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "why"),
    [
        ("number >= least", "number > least", "died", "test_first: AssertionError: assert 3 == 2"),
        ("return 1", "return 2", "survived", "no test runs the line"),
        ("number >= least", "number >= str(least)", "broke", "TypeError"),
        ("number >= most", "number > most", "does not fit", "write the edit anew"),
    ],
)
def test_a_mistake_dies_by_an_assertion_alone(tmp_path, monkeypatch, old, new, verdict, why):
    project, copy = tmp_path / "project", tmp_path / "copy"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / "product.py").write_text(CODE)
    (project / "test_product.py").write_text(TEST)
    monkeypatch.setattr(command, "ROOT", project)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found, more = command.Copy(copy).try_out(mistake(old, new))
    assert (found, why in more) == (verdict, True), more
    assert (copy / "product.py").read_text() == CODE
