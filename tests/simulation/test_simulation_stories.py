"""Stories: commands and beneath them the whole expected trace, in files that are reviewed as diffs."""

import os
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.simulation.script import RULE, Script, play

FOLDER = Path(__file__).parent / "stories"
STORIES = sorted(FOLDER.glob("*.story"))
REWRITE = "RAYSHOT_REWRITE_STORIES"


def check(path, rewrite):
    """Play a story; raises AssertionError with a diff where its traces are others, or writes them anew."""
    written, found = path.read_text(encoding="utf-8"), play(path)
    if rewrite:
        path.write_text(found, encoding="utf-8")
    elif found != written:
        lines = unified_diff(written.splitlines(), found.splitlines(), str(path), "what the machines did", lineterm="")
        raise AssertionError("\n".join([*lines, "", f"{REWRITE}=1 writes what the machines did into the file"]))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_machines_do_what_the_story_tells(path):
    try:
        check(path, os.environ.get(REWRITE) == "1")
    except AssertionError as different:
        pytest.fail(str(different), pytrace=False)


def test_the_stories_of_the_paper_and_of_courses_are_there():
    told = {path.stem for path in STORIES}
    assert {"single_token", "state_that_never_occurred", "three_processes", "money"} <= told
    assert len(told) >= 15


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_each_story_begins_with_what_it_shows(path):
    head = path.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    assert len(head) >= 4
    assert all(line.startswith("#") for line in head)
    assert head[1] == "#", "the first line is a title"


def test_the_folder_explains_every_command_that_there_is():
    explained = (FOLDER / "README.md").read_text(encoding="utf-8")
    commands = {name.removeprefix("do_") for name in vars(Script) if name.startswith("do_") and name != "do_all"}
    assert [name for name in sorted(commands) if f"`{name}" not in explained] == []


def test_a_trace_that_differs_shows_as_a_diff_and_can_be_written_anew(tmp_path):
    path = tmp_path / "wrong.story"
    path.write_text(f"# A title.\n\nprocesses p=1 q=0\nsend p q 1\n{RULE}\np -> q: message 1 [2]\n")
    with pytest.raises(AssertionError, match=r"(?s)-p -> q: message 1 \[2\]\n\+p -> q: message 1 \[1\]"):
        check(path, rewrite=False)
    check(path, rewrite=True)
    check(path, rewrite=False)
    assert path.read_text() == f"# A title.\n\nprocesses p=1 q=0\nsend p q 1\n{RULE}\np -> q: message 1 [1]\n"


@pytest.mark.parametrize("wrong", ["dance p", "send p", "receive p q", "take q p", "processes q"])
def test_what_cannot_be_done_names_its_file_and_line(tmp_path, wrong):
    path = tmp_path / "wrong.story"
    path.write_text(f"# A title.\n\nprocesses p=1 q=0\n{RULE}\n\n{wrong}\n{RULE}\n")
    with pytest.raises(ValueError, match=r"wrong\.story:6"):
        play(path)
