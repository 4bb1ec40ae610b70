"""How `rayshot` ends where neither a verdict nor an error of its own ends it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rayshot.cli import main
from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import KEY, Bank, committed, make_snapshot, open_bank

PROGRAM = [sys.executable, "-c", "from rayshot.cli import main; main()"]


@pytest.fixture
def shots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    repository = open_bank(LocalStore(tmp_path))
    for counter in (1, 2):
        make_snapshot(repository, Bank(states={"alice": {"name": "Zoë"}, "bob": {}}), counter)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def ended(*arguments: object, environment: dict[str, str] | None = None, **options: Any) -> tuple[int, str]:
    """The exit code, and what is on stderr."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={**os.environ, **(environment or {})},
        **options,
    )
    return done.returncode, done.stderr


def test_an_output_that_knows_few_characters_changes_no_verdict(shots: Path, tmp_path: Path) -> None:
    for command in (["list"], ["show"], ["diff"], ["verify", "--read-data"]):
        with (tmp_path / "printed").open("wb") as printed:
            code = ended(*command, shots, environment={"PYTHONIOENCODING": "ascii"}, stdout=printed)
        assert code == (0, "")
    assert b"\\u2713  chunks" in (tmp_path / "printed").read_bytes()


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
@pytest.mark.parametrize("command", [["list", "--json"], ["show"], ["verify"], ["--help"]], ids=" ".join)
def test_an_output_without_room_is_one_line_and_no_verdict(shots: Path, command: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, complaint = ended(*command, shots, stdout=full)
    assert (code, complaint.count("\n")) == (15, 1)
    assert complaint.startswith("error: os_error: [Errno 28] No space left on device")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_has_gone_is_told_nothing_and_no_verdict(shots: Path, form: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert ended("show", shots, *form, stdout=theirs) == (15, "")
    finally:
        os.close(theirs)


def test_a_bug_is_no_verdict_and_its_traceback_moves_no_cursor(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("\x1b[31mred")

    monkeypatch.setattr("rayshot.cli.commands.details", fail)
    result = run("show", shots)
    assert result.exit_code == 16
    assert result.stderr.startswith("Traceback")
    assert "ZeroDivisionError: \\x1b[31mred" in result.stderr


def test_ctrl_c_is_no_verdict(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rayshot.cli.commands.details", interrupt)
    result = run("show", shots)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (130, "", 1)


@pytest.mark.parametrize(("module", "lines"), [("click", 0), ("rayshot.cli.program", 0), ("rayshot.cli.commands", 1)])
def test_nor_does_it_show_a_traceback_while_the_program_is_loaded(module: str, lines: int) -> None:
    code = f"""import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
sys.argv = ["rayshot", "list", "shots"]
{PROGRAM[-1]}"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (130, "", lines), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["stop"], ["savepoint"], ["configure"], ["snapshot", "--timeout", "-1"], ["status", "--timeout", "nan"]],
    ids=" ".join,
)
def test_with_json_wrong_use_is_a_document_wherever_that_option_stands(arguments: list[str]) -> None:
    for result in (run(*arguments, "--json"), run(arguments[0], "--json", *arguments[1:])):
        assert result.exit_code == 2
        (line,) = result.stdout.splitlines()
        error = json.loads(line)["error"]
        assert error["kind"] == "usage_error"
        assert f"Error: {error['message']}" in result.stderr


def test_damage_has_another_code_in_diff_where_one_says_that_they_differ(shots: Path) -> None:
    second = committed(LocalStore(shots))[-1]
    assert run("diff", shots).exit_code == 0
    (shots / "bank" / second.record.manifest_key).unlink()
    result = run("diff", shots)
    assert result.exit_code == 17
    assert result.stderr.startswith("error: bad_manifest: ")
    assert run("show", shots).exit_code == 1
    another = open_bank(LocalStore(shots), writer="another")
    make_snapshot(another, Bank(), 3)
    make_snapshot(another, Bank(states={"alice": {}, "bob": {}}), 4)
    assert run("diff", shots).exit_code == 1


def test_a_manifest_in_the_place_of_another_has_one_code_in_all_commands(shots: Path) -> None:
    first, second = committed(LocalStore(shots))
    older, newer = (shots / "bank" / snapshot.record.manifest_key for snapshot in (first, second))
    newer.write_bytes(older.read_bytes())
    for command in ("list", "show", "topology", "diff", "verify"):
        assert run(command, shots).exit_code == 12, command
    for more in (["--read-data"], ["--subset", "1/1"]):
        result = run("verify", shots, *more)
        assert result.exit_code == 12
        assert "Not proved: manifest. Do not use this snapshot." in result.stdout


@pytest.mark.parametrize("command", ["list", "show", "topology", "diff", "verify", "trace", "replay", "gc"])
def test_with_json_a_refusal_is_a_document_with_the_kind_of_the_error(shots: Path, command: str) -> None:
    for storage, more in ((shots, ["--system", "shop"]), (shots / "nowhere", [])):
        plain, result = run(command, storage, *more), run(command, storage, *more, "--json")
        assert (result.exit_code, plain.stdout) == (10, "")
        error = json.loads(result.stdout)["error"]
        assert error.keys() == {"kind", "message"}
        assert (
            result.stderr
            == plain.stderr
            == (f"error: system_not_found: {error['message']} (rayshot help errors#system_not_found)\n")
        )


def test_with_json_damage_is_a_document_too(shots: Path) -> None:
    (shots / "bank" / committed(LocalStore(shots))[-1].record.manifest_key).unlink()
    for command in ("show", "topology", "diff", "trace"):
        assert json.loads(run(command, shots, "--json").stdout)["error"]["kind"] == "bad_manifest"
    refused = run("copy", shots, shots / "copy", "--json")
    assert json.loads(refused.stdout)["error"]["kind"] == "bad_manifest"


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("what", ["FORMAT", "manifest", "chunk", "log"])
def test_a_named_pipe_in_a_storage_keeps_no_command_waiting(shots: Path, what: str) -> None:
    snapshot = committed(LocalStore(shots))[-1]
    places = {
        "manifest": snapshot.record.manifest_key,
        "chunk": snapshot.manifest.chunks[0].key,
        "log": "log/" + "0" * 20,
    }
    path = shots / "bank" / places.get(what, what)
    path.unlink()
    os.mkfifo(path)
    for command in (["list"], ["show"], ["verify", "--read-data"]):
        code, complaint = ended(*command, shots, stdout=subprocess.DEVNULL)
        assert code == (0 if (what, command) == ("chunk", ["list"]) else 1)
        assert complaint == "" or complaint.endswith("it is not read (rayshot help errors#unsafe_path)\n")


@pytest.mark.parametrize("command", [["savepoint"], ["savepoint", "bank"], ["stop", "--savepoint"]], ids=" ".join)
def test_a_label_that_no_savepoint_can_have_is_wrong_use_wherever_the_cluster_is(command: list[str]) -> None:
    for label in (os.fsdecode(b"caf\xe9"), "x" * 257, ""):
        code, complaint = ended(*command, label, environment={"RAY_ADDRESS": "127.0.0.1:1"})
        assert (code, complaint.count("\n")) == (2, 1)
        assert complaint.startswith("error: config_error: the label ")
