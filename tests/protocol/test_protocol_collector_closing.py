"""When the collector closes channels, which, and what it makes of the answers."""

import pytest

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector import AbortWanted, CloseChannels, ProcessDied, ProcessJoined, SnapshotStored
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.identity import Channel, SnapshotId
from tests.protocol.bench import Bench

K = SnapshotId(1, "coordinator", 1)
K2 = SnapshotId(1, "coordinator", 2)


def under_way(*more):
    """Three messages of p to q are transported; q had processed the first and held the second when it recorded."""
    bench = Bench("p", "q", *more)
    bench.want()
    bench.record("p", {"q": 5}, transported={"q": 3})
    bench.record("q", received={"p": 1}, arrived={"p": 2})
    return bench


# Whom it tells, and when ---------------------------------------------------------------------------


def test_the_receiver_is_told_where_a_channel_ends_whose_messages_were_under_way():
    bench = under_way()
    assert bench.closes == [CloseChannels("q", K, {"p": 3})]
    assert bench.collector.open_channels(K) == (Channel("p", "q"),)
    assert bench.cuts == []
    bench.part("p", "q", 3, 3)
    assert bench.cuts[0].channels == (ChannelCut(Channel("p", "q"), 5, 3, 1),)


def test_each_receiver_is_told_of_all_its_channels_at_once():
    bench = Bench("p", "q", "r")
    bench.want()
    bench.record("p", {"q": 1, "r": 2})
    bench.record("q", {"r": 3})
    bench.record("r", {"q": 4})
    assert bench.closes == [CloseChannels("q", K, {"p": 1, "r": 4}), CloseChannels("r", K, {"p": 2, "q": 3})]


def test_nobody_is_told_before_all_members_have_recorded():
    bench = under_way("r")
    assert bench.closes == []
    assert bench.collector.open_channels(K) == (Channel("p", "q"),), "it knows already"
    bench.record("r")
    assert bench.closes == [CloseChannels("q", K, {"p": 3})]


def test_nobody_is_told_before_those_have_recorded_whom_the_records_prove_to_be_members():
    bench = Bench("p", "q")
    bench.want()
    bench.record("p", {"q": 3, "p.1": 1})
    bench.record("q")
    assert bench.closes == []
    bench.record("p.1", born=False, arrived={"p": 1})
    assert bench.closes == [CloseChannels("q", K, {"p": 3})]


def test_each_channel_is_closed_once_whatever_comes_again():
    bench = under_way("r")
    bench.record("r", {"q": 1})
    assert bench.closes == [CloseChannels("q", K, {"p": 3, "r": 1})]
    bench.part("r", "q", 1, 1)
    bench.record("q")
    bench.tell(ProcessJoined("late"))
    bench.record("late", born=False)
    bench.end("late")
    assert len(bench.closes) == 1
    bench.part("p", "q", 3, 3)
    assert len(bench.cuts) == 1


def test_a_record_that_comes_later_may_prove_more_channels_and_only_these_are_closed_then():
    bench = under_way()
    bench.tell(ProcessJoined("s"))
    bench.record("s", {"q": 1, "p": 2}, received={"driver:1": 1}, environment={"driver:1": 1})
    assert bench.closes[1:] == [CloseChannels("q", K, {"s": 1}), CloseChannels("p", K, {"s": 2})]
    bench.part("p", "q", 3, 3)
    bench.part("s", "q", 1, 1)
    assert bench.cuts == []
    bench.part("s", "p", 1, 2)
    assert sorted(bench.cuts[0].records) == ["p", "q", "s"]


def test_a_channel_that_is_closed_in_one_snapshot_is_closed_in_the_next_for_itself():
    bench = under_way()
    bench.want()
    bench.record("p", {"q": 5}, snapshot=K2)
    bench.record("q", snapshot=K2, received={"p": 2})
    assert bench.closes == [CloseChannels("q", K, {"p": 3}), CloseChannels("q", K2, {"p": 5})]
    bench.part("p", "q", 3, 5, snapshot=K2)
    assert [cut.snapshot for cut in bench.cuts] == [K2]


def test_while_one_is_being_stored_another_one_waits_and_then_closes_its_channels():
    bench = Bench("p", "q")
    bench.want()
    bench.want()
    for process in ("p", "q"):
        bench.record(process)
    bench.record("p", {"q": 1}, snapshot=K2)
    bench.record("q", snapshot=K2)
    assert bench.closes == []
    _, close = bench.tell(SnapshotStored(K))
    assert close == CloseChannels("q", K2, {"p": 1})


# What needs no closing -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ({"sent": {"q": 3}}, {"received": {"p": 3}}),
        ({"sent": {"q": 3}}, {"received": {"p": 1}, "arrived": {"p": 3}}),
        ({"sent": {"q": 3}}, {"arrived": {"p": 3}}),
        ({"sent": {"q": 3}, "transported": {"q": 1}}, {"received": {"p": 1}}),
        ({"sent": {"q": 3}, "transported": {"q": 0}}, {}),
        ({}, {"environment": {"driver:1": 4}, "received": {"driver:1": 1}, "arrived": {"driver:1": 4}}),
        ({}, {"environment": {"driver:1": 4}, "received": {"driver:1": 4}}),
        ({}, {"closed": {"driver:1": 4}, "received": {"driver:1": 1}, "arrived": {"driver:1": 4}}),
        ({}, {"sent": {"q": 2}, "received": {"q": 1}, "arrived": {"q": 2}}),
        ({}, {"closed": {"gone": 4}, "received": {"gone": 1}, "arrived": {"gone": 4}}),
    ],
)
def test_nothing_is_closed_where_the_records_hold_all(p, q):
    bench = Bench("p", "q", ended={"gone"})
    bench.want()
    bench.record("p", **p)
    bench.record("q", **q)
    assert bench.closes == []
    assert len(bench.cuts) == 1


def test_channels_to_the_ended_are_not_closed_as_what_is_left_on_them_is_dead_letters():
    bench = Bench("p", "q")
    bench.want()
    bench.end("q", received={"p": 1})
    bench.record("p", {"q": 3})
    assert bench.closes == []
    assert len(bench.cuts) == 1


# Ends ----------------------------------------------------------------------------------------------


def test_a_channel_of_an_ended_sender_is_closed_if_its_last_messages_came_after_the_recording():
    bench = Bench("p", "q")
    bench.want()
    bench.record("q", received={"p": 1})
    assert bench.end("p", {"q": 3}) == (CloseChannels("q", K, {"p": 3}),)
    bench.part("p", "q", 2, 3)
    (cut,) = bench.cuts
    assert (sorted(cut.records), cut.ended) == (["q"], ("p",))
    assert cut.channels == (ChannelCut(Channel("p", "q"), 3, 3, 1),)


def test_a_member_that_ends_in_mid_snapshot_lets_the_channels_of_the_others_be_closed():
    bench = under_way("r")
    assert bench.end("r") == (CloseChannels("q", K, {"p": 3}),)


def test_a_channel_of_one_that_ends_while_others_are_awaited_is_closed_at_once():
    bench = under_way()
    bench.tell(ProcessJoined("s"))
    assert bench.end("s", {"q": 1}) == (CloseChannels("q", K, {"s": 1}),)


# Answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [(2, 3), (3, 4), (3, 5), (1, 3), (4, 3)])
def test_a_part_that_is_not_the_rest_of_the_channel_makes_the_cut_inconsistent(part):
    bench = under_way()
    bench.part("p", "q", *part)
    (end,) = bench.ends
    assert (end.snapshot, end.reason) == (K, AbortReason.INCONSISTENT)
    assert end.detail == f"channel p -> q: {part} came, not (3, 3)"
    assert bench.cuts == []


def test_the_first_answer_counts():
    bench = under_way("r")
    bench.record("r", {"q": 2})
    bench.part("p", "q", 3, 3)
    bench.part("p", "q", 3, 9)
    bench.part("r", "q", 1, 2)
    assert len(bench.cuts) == 1


def test_a_part_of_a_channel_that_the_records_hold_makes_the_cut_inconsistent():
    bench = Bench("p", "q", "r")
    bench.want()
    bench.record("p", {"q": 2})
    bench.record("q", arrived={"p": 2})
    bench.part("p", "q", 1, 2)
    bench.record("r")
    assert bench.ends[0].reason is AbortReason.INCONSISTENT


@pytest.mark.parametrize(
    ("sent", "transported", "detail"),
    [
        (3, 1, "channel p -> q: 2 recorded, 1 transported"),
        (1, 1, "channel p -> q: 2 recorded, 1 transported"),
        (0, 0, "channel p -> q: 2 recorded, none sent"),
    ],
)
def test_a_record_that_holds_more_than_was_transported_makes_the_cut_inconsistent(sent, transported, detail):
    bench = Bench("p", "q")
    bench.want()
    bench.record("p", {"q": sent} if sent else {}, transported={"q": transported} if sent else {})
    bench.record("q", arrived={"p": 2})
    (end,) = bench.ends
    assert (end.reason, end.detail) == (AbortReason.INCONSISTENT, detail)
    assert bench.closes == bench.cuts == []


def test_a_record_that_transported_more_than_was_sent_makes_the_cut_inconsistent():
    bench = Bench("p", "q")
    bench.want()
    bench.record("p", {"q": 1}, transported={"q": 2})
    bench.record("q", arrived={"p": 2})
    assert bench.ends[0].detail == "channel p -> q: 0 received, 2 transported, 1 sent"


def test_a_record_that_holds_more_than_a_driver_had_sent_makes_the_cut_inconsistent():
    bench = Bench("q")
    bench.want()
    bench.record("q", environment={"driver:1": 1}, arrived={"driver:1": 2})
    assert bench.ends[0].reason is AbortReason.INCONSISTENT


def test_an_answer_for_a_snapshot_that_is_over_changes_nothing():
    bench = under_way()
    bench.tell(AbortWanted(K, AbortReason.TIMEOUT, ""))
    assert bench.part("p", "q", 3, 3) == ()
    assert bench.cuts == []


def test_an_abort_names_the_closed_channels_whose_messages_did_not_come():
    bench = under_way("r")
    bench.record("r", {"q": 2})
    bench.part("p", "q", 3, 3)
    (end,) = bench.tell(AbortWanted(K, AbortReason.TIMEOUT, "after 5 s"))
    assert (end.missing, end.open_channels) == ((), (Channel("r", "q"),))


def test_a_death_while_channels_are_being_closed_aborts():
    bench = under_way()
    (end,) = bench.tell(ProcessDied("p", "killed"))
    assert (end.reason, end.open_channels) == (AbortReason.ACTOR_DIED, (Channel("p", "q"),))
    assert bench.part("p", "q", 3, 3) == ()
