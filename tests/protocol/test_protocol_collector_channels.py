"""Where the records of both ends cut a channel, and what they must not say."""

import pytest

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AbortWanted, ProcessDied, SnapshotStored
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.identity import Channel, SnapshotId
from tests.protocol.bench import Bench

K = SnapshotId(1, "coordinator", 1)
K2 = SnapshotId(1, "coordinator", 2)
P_TO_Q = Channel("p", "q")


def both(p, q, *more, **options):
    """A snapshot with these records of p and q."""
    bench = Bench("p", "q", *more, **options)
    bench.want()
    bench.record("p", **p)
    bench.record("q", **q)
    return bench


# Consistent records --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "numbers"),
    [
        ({"sent": {"q": 3}, "released": {"q": 3}}, {"received": {"p": 3}}, (3, 3, 3)),
        ({"sent": {"q": 3}, "released": {"q": 3}}, {"received": {"p": 1}, "arrived": {"p": 3}}, (3, 3, 1)),
        ({"sent": {"q": 3}, "released": {"q": 3}}, {"arrived": {"p": 3}}, (3, 3, 0)),
        ({"sent": {"q": 3}, "released": {"q": 2}}, {"received": {"p": 1}, "arrived": {"p": 2}}, (3, 2, 1)),
        ({"sent": {"q": 3}, "released": {"q": 1}}, {"received": {"p": 1}}, (3, 1, 1)),
        ({"sent": {"q": 3}}, {}, (3, 0, 0)),
        ({"sent": {"q": 3}, "transported": {"q": 0}}, {}, (3, 0, 0)),
    ],
)
def test_what_had_arrived_comes_from_the_receiver_and_the_rest_from_the_sender(p, q, numbers):
    (cut,) = both(p, q).cuts
    assert cut.channels == (ChannelCut(P_TO_Q, *numbers),)


@pytest.mark.parametrize("released", [0, 1, 2])
def test_what_both_ends_hold_counts_once_as_the_receivers(released):
    """The acknowledgement was still under way when the sender recorded."""
    p = {"sent": {"q": 4}, "transported": {"q": 3}, "released": {"q": released}}
    (cut,) = both(p, {"received": {"p": 1}, "arrived": {"p": 2}}).cuts
    assert cut.channels == (ChannelCut(P_TO_Q, 4, 2, 1),)


def test_all_messages_of_a_long_handler_lie_with_its_record():
    """q recorded with two messages at hand; p sent and q acknowledged eighteen more until p could record."""
    p = {"sent": {"q": 22}, "transported": {"q": 20}, "released": {"q": 2}}
    (cut,) = both(p, {"received": {"p": 1}, "arrived": {"p": 2}}).cuts
    assert cut.channels == (ChannelCut(P_TO_Q, 22, 2, 1),)


def test_each_of_two_snapshots_cuts_a_channel_for_itself():
    bench = both({"sent": {"q": 3}, "released": {"q": 2}}, {"received": {"p": 1}, "arrived": {"p": 2}})
    bench.want()
    bench.record("p", {"q": 5}, snapshot=K2, released={"q": 3})
    bench.record("q", snapshot=K2, received={"p": 2}, arrived={"p": 4})
    bench.tell(SnapshotStored(K))
    assert [cut.channels for cut in bench.cuts] == [(ChannelCut(P_TO_Q, 3, 2, 1),), (ChannelCut(P_TO_Q, 5, 4, 2),)]


def test_messages_for_one_that_is_not_born_lie_with_their_sender_or_in_its_mailbox():
    bench = Bench("p")
    bench.want()
    bench.record("p", {"p.1": 3, "p.2": 2}, transported={"p.1": 3, "p.2": 0}, released={"p.1": 1})
    bench.record("p.1", born=False, arrived={"p": 2})
    (cut,) = bench.cuts
    assert set(cut.channels) == {
        ChannelCut(Channel("p", "p.1"), 3, 2, 0),
        ChannelCut(Channel("p", "p.2"), 2, 0, 0),
    }
    assert cut.unborn == ("p.2",)


@pytest.mark.parametrize(("received", "arrived"), [(1, {"p": 4}), (4, {})])
def test_the_channel_to_oneself_lies_wholly_with_the_record(received, arrived):
    bench = Bench("p")
    bench.want()
    bench.record("p", {"p": 4}, {"p": received}, released={"p": 4}, arrived=arrived)
    assert bench.cuts[0].channels == (ChannelCut(Channel("p", "p"), 4, 4, received),)


# Fixed by the receiver -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "sender"), [("environment", "driver:1"), ("closed", "driver:1"), ("closed", "gone")])
@pytest.mark.parametrize("received", [0, 1, 3])
def test_the_receiver_holds_all_of_a_driver_and_of_the_ended(kind, sender, received):
    bench = Bench("q", ended={"gone"})
    bench.want()
    bench.record("q", received={sender: received}, arrived={sender: 4}, **{kind: {sender: 4}})
    assert bench.cuts[0].channels == (ChannelCut(Channel(sender, "q"), 4, 4, received),)


def test_the_receiver_needs_to_hold_nothing_of_which_it_processed_all():
    bench = Bench("q")
    bench.want()
    bench.record("q", received={"driver:1": 4, "driver:2": 2}, environment={"driver:1": 4}, closed={"driver:2": 2})
    assert bench.cuts[0].channels == (ChannelCut(Channel("driver:1", "q"), 4, 4, 4),)


@pytest.mark.parametrize("arrived", [{}, {"driver:1": 3}])
def test_messages_of_a_driver_that_its_receiver_does_not_hold_make_the_cut_inconsistent(arrived):
    bench = Bench("q")
    bench.want()
    bench.record("q", received={"driver:1": 1}, environment={"driver:1": 4}, arrived=arrived)
    assert bench.ends[0].reason is AbortReason.INCONSISTENT


def test_a_record_that_holds_more_than_it_says_that_a_driver_had_sent_makes_the_cut_inconsistent():
    bench = Bench("q")
    bench.want()
    bench.record("q", environment={"driver:1": 1}, arrived={"driver:1": 2})
    assert bench.ends[0].reason is AbortReason.INCONSISTENT


# Ends ----------------------------------------------------------------------------------------------


def test_channels_to_the_ended_are_left_out_whatever_was_released_on_them():
    bench = Bench("p", "q")
    bench.want()
    bench.end("q", received={"p": 1})
    bench.record("p", {"q": 3}, released={"q": 3})
    assert bench.cuts[0].channels == ()


@pytest.mark.parametrize("received", [0, 1, 2])
def test_all_that_an_ended_sender_left_lies_with_the_receiver(received):
    """It ended without having learned of the snapshot: no acknowledgement told it, so all had arrived before."""
    bench = Bench("p", "q")
    bench.want()
    bench.record("q", received={"p": received}, arrived={"p": 3})
    bench.end("p", {"q": 3})
    (cut,) = bench.cuts
    assert (sorted(cut.records), cut.ended) == (["q"], ("p",))
    assert cut.channels == (ChannelCut(P_TO_Q, 3, 3, received),)


def test_an_ended_sender_of_which_all_was_processed_has_no_channel():
    bench = Bench("p", "q")
    bench.want()
    bench.record("q", received={"p": 3})
    bench.end("p", {"q": 3})
    assert bench.cuts[0].channels == ()


def test_an_ended_sender_of_which_the_receiver_lacks_messages_makes_the_cut_inconsistent():
    bench = Bench("p", "q")
    bench.want()
    bench.record("q", received={"p": 1}, arrived={"p": 2})
    bench.end("p", {"q": 3})
    assert bench.ends[0].detail == "channel p -> q: messages 3 .. 3 are at neither of its ends"


# Contradictions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "gap"),
    [
        ({"received": {"p": 1}, "arrived": {"p": 2}}, "3 .. 4"),
        ({"received": {"p": 3}}, "4 .. 4"),
        ({}, "1 .. 4"),
    ],
)
def test_messages_that_lie_with_neither_end_make_the_cut_inconsistent(q, gap):
    bench = both({"sent": {"q": 5}, "released": {"q": 4}}, q)
    (end,) = bench.ends
    assert (end.snapshot, end.reason) == (K, AbortReason.INCONSISTENT)
    assert end.detail == f"channel p -> q: messages {gap} are at neither of its ends"
    assert bench.cuts == []


@pytest.mark.parametrize(
    ("p", "q", "detail"),
    [
        ({"sent": {"q": 1}}, {"arrived": {"p": 2}}, "0 received, 2 arrived, 1 sent"),
        ({"sent": {"q": 1}}, {"received": {"p": 2}}, "2 received, 2 arrived, 1 sent"),
        ({"sent": {"q": 1}}, {"received": {"p": 1}, "arrived": {"p": 2}}, "1 received, 2 arrived, 1 sent"),
        ({"sent": {"q": 0}}, {"arrived": {"p": 2}}, "0 received, 2 arrived, 0 sent"),
        ({}, {"arrived": {"p": 2}}, "0 received, 2 arrived, 0 sent"),
        ({}, {"received": {"p": 1}, "arrived": {"p": 2}}, "1 received, 2 arrived, 0 sent"),
        ({}, {"received": {"p": 2}}, "2 received, 2 arrived, 0 sent"),
    ],
)
def test_an_orphan_is_seen_in_the_state_and_in_the_mailbox(p, q, detail):
    bench = both(p, q)
    (end,) = bench.ends
    assert (end.reason, end.detail) == (AbortReason.INCONSISTENT, f"channel p -> q: {detail}")
    assert bench.cuts == []


def test_an_orphan_of_one_that_ended_is_seen():
    bench = Bench("p", "q")
    bench.want()
    bench.record("q", arrived={"p": 2})
    bench.end("p")
    assert bench.ends[0].reason is AbortReason.INCONSISTENT


# What is awaited -----------------------------------------------------------------------------------


def test_who_sent_what_lies_in_a_mailbox_belongs_to_the_cut():
    bench = Bench("q")
    bench.want()
    bench.record("q", arrived={"s": 2})
    assert bench.collector.missing(K) == ("s",)
    assert bench.cuts == []
    bench.record("s", {"q": 2}, released={"q": 1})
    (cut,) = bench.cuts
    assert sorted(cut.records) == ["q", "s"]
    assert cut.channels == (ChannelCut(Channel("s", "q"), 2, 2, 0),)


def test_open_channels_are_those_of_which_one_record_is_at_hand():
    bench = Bench("p", "q", "r", "s")
    bench.want()
    assert bench.collector.open_channels(K) == ()
    bench.record("p", {"q": 2, "r": 1, "p": 1}, {"s": 3, "p": 1}, released={"p": 1}, arrived={"r": 2})
    assert bench.collector.open_channels(K) == (
        Channel("p", "q"),
        Channel("p", "r"),
        Channel("r", "p"),
        Channel("s", "p"),
    )
    bench.record("q", {"p": 1}, {"p": 2}, environment={"driver:1": 1}, arrived={"driver:1": 1})
    bench.record("r", {"p": 2})
    assert bench.collector.open_channels(K) == (Channel("s", "p"),)
    bench.record("s", {"p": 3})
    assert bench.collector.open_channels(K) == ()
    assert len(bench.cuts) == 1


def test_an_abort_names_the_open_channels():
    bench = Bench("p", "q", "r")
    bench.want()
    bench.record("p", {"q": 2, "r": 1})
    bench.record("q", {"r": 4}, arrived={"p": 2})
    (end,) = bench.tell(AbortWanted(K, AbortReason.TIMEOUT, "after 5 s"))
    assert (end.missing, end.open_channels) == (("r",), (Channel("p", "r"), Channel("q", "r")))


def test_a_death_before_all_have_recorded_aborts_and_names_what_stayed_open():
    bench = Bench("p", "q")
    bench.want()
    bench.record("p", {"q": 2})
    (end,) = bench.tell(ProcessDied("q", "killed"))
    assert (end.reason, end.open_channels) == (AbortReason.ACTOR_DIED, (P_TO_Q,))
    assert bench.record("q") == ()


@pytest.mark.acceptance("O6")
def test_a_stored_cut_says_which_dead_drivers_may_be_forgotten():
    bench = Bench("p", "q")
    bench.want()
    bench.record(
        "p", received={"driver:1": 3, "driver:2": 1}, closed={"driver:1": 3, "driver:2": 2}, arrived={"driver:2": 2}
    )
    bench.record("q", received={"driver:1": 1}, environment={"driver:1": 1})
    (end,) = bench.tell(SnapshotStored(K))
    assert end.past_drivers == {"p": {"driver:1"}}


def test_of_a_program_with_a_name_no_driver_is_forgotten_and_every_cut_has_its_numbers():
    bench, gone = Bench("p", "q"), "driver:1.ingest"
    bench.want()
    bench.record("p", received={gone: 3}, closed={gone: 3})
    bench.record("q")
    (end,) = bench.tell(SnapshotStored(K))
    assert end.past_drivers == {}
    (channel,) = bench.cuts[-1].channels
    assert (channel.channel, channel.sent, channel.received) == (Channel(gone, "p"), 3, 3)


@pytest.mark.acceptance("O6")
@pytest.mark.parametrize(("forgotten", "advances"), [(1, True), (0, False)])
def test_a_cut_without_a_driver_lies_behind_one_with_it_exactly_if_the_driver_was_forgotten(forgotten, advances):
    bench = Bench("p")
    bench.want()
    bench.record("p", received={"driver:1": 3}, closed={"driver:1": 3})
    bench.tell(SnapshotStored(K))
    bench.want()
    bench.record("p", snapshot=SnapshotId(1, "coordinator", 2), forgotten=forgotten)
    assert bench.cuts[-1].advances is advances
