"""The head of a cluster of two pods is killed while money moves: the RayJob comes back from its latest snapshot."""

import json
import os
import random
import subprocess
import time

import pytest

import rayshot
from tests.k8s.bank import SUM, await_line, latest, money, snapshots
from tests.k8s.rayjob import WHY_NOT, RayJob
from tests.pods import BIN

pytestmark = [
    pytest.mark.wide("a cluster of two pods whose head is killed: a minute and a half"),
    pytest.mark.ray,
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
]
KEPT = 10
"""`num_to_keep` of the program."""
INTERVAL_S = 10.0


@pytest.fixture
def bank(tmp_path):
    made = RayJob(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


def committed(storage):
    return [str(snapshot.id) for snapshot in snapshots(storage)]


def went_back_to(storage, life):
    return rayshot.open(storage).system("bank").restored_from()[life]


def not_for_retention_to_delete(seen):
    """Of all that were ever committed, the oldest first, those that the program's policy keeps for sure."""
    return set(seen[-KEPT:])


@pytest.mark.parametrize(
    "kills", [1, pytest.param(10, marks=pytest.mark.long("ten kills take half an hour: `make heads`"))]
)
def test_the_bank_comes_back_by_itself_from_the_latest_snapshot_each_time_that_the_head_is_killed(bank, kills):
    moments = random.Random(7)
    seen = []
    print("\nkill  running again  went back to        snapshots before, after    sum   on the way")
    for kill in range(1, kills + 1):
        await_line(bank.log, rf"snapshot {kill}-coordinator-\d+: .* {SUM} in all")
        time.sleep(moments.uniform(0, INTERVAL_S))  # also while a snapshot is taken

        bank.head.kill()
        killed = time.monotonic()
        if kill % 2:
            bank.workers[0].kill()  # its actors might commit without a head; the other times they may
        old, before = bank.workers[0], committed(bank.storage)
        bank.start()
        old.kill()
        last = committed(bank.storage)
        await_line(bank.log, rf"life {kill + 1} runs")
        seconds = time.monotonic() - killed

        after = committed(bank.storage)
        assert str(went_back_to(bank.storage, kill + 1)) == last[-1]
        seen += [one for one in last if one not in seen]
        assert set(before) <= set(last)
        assert not_for_retention_to_delete(seen) <= set(after)
        await_line(bank.log, rf"snapshot {kill + 1}-coordinator-\d+: .* {SUM} in all")
        came_of = latest(bank.storage)
        held, moving = money(came_of)
        assert held + moving == SUM
        assert came_of.states() != rayshot.open(bank.storage).system("bank").snapshot(last[-1]).states()
        counts = f"{len(before):10}, {len(after):6}"
        print(f"{kill:4}  {seconds:11.1f} s  {last[-1]:18}  {counts}  {held + moving:11}  {moving:6}", flush=True)
    assert all(sum(money(snapshot)) == SUM for snapshot in snapshots(bank.storage))
    proof, drill = (nightly(bank, *words) for words in (("verify", "--read-data"), ("drill",)))
    assert proof["trusted"]
    assert {row["word"] for row in (*drill["actors"], *drill["channels"])} == {"proved"}


def nightly(bank, command, *options):
    """What a CronJob says of the bank's latest snapshot."""
    done = subprocess.run(
        [BIN / "rayshot", command, bank.storage, "--system", "bank", *options, "--json"],
        env=os.environ | {"RAYSHOT_TRUSTED_KEYS_FILE": f"{bank.key}.pub"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
