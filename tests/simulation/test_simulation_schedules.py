"""Volume: seeds in their order, each oracle content; what happened often enough to prove that no test is empty."""

from collections import Counter

import pytest

from rayshot.simulation.schedule import run_seed

OFTEN_ENOUGH = {
    "cuts with messages in flight": 200,
    "records with mailbox": 500,
    "records with outbox": 200,
    "snapshots overlapping": 300,
    "snapshots of processes": 100,
    "snapshots by markers alone": 100,
    "aligned snapshots": 300,
    "stop-the-world snapshots": 200,
    "channels aligned": 300,
    "alignments timed out": 50,
    "cuts that do not advance": 20,
    "cuts with unborn": 100,
    "cuts with messages of the ended": 5,
    "creations in mid-snapshot": 100,
    "ends in mid-snapshot": 5,
    "aborts: requested": 10,
    "aborts: timeout": 5,
    "aborts: actor_died": 50,
    "aborts: capture_failed": 5,
    "aborts: store_unavailable": 5,
    "aborts: coordinator_lost": 20,
    "commits": 1_000,
    "commits fenced": 5,
    "rollbacks": 500,
    "crashes in a restore": 5,
    "coordinators replaced": 50,
    "drivers died": 20,
    "answers with tags": 100,
    "deadlines passed": 20,
    "ends of snapshots lost": 20,
    "packets lost": 300,
    "packets duplicated": 300,
    "acknowledgements lost": 300,
    "batches dropped: stale": 100,
    "batches dropped: duplicate": 500,
    "batches dropped: dead letter": 5,
    "batches dropped: ended": 20,
    "orders told twice": 300,
}

OFTEN_ENOUGH_FOR_SENDERS = {
    "tagged acknowledgements": 2_000,
    "snapshots learned from acknowledgements": 50,
    "acknowledgements that kept messages": 300,
    "channels recorded with messages under way": 1_000,
    "channels recorded with acknowledged messages": 300,
    "channels that kept for several snapshots": 50,
    "snapshots given up with messages kept": 5,
    "snapshots ended with messages kept": 5,
    "lives ended with messages kept": 3,
}


def test_no_schedule_breaks_a_promise(outcomes):
    failures = {seed: outcome.failure for seed, outcome in enumerate(outcomes) if outcome.failure is not None}
    assert not failures, "rayshot simulate --schedules 1 --seed <seed> tells the story"


def test_everything_that_is_to_be_survived_happened_often_enough(outcomes):
    counts = sum((outcome.counts for outcome in outcomes), Counter())
    assert {what: counts[what] for what, least in OFTEN_ENOUGH.items() if counts[what] < least} == {}


def test_senders_kept_messages_for_their_records_often_enough(outcomes, senders):
    rare = {what: senders[what] for what, least in OFTEN_ENOUGH_FOR_SENDERS.items() if senders[what] < least}
    assert rare == {}


@pytest.mark.parametrize("seed", range(40))
def test_without_faults_every_snapshot_is_committed(seed):
    calm = {
        "crashes": 0,
        "coordinator_crashes": 0,
        "driver_deaths": 0,
        "aborts": 0,
        "deadlines": 0,
        "capture_failures_one_in": 0,
        "store_failures_one_in": 0,
        "lost_ends_one_in": 0,
        "own_snapshots_one_in": 0,
    }
    outcome = run_seed(seed, **calm)
    assert outcome.failure is None
    # The final crash aborts nothing, as it comes at rest; the two snapshots around it are counted as well.
    others = outcome.counts["snapshots by markers alone"] + outcome.counts["aligned snapshots"]
    others += outcome.counts["stop-the-world snapshots"]
    assert outcome.counts["commits"] == outcome.settings.snapshots + others + 2
