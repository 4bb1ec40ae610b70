"""`rayshot drill`: it loads every state as a restore does, and says which came back."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rayshot.places.local import LocalStore
from tests.cli.test_cli_commands import bank_at, lines, own_environment, run
from tests.proving import kinds
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_manifest, open_bank

__all__ = ["own_environment"]

pytestmark = pytest.mark.acceptance("R1")

CLASS = """
from pathlib import Path

class Account:
    __rayshot_version__ = 1

    def __setstate__(self, state):
        if state["balance"] == "broken":
            raise ValueError("no balance")
        Path({mark!r}).touch()

    def on_restore(self):
        Path({mark!r} + ".hook").touch()

    def deposit(self, amount): ...
"""


HASHED = """
    take = __setstate__

    def __setstate__(self, state):
        assert hash("a") == SEED_7
        self.take(state)
"""


@pytest.fixture(autouse=True)
def no_bank() -> Iterator[None]:
    """A module that another test has imported, and those of these tests."""
    sys.modules.pop("bank", None)
    yield
    sys.modules.pop("bank", None)


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the module of the actors' class importable; returns the file that loading an actor makes."""
    mark, folder = tmp_path / "loaded", tmp_path / "code"
    folder.mkdir()
    (folder / "bank.py").write_text(CLASS.format(mark=str(mark)))
    monkeypatch.syspath_prepend(str(folder))
    return mark


def test_every_state_that_comes_back_is_named_and_the_class_took_it_but_no_hook_ran(
    tmp_path: Path, classes: Path
) -> None:
    bank_at(tmp_path / "shots", Bank())
    result = run("drill", tmp_path / "shots")
    assert result.exit_code == 0, result.output
    said = "bank  1-coordinator-1  2 of 2 actors came back and the messages of 1 of 1 channel"
    assert " ".join(lines(result)).startswith(said)
    assert classes.exists()
    assert not Path(f"{classes}.hook").exists()


def test_a_state_that_its_class_or_its_values_refuse_ends_it_with_1_and_the_others_are_tried(
    tmp_path: Path, classes: Path
) -> None:
    states = {"alice": {"balance": kinds.Registered("one")}, "bob": {"balance": "broken"}, "carl": {"balance": 1}}
    bank_at(tmp_path / "shots", Bank(states=states))
    result = run("drill", tmp_path / "shots", "--json")
    found = {row["actor"]: (row["word"], row["reason"], row["path"]) for row in json.loads(result.stdout)["actors"]}
    assert result.exit_code == 1
    assert found == {
        "alice": ("refuted", "KeyError: 'one'", "alice['state']['balance']"),
        "bob": ("refuted", "ValueError: no balance", "bob"),
        "carl": ("proved", "", ""),
    }
    assert classes.exists()


def test_a_module_that_is_not_here_is_no_verdict_and_ends_it_with_14(tmp_path: Path) -> None:
    bank_at(tmp_path / "shots", Bank())
    result = run("drill", tmp_path / "shots")
    assert result.exit_code == 14
    assert "no bank.Account here" in result.stderr
    assert "with --rename-class where a class went" in result.stderr


def test_a_module_that_ends_its_program_when_it_is_imported_does_not_end_the_drill(
    tmp_path: Path, classes: Path
) -> None:
    (tmp_path / "code" / "bank.py").write_text("import sys\nsys.exit()")
    bank_at(tmp_path / "shots", Bank())
    result = run("drill", tmp_path / "shots")
    assert result.exit_code == 14
    assert "module bank cannot be imported: SystemExit()" in result.stderr
    assert not classes.exists()


def test_states_are_loaded_with_the_seed_of_their_system(tmp_path: Path, classes: Path) -> None:
    code = tmp_path / "code" / "bank.py"
    code.write_text(f"SEED_7 = {hash_with_seed(7)}\n" + code.read_text() + HASHED)
    bank_at(tmp_path / "shots", Bank(stats={"hash_seed": 7}))
    result = run("drill", tmp_path / "shots")
    assert result.exit_code == 0, result.output
    assert classes.exists()


def hash_with_seed(seed: int) -> int:
    command = [sys.executable, "-c", "print(hash('a'))"]
    return int(subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": str(seed)}))


@pytest.mark.usefixtures("classes")
def test_a_class_that_is_gone_from_its_module_is_no_verdict_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = type("Gone", (), {"__module__": "bank"})
    flows = {("bob", "alice"): Flow(sent=2, kwargs={"note": gone()})}
    with monkeypatch.context() as here:
        here.setattr(importlib.import_module("bank"), "Gone", gone, raising=False)
        bank_at(tmp_path / "shots", Bank(states={"alice": {"balance": gone()}, "bob": {"balance": 1}}, flows=flows))
    result = run("drill", tmp_path / "shots", "--json")
    document = json.loads(result.stdout)
    found = {row["actor"]: (row["word"], row["error"], row["reason"]) for row in document["actors"]}
    assert result.exit_code == 14
    assert found["alice"] == ("unproved", "CodeMismatch", "CodeMismatch: bank.Gone is not to be found here")
    (channel,) = document["channels"]
    assert (channel["word"], channel["error"], channel["path"]) == ("unproved", "CodeMismatch", "message 1")
    assert "holds bank.Gone" in channel["reason"]


def test_the_first_message_of_a_channel_that_does_not_come_back_is_named_and_ends_it_with_1(
    tmp_path: Path, classes: Path
) -> None:
    flows = {
        ("alice", "bob"): Flow(sent=9, arrived=7, received=6, kwargs={"note": kinds.Registered("one")}),
        ("bob", "alice"): Flow(sent=3, kwargs={"note": kinds.Plain()}),
        ("alice", "alice"): Flow(sent=4, received=4),
    }
    bank_at(tmp_path / "shots", Bank(flows=flows))
    result = run("drill", tmp_path / "shots", "--json")
    channels = [tuple(row.values()) for row in json.loads(result.stdout)["channels"]]
    assert result.exit_code == 1
    assert channels == [
        ("alice", "bob", "refuted", "KeyError: 'one'", "KeyError", "message 7"),
        ("bob", "alice", "proved", "", "", ""),
    ]
    assert "alice -> bob" in run("drill", tmp_path / "shots").stdout


@pytest.mark.usefixtures("classes")
def test_classes_that_went_elsewhere_or_are_gone_are_told_as_to_a_restore(tmp_path: Path) -> None:
    shots = tmp_path / "shots"
    repository = open_bank(LocalStore(shots))
    manifest = make_manifest(repository, Bank(), 1)
    alice, bob = manifest.actors
    repository.commit(replace(manifest, actors=(replace(alice, class_module="old.bank"), bob)), KEY)
    assert run("drill", shots).exit_code == 14
    moved = run("drill", shots, "--rename-class", "old.bank.Account=bank.Account", "--json")
    assert moved.exit_code == 0, moved.output
    assert [row["actor"] for row in json.loads(moved.stdout)["actors"]] == ["alice", "bob"]
    rest = run("drill", shots, "--skip-missing-classes", "--json")
    assert rest.exit_code == 0, rest.output
    assert [row["actor"] for row in json.loads(rest.stdout)["actors"]] == ["bob"]
    assert run("drill", shots, "--rename-class", "bank").exit_code == 2


def test_what_could_not_be_tried_to_the_end_ends_it_with_18(tmp_path: Path, classes: Path) -> None:
    bank_at(tmp_path / "shots", Bank(states={"alice": {"balance": kinds.Disconnected()}}))
    assert run("drill", tmp_path / "shots").exit_code == 18
    assert not classes.exists()


def test_a_snapshot_that_no_trusted_key_signed_is_not_loaded(tmp_path: Path, classes: Path) -> None:
    bank_at(tmp_path / "shots", Bank(), key=None)
    assert run("drill", tmp_path / "shots").exit_code == 12
    assert not classes.exists()
    assert run("drill", tmp_path / "shots", "--allow-unsigned").exit_code == 0
