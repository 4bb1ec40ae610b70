import json
from collections import Counter

import pytest
from click.testing import CliRunner

from rayshot.cli import main
from rayshot.cli import simulate as command
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.schedule import Outcome, run_seed


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def fail_on(bad, monkeypatch):
    def fails(seed, *, tell=False, **kind):
        if seed != bad:
            return run_seed(seed, **kind)
        story = ["    1 work p0"] if tell else []
        return Outcome(
            run_seed(seed).settings, Counter(), run_seed(seed).choices, OracleFailure("order", "2 first"), story
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
        ("markers-alone", "snapshots by markers alone", ["aligned snapshots", "crashes by fault"]),
    ],
)
def test_a_mode_is_the_only_one_in_its_schedules(mode, seen, not_seen):
    done = run("--schedules", 30, "--mode", mode, "--topology", "clique", "--json")
    assert done.exit_code == 0
    counts = json.loads(done.stdout)
    assert (counts["mode"], counts["topology"], counts["schedules"], counts["failed"]) == (mode, "clique", 30, 0)
    assert counts[seen] > 0
    assert not any(counts.get(name) for name in not_seen)


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
    assert "deliver" in again.stdout


@pytest.mark.parametrize("text", ["", "[]", '{"choices": [1]}', '{"choices": ["x"], "mode": null, "topology": null}'])
def test_what_is_no_saved_schedule_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "saved.json"
    path.write_text(text)
    done = run("--replay", path)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: bad_manifest: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("--mode", "none"), ("--topology", "moebius"), ("--schedules", "0")])
def test_what_there_is_not_is_refused(arguments):
    assert run(*arguments).exit_code == 2
