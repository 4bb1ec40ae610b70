"""`rayshot replay`: what it prints, what it asks, and what it refuses."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rayshot.cli import main
from rayshot.cli import replay as command
from rayshot.keys.signing import SigningKey
from rayshot.model.specification import ActorSpecification
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_manifest, make_snapshot, open_bank

CODE = """
import rayshot

@rayshot.actor
class Account:
    def __init__(self, balance):
        self.balance = balance
    def transfer(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount)
    def deposit(self, amount):
        print("a handler prints")
        if amount > 45:
            raise ValueError("too\\tmuch")
        self.balance += amount
        rayshot.current().after(2, self.close, "soon")
    def credit(self, amount):
        if amount > 45:
            raise ValueError("too\\tmuch")
        self.balance += amount
        if amount == 40:
            rayshot.current().after(2, self.close, "soon")
    def close(self, word):
        rayshot.current().exit()
"""
FLOWS = {("alice", "bob"): Flow(sent=5, received=2), ("bob", "alice"): Flow(sent=1)}


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the application runs, with its code and its storage."""
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "bank", raising=False)  # that of another test, before this one in its process
    (tmp_path / "bank.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop("bank", None)


def shots(path: Path, flows: Any = FLOWS, **options: Any) -> Path:
    make_snapshot(open_bank(LocalStore(path / "shots")), Bank(flows=flows), **options)
    return path / "shots"


def run(*arguments: object, **options: Any) -> Result:
    runner = CliRunner(env={"COLUMNS": "80"})
    result = runner.invoke(main, ["replay", *map(str, arguments)], **options)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def story(result: Result) -> list[str]:
    assert result.stdout, f"exit code {result.exit_code}, and: {result.stderr}"
    return [line.rstrip() for line in result.stdout.splitlines() if line != "a handler prints"]


def test_each_step_shows_what_was_handled_and_what_it_changed(application: Path) -> None:
    path = shots(application, {("alice", "bob"): Flow(sent=5, received=2, method="credit")})
    result = run(path, "--steps", 3)
    assert story(result) == [
        "bank  1-coordinator-1  2 actors, 3 messages in flight",
        "",
        "   1  alice -> bob  message 3  credit(30)",
        "        bob.balance: 10 -> 40",
        "   2  alice -> bob  message 4  credit(40)",
        "        bob.balance: 40 -> 80",
        "        sets a timer  close('soon') at 2 s",
        "   3  alice -> bob  message 5  credit(50)",
        "        changes nothing",
        "        raises ValueError: too\\tmuch",
        "",
        "Stopped after 3 steps: it goes on (1 could be next), --steps shows more. The states are now",
        "      alice  balance=90",
        "      bob  balance=80, (timers)=[\"close('soon') at 2 s\"]",
    ]
    assert result.exit_code == 0


def test_a_seed_gives_one_order_and_another_seed_another(application: Path) -> None:
    path = shots(application)
    stories = {seed: run(path, "--seed", seed).stdout for seed in range(6)}
    assert stories[3] == run(path, "--seed", 3).stdout
    assert len(set(stories.values())) > 1


def test_a_snapshot_without_messages_says_that_nothing_happens(application: Path) -> None:
    result = run(shots(application, {}))
    assert "No message is in flight and no timer is set" in result.stdout
    assert result.exit_code == 0


def test_everything_is_one_document_whatever_handlers_print(application: Path) -> None:
    result = run(shots(application), "--json")
    document = json.loads(result.stdout)
    assert (document["system"], document["snapshot"], document["seed"]) == ("bank", "1-coordinator-1", 0)
    assert {step["method"] for step in document["steps"]} >= {"deposit", "close"}
    deposit = next(step for step in document["steps"] if step["number"] == 3)
    assert (deposit["sender"], deposit["receiver"], deposit["args"]) == ("alice", "bob", [30])
    assert {"name": "balance", "old": 10, "new": 40} in deposit["changes"]
    assert any("too" in (step["error"] or "") for step in document["steps"])
    assert (document["pending"], document["died"]) == ([], None)
    assert document["states"] == {}
    assert "a handler prints" in result.stderr


def test_the_document_is_whole_where_a_step_brings_the_system_down(
    application: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ActorSpecification, "on_error", "stop")
    flows = {("alice", "bob"): Flow(sent=5, received=2, method="credit")}
    result = run(shots(application, flows), "--json")
    document = json.loads(result.stdout)
    assert [step["number"] for step in document["steps"]] == [3, 4, 5]
    assert "too" in document["steps"][-1]["error"]
    assert "bob" in document["died"]
    assert document["states"]["bob"]["balance"] == 80
    assert result.exit_code == 1
    assert result.stderr.startswith("error: actor_died: ")


def test_a_person_steps_branches_and_goes_back(application: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    result = run(shots(application), "--interactive", input="1\nb\n2\ns\nu\nhelp\n\nq\n")
    lines = story(result)
    assert "   [1]  alice -> bob  message 3  deposit(30)" in lines
    assert "   1  alice -> bob  message 3  deposit(30)" in "\n".join(lines)
    assert "branch 1 >" in result.stdout
    assert (
        result.stdout.count("   2  bob -> alice  message 1  deposit(10)")
        + result.stdout.count("   2  alice -> bob  message 4  deposit(40)")
        + result.stdout.count("   2  bob  timer")
        == 2
    )
    assert result.stdout.count("b: branch") == 2
    assert result.exit_code == 0


def test_a_number_of_five_thousand_digits_is_no_answer(application: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    result = run(shots(application), "--interactive", input=f"{'1' * 5000}\n0\nq\n")
    assert result.stdout.count("b: branch") == 3
    assert result.exit_code == 0


def test_a_failure_that_is_the_systems_is_shown_with_its_step(
    application: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ActorSpecification, "on_error", "stop")
    storage = shots(application)
    result = run(storage, "--steps", 60)
    assert result.exit_code == 1
    assert "deposit(50)" in result.stdout
    assert "actor_died" in result.stderr
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    result = run(storage, "--interactive", input="\n" * 8 + "q\n")
    assert result.exit_code == 0
    assert "counts its failure as the system's" in result.stdout.replace("\n", " ")


def test_a_handler_that_exits_ends_its_actor_and_not_the_command(application: Path) -> None:
    (application / "bank.py").write_text(CODE.replace("self.balance += amount", "raise SystemExit(0)"))
    result = run(shots(application), "--steps", 60)
    assert "\n        ends\n" in result.stdout
    assert "Nothing is left to do" in result.stdout


def test_the_end_of_the_input_is_the_end_of_the_session(application: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    assert run(shots(application), "--interactive", input="").exit_code == 0


def test_what_is_not_trusted_is_not_loaded(application: Path) -> None:
    unsigned = shots(application / "unsigned", key=None)
    result = run(unsigned)
    assert (result.exit_code, result.stdout) == (12, "")
    assert result.stderr.startswith("error: unsigned: ")
    assert "bank" not in sys.modules
    assert run(unsigned, "--allow-unsigned").exit_code == 0
    assert run(shots(application / "foreign", key=SigningKey(b"x" * 32))).exit_code == 12


def test_classes_that_are_not_here_are_named(application: Path) -> None:
    (application / "bank.py").unlink()
    result = run(shots(application))
    assert result.exit_code == 14
    assert result.stderr.startswith("error: code_mismatch: the actors' code cannot be found: no bank.Account here. ")
    assert "PYTHONPATH" in result.stderr


@pytest.mark.parametrize("arguments", [("--interactive",), ("--interactive", "--json"), ("--steps", "-1")])
def test_what_cannot_be_is_a_usage_error(application: Path, arguments: tuple[str, ...]) -> None:
    assert run(shots(application), *arguments).exit_code == 2


def test_what_is_not_there_has_the_exit_codes_of_the_other_commands(application: Path) -> None:
    assert run(application / "nothing").exit_code == 10
    assert run(shots(application), "--snapshot", "1-coordinator-9").exit_code == 11


@pytest.mark.acceptance("G18")
def test_classes_that_moved_are_mapped(application: Path) -> None:
    storage = shots(application)
    (application / "bank.py").rename(application / "vault_of_gold.py")
    assert run(storage).exit_code == 14
    moved = run(storage, "--rename-class", "bank.Account=vault_of_gold.Account", "--json")
    assert moved.exit_code == 0
    assert json.loads(moved.stdout)["steps"]
    for wrong in ("bank.Account", "=x.Y", "bank.Account="):
        assert run(storage, "--rename-class", wrong).exit_code == 2
    assert run(storage, "--rename-class", "bank.Account=nowhere.Account").exit_code == 2
    sys.modules.pop("vault_of_gold")


def test_actors_whose_class_is_gone_are_left_out_where_that_is_asked_for(application: Path) -> None:
    path = application / "shots"
    repository = open_bank(LocalStore(path))
    manifest = make_manifest(repository, Bank(flows=FLOWS), 1)
    alice, bob = manifest.actors
    repository.commit(replace(manifest, actors=(alice, replace(bob, class_name="Closed"))), KEY)
    refused = run(path)
    assert refused.exit_code == 14
    assert "--skip-missing-classes" in refused.stderr
    result = run(path, "--skip-missing-classes", "--json")
    assert result.exit_code == 0
    assert {step["receiver"] for step in json.loads(result.stdout)["steps"]} == {"alice"}
