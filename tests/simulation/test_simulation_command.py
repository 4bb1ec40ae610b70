import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rayshot.simulation.world.failure import OracleFailure
from tests.simulate import __main__ as command
from tests.simulate.__main__ import main
from tests.simulate.acceptance import Acceptance
from tests.simulate.schedule import Outcome, run_seed
from tests.simulate.settings import MODES


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def fail_on(bad, monkeypatch):
    def fails(seed, *, story=False, **kind):
        if seed != bad:
            return run_seed(seed, **kind)
        lines = ["    1 work p0"] if story else []
        return Outcome(
            run_seed(seed).settings, Counter(), run_seed(seed).choices, OracleFailure("order", "2 first"), lines
        )

    monkeypatch.setattr(command, "run_seed", fails)


def test_the_command_counts_what_it_saw():
    done = run("--schedules", 5, "--seed", 3)
    assert done.exit_code == 0
    assert "5  schedules" in done.stdout
    assert "cuts checked" in done.stdout


@pytest.mark.parametrize(
    ("mode", "seen", "not_seen"),
    [
        ("chandy-lamport", "snapshots begun", ["aligned snapshots", "stop-the-world snapshots"]),
        ("aligned", "channels aligned", ["snapshots of processes", "stop-the-world snapshots"]),
        ("stop-the-world", "stop-the-world snapshots", ["aligned snapshots", "snapshots by markers alone"]),
        (
            "markers-alone",
            "snapshots by markers alone",
            ["aligned snapshots", "crashes in a restore", "rival initiators"],
        ),
    ],
)
def test_a_mode_is_the_only_one_in_its_schedules(mode, seen, not_seen):
    done = run("--schedules", 30, "--mode", mode, "--topology", "clique", "--json")
    assert done.exit_code == 0
    counts = json.loads(done.stdout)
    assert (counts["mode"], counts["topology"], counts["schedules"], counts["failed"]) == (mode, "clique", 30, 0)
    assert counts[seen] > 0
    assert not any(counts.get(name) for name in not_seen)


def test_json_has_a_row_for_every_case_of_the_acceptance_table():
    done = run("--schedules", 120, "--json")
    counts = json.loads(done.stdout)
    rows = counts["acceptance"]
    assert list(rows) == [f"A{number}" for number in range(1, 14)]
    assert rows["A1"]["happened"] == counts["cuts checked"] >= rows["A1"]["schedules"] > 0
    assert (rows["A12"]["schedules"], rows["A12"]["failed"]) == (15, 0)
    assert rows["A13"]["happened"] == counts["commits"]
    assert rows["A13"]["pairs wanted"] == 32
    assert rows["A13"]["schedules of modes"].keys() == set(MODES)
    assert rows["A13"]["refused, the unreachable named"] == counts["initiators refused"] > 0
    assert (Path(__file__).parents[2] / rows["A11"]["tests"]).exists()
    assert not any(row.get("failed") for row in rows.values())
    assert counts["failed seeds"] == []


def test_the_speed_of_faulty_schedules_of_four_processes_is_counted_apart():
    counts = json.loads(run("--schedules", 40, "--json").stdout)
    settings = [run_seed(seed).settings for seed in range(40)]
    faulty = [one for one in settings if len(one.contacts) == 4 and one.has_faults]
    assert counts["schedules of 4 processes with faults"] == len(faulty)
    assert counts["schedules of 4 processes with faults a second"] > 0


def test_json_names_the_seeds_that_failed(monkeypatch):
    fail_on(4, monkeypatch)
    done = run("--schedules", 3, "--seed", 3, "--json", "--no-shrink")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["failed seeds"] == [4]


def test_a_failed_schedule_counts_as_failed_in_each_case_that_it_had():
    outcome = run_seed(3)
    failed = replace(
        outcome, counts=Counter({"cuts checked": 2, "packets lost": 1}), failure=OracleFailure("order", "")
    )
    acceptance = Acceptance()
    acceptance.add(failed)
    rows = acceptance.rows(["aligned"], ["ring"])
    assert [row for row in rows if rows[row].get("failed")] == ["A1", "A4", "A13"]
    assert (rows["A1"]["schedules"], rows["A1"]["happened"], rows["A2"]["schedules"]) == (1, 2, 0)


def test_a_replay_that_differs_is_seen():
    acceptance = Acceptance()
    acceptance.replay(run_seed(1), run_seed(1))
    acceptance.replay(run_seed(1), run_seed(2))
    assert acceptance.rows([], [])["A12"]["failed"] == 1


@pytest.mark.parametrize(
    ("network", "seen", "not_seen"),
    [
        ("ordered", [], ["batches held back", "packets duplicated", "acknowledgements lost"]),
        ("reordering", ["batches held back"], ["packets duplicated", "acknowledgements lost"]),
        ("duplicating", ["packets duplicated"], ["acknowledgements lost"]),
        ("lossy", ["packets lost", "acknowledgements lost"], ["packets duplicated"]),
        ("hostile", ["packets lost", "packets duplicated", "batches held back"], []),
    ],
)
def test_a_network_does_what_its_name_says_and_nothing_else(network, seen, not_seen):
    done = run("--schedules", 60, "--network", network, "--json")
    assert done.exit_code == 0
    counts = json.loads(done.stdout)
    assert (counts["network"], counts[f"on network {network}"]) == (network, 60)
    assert all(counts[name] for name in seen)
    assert not any(counts[name] for name in not_seen)


def test_a_failure_tells_its_story_and_is_saved_and_runs_again(monkeypatch, tmp_path):
    fail_on(1, monkeypatch)
    saved = tmp_path / "failed.json"
    done = run("--schedules", 3, "--mode", "aligned", "--save", saved)
    assert done.exit_code == 1
    assert "1  failed" in done.stdout
    assert "1 work p0" in done.stderr
    assert "order: 2 first" in done.stderr
    assert "choices of seed 1: [" in done.stderr
    again = run("--replay", saved)
    assert again.exit_code == 0
    assert again.stdout.strip().endswith("every oracle was content")
    assert re.search(r"^ +\d+ work p", again.stdout, re.MULTILINE)


@pytest.mark.parametrize("text", ["", "[]", '{"choices": [1]}', '{"choices": ["x"], "mode": null, "topology": null}'])
def test_what_is_no_saved_schedule_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "saved.json"
    path.write_text(text)
    done = run("--replay", path)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: bad_manifest: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("other", [("--seed", 0), ("--json",), ("--mode", "aligned"), ("--no-shrink",)])
def test_other_options_are_refused_where_a_saved_schedule_is_run_again(tmp_path, other):
    done = run("--replay", tmp_path / "saved.json", *other)
    assert done.exit_code == 2
    assert "--replay" in done.stderr
    assert other[0] in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--mode", "none"), ("--topology", "moebius"), ("--network", "none"), ("--schedules", "0")]
)
def test_what_there_is_not_is_refused(arguments):
    assert run(*arguments).exit_code == 2
