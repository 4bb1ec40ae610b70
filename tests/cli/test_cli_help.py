"""`rayshot help`: the pages that errors name, in the terminal; the sections of the list of commands."""

import ast
import contextlib
import os
import pty
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

import rayshot.cli.help as pages_of
from rayshot.cli import main
from rayshot.cli.program import _HOMES, SECTIONS
from rayshot.errors import RayshotError
from tests.processes import ROOT, search_path

NAMED = re.compile(r"rayshot help ([a-z0-9/-]+(?:#[\w-]+)?)")
SOURCES = [*(ROOT / "rayshot").rglob("*.py"), *(ROOT / "integrations").rglob("*.py")]


def run(*arguments):
    return CliRunner().invoke(main, ["help", *arguments])


def texts(file):
    """All texts of a file, of messages and docstrings; what an f-string fills in is left out."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_page_that_a_message_or_a_docstring_names_can_be_shown():
    named = {(place, file.name) for file in SOURCES for text in texts(file) for place in NAMED.findall(text)}
    assert len({place for place, _ in named}) > 8
    for place, file in sorted(named - {("porting", "suggestion.py")}):
        assert pages_of.page_text(place).strip(), (place, file)


def test_every_line_of_the_porting_table_that_an_error_names_is_there():
    calls = [
        node.args[0]
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "porting"
    ]
    lines = {argument.value for argument in calls if isinstance(argument, ast.Constant)}
    known = pages_of.places(pages_of.pages()["porting"].text)
    assert lines
    assert not lines - known.keys()


def test_no_text_of_the_program_names_a_file_that_the_wheel_does_not_contain():
    named = {
        (file.name, found)
        for file in SOURCES
        for text in texts(file)
        for found in re.findall(r"docs/(?!design/)[\w/-]+\.md", text)
    }
    assert named == set()


@pytest.mark.parametrize("page", pages_of.pages())
def test_every_page_is_shown(page):
    result = run(page)
    assert result.exit_code == 0
    assert len(result.stdout) > 40
    assert "<a id=" not in result.stdout
    assert "<!--" not in result.stdout
    assert not re.search(r"\]\((?!https?:)[^)]*\.md", result.stdout)


def test_a_place_is_a_section_a_row_or_a_paragraph():
    section = run("porting#actors-that-ask").stdout
    assert section.startswith("## Actors that ask\n")
    assert not re.search(r"(?m)^#{1,2} ", section[3:])
    row = run("porting#max-restarts").stdout
    assert row.startswith("| idiom |")
    assert row.count("\n") == 3
    assert run("porting#tensor-transport").stdout.startswith("Rayshot refuses `tensor_transport`")


def test_an_error_is_found_by_its_class_and_by_its_kind():
    assert run("SnapshotsExist").stdout == run("snapshots_exist").stdout == run("errors#snapshots_exist").stdout
    assert "SnapshotsExist" in run("SnapshotsExist").stdout


def test_every_error_has_a_place_on_the_page_of_errors():
    kinds = {kind.page.partition("#")[2] for kind in pages_of._errors(RayshotError) if kind is not RayshotError}
    ours = {kind for kind in kinds if kind in pages_of.places(pages_of.pages()["errors"].text)}
    assert kinds == ours


def test_a_command_is_explained_by_its_own_help():
    assert run("verify").stdout == CliRunner().invoke(main, ["verify", "--help"]).stdout


def test_a_page_goes_before_the_command_of_its_name():
    assert run("outside").stdout.startswith("# What is outside")
    assert _HOMES.keys() & pages_of.pages().keys() == {"outside"}, "other commands are found by their names"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("portin", "there is no page 'portin'. Did you mean 'porting'?"),
        ("porting#askin", "page 'porting' has no place 'askin'. Did you mean 'asking'?"),
        ("SnapshotExist", "there is no page 'SnapshotExist'"),
        ("../README", "there is no page '../README'"),
    ],
)
def test_an_unknown_page_or_place_gets_a_near_name(name, said):
    result = run(name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_without_a_page_all_are_listed_with_their_titles():
    listed = run().stdout
    for page in pages_of.pages().values():
        if "/" not in page.name:
            assert re.search(rf"(?m)^ +{page.name} +\S", listed)
    assert re.findall(r"(?m)^(\w+):$", listed) == list(
        dict.fromkeys(page.section for page in pages_of.pages().values())
    )


def test_in_a_terminal_a_page_is_drawn_and_paged():
    code = "from rayshot.cli import main; main(['help', 'porting#actors-that-ask'])"
    ours, theirs = pty.openpty()
    environment = {**os.environ, **search_path(), "TERM": "xterm", "PAGER": "cat"}
    done = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert done.wait(60) == 0
    assert b"\x1b[" in shown
    assert b"Actors that ask" in shown
    assert b"##" not in shown


def test_the_list_of_commands_has_each_once_in_a_section():
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(_HOMES)
    said = CliRunner().invoke(main, ["--help"]).stdout
    for section, names in SECTIONS.items():
        (rows,) = re.findall(rf"(?m)^{section}:\n((?:  .*\n)+)", said)
        assert tuple(row.split()[0] for row in rows.splitlines()) == names
