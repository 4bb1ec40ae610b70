"""A file flows into a table, and whatever dies the table is what the file says."""

import csv
from pathlib import Path

import pytest

pytestmark = pytest.mark.ray

KILLS = [
    ("table",),
    ("coordinator",),
    ("reader",),
    ("dwell",),
    ("table", "coordinator"),
    ("reader", "table"),
    ("dwell", "coordinator"),
    ("table",),
    ("reader", "dwell"),
    ("table", "coordinator"),
]
PROGRAM = """
import os, signal, sys, time
from pathlib import Path

import ray
from examples import visits

folder = Path(sys.argv[1])
ray.init("local", num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
visits.write_log(folder / "log.csv", 150_000)
total = len(visits.expected(folder))
system = visits.stream(folder)


def pids(names):
    coordinator = ray.get_actor("rayshot/visits", namespace="rayshot")
    actors = system.status().actors
    return [
        ray.get(coordinator.__ray_call__.remote(lambda _: os.getpid())) if name == "coordinator" else actors[name].pid
        for name in names
    ]


def rows():
    seen = visits.visible(folder)
    assert [row[0] for row in seen] == list(range(1, len(seen) + 1)), "rows are lost or twice"
    return len(seen)


for names in {kills!r}:
    before = rows()
    while (seen := rows()) == before:
        time.sleep(0.02)
    assert seen < total, "the file has ended before the last kill"
    for pid in pids(names):
        os.kill(pid, signal.SIGKILL)
    print("killed", *names, "at", seen)
while rows() < total:
    time.sleep(0.02)
system.shutdown()
"""


def averages(lines):
    """What the file says, by a program of its own: each visit with the average of its person so far."""
    came, stays = {}, {}
    for second, person, what in lines:
        if what == "in":
            came[person] = int(second)
        else:
            stays.setdefault(person, []).append(int(second) - came.pop(person))
            yield person, stays[person][-1], sum(stays[person]) / len(stays[person])


def test_a_program_reads_a_file_into_a_table_and_again_over_its_own_snapshots(run_program, tmp_path):
    for _ in ("the first time", "again"):
        *_, visits, same = run_program("examples/visits.py", tmp_path)
        assert visits == "4,990 visits, person-13 stays 154.63 s on average"
        assert same == "the table is what the file says: True"


@pytest.mark.acceptance("W7")
@pytest.mark.wide("ten kills of a system's processes: a minute and a half")
def test_behind_ten_kills_of_every_process_the_table_is_what_the_file_says(run_program, tmp_path):
    from examples.visits import visible

    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(kills=KILLS))
    lines = run_program(script, tmp_path)
    assert [line.split(" at ")[0] for line in lines if line.startswith("killed")] == [
        f"killed {' '.join(names)}" for names in KILLS
    ]
    with Path(tmp_path / "log.csv").open() as file:
        told = list(averages(csv.reader(file)))
    assert [row[1:] for row in visible(tmp_path)] == told
