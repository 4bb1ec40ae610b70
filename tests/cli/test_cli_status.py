"""What `rayshot status` shows of a system that goes back to snapshots by itself."""

import io
import json
import time
from datetime import UTC, datetime

import pytest
from rich.console import Console

from rayshot import SnapshotConfig
from rayshot.cli import status as page
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.opening.status import SystemStatus
from rayshot.runtime.wire.recovery_report import RecoveryReport

SNAPSHOT = SnapshotId(2, "coordinator", 7)
PHASES = {"stop": 0.02, "record": 0.05, "load": 0.531, "resume": 0.02}


def seen(*recoveries, spares=0, since=None, proved=({}, "")):
    of = ("bank", 3, "running", "", None, None, 0, (), {}, (), recoveries, spares, since, *proved)
    return page.SystemLook(SystemStatus(*of), SnapshotConfig(), "/shots", "10.0.0.5:6379")


def back(life, actor="alice", seconds=0.621):
    return RecoveryReport(life, SNAPSHOT, actor, "it died", time.time() - 200, seconds, PHASES if seconds else {})


def shown(what):
    console = Console(file=io.StringIO(), width=200)
    console.print(page._shown(what, None))
    return " ".join(console.file.getvalue().split())


@pytest.mark.parametrize(
    ("lives", "line"),
    [
        ([2], "went back once 3 min ago, in 0.6 s, to 2-coordinator-7: alice was lost (it died)"),
        ([2, 3], "went back 2 times, the last 3 min ago, in 0.6 s, to 2-coordinator-7: alice was lost"),
    ],
)
def test_it_says_when_the_system_last_went_back(lives, line):
    assert line in shown(seen(*map(back, lives)))


def test_a_coordinator_that_was_started_again_does_not_know_how_long_it_took():
    line = "went back once 3 min ago, to 2-coordinator-7: the coordinator was lost (it died)"
    assert line in shown(seen(back(3, None, 0.0)))


def test_it_counts_the_spare_processes():
    assert "spare processes 2 ready" in shown(seen(spares=2))
    assert "went back" not in shown(seen(spares=2))
    assert "spare" not in shown(seen())


def test_it_says_what_was_proved_of_the_last_snapshot_and_why_not_of_the_first_other_one():
    some = seen(proved=({"proved": 2, "alike": 1_000, "unproved": 1}, "alice: prove=False"))
    assert "proofs 2 proved, 1,000 alike, 1 unproved (alice: prove=False)" in shown(some)
    found = page._document(some)
    assert (found["proofs"], found["unproved"]) == ({"proved": 2, "alike": 1000, "unproved": 1}, "alice: prove=False")
    assert "proofs 3 plain snapshots" in shown(seen(proved=({"plain": 3}, "")))
    assert "proofs" not in shown(seen())


def test_a_script_reads_each_rollback():
    since = datetime(2026, 1, 2, tzinfo=UTC)
    found = json.loads(json.dumps(page._document(seen(back(2), spares=1, since=since))))
    (recovery,) = found["recoveries"]
    at = datetime.fromisoformat(recovery.pop("at"))
    assert 199 < (datetime.now(UTC) - at).total_seconds() < 260
    assert recovery == {
        "life": 2,
        "snapshot": "2-coordinator-7",
        "actor": "alice",
        "detail": "it died",
        "seconds": 0.621,
        "phases": PHASES,
    }
    assert (found["spares"], found["cannot_go_back_since"]) == (1, since.isoformat())
