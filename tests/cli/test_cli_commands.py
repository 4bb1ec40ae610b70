import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rayshot.audit.history import ActorHistory, Traced
from rayshot.audit.segment import Handled, Recorded
from rayshot.cli import main
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.snapshot import Snapshot
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_snapshot, open_bank


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY_FILE", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
    assert not (tmp_path / "config").exists()


def run(*arguments: object, columns: int = 80) -> Result:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def bank_at(path: Path, *banks: Bank, **options: Any) -> list[Snapshot]:
    repository = open_bank(LocalStore(path))
    return [make_snapshot(repository, bank, counter, **options) for counter, bank in enumerate(banks, 1)]


def lines(result: Result) -> list[str]:
    """The lines of a table, every rule as three dashes."""
    return [re.sub("─+", "───", line.rstrip()) for line in result.stdout.splitlines()]


def test_list_shows_every_snapshot_in_a_table_as_wide_as_the_terminal(tmp_path: Path) -> None:
    size = bank_at(tmp_path, Bank(), Bank(label="payday"))[0].size_bytes
    assert lines(run("list", tmp_path)) == [
        "bank  2 snapshots  chandy-lamport",
        "",
        " pos  snapshot         label   taken at        actors  in flight   size",
        " ───",
        f"   1  1-coordinator-1          11-21 10:30:01       2          3  {size} B",
        f"   2  1-coordinator-2  payday  11-21 10:30:02       2          3  {size} B",
    ]
    wide = run("list", tmp_path, columns=120)
    assert "2025-11-21 10:30:01  chandy-lamport" in wide.stdout
    assert wide.exit_code == 0


def test_list_shows_all_systems_where_there_are_several(tmp_path: Path) -> None:
    for system in ("bank", "shop"):
        make_snapshot(open_bank(LocalStore(tmp_path), system=system))
    assert [line for line in lines(run("list", tmp_path)) if "snapshots" in line or "1 snapshot" in line] == [
        "bank  1 snapshot  chandy-lamport",
        "shop  1 snapshot  chandy-lamport",
    ]
    assert "shop" not in run("list", tmp_path, "--system", "bank").stdout
    document = json.loads(run("list", tmp_path, "--json").stdout)
    assert [system["system"] for system in document["systems"]] == [
        "bank",
        "shop",
    ]


def test_list_shows_a_damaged_manifest_as_such_and_says_so_in_its_exit_code(tmp_path: Path) -> None:
    good, bad = bank_at(tmp_path, Bank(), Bank())
    path = tmp_path / "bank" / bad.record.manifest_key
    path.write_bytes(path.read_bytes()[:-1])
    for columns in (80, 120):
        result = run("list", tmp_path, columns=columns)
        assert result.exit_code == 1
        assert re.search(rf"{good.id} .* {good.size_bytes} B", result.stdout)
        assert re.search(rf"{bad.id} .* bad manifest", result.stdout)
    document = json.loads(run("list", tmp_path, "--json").stdout)
    assert document["systems"][0]["snapshots"][1]["error"]["kind"] == "bad_manifest"


def test_a_long_listing_keeps_the_newest_and_counts_the_rest(tmp_path: Path) -> None:
    bank_at(tmp_path, *[Bank()] * 45)
    short, full = run("list", tmp_path), run("list", tmp_path, "--all")
    assert "and 5 older snapshots more; --all shows them" in short.stdout
    assert "1-coordinator-45" in short.stdout
    assert "1-coordinator-1 " not in short.stdout
    assert "1-coordinator-1 " in full.stdout
    assert "more" not in full.stdout


def test_show_shows_facts_actors_with_states_and_channels_with_messages(tmp_path: Path) -> None:
    (snapshot,) = bank_at(tmp_path, Bank(unborn=["carol"], label="payday"))
    assert lines(run("show", tmp_path)) == [
        "bank  1-coordinator-1",
        "",
        " position   1 in the commit log",
        " taken at   2025-11-21 10:30:01",
        " mode       chandy-lamport",
        " label      payday",
        f" size       {snapshot.size_bytes} B in 1 chunk",
        " in flight  3 messages",
        " made by    rayshot 0.1.0, Python 3.11",
        " stats      duration 12 ms",
        "",
        " actor  class         state size  state",
        " ───",
        f" alice  bank.Account        {snapshot.actors['alice'].state_bytes} B  balance=90",
        f" bob    bank.Account        {snapshot.actors['bob'].state_bytes} B  balance=10",
        " carol  bank.Account         0 B  (unborn)",
        "",
        " sender       receiver  sent  received  in flight  messages in flight",
        " ───",
        " alice        bob          5         2          3  deposit(30), deposit(40), de…",
        " driver:main  alice        3         3          0",
    ]


def test_show_counts_dead_letters_and_shows_the_newest_of_each_actor(tmp_path: Path) -> None:
    letters = [("bob", "alice", number, "put", f"Traceback\nValueError: {number}", 1) for number in range(1, 5)]
    (snapshot,) = bank_at(tmp_path, Bank(states={"bob": {}}, unborn=["carol"], flows={}, dead_letters=letters))
    assert lines(run("show", tmp_path))[10:] == [
        " actor  class         state size  state",
        " ───",
        f" bob    bank.Account       {snapshot.actors['bob'].state_bytes} B  (empty)",
        " carol  bank.Account         0 B  (unborn)",
        "",
        " actor  dead letters  life  sender  receiver  method  reason",
        " ───",
        " bob               4     1  alice   bob       put     ValueError: 4",
        "                         1  alice   bob       put     ValueError: 3",
        "                         1  alice   bob       put     ValueError: 2",
        "",
        " no message was ever sent",
    ]


def test_show_says_in_json_whom_a_pending_call_waits_for(tmp_path: Path) -> None:
    bank_at(tmp_path, Bank(states={"alice": {}}, calls={1: ("on_balance", None, ())}, callees={1: "bob"}))
    (alice,) = json.loads(run("show", tmp_path, "--json").stdout)["actors"]
    assert alice["callees"] == {"$dict": [[1, "bob"]]}


def test_show_gives_everything_as_one_json_document(tmp_path: Path) -> None:
    states = {"alice": {"balance": 90, "weights": np.zeros(2), "odd": {1: float("nan")}}, "bob": {}}
    bank_at(tmp_path, Bank(states=states, unborn=["carol"]))
    document = json.loads(run("show", tmp_path, "--json").stdout)
    assert document["snapshot"] == "1-coordinator-1"
    assert document["taken_at"] == "2025-11-21T10:30:01.250000+00:00"
    assert [actor["name"] for actor in document["actors"]] == ["alice", "bob", "carol"]
    assert document["actors"][0]["state"]["balance"] == 90
    assert "state" not in document["actors"][2]
    channel = document["channels"][0]
    assert (channel["sender"], channel["receiver"], channel["sent"], channel["received"]) == ("alice", "bob", 5, 2)
    assert [message["args"] for message in channel["messages"]] == [[30], [40], [50]]


def test_show_bounds_its_rows_and_keeps_the_busiest_channels(tmp_path: Path) -> None:
    states = {f"w{number:02}": {"n": number} for number in range(50)}
    flows = {(f"w{number:02}", "w00"): Flow(sent=number) for number in range(50)}
    bank_at(tmp_path, Bank(states=states, flows=flows))
    short = run("show", tmp_path).stdout
    assert "and 10 actors more; --all shows them" in short
    assert "and 10 less busy channels more; --all shows them" in short
    assert re.search(r"w49 +w00 +49", short)
    assert not re.search(r"w09 +w00 +9", short)
    assert "more" not in run("show", tmp_path, "--all").stdout


EVIL = "\x1b[31mred\x1b]0;title\x07\u202e[bold]"


def assert_harmless(text: str) -> None:
    assert text
    assert not set(text) & {"\x1b", "\x07", "\u202e"}


def test_no_control_character_of_a_snapshot_reaches_the_terminal(tmp_path: Path) -> None:
    flows = {("alice", "bob"): Flow(sent=1, method=EVIL, kwargs={EVIL: EVIL})}
    calls, timers = {1: (EVIL, EVIL, (EVIL,))}, [(1.0, EVIL, (EVIL,))]
    states = {"alice": {EVIL: EVIL}, "bob": {}}
    letters = [(EVIL, EVIL, 1, EVIL, EVIL, 1)]
    evil = Bank(states=states, flows=flows, calls=calls, timers=timers, label=f"l{EVIL}", dead_letters=letters)
    bank_at(tmp_path, evil, Bank())
    for command in ("list", "show", "topology", "diff", "verify"):
        assert_harmless(run(command, tmp_path, columns=3000).stdout)
        if command != "diff":
            assert_harmless(run(command, tmp_path, "--snapshot", "1-coordinator-1", columns=3000).stdout)


@pytest.mark.parametrize("name", [EVIL, 7, EVIL.encode(), 10**5000, ("deep", (EVIL,))], ids=type)
def test_a_keyword_of_a_message_is_shown_whatever_it_is_and_moves_no_cursor(tmp_path: Path, name: Any) -> None:
    bank_at(tmp_path, Bank(flows={("alice", "bob"): Flow(sent=1, kwargs={name: 1})}))
    shown = run("show", tmp_path, columns=3000).stdout
    assert_harmless(shown)
    assert re.search(r"deposit\(10, .+=1\)", shown)
    json.loads(run("show", tmp_path, "--json").stdout)


@pytest.mark.parametrize("form", [[], ["--shiviz"], ["--json"]])
def test_no_name_in_a_trace_moves_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: list[str]) -> None:
    bank_at(tmp_path, Bank())
    events = [Handled(f"driver:{EVIL}", (EVIL,)), Recorded(EVIL)]
    traced = Traced({"alice": ActorHistory("alice", EVIL, 1, {}, {}, [*events])}, EVIL, [])
    monkeypatch.setattr("rayshot.cli.trace.trace_of", lambda *_: traced)
    assert_harmless(run("trace", tmp_path, *form, columns=3000).stdout)


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "executed")


def test_no_command_executes_what_it_reads(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    flows = {("alice", "bob"): Flow(sent=2)}
    values = (Hostile(proof), [Hostile(proof)])
    bank_at(tmp_path / "shots", *(Bank(states={"alice": {"x": value}, "bob": {}}, flows=flows) for value in values))
    for command in ("list", "show", "verify", "diff"):
        for more in ([], ["--json"], *([["--read-data"]] if command == "verify" else [])):
            assert run(command, tmp_path / "shots", *more).exit_code in {0, 1}
    assert "write_text" in run("show", tmp_path / "shots").stdout
    assert not proof.exists()


def test_diff_shows_what_changed_and_ends_with_one(tmp_path: Path) -> None:
    old = {"alice": {"balance": 1, "log": [1, 2], "book": {"a": 1, "b": 2}}, "bob": {}}
    new = {"alice": {"balance": 2, "log": [1, 2, 3], "book": {"a": 1, "b": 3}, "vip": True}, "carol": {}}
    flows = {("alice", "alice"): Flow(sent=2)}, {("alice", "alice"): Flow(sent=5, received=2)}
    bank_at(tmp_path, Bank(states=old, flows=flows[0]), Bank(states=new, flows=flows[1], ended=["bob"]))
    result = run("diff", tmp_path)
    assert result.exit_code == 1
    assert lines(result) == [
        "bank  1-coordinator-1 -> 1-coordinator-2  the old one is before the new one",
        "",
        " actor  attribute  old                new",
        " ───",
        " carol  (added)",
        " bob    (removed)",
        " alice  balance    1                  2",
        " alice  book       (1 same) {'b': 2}  (1 same) {'b': 3}",
        " alice  log        (2 same) []        (2 same) [3]",
        " alice  vip        (absent)           True",
        "",
        " sender  receiver    sent  received  in flight",
        " ───",
        " alice   alice     2 -> 5    0 -> 2     2 -> 3",
    ]
    document = json.loads(run("diff", tmp_path, "--json").stdout)
    assert document["same"] is False
    assert document["relation"] == "before"
    assert document["actors_changed"][0]["changes"][-1] == {"name": "vip", "new": True}


def test_diff_of_the_same_ends_with_zero(tmp_path: Path) -> None:
    bank_at(tmp_path, Bank(), Bank())
    result = run("diff", tmp_path)
    assert result.exit_code == 0
    assert "no difference" in result.stdout


def test_diff_refuses_cuts_that_no_run_leads_from_one_to_the_other_of(tmp_path: Path) -> None:
    done = ({("alice", "bob"): Flow(317, received=317)}, {("alice", "bob"): Flow(334, received=300)})
    bank_at(tmp_path / "overlap", *(Bank(flows=flows, initiator=by) for flows, by in zip(done, "ab", strict=True)))
    refused = run("diff", tmp_path / "overlap")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: incomparable: 1-a-1 and 1-b-2 overlapped")
    assert "forward go alice; back go bob" in refused.stderr
    for _ in range(2):
        bank_at(tmp_path / "lives", Bank())
    refused = run("diff", tmp_path / "lives")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: incomparable: 1-coordinator-1 and 2-coordinator-1 are of different lives")


def test_diff_takes_the_snapshots_that_are_named(tmp_path: Path) -> None:
    bank_at(tmp_path, *(Bank(states={"alice": {"n": number}}) for number in range(3)))
    named = run("diff", tmp_path, "--snapshot", "1-coordinator-3", "--snapshot", "1-coordinator-1")
    assert lines(named)[0] == "bank  1-coordinator-3 -> 1-coordinator-1  one and the same cut"
    one = run("diff", tmp_path, "--snapshot", "1-coordinator-2")
    assert lines(one)[0] == "bank  1-coordinator-1 -> 1-coordinator-2  one and the same cut"
    assert run("diff", tmp_path, "--snapshot", "1-coordinator-1").exit_code == 11
    assert run("diff", tmp_path, *["--snapshot", "1-coordinator-1"] * 3).exit_code == 2


def test_refusals_are_one_line_on_stderr_with_a_code_for_each_kind(tmp_path: Path) -> None:
    bank_at(tmp_path / "one", Bank())
    (tmp_path / "empty").mkdir()
    for system in ("bank", "shop"):
        make_snapshot(open_bank(LocalStore(tmp_path / "two"), system=system))
    open_bank(LocalStore(tmp_path / "young"))
    cases = {
        ("show", tmp_path / "nowhere"): (10, "system_not_found"),
        ("show", tmp_path / "empty"): (10, "system_not_found"),
        ("list", tmp_path / "empty"): (10, "system_not_found"),
        ("verify", tmp_path / "one", "--system", "shop"): (10, "system_not_found"),
        ("show", tmp_path / "young"): (11, "snapshot_not_found"),
        ("show", tmp_path / "one", "--snapshot", "1-coordinator-9"): (11, "snapshot_not_found"),
        ("show", tmp_path / "two"): (2, "config_error"),
        ("show", tmp_path / "one", "--snapshot", "latest"): (2, "config_error"),
        ("list", "s3://bucket"): (2, "config_error"),
        ("list", "~nobody-of-that-name/shots"): (2, "config_error"),
        ("list", tmp_path / ("x" * 300)): (13, "store_unavailable"),
        ("show", tmp_path / "one", "--snapshot", f"{'1' * 5000}-coordinator-1"): (2, "config_error"),
    }
    for arguments, (code, kind) in cases.items():
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (code, "")
        assert re.fullmatch(rf"error: {kind}: [^\n]+\n", result.stderr)


def test_a_system_without_snapshots_is_listed_as_empty(tmp_path: Path) -> None:
    open_bank(LocalStore(tmp_path))
    result = run("list", tmp_path)
    assert result.exit_code == 0
    assert lines(result)[0] == "bank  0 snapshots"


def test_a_wrong_option_is_a_usage_error(tmp_path: Path) -> None:
    assert run("show", tmp_path, "--nonsense").exit_code == 2
    assert run("show").exit_code == 2


def test_the_command_runs_as_a_program_without_ray(tmp_path: Path) -> None:
    bank_at(tmp_path, Bank())
    program = (
        "import sys; sys.argv[0] = 'rayshot'\n"
        "from rayshot.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    assert not {'ray', 'pyspark'} & set(sys.modules), 'imported too much'\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "verify", "--read-data", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "COLUMNS": "80"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Proved: a consistent cut of 2 actors" in ended.stdout
    assert Storage(LocalStore(tmp_path)).system().latest().verify([KEY]).trusted


def test_values_of_every_odd_kind_are_shown_and_make_a_valid_json_document(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = None
    for _ in range(100):
        deep = [deep]
    odd = {
        "surrogate": "\ud800",
        "bytes": b"\x00\xff" * 1000,
        "huge": 2**20_000,
        "infinite": float("-inf"),
        "keys": {(1, 2): {3}, None: frozenset()},
        "loop": loop,
        "deep": deep,
        "objects": np.array([object, None], dtype=object),
    }
    bank_at(tmp_path, Bank(states={"alice": odd, "bob": {1: 2}}), Bank(states={"alice": {}, "bob": [1]}))
    shown = run("show", tmp_path, "--snapshot", "1-coordinator-1")
    assert shown.exit_code == 0
    assert all(len(line) <= 80 for line in lines(shown))
    document = json.loads(run("show", tmp_path, "--snapshot", "1-coordinator-1", "--json").stdout)
    assert set(document["actors"][0]["state"]) == set(odd)
    assert run("diff", tmp_path).exit_code == 1
    assert json.loads(run("diff", tmp_path, "--json").stdout)["same"] is False


def test_topology_marks_the_channels_that_lead_back(tmp_path: Path) -> None:
    ends = ("alice", "bob"), ("bob", "alice"), ("driver:main", "alice")
    bank_at(
        tmp_path, Bank(flows={channel: Flow(sent=number, received=number) for number, channel in enumerate(ends, 1)})
    )
    assert lines(run("topology", tmp_path)) == [
        "bank  1-coordinator-1  2 channels, with cycles",
        "",
        " sender  receiver  sent",
        " ───",
        " alice   bob          1",
        " bob     alice        2  leads back",
    ]
    assert json.loads(run("topology", tmp_path, "--json").stdout) == {
        "system": "bank",
        "snapshot": "1-coordinator-1",
        "actors": ["alice", "bob"],
        "channels": [
            {"sender": "alice", "receiver": "bob", "sent": 1, "leads_back": False},
            {"sender": "bob", "receiver": "alice", "sent": 2, "leads_back": True},
        ],
    }


def test_topology_of_actors_that_never_spoke_is_empty(tmp_path: Path) -> None:
    bank_at(tmp_path, Bank(flows={}))
    assert "no message was ever sent from one actor to another" in run("topology", tmp_path).stdout
