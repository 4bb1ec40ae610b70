from collections import Counter

from rayshot.simulation import __main__ as command
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.schedule import Outcome, run_seed


def test_the_command_counts_what_it_saw(capsys):
    assert command.main(["--schedules", "5", "--seed", "3"]) == 0
    output, progress = capsys.readouterr()
    assert "5  schedules" in output
    assert "cuts checked" in output
    assert progress.endswith("\n")
    assert "5/5" in progress


def test_a_failure_ends_the_command_with_its_story_and_its_choices(capsys, monkeypatch):
    def fail(seed, *, tell=False):
        story = ["    1 work p0"] if tell else []
        return Outcome(run_seed(seed).settings, Counter(), [1, 2, 3], OracleFailure("order", "2 before 1"), story)

    monkeypatch.setattr(command, "run_seed", fail)
    assert command.main(["--schedules", "2"]) == 1
    output, progress = capsys.readouterr()
    assert "2 FAILED" in progress
    assert "1 work p0" in output
    assert "order: 2 before 1" in output
    assert "choices of seed 0: [1, 2, 3]" in output
