import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rayshot.cli import main
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

pytestmark = pytest.mark.acceptance("G25")
FLOWS = {("alice", "bob"): Flow(sent=2, method="set_pin")}


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    repository = open_bank(LocalStore(tmp_path / "shots"))
    for counter, word in enumerate(("hunter1", "hunter2"), 1):
        login = {"user": "alice", "password": word, "numbers": {"pin": 1}}
        alice = {"db_password": word, "login": login, "tokens": [word], "max_tokens": 4096, "balance": counter}
        states = {"alice": alice, "bob": {}}
        make_snapshot(repository, Bank(states=states, flows=FLOWS), counter)
    return tmp_path / "shots"


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(argument) for argument in arguments])


def shown(*arguments: object) -> str:
    result = run(*arguments)
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
    assert "set_pin(<redacted>), set_pin(<redacted>)" in shown("show", shots)
    assert "set_pin(10), set_pin(20)" in shown("show", shots, "--show-secrets")
    document = json.loads(shown("show", shots, "--json"))
    assert [message["args"] for message in document["channels"][0]["messages"]] == [["<redacted>"]] * 2


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_secrets_are_shown_by_their_names(shots: Path, form: tuple[str, ...]) -> None:
    result = run("show", shots, *form, "--show-secret", "tokens", "--show-secret", "password")
    assert result.exit_code == 0
    assert (result.stdout.count("hunter2"), result.stderr) == (2, "")
    assert result.stdout.count("<redacted>") == 4  # db_password, pin, and the arguments of set_pin
    everything = run("show", shots, *form, "--show-secrets", "--show-secret", "tokens")
    assert (everything.stdout, "<redacted>" in everything.stdout) == (
        shown("show", shots, "--show-secrets", *form),
        False,
    )
    assert "4096" in shown("show", shots, *form)


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize("command", ["show", "diff", "replay"])
def test_a_name_that_shows_nothing_is_not_passed_over_in_silence(shots: Path, command: str) -> None:
    refused = run(command, shots, "--show-secret", "max_tokens", "--show-secret", "pasword")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: config_error: rayshot never hides anything named 'pasword', so there is nothing to show: check the "
        "spelling\n"
    )


@pytest.mark.acceptance("X9")
def test_a_name_that_is_in_nothing_that_was_shown_is_told(shots: Path) -> None:
    result = run(
        "show", shots, "--show-secret", "password", "--show-secret", "db_pasword", "--show-secret", "dbPassword"
    )
    assert result.exit_code == 2
    result = run("show", shots, "--show-secret", "password", "--show-secret", "dbPassword")
    assert result.exit_code == 0
    assert result.stderr == "warning: --show-secret dbPassword: nothing here would have been hidden by it\n"


@pytest.mark.parametrize("command", ["show", "diff"])
def test_arguments_of_timers_and_of_pending_calls_are_redacted_by_their_method(tmp_path: Path, command: str) -> None:
    repository = open_bank(LocalStore(tmp_path))
    for counter, word in enumerate(("hunter1", "hunter2"), 1):
        timers = [(5.0, "set_password", (word, 7)), (6.0, "ring", (counter,))]
        calls = {
            1: ("use_token", None, (word,)),
            2: ("on_sum", "verify_password", (word,)),
            3: ("on_sum", None, ("plain",)),
        }
        bank = Bank(states={"alice": {"balance": counter}}, flows={}, timers=timers, calls=calls)
        make_snapshot(repository, bank, counter)
    for form in ((), ("--json",)):
        redacted = shown(command, tmp_path, *form)
        assert "hunter" not in redacted
    assert "<redacted>" in redacted
    assert "verify_password" in redacted
    assert "hunter2" in shown(command, tmp_path, "--show-secrets", "--json")
