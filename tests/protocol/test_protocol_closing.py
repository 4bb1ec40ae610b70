"""The end of a channel: the collector names it, and the receiver hands in what its record did not hold."""

import pytest

from rayshot.protocol.effects import DeliverBatch, ForgetSnapshot, HoldBatch, KeepMessages, ReportChannel
from rayshot.protocol.events import (
    Begun,
    CaptureFailed,
    ChannelsClosed,
    DeadlinePassed,
    EndRequested,
    Marker,
    SnapshotEnded,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from tests.protocol.facts import arrives, captured, record_of

K = SnapshotId(1, "coordinator", 1)
K2 = SnapshotId(1, "coordinator", 2)


@pytest.fixture
def q():
    """It has processed message 1 of p; its record holds message 2."""
    machine = Participant("q")
    arrives(machine, 1, 2)
    machine.handle(Begun(K))
    assert record_of(captured(machine, received={"p": 1})).arrived == {"p": 2}
    return machine


def closed(machine, snapshot=K, **ends):
    return machine.handle(ChannelsClosed(snapshot, ends))


def reports(effects):
    return [effect for effect in effects if isinstance(effect, ReportChannel)]


# The rest of a channel -----------------------------------------------------------------------------


def test_what_has_arrived_since_is_reported_at_once(q):
    arrives(q, 3, 2)
    assert closed(q, p=4) == (ReportChannel(K, "p", 3, 4),)
    assert q.open_channels(K) == ()


def test_what_is_still_under_way_is_awaited_and_the_last_message_brings_the_report(q):
    arrives(q, 3, 1)
    assert closed(q, p=5) == ()
    assert q.open_channels(K) == ("p",)
    assert arrives(q, 4, 1) == (DeliverBatch("p", 4, 4), KeepMessages(K, "p", 4, 4))
    assert arrives(q, 5, 1) == (
        DeliverBatch("p", 5, 5),
        KeepMessages(K, "p", 5, 5),
        ReportChannel(K, "p", 3, 5),
    )
    assert q.open_channels(K) == ()


def test_a_gap_is_waited_for(q):
    closed(q, p=4)
    assert arrives(q, 4, 1) == (HoldBatch("p", 4),)
    assert reports(arrives(q, 3, 1)) == [ReportChannel(K, "p", 3, 4)]


def test_what_lies_behind_the_end_is_neither_kept_nor_reported(q):
    closed(q, p=3)
    assert arrives(q, 3, 2) == (DeliverBatch("p", 3, 4), KeepMessages(K, "p", 3, 3), ReportChannel(K, "p", 3, 3))
    assert arrives(q, 5, 1) == (DeliverBatch("p", 5, 5),)


def test_what_was_kept_beyond_the_end_before_it_was_known_is_not_reported(q):
    arrives(q, 3, 5)
    assert closed(q, p=4) == (ReportChannel(K, "p", 3, 4),)


def test_a_channel_of_which_the_record_holds_nothing_is_reported_from_its_first_message(q):
    arrives(q, 1, 2, sender="s")
    assert closed(q, s=2) == (ReportChannel(K, "s", 1, 2),)


def test_a_channel_of_which_all_was_processed_is_reported_from_the_next_message_on():
    machine = Participant("q")
    arrives(machine, 1, 2)
    machine.handle(Begun(K))
    captured(machine, received={"p": 2})
    arrives(machine, 3, 1)
    assert closed(machine, p=3) == (ReportChannel(K, "p", 3, 3),)


def test_each_channel_is_reported_when_its_own_messages_are_there(q):
    arrives(q, 1, 1, sender="r")
    assert closed(q, p=3, r=1, s=2) == (ReportChannel(K, "r", 1, 1),)
    assert q.open_channels(K) == ("p", "s")
    assert reports(arrives(q, 1, 2, sender="s")) == [ReportChannel(K, "s", 1, 2)]
    assert reports(arrives(q, 3, 1)) == [ReportChannel(K, "p", 3, 3)]


def test_the_end_that_a_marker_named_before_is_the_one_that_the_collector_names(q):
    arrives(q, 5, 1, markers=(Marker(K, 6, 4),))
    arrives(q, 3, 2)
    assert closed(q, p=4) == (ReportChannel(K, "p", 3, 4),)


def test_a_marker_alone_reports_nothing(q):
    assert arrives(q, 3, 1, markers=(Marker(K, 2, 2),)) == (DeliverBatch("p", 3, 3),)
    assert arrives(q, 4, 1, markers=(Marker(K, 2, 2),)) == (DeliverBatch("p", 4, 4),)
    assert q.open_channels(K) == ()


def test_a_message_belongs_to_each_of_two_snapshots_up_to_its_own_end(q):
    q.handle(Begun(K2))
    captured(q, K2, received={"p": 2})
    arrives(q, 3, 3)
    assert closed(q, K, p=4) == (ReportChannel(K, "p", 3, 4),)
    assert closed(q, K2, p=5) == (ReportChannel(K2, "p", 3, 5),)


# Orders that come twice, late or in vain -----------------------------------------------------------


def test_an_order_that_comes_twice_is_obeyed_once(q):
    arrives(q, 3, 1)
    assert reports(closed(q, p=3)) == [ReportChannel(K, "p", 3, 3)]
    assert closed(q, p=3) == ()
    assert closed(q, s=1) == closed(q, s=1) == ()
    assert reports(arrives(q, 1, 1, sender="s")) == [ReportChannel(K, "s", 1, 1)]
    assert q.open_channels(K) == ()


def test_a_second_order_may_close_more_channels(q):
    closed(q, p=3)
    closed(q, s=1)
    assert q.open_channels(K) == ("p", "s")


@pytest.mark.parametrize("snapshot", [K2, SnapshotId(2, "coordinator", 1)])
def test_an_order_for_a_snapshot_that_is_unknown_here_is_ignored(q, snapshot):
    arrives(q, 3, 1)
    assert closed(q, snapshot, p=3) == ()
    assert q.open_snapshots == (K,)


def test_an_order_for_a_snapshot_that_is_not_recorded_yet_is_ignored(q):
    q.handle(Begun(K2))
    assert closed(q, K2, p=2) == ()
    assert record_of(captured(q, K2, received={"p": 1})).arrived == {"p": 2}


def test_an_order_for_a_snapshot_that_has_ended_is_ignored(q):
    q.handle(SnapshotEnded(K))
    assert closed(q, p=2) == ()
    assert arrives(q, 3, 1) == (DeliverBatch("p", 3, 3),)


@pytest.mark.parametrize("end", [DeadlinePassed(K), CaptureFailed(K, "it broke in the child"), SnapshotEnded(K)])
def test_who_gives_a_snapshot_up_awaits_nothing_for_it_any_more(q, end):
    closed(q, p=3)
    assert ForgetSnapshot(K) in q.handle(end)
    assert q.open_channels(K) == ()
    assert arrives(q, 3, 1) == (DeliverBatch("p", 3, 3),)


def test_an_order_for_a_snapshot_that_was_given_up_is_ignored(q):
    arrives(q, 3, 1)
    q.handle(DeadlinePassed(K))
    assert closed(q, p=3) == ()
    assert q.open_channels(K) == ()


def test_who_has_ended_ignores_all_orders(q):
    q.handle(DeadlinePassed(K))
    q.handle(EndRequested({}, {"p": 2}))
    assert closed(q, p=2) == ()
