"""Volume: seeds in their order, each oracle content; what happened often enough to prove that no test is empty."""

import pytest

from rayshot.protocol.participant import Participant
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.networks import NETWORKS
from tests.simulate.schedule import run_seed
from tests.simulate.settings import MODES
from tests.simulate.topologies import TOPOLOGIES
from tests.simulation.conftest import SCHEDULES

OFTEN_ENOUGH = {
    "cuts with messages in flight": 5_000,
    "records with mailbox": 10_000,
    "records with outbox": 3_500,
    "snapshots overlapping": 3_000,
    "snapshots of processes": 2_500,
    "snapshots by markers alone": 1_000,
    "snapshots with several initiators": 500,
    "rival initiators": 1_000,
    "aligned snapshots": 500,
    "stop-the-world snapshots": 500,
    "channels aligned": 400,
    "alignments timed out": 100,
    "cuts that do not advance": 500,
    "cuts that share messages in flight": 2_000,
    "cuts with unborn": 500,
    "cuts with messages of the ended": 15,
    "channels opened in mid-snapshot": 4_500,
    "creations in mid-snapshot": 500,
    "ends in mid-snapshot": 35,
    "aborts: requested": 150,
    "aborts: timeout": 50,
    "aborts: actor_died": 1_000,
    "aborts: capture_failed": 200,
    "aborts: store_unavailable": 100,
    "aborts: coordinator_lost": 300,
    "commits": 5_000,
    "commits fenced": 45,
    "rollbacks": 2_000,
    "crashes in a restore": 50,
    "coordinators replaced": 500,
    "coordinators racing": 250,
    "drivers died": 350,
    "answers with tags": 1_000,
    "deadlines passed": 200,
    "ends of snapshots lost": 500,
    "packets lost": 1_500,
    "packets duplicated": 1_500,
    "acknowledgements lost": 1_000,
    "batches held back": 500,
    "batches dropped: stale": 500,
    "batches dropped: duplicate": 2_000,
    "batches dropped: dead letter": 35,
    "batches dropped: ended": 100,
    "orders told twice": 2_000,
}

OFTEN_ENOUGH_FOR_SENDERS = {
    "tagged acknowledgements": 5_000,
    "snapshots learned from acknowledgements": 175,
    "acknowledgements that kept messages": 500,
    "channels recorded with messages under way": 2_250,
    "channels recorded with acknowledged messages": 500,
    "channels that kept for several snapshots": 125,
    "snapshots given up with messages kept": 7,
    "snapshots ended with messages kept": 5,
    "lives ended with messages kept": 1,
}


def test_no_schedule_breaks_a_promise(volume):
    failures = {seed: str(outcome.failure) for seed, outcome in volume.summary.failures.items()}
    assert not failures, "python -m tests.simulate --schedules 1 --seed <seed> tells the story"


def test_everything_that_is_to_be_survived_happened_often_enough(volume):
    counts = volume.summary.counts
    assert {what: counts[what] for what, least in OFTEN_ENOUGH.items() if counts[what] < least} == {}


def test_senders_kept_messages_for_their_records_often_enough(volume):
    senders = volume.senders
    rare = {what: senders[what] for what, least in OFTEN_ENOUGH_FOR_SENDERS.items() if senders[what] < least}
    assert rare == {}


def test_a_fifth_of_the_cuts_has_a_mailbox_an_outbox_and_an_overlapping_snapshot_at_once(volume):
    counts = volume.summary.counts
    assert counts["cuts with mailbox, outbox and overlap"] >= counts["cuts checked"] / 5


def test_every_topology_and_every_network_has_its_share_of_the_schedules(volume):
    counts = volume.summary.counts
    for kind in [f"on topology {name}" for name in (*TOPOLOGIES, "random")]:
        assert counts[kind] > SCHEDULES / 20, kind
    for kind in [f"on network {name}" for name in NETWORKS]:
        assert counts[kind] > SCHEDULES / 10, kind
    assert counts["with slow handlers"] > SCHEDULES / 10
    assert counts["with 4 processes"] > SCHEDULES / 2


def test_each_case_of_the_acceptance_table_happened_in_many_schedules_and_failed_in_none(volume):
    rows = volume.acceptance.rows(MODES, TOPOLOGIES)
    assert {row: cells["failed"] for row, cells in rows.items() if cells.get("failed")} == {}
    assert {row: n for row, n in volume.acceptance.schedules.items() if n <= SCHEDULES / 10} == {}
    assert {mode: n for mode, n in volume.acceptance.modes.items() if n <= SCHEDULES / 10} == {}
    assert volume.acceptance.modes.keys() >= set(MODES)
    assert rows["A13"]["pairs"] == rows["A13"]["pairs wanted"] == len(MODES) * len(TOPOLOGIES)


def test_an_ordered_network_holds_nothing_back_and_loses_only_what_dead_drivers_sent(volume):
    for outcome in volume.outcomes:
        if outcome.settings.network == "ordered":
            assert outcome.counts["batches held back"] == outcome.counts["packets duplicated"] == 0
            assert outcome.counts["drivers died"] or not outcome.counts["packets lost"]


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
        "rivals": 0,
        "restored": True,
    }
    outcome = run_seed(seed, **calm)
    assert outcome.failure is None
    # The final crash aborts nothing, as it comes at rest; the two snapshots around it are counted as well.
    others = outcome.counts["snapshots by markers alone"] + outcome.counts["aligned snapshots"]
    others += outcome.counts["stop-the-world snapshots"]
    assert outcome.counts["commits"] == outcome.settings.snapshots + others + 2


def test_whom_the_end_of_a_stop_does_not_reach_goes_on_at_its_deadline():
    changes = dict.fromkeys(("snapshots", "alone", "crashes", "coordinator_crashes", "deadlines"), 0)
    changes |= {"stopped": 2, "aligned": 1, "aborts": 3, "lost_ends_one_in": 2, "activity": 60, "length": 200}
    assert {seed: failure for seed in range(120) if (failure := run_seed(seed, **changes).failure)} == {}


def test_who_joins_when_a_stop_is_over_is_told_and_does_not_stand_still():
    assert run_seed(3030329).failure is None  # a late marker told it of the stop, and nobody of the end


def test_a_replaced_coordinator_that_does_not_know_who_has_ended_is_refused_by_the_log():
    outcome = run_seed(4080115)  # its cut lacks the channel to one that recorded, gave up and ended
    assert outcome.failure is None
    assert outcome.counts["commits fenced"] > 0


def test_a_machine_that_counts_wrongly_is_seen_at_the_event_and_not_in_a_cut():
    class KeepsMarkers(Participant):
        def _forget(self, snapshot):
            due = [(channel, channel.due.get(snapshot)) for channel in self._out.values()]
            effects = super()._forget(snapshot)
            for channel, marker in due:
                if marker:
                    channel.due[snapshot] = marker
            return effects

    machines = Machines(participant=KeepsMarkers)
    failures = [outcome.failure for seed in range(20) if (outcome := run_seed(seed, machines)).failure]
    assert failures
    assert all("is due, which is not open" in str(failure) for failure in failures)


def test_a_hello_of_the_life_before_is_not_answered_to_the_process_of_this_life():
    changes = {"crashes": 2, "drivers": 2, "activity": 150, "creations_one_in": 3, "snapshots": 4, "length": 200}
    assert run_seed(1358, **changes, ends_one_in=3).failure is None
