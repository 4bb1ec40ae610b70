"""`rayshot detect`: a stable property asked of a history."""

import json

import pytest
from click.testing import CliRunner

from rayshot.cli import main
from rayshot.places.local import LocalStore
from tests.properties.builders import Actor, History, Line, tell

AB = ("alice", "bob")


@pytest.fixture
def shots(tmp_path):
    history = History(LocalStore(tmp_path))
    history.snapshot({"alice": Actor({"done": 1, "pin": 1234}), "bob": Actor()}, {AB: Line(1, [tell("go")])})
    history.snapshot({"alice": Actor({"done": 5, "pin": 1234}), "bob": Actor()}, {AB: Line(2)})
    return history, tmp_path


def run(shots, *arguments):
    return CliRunner().invoke(main, ["detect", str(shots[1]), *map(str, arguments)])


def counter(least):
    return ("counter-reached", "--with", "actor=alice", "--with", "attribute=done", "--with", f"least={least}")


def test_the_exit_code_says_whether_it_holds_and_the_table_where(shots):
    yes = run(shots, "termination")
    assert yes.exit_code == 0
    assert "1-coordinator-1  no     messages in flight: 1" in yes.output
    assert "it holds from the moment when 1-coordinator-2 was complete" in " ".join(yes.output.split())
    no = run(shots, *counter(9))
    assert no.exit_code == 1
    assert "it did not hold when 1-coordinator-2 began" in no.output


def test_the_document_has_every_verdict(shots):
    document = json.loads(run(shots, *counter(5), "--json").stdout)
    assert (document["holds"], document["decided_by"], document["life"]) == (True, "1-coordinator-2", 1)
    assert [(one["snapshot"], one["holds"], one["evidence"]) for one in document["verdicts"]] == [
        ("1-coordinator-1", False, {"count": 1}),
        ("1-coordinator-2", True, {"count": 5}),
    ]
    assert document["conditions"] == ["alice.done never falls"]


def test_what_was_not_stable_is_said(shots):
    history, _ = shots
    history.snapshot({"alice": Actor({"done": 0}), "bob": Actor()}, {AB: Line(3)})
    found = run(shots, *counter(5))
    assert found.exit_code == 1
    assert "it is not stable here: it holds in 1-coordinator-2, and not in 1-coordinator-3" in found.output
    assert "it did not hold" not in found.output


def test_a_driver_that_nobody_saw_may_have_ended_what_needs_closed_doors(shots):
    history, _ = shots
    history.snapshot({"alice": Actor({"waits_for": "bob"}), "bob": Actor({"waits_for": "alice"})}, {AB: Line(2)})
    history.snapshot({"alice": Actor(), "bob": Actor({"waits_for": "alice"})}, {AB: Line(3)})
    found = run(shots, "deadlock", "--with", "waits_for=waits_for")
    assert found.exit_code == 1
    said = " ".join(found.output.split())
    assert (
        "a driver came, spoke and went in between, or else it is not stable here: it holds in 1-coordinator-3" in said
    )


def test_after_a_restore_nothing_is_known_of_the_new_life(shots):
    history, _ = shots
    history.restore(history.system.latest())
    found = run(shots, "termination")
    assert found.exit_code == 1
    assert "there is no snapshot of life 2 yet" in found.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["over"], "no property 'over': there is termination, lost-reply"),
        (["counter-reached"], "needs actor, attribute, least; it takes --with actor=..."),
        (["lost-reply", "--with", "actor=alice"], "does not take actor; it takes nothing"),
        ([*counter("many")], "'many' is not a number"),
        (["deadlock"], "deadlock needs waits_for"),
        (["deadlock", "--with", "waits_for=x", "--with", "needs=some"], "needs is all or any"),
        (["termination", "--with", "source=feed"], "--with source=ACTOR:ATTRIBUTE"),
        (["no_such_module:phi"], "no_such_module:phi cannot be found here"),
        (["os:getcwd"], "getcwd is not declared stable"),
        (["conserved-sum", "--with", "attribute=pin", "--with", "total=0"], "named like a secret"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_there_is(shots, arguments, complaint):
    result = run(shots, *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "1234" not in result.output


def test_what_is_named_like_a_secret_is_counted_where_it_is_shown(shots):
    arguments = ["conserved-sum", "--with", "attribute=pin", "--with", "total=1234", "--show-secret", "pin"]
    assert run(shots, *arguments).exit_code == 0


def test_a_property_of_ones_own_is_imported_from_the_current_folder(shots, monkeypatch):
    _, folder = shots
    (folder / "my_properties.py").write_text(
        "from rayshot.properties import stable\n\n\n@stable\ndef busy(state):\n    return state.in_flight > 0\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    found = run(shots, "my_properties:busy", "--json")
    assert json.loads(found.stdout)["contradictions"] == [["1-coordinator-1", "1-coordinator-2"]]


LEAVES = "import sys\nfrom rayshot.properties import stable\n\n\n@stable\ndef leaves(state):\n    sys.exit(0)\n"


@pytest.mark.parametrize(
    ("name", "more", "complaint"),
    [
        ("leaves_when_asked", "", "'leaves', asked of 1-coordinator-1, raised SystemExit: 0"),
        ("leaves_at_once", "\n\nsys.exit(0)\n", "leaves_at_once:leaves cannot be found here: SystemExit: 0"),
    ],
)
def test_a_property_that_leaves_the_program_does_not_hold(shots, monkeypatch, name, more, complaint):
    _, folder = shots
    (folder / f"{name}.py").write_text(LEAVES + more)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    found = run(shots, f"{name}:leaves")
    assert found.exit_code == 2
    assert complaint in " ".join(found.stderr.split())


def test_damage_has_a_code_of_its_own(shots):
    history, _ = shots
    for entry in list(history.store.list("bank/chunks")):
        history.store.delete(entry.key)
    assert run(shots, *counter(1)).exit_code == 17
