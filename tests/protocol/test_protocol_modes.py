"""How news spreads without the coordinator, and what differs in the other modes."""

import pytest

from rayshot.protocol.effects import (
    AwaitMarkers,
    CaptureState,
    DeliverBatch,
    PauseHandlers,
    ReportQuiet,
    ReportRecord,
    SendBatch,
)
from rayshot.protocol.events import (
    AlignmentTimedOut,
    BatchAcknowledged,
    BatchTaken,
    Begun,
    DeadlinePassed,
    EverybodyRecorded,
    HandlersPaused,
    Marker,
    ReceiverEnded,
    ReceiverReady,
    SnapshotEnded,
    SnapshotRequested,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from tests.protocol.facts import arrives, captured, connected, record_of

K = SnapshotId(1, "coordinator", 1)


@pytest.fixture
def q():
    return Participant("q")


# Snapshots that spread by their markers alone -------------------------------------------------------


def test_who_records_a_snapshot_of_a_process_sends_its_markers_by_themselves(q):
    connected(q, "r", sent=3)
    connected(q, "s")
    announce, _ = q.handle(SnapshotRequested())
    own = announce.snapshot
    _, *markers = captured(q, own, sent={"r": 3})
    assert markers == [SendBatch("r", 4, 0, (Marker(own, 3),)), SendBatch("s", 1, 0, (Marker(own, 0),))]


def test_markers_of_the_coordinators_snapshot_ride_on_batches_only(q):
    connected(q, "r", sent=3)
    q.handle(Begun(K))
    assert [type(effect) for effect in captured(q, K, sent={"r": 3})] == [ReportRecord]


def test_a_receiver_that_says_hello_later_gets_the_markers_then_and_once(q):
    own = SnapshotId(1, "p", 1)
    arrives(q, 1, 0, markers=(Marker(own, 0),))
    captured(q, own)
    assert q.handle(ReceiverReady("r")) == (SendBatch("r", 1, 0, (Marker(own, 0),)),)
    assert q.handle(ReceiverReady("r")) == ()
    q.handle(BatchAcknowledged("r", 0, (own,), (own,)))
    q.handle(SnapshotEnded(own))
    assert q.handle(ReceiverReady("s")) == ()


def test_a_batch_without_messages_brings_the_news_and_delivers_nothing(q):
    own = SnapshotId(1, "p", 1)
    assert arrives(q, 3, 0, markers=(Marker(own, 2),)) == (CaptureState(own),)
    assert arrives(q, 3, 0, markers=(Marker(own, 2),)) == ()
    assert arrives(q, 1, 2) == (DeliverBatch("p", 1, 2),)
    assert arrives(q, 3, 1) == (DeliverBatch("p", 3, 3),)


# Aligned snapshots ----------------------------------------------------------------------------------

ALIGNED_K = SnapshotId(1, "aligned", 1)


def begun_aligned(machine, *inputs):
    return machine.handle(Begun(ALIGNED_K, 1, frozenset(inputs)))


def test_a_source_records_an_aligned_snapshot_at_once_and_sends_its_markers(q):
    connected(q, "r", sent=2)
    assert begun_aligned(q) == (AwaitMarkers(ALIGNED_K), CaptureState(ALIGNED_K))
    _, marker = captured(q, ALIGNED_K, sent={"r": 2})
    assert marker == SendBatch("r", 3, 0, (Marker(ALIGNED_K, 2),))


def test_a_process_records_when_all_inputs_have_brought_markers_and_behind_what_was_sent_before(q):
    arrives(q, 1, 3, sender="p")
    assert begun_aligned(q, "p", "o") == (AwaitMarkers(ALIGNED_K),)
    assert arrives(q, 4, 0, sender="p", markers=(Marker(ALIGNED_K, 3),)) == ()
    assert q.limits == {"p": 3}
    assert arrives(q, 4, 2, sender="p") == (DeliverBatch("p", 4, 5),)
    assert arrives(q, 1, 0, sender="o", markers=(Marker(ALIGNED_K, 0),)) == (CaptureState(ALIGNED_K, {"o": 0, "p": 3}),)
    record = record_of(captured(q, ALIGNED_K, received={"p": 3}))
    assert record.aligned == ("o", "p")
    assert record.arrived == {}
    assert q.limits == {}


def test_a_marker_may_come_before_the_coordinators_news(q):
    assert arrives(q, 1, 0, markers=(Marker(ALIGNED_K, 0),)) == (AwaitMarkers(ALIGNED_K),)
    assert q.limits == {"p": 0}
    assert begun_aligned(q, "p") == (CaptureState(ALIGNED_K, {"p": 0}),)


def test_an_input_that_ended_is_aligned_where_it_ended(q):
    arrives(q, 1, 2)
    begun_aligned(q, "p", "o")
    assert arrives(q, 3, 0, closing=True) == ()
    assert q.handle(ReceiverEnded("o")) == (CaptureState(ALIGNED_K, {"p": 2}),)
    assert record_of(captured(q, ALIGNED_K, received={"p": 2})).aligned == ("p",)


def test_alignment_that_is_given_up_records_what_is_in_flight(q):
    arrives(q, 1, 3)
    begun_aligned(q, "p", "o")
    arrives(q, 4, 0, markers=(Marker(ALIGNED_K, 3),))
    assert q.handle(AlignmentTimedOut(ALIGNED_K)) == (CaptureState(ALIGNED_K),)
    record = record_of(captured(q, ALIGNED_K, received={"p": 1}))
    assert (record.aligned, record.arrived) == ((), {"p": 3})
    assert q.handle(AlignmentTimedOut(ALIGNED_K)) == ()


def test_an_aligned_snapshot_that_ends_holds_nothing_back_any_more(q):
    arrives(q, 1, 0, markers=(Marker(ALIGNED_K, 0),))
    q.handle(SnapshotEnded(ALIGNED_K))
    assert q.limits == {}


# Snapshots for which the world stops ----------------------------------------------------------------

STOPPED_K = SnapshotId(1, "stopped", 1)


def test_a_process_is_quiet_when_no_handler_runs_and_all_that_was_sent_has_arrived(q):
    connected(q, "r", sent=2)
    q.handle(BatchTaken("r", 1))
    assert q.handle(Begun(STOPPED_K, 1)) == (PauseHandlers(STOPPED_K),)
    assert q.paused
    assert q.handle(HandlersPaused(STOPPED_K, {"r": 4})) == ()
    assert q.handle(BatchAcknowledged("r", 3)) == ()
    q.handle(BatchTaken("r", 1))
    assert q.handle(BatchAcknowledged("r", 4)) == (ReportQuiet(STOPPED_K),)
    assert q.handle(BatchAcknowledged("r", 4)) == ()


def test_who_has_said_no_hello_is_not_waited_for(q):
    q.handle(Begun(STOPPED_K, 1))
    assert q.handle(HandlersPaused(STOPPED_K, {"ghost": 4})) == (ReportQuiet(STOPPED_K),)


def test_an_acknowledgement_is_compared_with_what_was_sent_to_its_sender_only(q):
    class Counted(dict):
        looks = 0

        def get(self, key, default=None):
            self.looks += 1
            return super().get(key, default)

    receivers = [f"r{number}" for number in range(500)]
    for receiver in receivers:
        q.handle(ReceiverReady(receiver))
        q.handle(BatchTaken(receiver, 1))
    q.handle(Begun(STOPPED_K, 1))
    sent = Counted(dict.fromkeys(receivers, 1))
    q.handle(HandlersPaused(STOPPED_K, sent))
    reports = [q.handle(BatchAcknowledged(receiver, 1)) for receiver in receivers]
    assert reports == [()] * 499 + [(ReportQuiet(STOPPED_K),)]
    assert sent.looks == 2 * len(receivers)


def test_who_says_hello_to_a_process_that_stands_still_is_waited_for_too(q):
    q.handle(ReceiverReady("r"))
    q.handle(BatchTaken("r", 1))
    q.handle(Begun(STOPPED_K, 1))
    q.handle(HandlersPaused(STOPPED_K, {"r": 1, "late": 1}))
    q.handle(ReceiverReady("late"))
    assert q.handle(BatchAcknowledged("r", 1)) == ()
    q.handle(BatchTaken("late", 1))
    assert q.handle(BatchAcknowledged("late", 1)) == (ReportQuiet(STOPPED_K),)


def test_when_all_are_quiet_it_records_and_stands_still_until_all_have_recorded(q):
    q.handle(Begun(STOPPED_K, 1))
    q.handle(HandlersPaused(STOPPED_K, {}))
    assert q.handle(Begun(STOPPED_K, 1, quiet=True)) == (CaptureState(STOPPED_K),)
    assert [type(effect) for effect in captured(q, STOPPED_K)] == [ReportRecord]
    assert q.paused
    q.handle(EverybodyRecorded(STOPPED_K))
    assert not q.paused


def test_of_two_stops_the_end_of_one_leaves_the_other_standing(q):
    other = STOPPED_K._replace(counter=2)
    for snapshot in (STOPPED_K, other):
        q.handle(Begun(snapshot, 1))
    q.handle(EverybodyRecorded(STOPPED_K))
    assert q.paused
    q.handle(EverybodyRecorded(other))
    assert not q.paused


@pytest.mark.parametrize("event", [SnapshotEnded(STOPPED_K), DeadlinePassed(STOPPED_K)])
def test_a_stop_ends_with_its_snapshot_or_its_deadline(q, event):
    q.handle(Begun(STOPPED_K, 1))
    q.handle(event)
    assert not q.paused
    assert q.handle(HandlersPaused(STOPPED_K, {})) == ()


def test_what_was_given_up_is_not_aligned_by_a_marker_that_comes_later_nor_by_late_news(q):
    arrives(q, 1, 3)
    assert q.handle(AlignmentTimedOut(ALIGNED_K)) == (AwaitMarkers(ALIGNED_K), CaptureState(ALIGNED_K))
    assert begun_aligned(q, "p") == ()
    assert arrives(q, 4, 0, markers=(Marker(ALIGNED_K, 3),)) == ()
    assert record_of(captured(q, ALIGNED_K, received={"p": 3})).aligned == ()
