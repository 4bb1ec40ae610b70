"""Which calls of rayshot a process notes, and what is counted of them."""

import subprocess
import sys

import pytest

from benchmarks.steps import Step, read_steps
from benchmarks.walk import report_of, visits, walks
from tests.processes import ROOT

CANONICAL, WALKING = "rayshot/format/canonical.py", "rayshot/format/msgpack_walk.py"
UNPACKS = """
from rayshot.format.canonical import unpack

def unpacks():
    unpack(b"\\x01", what="a number", bytes_max=1)
"""


def followed(program, folder):
    file = folder / "steps"
    command = [sys.executable, "-c", f"from benchmarks.steps import follow\nfollow({str(file)!r})\n{program}"]
    subprocess.run(command, cwd=ROOT, check=True)
    return read_steps(file)


def seen(steps):
    return [(step.caller, step.file, step.function) for step in steps]


def thread(*calls, number=1, first_s=0.0):
    """Steps of a thread, a second apart: who called, and where the function is."""
    return [Step(first_s + at, 1, number, caller, file, "f") for at, (caller, file) in enumerate(calls)]


def test_a_process_notes_each_call_with_the_file_that_called(tmp_path):
    steps = followed(f"{UNPACKS}\nunpacks()", tmp_path)
    assert seen(steps) == [
        ("", CANONICAL, "unpack"),
        (CANONICAL, CANONICAL, "_walk"),
        (CANONICAL, WALKING, "count_documents"),
        (CANONICAL, CANONICAL, "_build"),
        (CANONICAL, CANONICAL, "pack"),
    ]


def test_lambdas_note_their_calls_and_functions_keep_their_docstrings(tmp_path):
    program = "from rayshot.inert.jsonable import jsonable\nassert jsonable.__doc__\nassert jsonable(True) is True"
    assert "<lambda>" in {step.function for step in followed(program, tmp_path)}


def test_a_thread_that_python_did_not_make_notes_its_calls_too(tmp_path):
    program = """
import _thread
over = _thread.allocate_lock()
over.acquire()

def run():
    unpacks()
    over.release()

unpacks()
_thread.start_new_thread(run, ())
over.acquire()
"""
    steps = followed(UNPACKS + program, tmp_path)
    assert (len(steps), len({step.thread for step in steps})) == (10, 2)


def test_what_a_module_calls_while_it_is_imported_is_not_noted(tmp_path):
    assert followed("import rayshot.inert.pickle_machine", tmp_path) == []


def test_a_forked_process_notes_nothing(tmp_path):
    program = """
import os
if not os.fork():
    os.closerange(3, 100)
    unpacks()
    os._exit(0)
assert os.wait()[1] == 0
"""
    assert followed(UNPACKS + program, tmp_path) == []


def test_a_walk_is_what_is_called_in_its_window_and_never_in_a_rest():
    rests = [*thread(("", "heartbeat")), *thread(("", "metrics"), first_s=10.0)]
    told = thread(("", "handle"), ("", "heartbeat"), ("handle", "metrics"), ("", "metrics"), first_s=20.0)
    later = thread(("", "status"), first_s=30.0)
    (walk,) = walks([*rests, *told, *later], [(20.0, 30.0)], [(0.0, 5.0), (10.0, 15.0)])
    assert [step.file for step in walk] == ["handle", "metrics"]


@pytest.mark.parametrize(
    ("walk", "twice"),
    [
        (thread(("", "a"), ("a", "b"), ("b", "b"), ("b", "c")), set()),
        (thread(("", "a"), ("a", "b"), ("a", "b"), ("a", "a"), ("a", "c")), set()),
        (thread(("", "a"), ("a", "b"), ("b", "a")), {"a"}),
        (thread(("", "a"), ("a", "b"), ("a", "c"), ("a", "b")), {"b"}),
        (thread(("", "a"), ("a", "b")) + thread(("", "b"), ("b", "a"), number=2), set()),
    ],
    ids=["one after the other", "again at once, and back", "called back", "asked again", "in another thread"],
)
def test_a_file_is_passed_twice_if_a_thread_enters_it_again_from_another_one(walk, twice):
    assert {file for file, count in visits(walk).items() if count > 1} == twice


def test_the_report_has_the_files_that_most_walks_pass_in_their_order():
    usual, longer = thread(("", "a"), ("a", "b"), ("b", "a")), thread(("", "a"), ("a", "c"), ("a", "b"))
    report = report_of([usual, longer, usual], [longer], [0.5], {})
    assert report.figure("a tell: files").value == 2
    assert report.figure("a tell: files passed twice").value == 1
    assert report.figure("a death: files").value == 3
    visited = {series.name: series.samples for series in report.series if series.unit == "visits"}
    tell, death = {"a tell: a": (2, 1, 2), "a tell: b": (1, 1, 1)}, {f"a death: {file}": (1,) for file in "acb"}
    assert list(visited.items()) == list({**tell, **death}.items())
