"""The keyed count of the benchmark `peers` is exact on every engine that is there, also after a SIGKILL."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.peers import comparison, environment, running
from benchmarks.peers.measuring import marked_processes
from benchmarks.peers.records import BATCH, PERIOD, SQL_KEY, WrongCount, check, expected, keys_and_values
from benchmarks.peers.running import JobFailed, Measured, Task, measure, recover


def test_what_is_expected_is_what_a_plain_count_finds():
    keys, values = keys_and_values(1000)
    found = {}
    for number in range(records := PERIOD + 3 * BATCH):
        count, total = found.get(keys[number % PERIOD], (0, 0))
        found[keys[number % PERIOD]] = count + 1, total + values[number % PERIOD]
    check(found, records, 1000)
    assert sum(count for count, _ in expected(records, 1000).values()) == records


@pytest.mark.parametrize("keys", [1000, 100_000])
def test_hardly_a_key_is_missing(keys):
    assert len(expected(PERIOD, keys)) > 0.99 * keys


def test_the_key_in_sql_is_the_key_in_python():
    formula = SQL_KEY.format(keys=1000).replace("/", "//")
    keys, _ = keys_and_values(1000)
    assert [eval(formula, {"n": number}) for number in range(0, 2 * PERIOD, 999)] == [
        keys[number % PERIOD] for number in range(0, 2 * PERIOD, 999)
    ]


@pytest.mark.parametrize("wrong", [{}, {7: (1, 2)}, dict.fromkeys(range(1000), (0, 0))])
def test_a_wrong_count_is_an_error(wrong):
    with pytest.raises(WrongCount, match="after 4096 records; key 0 has"):
        check(wrong, BATCH, 1000)


@pytest.mark.wide("slow")
def test_an_environment_that_could_not_be_made_says_what_pip_said_last(tmp_path, monkeypatch):
    monkeypatch.setenv(environment.FOLDER_VARIABLE, str(tmp_path))
    assert environment.python_of("bytewax") is None
    assert environment.why_not("bytewax") == "not installed: make peers"
    monkeypatch.setitem(environment.PACKAGES, "bytewax", ("--no-index", "bytewax"))
    assert environment.make("bytewax") is False
    assert environment.why_not("bytewax").startswith("not installed: ERROR: No matching distribution found")
    assert environment.python_of("bytewax") is None


def test_a_short_run_downloads_nothing_and_says_who_was_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv(environment.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(comparison, "measure", lambda _task: Measured(1000, 2.0, 4.0, 2))
    report = comparison.run(short=True)
    assert report.settings["engines"] == ["rayshot"]
    assert report.settings["not_run"]["bytewax"] == "not installed: make peers"
    assert report.figure("rayshot, 1,000 keys: records per core").value == 250
    assert report.figure("rayshot, 1,000 keys: records").value == 500
    assert report.figure("rayshot, 1,000 keys: between checkpoints").value == 1.0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.wide("slow")
@pytest.mark.ray
def test_rayshot_counts_exactly_after_all_of_its_processes_were_killed():
    recovered = recover(Task("rayshot", "rayshot_count", 2000 * BATCH, 1000, 0.2, warm_share=0.05), 1.5)
    assert recovered.resumed_at % BATCH == 0


@pytest.mark.skipif(environment.python_of("bytewax") is None, reason="make peers")
def test_bytewax_counts_exactly():
    assert measure(Task("bytewax", "bytewax_count", 100 * BATCH, 1000, 0.1)).checkpoints > 0


def test_a_job_that_fails_says_how_and_leaves_no_process(monkeypatch):
    monkeypatch.setattr(running.uuid, "uuid4", lambda: SimpleNamespace(hex="failing"))
    with pytest.raises(JobFailed, match="invalid int value: 'many'"):
        measure(Task("rayshot", "rayshot_count", BATCH, "many", 0.2))
    assert list(marked_processes("failing")) == []


def test_the_jobs_import_their_engine_and_nothing_else_of_this_tree():
    allowed = ("benchmarks.peers.records", "benchmarks.peers.measuring", "benchmarks.peers.jobs")
    for file in Path(comparison.__file__).parent.glob("jobs/*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("from benchmarks"):
                assert line.split()[1].startswith(allowed), f"{file.name}: {line}"
