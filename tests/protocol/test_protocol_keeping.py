"""What senders keep: all that receivers acknowledged after they had recorded, until the sender has recorded too."""

import pytest

from rayshot.protocol.effects import CaptureState, DropBatch, ForgetSnapshot, ReportFailure, ReportRecord
from rayshot.protocol.events import (
    BatchTaken,
    Begun,
    CaptureFailed,
    DeadlinePassed,
    EndRequested,
    Marker,
    ReceiverEnded,
    Restored,
    SnapshotEnded,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from tests.protocol.facts import acknowledged, arrives, captured, connected, record_of

K = SnapshotId(1, "coordinator", 1)
K2 = SnapshotId(1, "coordinator", 2)


@pytest.fixture
def p():
    """Five messages to r are under way, of which two are acknowledged."""
    machine = Participant("p")
    connected(machine, "r", sent=2)
    machine.handle(BatchTaken("r", 3))
    return machine


# The tags of acknowledgements ----------------------------------------------------------------------


def test_what_is_recorded_and_has_not_ended_is_told_with_every_acknowledgement(p):
    p.handle(Begun(K))
    assert p.recorded_snapshots == (), "it has learned of it only"
    captured(p, K)
    p.handle(Begun(K2))
    assert p.recorded_snapshots == (K,)
    captured(p, K2)
    assert p.recorded_snapshots == (K, K2)
    p.handle(SnapshotEnded(K))
    assert p.recorded_snapshots == (K2,)
    p.handle(Begun(SnapshotId(1, "coordinator", 7), floor=7))
    assert p.recorded_snapshots == ()


def test_a_recorded_snapshot_is_told_of_though_it_was_given_up_here(p):
    p.handle(Begun(K))
    captured(p, K)
    p.handle(DeadlinePassed(K))
    assert p.recorded_snapshots == (K,)


@pytest.mark.parametrize("gives_up", [DeadlinePassed(K), CaptureFailed(K, "a lock")])
def test_a_snapshot_that_was_given_up_before_it_was_recorded_is_not_told_of(p, gives_up):
    p.handle(Begun(K))
    p.handle(gives_up)
    assert captured(p, K) == ()
    assert p.recorded_snapshots == ()


def test_a_restored_process_has_recorded_nothing(p):
    p.handle(Begun(K))
    captured(p, K)
    p.handle(Restored(2))
    assert p.recorded_snapshots == ()


# Learning from an acknowledgement ------------------------------------------------------------------


def test_an_acknowledgement_brings_the_news_of_what_its_sender_had_recorded(p):
    assert acknowledged(p, 3, K, K2) == (CaptureState(K), CaptureState(K2))
    assert acknowledged(p, 4, K, K2) == ()
    assert p.open_snapshots == (K, K2)


@pytest.mark.parametrize("ended", [SnapshotEnded(K), Begun(K2, floor=2), SnapshotEnded(K2, floor=2)])
def test_a_late_acknowledgement_revives_no_ended_snapshot(p, ended):
    p.handle(ended)
    assert acknowledged(p, 3, K) == ()
    assert p.released("r") == 3


def test_an_acknowledgement_does_not_bring_back_what_was_given_up(p):
    p.handle(Begun(K))
    p.handle(DeadlinePassed(K))
    assert acknowledged(p, 3, K) == ()
    assert p.released("r") == 3


def test_a_snapshot_of_another_incarnation_is_no_news(p):
    assert acknowledged(p, 3, SnapshotId(2, "coordinator", 1)) == ()
    assert p.released("r") == 3


def test_who_ended_learns_nothing_from_an_acknowledgement(p):
    acknowledged(p, 5)
    p.handle(EndRequested({"r": 5}, {}))
    assert acknowledged(p, 5, K) == ()
    assert p.open_snapshots == ()


def test_nothing_is_heeded_from_a_receiver_that_is_known_to_have_ended_or_is_unknown(p):
    assert acknowledged(p, 0, K, receiver="s") == ()
    p.handle(ReceiverEnded("r"))
    assert acknowledged(p, 3, K) == ()


# What is kept --------------------------------------------------------------------------------------


def test_what_is_acknowledged_untagged_is_released(p):
    acknowledged(p, 4)
    assert (p.acknowledged("r"), p.released("r")) == (4, 4)


def test_what_the_first_tagged_acknowledgement_covers_is_kept_and_all_that_follows(p):
    acknowledged(p, 4, K)
    assert (p.acknowledged("r"), p.released("r")) == (4, 2)
    acknowledged(p, 5, K)
    assert (p.acknowledged("r"), p.released("r")) == (5, 2)
    assert record_of(captured(p, sent={"r": 6})).released == {"r": 2}


def test_messages_are_kept_by_a_process_that_knew_of_the_snapshot_before(p):
    p.handle(Begun(K))
    acknowledged(p, 3)
    acknowledged(p, 4, K)
    assert p.released("r") == 3
    assert record_of(captured(p, sent={"r": 5})).released == {"r": 3}


def test_each_channel_is_kept_from_its_own_number(p):
    connected(p, "s", sent=1)
    p.handle(BatchTaken("s", 1))
    acknowledged(p, 3, K)
    acknowledged(p, 2, receiver="s")  # s has not recorded
    record = record_of(captured(p, sent={"r": 5, "s": 2}))
    assert record.released == {"r": 2, "s": 2}


def test_a_repeated_acknowledgement_changes_nothing(p):
    for _ in range(2):
        acknowledged(p, 4, K)
    acknowledged(p, 2)
    assert (p.acknowledged("r"), p.released("r")) == (4, 2)


def test_an_acknowledgement_that_was_overtaken_by_a_tagged_one_releases_nothing(p):
    """It was made before the receiver recorded: keeping what it covers is more than needed, and safe."""
    acknowledged(p, 5, K)
    acknowledged(p, 4)
    assert p.released("r") == 2
    assert record_of(captured(p, sent={"r": 5})).released == {"r": 2}


def test_a_tagged_acknowledgement_that_was_overtaken_by_a_later_one_changes_nothing(p):
    acknowledged(p, 5, K)
    acknowledged(p, 3, K)
    assert (p.acknowledged("r"), p.released("r")) == (5, 2)


def test_an_acknowledgement_of_what_was_sent_again_keeps_nothing_more(p):
    acknowledged(p, 5)
    acknowledged(p, 5, K)
    assert p.released("r") == 5
    assert record_of(captured(p, sent={"r": 5})).released == {"r": 5}


def test_what_is_sent_while_a_handler_runs_is_all_kept_for_the_record_behind_it(p):
    """The receiver recorded long ago; this process is in a long handler, sends, and is acknowledged again and again."""
    acknowledged(p, 5, K)
    for last in (8, 11, 14):
        p.handle(BatchTaken("r", 3))
        acknowledged(p, last, K)
    p.handle(BatchTaken("r", 2))
    record = record_of(captured(p, sent={"r": 20}))
    assert (record.released, record.transported, record.sent) == ({"r": 2}, {"r": 16}, {"r": 20})
    assert p.released("r") == 14


# Several snapshots ---------------------------------------------------------------------------------


def test_of_several_snapshots_the_one_that_keeps_most_counts_until_it_is_recorded(p):
    acknowledged(p, 3, K)
    acknowledged(p, 4, K, K2)
    assert p.released("r") == 2
    acknowledged(p, 5, K, K2)
    assert record_of(captured(p, K, sent={"r": 5})).released == {"r": 2}
    assert p.released("r") == 3
    assert record_of(captured(p, K2, sent={"r": 5})).released == {"r": 3}
    assert p.released("r") == 5


def test_of_several_snapshots_the_later_one_may_be_recorded_first(p):
    acknowledged(p, 3, K)
    acknowledged(p, 4, K, K2)
    assert record_of(captured(p, K2, sent={"r": 5})).released == {"r": 3}
    assert p.released("r") == 2
    assert record_of(captured(p, K, sent={"r": 5})).released == {"r": 2}
    assert p.released("r") == 4


def test_a_tag_that_was_recorded_here_too_keeps_nothing(p):
    p.handle(Begun(K))
    captured(p, K, sent={"r": 5})
    assert acknowledged(p, 4, K) == ()
    assert p.released("r") == 4
    assert acknowledged(p, 5, K, K2) == (CaptureState(K2),)
    assert p.released("r") == 4


# Releasing -----------------------------------------------------------------------------------------


def test_a_record_releases_what_was_kept_for_it(p):
    acknowledged(p, 4, K)
    (report,) = captured(p, sent={"r": 5})
    assert isinstance(report, ReportRecord)
    assert p.released("r") == 4


@pytest.mark.parametrize(
    ("event", "effects"),
    [
        (SnapshotEnded(K), (ForgetSnapshot(K),)),
        (SnapshotEnded(K2, floor=2), (ForgetSnapshot(K),)),
        (Begun(K2, floor=2), (ForgetSnapshot(K), CaptureState(K2))),
        (DeadlinePassed(K), (ForgetSnapshot(K),)),
        (CaptureFailed(K, "a lock"), (ReportFailure(K, "a lock"), ForgetSnapshot(K))),
    ],
)
def test_what_was_kept_for_a_snapshot_is_released_when_it_will_not_be_recorded(p, event, effects):
    acknowledged(p, 4, K)
    assert p.released("r") == 2
    assert p.handle(event) == effects
    assert p.released("r") == 4
    acknowledged(p, 5, K)
    assert p.released("r") == 5, "and nothing is kept for it again"


def test_the_end_of_one_of_several_snapshots_releases_its_own_part(p):
    acknowledged(p, 3, K)
    acknowledged(p, 4, K, K2)
    p.handle(SnapshotEnded(K))
    assert p.released("r") == 3
    p.handle(DeadlinePassed(K2))
    assert p.released("r") == 4


def test_a_restored_process_keeps_nothing_of_its_last_life(p):
    acknowledged(p, 4, K)
    assert ForgetSnapshot(K) in p.handle(Restored(2, {"r": 3}))
    assert (p.transported("r"), p.acknowledged("r"), p.released("r")) == (3, 3, 3)
    connected(p, "r")
    p.handle(BatchTaken("r", 1))
    assert acknowledged(p, 4, K) == (), "a snapshot of the last life"
    assert p.released("r") == 4


def test_what_was_kept_for_a_receiver_that_ended_is_no_more_counted(p):
    acknowledged(p, 4, K)
    p.handle(ReceiverEnded("r"))
    assert p.released("r") == 0
    assert record_of(captured(p, sent={"r": 5})).released == {}


# Ends ----------------------------------------------------------------------------------------------


def test_a_process_that_learned_from_its_last_acknowledgement_records_before_it_ends(p):
    acknowledged(p, 5, K)
    assert not p.may_end({"r": 5})
    assert record_of(captured(p, sent={"r": 5})).released == {"r": 2}
    assert not p.may_end({"r": 5}), "the snapshot is still open"
    p.handle(SnapshotEnded(K))
    assert p.may_end({"r": 5})


def test_who_ended_tells_of_nothing_with_what_it_refuses(p):
    acknowledged(p, 5)
    p.handle(EndRequested({"r": 5}, {}))
    assert arrives(p, 1, 1, sender="s") == (DropBatch("s", 1, "ended"),)
    assert p.recorded_snapshots == ()


# Both ends -----------------------------------------------------------------------------------------


def test_what_the_sender_released_had_arrived_before_the_receiver_recorded(p):
    """Both machines: acknowledgements of one moment, the second made before the recording, the third behind it."""
    r = Participant("r")
    arrives(r, 1, 2)
    arrives(r, 3, 1)
    second = (r.arrived("p"), *r.recorded_snapshots)
    r.handle(Begun(K))
    theirs = record_of(captured(r, received={"p": 1}))
    arrives(r, 4, 2)
    third = (r.arrived("p"), *r.recorded_snapshots)
    assert (second, third) == ((3,), (5, K))
    acknowledged(p, *second)
    acknowledged(p, *third)
    ours = record_of(captured(p, sent={"r": 6}))
    assert ours.released["r"] == theirs.arrived["p"] == 3


def test_a_marker_that_comes_before_the_recording_ends_the_mailbox_where_the_sender_recorded(p):
    """The sender recorded with all of its messages released: none of them lies with it, all lie in the mailbox."""
    r = Participant("r")
    arrives(r, 1, 5)
    acknowledged(p, 5)
    p.handle(Begun(K))
    assert record_of(captured(p, sent={"r": 5})).released == {"r": 5}
    (batch,) = p.handle(BatchTaken("r", 2))
    assert batch.markers == (Marker(K, 5),)
    arrives(r, batch.first, batch.count, markers=batch.markers)
    assert record_of(captured(r, received={"p": 1})).arrived == {"p": 5}
