import pytest

from rayshot.protocol.effects import (
    AnnounceSnapshot,
    CaptureState,
    DeliverBatch,
    DropBatch,
    ForgetSnapshot,
    HoldBatch,
    ReportEnd,
    ReportFailure,
    ReportRecord,
    SendBatch,
)
from rayshot.protocol.events import (
    BatchAcknowledged,
    BatchArrived,
    BatchTaken,
    Begun,
    CaptureFailed,
    DeadlinePassed,
    DriverDied,
    DriversForgotten,
    EndRequested,
    Marker,
    ReceiverEnded,
    ReceiverReady,
    Restored,
    SnapshotEnded,
    SnapshotRequested,
)
from rayshot.protocol.identity import SnapshotId, initiator_of
from rayshot.protocol.participant import Participant
from tests.protocol.facts import arrives, captured, connected, record_of

K = SnapshotId(1, "coordinator", 1)
K2 = SnapshotId(1, "coordinator", 2)


@pytest.fixture
def q():
    return Participant("q")


# Delivery ------------------------------------------------------------------------------------------


def test_a_batch_in_order_is_delivered(q):
    assert arrives(q, 1, 3) == (DeliverBatch("p", 1, 3),)
    assert arrives(q, 4, 1) == (DeliverBatch("p", 4, 4),)
    assert q.arrived("p") == 4


def test_an_early_batch_is_held_until_the_gap_is_filled(q):
    assert arrives(q, 3, 2) == (HoldBatch("p", 3),)
    assert arrives(q, 1, 2) == (DeliverBatch("p", 1, 2), DeliverBatch("p", 3, 4))


def test_a_batch_that_was_here_is_dropped_and_a_held_one_is_held_once(q):
    arrives(q, 1, 2)
    assert arrives(q, 1, 2) == (DropBatch("p", 1, "duplicate"),)
    arrives(q, 5, 1)
    assert arrives(q, 5, 1) == (DropBatch("p", 5, "duplicate"),)


def test_of_a_batch_that_overlaps_only_the_new_part_is_delivered(q):
    arrives(q, 1, 3)
    assert arrives(q, 2, 4) == (DeliverBatch("p", 4, 5),)


def test_a_batch_of_another_incarnation_is_stale(q):
    assert arrives(q, 1, 1, incarnation=2) == (DropBatch("p", 1, "stale"),)
    q.handle(Restored(2))
    assert arrives(q, 1, 1, incarnation=1) == (DropBatch("p", 1, "stale"),)


def test_a_message_is_not_transported_before_its_receiver_said_hello(q):
    with pytest.raises(AssertionError, match="hello"):
        q.handle(BatchTaken("r", 1))


# Learning and recording ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "news",
    [
        Begun(K),
        BatchArrived("p", 1, 1, 1, (Marker(K, 0),)),
        BatchAcknowledged("r", 1, (), (K,)),
        BatchArrived("driver:1", 1, 1, 1, tags=(K,)),
    ],
)
def test_a_process_learns_of_a_snapshot_by_any_way_and_once(q, news):
    connected(q, "r", sent=1)
    assert CaptureState(K) in q.handle(news)
    assert CaptureState(K) not in q.handle(Begun(K))


def test_the_news_comes_before_the_messages_of_its_batch(q):
    assert arrives(q, 1, 2, markers=(Marker(K, 0),)) == (CaptureState(K), DeliverBatch("p", 1, 2))


def test_its_own_request_is_announced_with_a_floor_that_spares_what_is_still_open(q):
    first, second = SnapshotId(1, "q", 1), SnapshotId(1, "q", 2)
    assert q.handle(SnapshotRequested()) == (AnnounceSnapshot(first, 1), CaptureState(first))
    assert q.handle(SnapshotRequested()) == (AnnounceSnapshot(second, 1), CaptureState(second))
    q.handle(DeadlinePassed(first))
    assert q.handle(SnapshotRequested())[0] == AnnounceSnapshot(SnapshotId(1, "q", 3), 2)


@pytest.mark.acceptance("X3")
def test_a_process_whose_name_can_be_no_part_of_a_key_knows_its_own_snapshots_too():
    process = Participant("a/b")
    ids = [SnapshotId(1, initiator_of("a/b"), counter) for counter in (1, 2, 3)]
    assert process.handle(SnapshotRequested())[0] == AnnounceSnapshot(ids[0], 1)
    assert process.handle(SnapshotRequested())[0] == AnnounceSnapshot(ids[1], 1)
    process.handle(DeadlinePassed(ids[0]))
    assert process.handle(SnapshotRequested())[0] == AnnounceSnapshot(ids[2], 2)


def test_a_record_counts_what_lies_in_mailbox_and_outbox_and_orders_nothing_else(q):
    arrives(q, 1, 5)
    connected(q, "r", sent=2)
    q.handle(BatchTaken("r", 2))
    q.handle(Begun(K))
    effects = captured(q, sent={"r": 7}, received={"p": 3})
    record = record_of(effects)
    assert effects == (ReportRecord(record),), "no marker travels without messages"
    assert (record.sent, record.transported, record.released) == ({"r": 7}, {"r": 4}, {"r": 2})
    assert (record.received, record.arrived) == ({"p": 3}, {"p": 5})
    assert q.markers_due("r") == (Marker(K, 7),)


def test_a_record_names_no_mailbox_that_is_empty(q):
    arrives(q, 1, 2)
    arrives(q, 4, 1)  # behind a gap: it has not arrived
    q.handle(Begun(K))
    assert record_of(captured(q, received={"p": 2})).arrived == {}


@pytest.mark.parametrize(("sent", "arrived"), [(2, {}), (3, {"p": 3}), (4, {"p": 4}), (9, {"p": 4})])
def test_a_record_holds_nothing_that_lies_behind_the_end_that_a_marker_names(q, sent, arrived):
    arrives(q, 1, 2)
    arrives(q, 3, 2, markers=(Marker(K, sent),))
    assert record_of(captured(q, received={"p": 2})).arrived == arrived


def test_the_next_batch_carries_the_marker_and_a_channel_that_opens_later_brings_it_along(q):
    connected(q, "r")
    q.handle(Begun(K))
    captured(q)
    assert q.handle(BatchTaken("r", 1)) == (SendBatch("r", 1, 1, (Marker(K, 0),)),)
    q.handle(BatchAcknowledged("r", 0, (K,)))
    assert q.handle(BatchTaken("r", 1)) == (SendBatch("r", 2, 1, ()),)
    assert q.handle(ReceiverReady("s")) == ()
    assert q.handle(BatchTaken("s", 1)) == (SendBatch("s", 1, 1, (Marker(K, 0),)),)


def test_an_acknowledgement_of_messages_is_none_of_markers(q):
    connected(q, "r")
    q.handle(BatchTaken("r", 1))
    q.handle(Begun(K))
    captured(q, sent={"r": 1})
    q.handle(BatchAcknowledged("r", 1))
    assert q.markers_due("r") == (Marker(K, 1),)


def test_what_a_process_sent_to_itself_lies_with_its_record(q):
    q.handle(Begun(K))
    record = record_of(captured(q, sent={"q": 3}, received={"q": 1}))
    assert (record.transported, record.released, record.arrived) == ({"q": 3}, {"q": 3}, {"q": 3})


def test_of_what_a_process_sent_to_itself_and_processed_nothing_lies_with_its_record(q):
    q.handle(Begun(K))
    record = record_of(captured(q, sent={"q": 3}, received={"q": 3}))
    assert (record.released, record.arrived) == ({"q": 3}, {})


def test_what_was_sent_to_one_who_did_not_say_hello_yet_lies_with_the_record_from_the_first_message_on(q):
    q.handle(Begun(K))
    record = record_of(captured(q, sent={"r": 2}))
    assert (record.transported, record.released) == ({"r": 0}, {"r": 0})


def test_a_record_names_the_snapshots_that_were_recorded_before_it(q):
    q.handle(Begun(K))
    q.handle(Begun(K2))
    captured(q, K)
    assert record_of(captured(q, K2)).overlaps == (K,)


def test_markers_ride_until_they_are_acknowledged_on_that_channel(q):
    for receiver in ("r", "s"):
        connected(q, receiver, sent=1)
    q.handle(Begun(K))
    captured(q, sent={"r": 1, "s": 1})
    q.handle(BatchAcknowledged("r", 1, (K,)))
    assert q.markers_due("r") == ()
    assert q.markers_due("s") == (Marker(K, 1),)


# Ending a snapshot ---------------------------------------------------------------------------------


def test_a_tombstone_swallows_what_comes_late_for_an_ended_snapshot(q):
    q.handle(Begun(K))
    assert q.handle(SnapshotEnded(K)) == (ForgetSnapshot(K),)
    assert arrives(q, 1, 1, markers=(Marker(K, 0),)) == (DeliverBatch("p", 1, 1),)
    assert q.handle(Begun(K)) == ()
    assert captured(q) == ()


def test_a_floor_ends_all_below_it(q):
    q.handle(Begun(K))
    assert q.handle(Begun(K2, floor=2)) == (ForgetSnapshot(K), CaptureState(K2))
    assert q.handle(SnapshotEnded(K2, floor=5)) == (ForgetSnapshot(K2),)
    assert q.handle(Begun(SnapshotId(1, "coordinator", 4))) == ()


def test_a_floor_of_an_older_incarnation_ends_nothing_of_this_one(q):
    q.handle(Restored(2))
    q.handle(Begun(SnapshotId(1, "coordinator", 9), floor=9))
    q.handle(SnapshotEnded(SnapshotId(1, "coordinator", 9), floor=10))
    first = SnapshotId(2, "coordinator", 1)
    assert q.handle(Begun(first, floor=1)) == (CaptureState(first),)


def test_a_passed_deadline_frees_the_memory_but_goes_on_telling_others(q):
    connected(q, "r", sent=1)
    q.handle(Begun(K))
    captured(q, sent={"r": 1})
    assert q.handle(DeadlinePassed(K)) == (ForgetSnapshot(K),)
    (batch,) = q.handle(BatchTaken("r", 1))
    assert batch.markers == (Marker(K, 1),)
    assert q.open_snapshots == (K,), "answers to drivers are still tagged"
    assert q.handle(SnapshotEnded(K)) == (), "it was forgotten before"
    assert q.markers_due("r") == ()


def test_a_snapshot_that_was_given_up_is_not_recorded_any_more(q):
    q.handle(Begun(K))
    q.handle(DeadlinePassed(K))
    assert captured(q) == ()


def test_a_capture_that_fails_is_reported_and_given_up(q):
    q.handle(Begun(K))
    assert q.handle(CaptureFailed(K, "a lock")) == (ReportFailure(K, "a lock"), ForgetSnapshot(K))


def test_a_late_marker_of_an_ended_snapshot_harms_nothing(q):
    """Its sender knew of the end before this process does, and sent untagged what was processed here since."""
    arrives(q, 1, 5)
    q.handle(Begun(K))
    captured(q, received={"p": 5})
    assert arrives(q, 6, 1, markers=(Marker(K, 2),)) == (DeliverBatch("p", 6, 6),)
    q.handle(SnapshotEnded(K))
    arrives(q, 7, 1, markers=(Marker(K2, 2),))
    assert record_of(captured(q, K2, received={"p": 5})).arrived == {}


# Drivers -------------------------------------------------------------------------------------------


def test_the_receiver_fixes_the_cut_of_a_drivers_channel_and_holds_all_of_it(q):
    arrives(q, 1, 4, sender="driver:1")
    arrives(q, 7, 1, sender="driver:1")
    q.handle(Begun(K))
    record = record_of(captured(q, received={"driver:1": 1}))
    assert (record.environment, record.arrived) == ({"driver:1": 4}, {"driver:1": 4})
    assert arrives(q, 5, 1, sender="driver:1") == (DeliverBatch("driver:1", 5, 5),)


def test_what_a_driver_sent_after_it_saw_the_snapshot_lies_behind_the_cut(q):
    arrives(q, 1, 2, sender="driver:1")
    arrives(q, 3, 2, sender="driver:1", tags=(K,))
    record = record_of(captured(q, received={"driver:1": 1}))
    assert (record.environment, record.arrived) == ({"driver:1": 2}, {"driver:1": 2})


def test_a_repeated_batch_with_new_tags_does_not_cut_below_what_was_processed(q):
    arrives(q, 1, 4, sender="driver:1")
    arrives(q, 1, 4, sender="driver:1", tags=(K,))
    assert record_of(captured(q, received={"driver:1": 4})).environment == {"driver:1": 4}


def test_what_lies_behind_a_dead_drivers_gap_becomes_dead_letters(q):
    arrives(q, 1, 2, sender="driver:1")
    arrives(q, 5, 1, sender="driver:1")
    assert q.handle(DriverDied("driver:1")) == (DropBatch("driver:1", 5, "dead letter"),)
    assert arrives(q, 3, 2, sender="driver:1") == (DropBatch("driver:1", 3, "dead letter"),)
    q.handle(Begun(K))
    record = record_of(captured(q, received={"driver:1": 1}))
    assert (record.environment, record.closed, record.arrived) == ({}, {"driver:1": 2}, {"driver:1": 2})


@pytest.mark.acceptance("O6")
def test_a_driver_that_died_is_forgotten_and_its_late_batches_are_dropped_all_the_same(q):
    arrives(q, 1, 2, sender="driver:1")
    q.handle(DriverDied("driver:1"))
    q.handle(DriversForgotten(frozenset({"driver:1"})))
    assert q.arrived("driver:1") == 0
    for first in (1, 3, 5):
        assert arrives(q, first, 2, sender="driver:1", tags=(K,)) == (DropBatch("driver:1", first, "dead letter"),)
    assert q.open_snapshots == ()
    q.handle(Begun(K))
    record = record_of(captured(q))
    assert (record.environment, record.closed, record.arrived, record.forgotten) == ({}, {}, {}, 1)


@pytest.mark.acceptance("O6")
def test_a_driver_that_died_is_not_past_in_a_cut_that_ends_before_its_last_message(q):
    arrives(q, 1, 2, sender="driver:1")
    arrives(q, 3, 1, sender="driver:1", tags=(K,))  # the driver had seen effects of K: this message is behind the cut
    q.handle(DriverDied("driver:1"))
    record = record_of(captured(q, received={"driver:1": 2}))
    assert (record.environment, record.closed, record.past_drivers) == ({"driver:1": 2}, {}, frozenset())
    q.handle(Begun(SnapshotId(1, "coordinator", 2)))
    later = record_of(captured(q, SnapshotId(1, "coordinator", 2), received={"driver:1": 3}))
    assert (later.closed, later.past_drivers) == ({"driver:1": 3}, {"driver:1"})


@pytest.mark.acceptance("O6")
def test_a_driver_that_lives_is_not_forgotten(q):
    arrives(q, 1, 2, sender="driver:1")
    q.handle(DriversForgotten(frozenset({"driver:1"})))
    assert q.arrived("driver:1") == 2


# Coming and going ----------------------------------------------------------------------------------


def test_a_record_says_which_senders_had_ended_and_holds_all_of_theirs(q):
    arrives(q, 1, 2)
    arrives(q, 3, 0, closing=True)
    q.handle(Begun(K))
    record = record_of(captured(q, received={"p": 1}))
    assert (record.closed, record.arrived) == ({"p": 2}, {"p": 2})


def test_a_process_may_end_when_all_is_acknowledged_and_nothing_is_recorded(q):
    q.handle(ReceiverReady("r"))
    q.handle(BatchTaken("r", 2))
    assert not q.may_end({"r": 2})
    q.handle(BatchAcknowledged("r", 2))
    assert q.may_end({"r": 2})
    assert not q.may_end({"r": 2, "s": 1}), "what waits in the outbox was not even transported"
    q.handle(Begun(K))
    assert not q.may_end({"r": 2})
    q.handle(DeadlinePassed(K))
    assert q.may_end({"r": 2})


def test_an_end_closes_the_channels_and_tells_what_was_given_up(q):
    connected(q, "r", sent=2)
    connected(q, "s")
    arrives(q, 1, 3)
    q.handle(Begun(K))
    q.handle(DeadlinePassed(K))
    closing, end = q.handle(EndRequested({"r": 2}, {"p": 3}))
    assert closing == SendBatch("r", 3, 0, (), closing=True)
    assert isinstance(end, ReportEnd)
    assert (end.record.sent, end.record.received, end.record.ended) == ({"r": 2}, {"p": 3}, True)
    assert end.record.released == {"r": 2}, "all is acknowledged: nothing lies with a last record"
    assert end.unfinished == (K,)


def test_an_ended_process_records_nothing_and_takes_nothing(q):
    q.handle(EndRequested({}, {}))
    assert q.handle(Begun(K)) == ()
    assert arrives(q, 1, 1, markers=(Marker(K2, 0),)) == (DropBatch("p", 1, "ended"),)
    assert q.open_snapshots == ()


def test_a_receiver_that_ended_is_no_more_counted_even_if_it_is_found_once_more(q):
    connected(q, "r", sent=2)
    q.handle(ReceiverEnded("r"))
    connected(q, "r")
    q.handle(BatchTaken("r", 1))  # its answer will be that it has ended
    assert q.handle(BatchAcknowledged("r", 2)) == (), "a late one"
    q.handle(Begun(K))
    assert record_of(captured(q, sent={"r": 5})).sent == {}
    assert q.ended_peers == {"r"}
    q.handle(SnapshotEnded(K))
    assert q.may_end({"r": 5})
    assert [type(effect) for effect in q.handle(EndRequested({"r": 5}, {}))] == [ReportEnd]


# Restoring -----------------------------------------------------------------------------------------


def test_a_restored_process_counts_on_from_the_cut(q):
    q.handle(Begun(K))
    assert q.handle(Restored(2, {"r": 4, "q": 3}, {"p": 6, "q": 3})) == (ForgetSnapshot(K),)
    assert arrives(q, 7, 1, incarnation=2) == (DeliverBatch("p", 7, 7),)
    q.handle(ReceiverReady("r"))
    assert q.handle(BatchTaken("r", 1)) == (SendBatch("r", 5, 1, ()),)


def test_a_restored_process_that_sent_to_itself_may_end(q):
    q.handle(Restored(2, {"q": 3}, {"q": 3}))
    assert q.handle(EndRequested({"q": 4}, {"q": 4}))


def test_a_restored_process_knows_which_senders_had_ended(q):
    q.handle(Restored(2, {}, {"p": 6, "s": 1}, frozenset({"p"})))
    second = SnapshotId(2, "coordinator", 1)
    q.handle(Begun(second))
    record = record_of(captured(q, second, received={"p": 4, "s": 1}))
    assert (record.closed, record.arrived) == ({"p": 6}, {"p": 6})


def test_who_ended_in_a_life_that_is_over_is_there_again_after_the_restore(q):
    connected(q, "r", sent=2)
    q.handle(ReceiverEnded("r"))
    assert q.ended_peers == {"r"}
    q.handle(Restored(2, {"r": 2}))
    assert q.ended_peers == frozenset()
    assert q.may_end({"r": 2}), "what was sent before the cut lies with its receiver"
    connected(q, "r")
    q.handle(BatchTaken("r", 1))
    assert not q.may_end({"r": 3})


def test_what_was_held_in_a_life_that_is_over_is_not_delivered_after_the_restore(q):
    arrives(q, 3, 2)
    q.handle(Restored(2))
    assert arrives(q, 1, 2, incarnation=2) == (DeliverBatch("p", 1, 2),)
