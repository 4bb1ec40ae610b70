"""`rayshot drill`: it loads every state as a restore does, and says which came back."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli_commands import bank_at, lines, own_environment, run
from tests.proving import kinds
from tests.store.snapshot_builder import Bank

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
    assert lines(result)[0] == "bank  1-coordinator-1  2 of 2 actors came back"
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
    assert "not tried to the end" in result.stdout


def test_what_could_not_be_tried_to_the_end_ends_it_with_18(tmp_path: Path, classes: Path) -> None:
    bank_at(tmp_path / "shots", Bank(states={"alice": {"balance": kinds.Disconnected()}}))
    assert run("drill", tmp_path / "shots").exit_code == 18
    assert not classes.exists()


def test_a_snapshot_that_no_trusted_key_signed_is_not_loaded(tmp_path: Path, classes: Path) -> None:
    bank_at(tmp_path / "shots", Bank(), key=None)
    assert run("drill", tmp_path / "shots").exit_code == 12
    assert not classes.exists()
    assert run("drill", tmp_path / "shots", "--allow-unsigned").exit_code == 0
