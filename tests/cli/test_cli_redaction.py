import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rayshot.cli import main
from rayshot.store.local import LocalStore
from tests.store.snapshot_builder import Bank, Flow, make_snapshot, open_bank

pytestmark = pytest.mark.acceptance("G25")
FLOWS = {("alice", "bob"): Flow(sent=2, method="set_token")}


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    repository = open_bank(LocalStore(tmp_path / "shots"))
    for counter, word in enumerate(("hunter1", "hunter2"), 1):
        login = {"user": "alice", "password": word, "numbers": {"pin": 1}}
        states = {"alice": {"db_password": word, "login": login, "tokens": [word], "balance": counter}, "bob": {}}
        make_snapshot(repository, Bank(states=states, flows=FLOWS), counter)
    return tmp_path / "shots"


def shown(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code in {0, 1}
    return result.stdout


@pytest.mark.parametrize("command", ["show", "diff"])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_secrets_are_redacted_unless_they_are_asked_for(shots: Path, command: str, form: tuple[str, ...]) -> None:
    redacted = shown(command, shots, *form)
    assert "hunter" not in redacted
    assert "<redacted>" in redacted
    assert "db_password" in redacted
    assert "balance" in redacted
    assert "hunter2" in shown(command, shots, "--show-secrets", *form)
    assert "hunter" not in shown(command, shots, *form)


def test_arguments_of_a_method_named_like_a_secret_are_redacted(shots: Path) -> None:
    assert "set_token(<redacted>), set_token(<redacted>)" in shown("show", shots)
    assert "set_token(10), set_token(20)" in shown("show", shots, "--show-secrets")
    document = json.loads(shown("show", shots, "--json"))
    assert [message["args"] for message in document["channels"][0]["messages"]] == [["<redacted>"]] * 2


@pytest.mark.parametrize("command", ["show", "diff"])
def test_arguments_of_timers_and_of_pending_calls_are_redacted_by_their_method(tmp_path: Path, command: str) -> None:
    repository = open_bank(LocalStore(tmp_path))
    for counter, word in enumerate(("hunter1", "hunter2"), 1):
        timers = [(5.0, "set_password", (word, 7)), (6.0, "ring", (counter,))]
        calls = {
            1: ("on_token", None, (word,)),
            2: ("on_sum", "on_auth_error", (word,)),
            3: ("on_sum", None, ("plain",)),
        }
        bank = Bank(states={"alice": {"balance": counter}}, flows={}, timers=timers, calls=calls)
        make_snapshot(repository, bank, counter)
    for form in ((), ("--json",)):
        redacted = shown(command, tmp_path, *form)
        assert "hunter" not in redacted
    assert "<redacted>" in redacted
    assert "on_auth_error" in redacted
    assert "hunter2" in shown(command, tmp_path, "--show-secrets", "--json")
