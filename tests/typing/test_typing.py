"""mypy and pyright find the mistakes of `mistakes.py`, and nothing in programs without mistakes."""

import shutil

import pytest

from tests.processes import ROOT
from tests.typing.checkers import EXAMPLES, HERE, LOOSE, PORTS, mistakes, mypy, plain, pyright, snippets

MISTAKES = (HERE / "mistakes.py").read_text()


def write(folder):
    """The programs; each checker reads a folder of its own, as it is faster with fewer files beside it."""
    (folder / "decorated.py").write_text(MISTAKES)
    (folder / "plain.py").write_text(plain(MISTAKES))
    shutil.copy(HERE / "accepted.py", folder)
    assert snippets(folder) > 40, "the pages have examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("typing")
    write(made)
    return made


@pytest.fixture(scope="module")
def by_pyright(folder):
    return pyright(folder, ".", *files(*EXAMPLES))


@pytest.fixture(scope="module")
def by_plugin(folder):
    return mypy(folder, ".", *files(*EXAMPLES, PORTS), *LOOSE, plugin=True)


def files(*patterns):
    return [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]


def in_file(found, name):
    lines, _ = found
    return {line for file, line in lines if file == name}


def in_examples(found, *but):
    lines, said = found
    return {one for one in lines if one[0] not in {"decorated.py", "plain.py", *but}}, said


def test_there_are_at_least_thirty_mistakes():
    assert len(mistakes(MISTAKES)) >= 30


def test_mypy_without_the_plugin_finds_all_mistakes_of_the_decorated_program_and_nothing_else(folder):
    found = mypy(folder, "decorated.py", plugin=False)
    assert in_file(found, "decorated.py") == mistakes(MISTAKES), found[1]


def test_mypy_with_the_plugin_finds_all_mistakes_of_the_decorated_program_and_nothing_else(by_plugin):
    assert in_file(by_plugin, "decorated.py") == mistakes(MISTAKES), by_plugin[1]


def test_mypy_with_the_plugin_finds_all_mistakes_of_the_plain_program_and_nothing_else(by_plugin):
    assert in_file(by_plugin, "plain.py") == mistakes(MISTAKES), by_plugin[1]


def test_pyright_finds_all_mistakes_of_the_decorated_program_and_nothing_else(by_pyright):
    assert in_file(by_pyright, "decorated.py") == mistakes(MISTAKES), by_pyright[1]


def test_mypy_with_the_plugin_accepts_readme_docs_and_examples(by_plugin):
    wrong, said = in_examples(by_plugin)
    assert not wrong, said


def test_pyright_accepts_readme_docs_and_examples(by_pyright):
    wrong, said = in_examples(by_pyright)
    assert not wrong, said
