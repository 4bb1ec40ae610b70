import pytest

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import (
    AbortWanted,
    AnnounceEnd,
    CaptureRefused,
    ProcessDied,
    ProcessEnded,
    ProcessJoined,
    ProcessQuiet,
    SendBegin,
    SnapshotAnnounced,
    SnapshotStored,
    SnapshotWanted,
)
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.identity import STOP_THE_WORLD, Channel, SnapshotId, initiator_of
from rayshot.protocol.record import Record
from tests.protocol.bench import Bench

K = SnapshotId(1, "coordinator", 1)
K2 = SnapshotId(1, "coordinator", 2)
OWN = SnapshotId(1, "p", 1)


# Beginning -----------------------------------------------------------------------------------------


def test_everybody_is_told_of_a_snapshot_as_graphs_are_often_not_strongly_connected():
    bench = Bench("p", "q")
    assert bench.want() == (SendBegin("p", K, 1), SendBegin("q", K, 1))


def test_a_process_that_joins_in_mid_snapshot_is_told_too():
    bench = Bench("p")
    bench.want()
    assert bench.tell(ProcessJoined("q")) == (SendBegin("q", K, 1),)


def test_the_floor_is_the_lowest_counter_that_is_still_open():
    bench = Bench("p")
    for _ in range(3):
        bench.want()
    bench.tell(AbortWanted(K, AbortReason.REQUESTED, ""))
    assert bench.ends[-1].floor == 2
    assert bench.want()[0].floor == 2


def test_an_initiator_says_which_of_its_own_snapshots_it_gave_up():
    bench = Bench("p", "q")
    bench.tell(SnapshotAnnounced(OWN, "p", 1))
    second = SnapshotId(1, "p", 2)
    end, *begins = bench.tell(SnapshotAnnounced(second, "p", 2))
    assert (end.snapshot, end.reason) == (OWN, AbortReason.TIMEOUT)
    assert begins == [SendBegin("p", second, 2), SendBegin("q", second, 2)]


@pytest.mark.acceptance("X3")
def test_who_begins_a_snapshot_is_part_of_it_whatever_its_name_is_and_before_it_has_joined():
    bench = Bench("p")
    own = SnapshotId(1, initiator_of("a/b"), 1)
    assert bench.tell(SnapshotAnnounced(own, "a/b", 1)) == (SendBegin("p", own, 1),)
    assert bench.collector.missing(own) == ("a/b", "p")
    end, _ = bench.tell(SnapshotAnnounced(own._replace(counter=2), "a/b", 2))
    assert end.detail == "a/b gave it up"


def test_a_later_snapshot_of_a_process_does_not_end_one_whose_announcement_is_late():
    bench = Bench("p", "q")
    second = SnapshotId(1, "p", 2)
    assert bench.tell(SnapshotAnnounced(second, "p", 1))[0].floor <= 1
    for process in ("p", "q"):
        bench.record(process, snapshot=second)
    bench.tell(SnapshotStored(second))
    assert bench.tell(SnapshotAnnounced(OWN, "p", 1)) == (SendBegin("p", OWN, 1), SendBegin("q", OWN, 1))


def test_only_helpers_are_told_of_a_snapshot_that_spreads_by_its_markers():
    bench = Bench("p", "q", "r")
    assert bench.tell(SnapshotAnnounced(OWN, "p", 1, frozenset({"q"}))) == (SendBegin("q", OWN, 1),)
    assert bench.collector.missing(OWN) == ("p", "q", "r")


def test_a_record_before_the_announcement_of_its_snapshot_waits_for_it():
    bench = Bench("p", "q")
    bench.record("q", {"p": 2}, snapshot=OWN)
    bench.record("p", snapshot=OWN, arrived={"q": 2})
    assert bench.effects == []
    bench.tell(SnapshotAnnounced(OWN, "p", 1))
    (cut,) = bench.cuts
    assert cut.channels == (ChannelCut(Channel("q", "p"), 2, 2, 0),)


def test_a_record_never_stands_for_the_announcement_of_its_snapshot():
    bench = Bench("p", "q")
    for process in ("p", "q"):
        bench.record(process, snapshot=OWN)
    assert bench.effects == []
    assert bench.collector.open_snapshots == ()


def test_nothing_of_another_incarnation_begins_or_ends_anything():
    bench = Bench("p")
    old = SnapshotId(7, "p", 9)
    bench.record("p", snapshot=old)
    assert bench.tell(SnapshotAnnounced(old, "p", 9)) == ()
    bench.tell(CaptureRefused(old, "p", ""))
    assert bench.effects == []


# Completing ----------------------------------------------------------------------------------------


def test_a_snapshot_is_complete_when_all_have_recorded():
    bench = Bench("p", "q")
    bench.want()
    bench.record("p", {"q": 5}, transported={"q": 4}, released={"q": 2})
    assert bench.collector.missing(K) == ("q",)
    assert bench.cuts == []
    bench.record("q", received={"p": 1}, arrived={"p": 3})
    (cut,) = bench.cuts
    assert cut.channels == (ChannelCut(Channel("p", "q"), 5, 3, 1),)
    assert sorted(cut.records) == ["p", "q"]


def test_repeated_news_changes_nothing():
    bench = Bench("p", "q")
    bench.want()
    for _ in range(2):
        bench.record("p", {"q": 2})
    bench.record("q")
    bench.record("q", {"p": 9})
    assert len(bench.cuts) == 1
    assert bench.tell(SnapshotStored(K)) == (AnnounceEnd(K, None, floor=2),)
    assert bench.tell(SnapshotStored(K)) == ()
    assert bench.record("q") == ()


@pytest.mark.parametrize(("sent", "received"), [(1, 2), (0, 1)])
def test_what_was_received_and_not_sent_makes_a_cut_inconsistent(sent, received):
    bench = Bench("p", "q")
    bench.want()
    bench.record("p", {"q": sent} if sent else {})
    bench.record("q", received={"p": received})
    (end,) = bench.ends
    assert end.reason is AbortReason.INCONSISTENT
    assert bench.cuts == []


# Membership ----------------------------------------------------------------------------------------


def test_who_was_sent_something_inside_the_cut_belongs_to_it_even_if_it_joined_late():
    bench = Bench("p")
    bench.want()
    bench.record("p", {"p.1": 2})
    assert bench.cuts == []
    assert bench.collector.missing(K) == ("p.1",)
    bench.tell(ProcessJoined("p.1"))
    bench.record("p.1", born=False)
    (cut,) = bench.cuts
    assert not cut.records["p.1"].born


def test_who_sent_what_was_received_belongs_to_the_cut():
    bench = Bench("p")
    bench.want()
    bench.record("p", received={"s": 1})
    assert bench.collector.missing(K) == ("s",)
    bench.record("s", {"p": 1})
    assert sorted(bench.cuts[0].records) == ["p", "s"]


def test_an_actor_of_which_there_are_only_messages_in_outboxes_is_unborn_and_needs_no_record():
    bench = Bench("p")
    bench.want()
    bench.record("p", {"p.1": 2}, transported={"p.1": 0})
    (cut,) = bench.cuts
    assert cut.unborn == ("p.1",)
    assert cut.channels == (ChannelCut(Channel("p", "p.1"), 2, 0, 0),)


def test_who_joined_late_and_is_born_is_part_of_the_cut_though_nothing_names_it():
    bench = Bench("p")
    bench.want()
    bench.tell(ProcessJoined("d.1"))
    bench.record("d.1", environment={"driver:1": 1}, received={"driver:1": 1})
    bench.record("p")
    assert sorted(bench.cuts[0].records) == ["d.1", "p"]


def test_an_actor_whose_creation_lies_behind_the_cut_is_no_part_of_it():
    bench = Bench("p")
    bench.want()
    bench.tell(ProcessJoined("p.1"))
    bench.record("p.1", born=False)
    bench.record("p")
    assert sorted(bench.cuts[0].records) == ["p"]


def test_an_actor_that_a_driver_created_is_part_of_a_cut_that_holds_its_first_message():
    bench = Bench("p")
    bench.want()
    bench.record("d.1", born=False, environment={"driver:1": 1}, arrived={"driver:1": 1})
    bench.record("p")
    (cut,) = bench.cuts
    assert cut.channels == (ChannelCut(Channel("driver:1", "d.1"), 1, 1, 0),)


# Ends ----------------------------------------------------------------------------------------------


def test_a_process_that_ended_without_having_learned_of_it_lies_before_the_cut():
    bench = Bench("p", "q")
    bench.want()
    bench.record("q", received={"p": 1}, arrived={"p": 3})
    bench.end("p", {"q": 3})
    (cut,) = bench.cuts
    assert (sorted(cut.records), cut.ended) == (["q"], ("p",))
    assert cut.channels == (ChannelCut(Channel("p", "q"), 3, 3, 1),)


def test_messages_of_the_ended_are_recorded_though_nobody_received_any_of_them_and_nobody_names_them():
    bench = Bench("p", "q")
    bench.end("p", {"q": 3})
    bench.want()
    bench.record("q", arrived={"p": 3})
    assert bench.cuts[0].channels == (ChannelCut(Channel("p", "q"), 3, 3, 0),)


def test_what_is_left_for_a_process_that_ended_is_dead_letters_and_no_channel_state():
    bench = Bench("p", "q")
    bench.end("q", received={"p": 1})
    bench.want()
    bench.record("p", {"q": 4})
    assert bench.cuts[0].channels == ()
    assert bench.cuts[0].unborn == ()


def test_a_process_that_ended_cannot_have_received_more_than_was_sent():
    bench = Bench("p", "q")
    bench.want()
    bench.end("q", received={"p": 2})
    assert bench.collector.missing(K) == ("p",), "asking does not raise"
    bench.record("p", {"q": 1})
    assert bench.ends[0].reason is AbortReason.INCONSISTENT


def test_last_records_are_dropped_when_all_receivers_had_heard_of_the_end_and_names_are_kept():
    bench = Bench("p", "q")
    bench.end("p", {"q": 3})
    for counter in (1, 2, 3):
        snapshot = SnapshotId(1, "coordinator", counter)
        bench.want()
        bench.record("q", received={"p": 3}, closed={"p": 3}, snapshot=snapshot)
        bench.tell(SnapshotStored(snapshot))
        assert bench.collector._last_records == {}
        assert bench.cuts[-1].ended == ("p",)
        assert bench.cuts[-1].channels == ()
    assert len(bench.cuts) == 3


def test_a_last_record_stays_while_a_snapshot_with_older_records_is_open():
    bench = Bench("p", "q")
    bench.end("p", {"q": 3})
    bench.want()
    bench.want()
    bench.record("q", snapshot=K2, received={"p": 3}, closed={"p": 3}, overlaps=(K,))
    bench.tell(SnapshotStored(K2))
    bench.record("q", received={"p": 2}, arrived={"p": 3})
    assert bench.cuts[-1].channels == (ChannelCut(Channel("p", "q"), 3, 3, 2),)


def test_a_last_record_stays_while_a_record_speaks_of_a_snapshot_that_is_not_announced_yet():
    bench = Bench("p", "q")
    own = SnapshotId(1, "q", 1)
    bench.end("p", {"q": 3})
    bench.want()
    bench.record("q", received={"p": 3}, closed={"p": 3}, overlaps=(own,))
    bench.tell(SnapshotStored(K))
    bench.tell(SnapshotAnnounced(own, "q", 1))
    bench.record("q", snapshot=own)
    assert bench.ends[-1].reason is AbortReason.INCONSISTENT, "three messages of p that it should hold are missing"


def test_a_last_record_that_stayed_fixes_the_channel_of_an_older_record():
    bench = Bench("p", "q")
    own = SnapshotId(1, "q", 1)
    bench.end("p", {"q": 3})
    bench.want()
    bench.record("q", received={"p": 3}, closed={"p": 3}, overlaps=(own,))
    bench.tell(SnapshotStored(K))
    bench.tell(SnapshotAnnounced(own, "q", 1))
    bench.record("q", snapshot=own, arrived={"p": 3})
    assert bench.cuts[-1].channels == (ChannelCut(Channel("p", "q"), 3, 3, 0),)


def test_the_receiver_fixes_the_number_when_the_last_record_is_gone():
    bench = Bench("q", ended={"p"})
    bench.want()
    bench.record("q", received={"p": 1}, closed={"p": 3}, arrived={"p": 3})
    assert bench.cuts[0].channels == (ChannelCut(Channel("p", "q"), 3, 3, 1),)


def test_a_last_record_does_not_stand_in_where_the_process_gave_up():
    bench = Bench("p", "q")
    bench.want()
    (end,) = bench.end("p", {"q": 1}, unfinished=(K,))
    assert (end.snapshot, end.reason) == (K, AbortReason.TIMEOUT)


def test_an_ended_name_never_joins_again():
    bench = Bench("p", "q")
    bench.end("q")
    assert bench.tell(ProcessJoined("q")) == ()
    assert bench.collector.processes == {"p"}


# Aborts and storing --------------------------------------------------------------------------------


def test_an_abort_names_who_did_not_answer_and_what_stayed_open():
    bench = Bench("p", "q", "r")
    bench.want()
    bench.record("p", {"q": 2, "r": 1})
    bench.record("q", {"p": 4})
    (end,) = bench.tell(AbortWanted(K, AbortReason.TIMEOUT, "after 5 s"))
    assert (end.missing, end.open_channels) == (("r",), (Channel("p", "r"),))
    assert bench.record("r") == ()


def test_a_death_aborts_all_that_is_not_being_stored():
    bench = Bench("p")
    bench.want()
    bench.record("p")
    bench.want()
    (end,) = bench.tell(ProcessDied("p", "killed"))
    assert (end.snapshot, end.reason) == (K2, AbortReason.ACTOR_DIED)
    assert bench.tell(SnapshotStored(K))[0] == AnnounceEnd(K, None, floor=3)


@pytest.mark.parametrize(
    "late",
    [
        AbortWanted(K, AbortReason.REQUESTED, ""),
        AbortWanted(K, AbortReason.TIMEOUT, ""),
        CaptureRefused(K, "late", ""),
        ProcessEnded(Record(SnapshotId(1, "late", 0), "late", ended=True), (K,)),
    ],
)
def test_what_is_being_stored_may_be_durable_already_and_is_not_aborted_from_outside(late):
    bench = Bench("p")
    bench.want()
    bench.record("p")
    assert bench.tell(late) == ()
    assert bench.tell(SnapshotStored(K)) == (AnnounceEnd(K, None, floor=2),)


def test_when_the_store_refuses_one_the_next_that_is_complete_is_stored():
    bench = Bench("p")
    for snapshot in (K, K2):
        bench.want()
        bench.record("p", snapshot=snapshot)
    end, store = bench.tell(AbortWanted(K, AbortReason.STORE_UNAVAILABLE, "full"))
    assert (end.snapshot, store.cut.snapshot) == (K, K2)


@pytest.mark.parametrize("event", [SnapshotStored(K), AbortWanted(K, AbortReason.REQUESTED, "")])
def test_what_is_not_being_stored_is_not_committed_and_what_is_not_open_is_not_aborted(event):
    bench = Bench("p", "q")
    assert bench.tell(event) == ()
    bench.want()
    assert bench.tell(SnapshotStored(K)) == ()
    assert bench.collector.open_snapshots == (K,)


@pytest.mark.parametrize("verdict", [AbortReason.STORE_UNAVAILABLE, AbortReason.FENCED, AbortReason.DEFECT])
def test_the_verdict_of_the_store_ends_it(verdict):
    bench = Bench("p")
    bench.want()
    bench.record("p")
    (end,) = bench.tell(AbortWanted(K, verdict, "full"))
    assert end.reason is verdict


def test_a_refused_capture_aborts_also_what_is_not_announced_yet():
    bench = Bench("p", "q")
    (end,) = bench.tell(CaptureRefused(OWN, "q", "a lock"))
    assert (end.snapshot, end.reason) == (OWN, AbortReason.CAPTURE_FAILED)
    assert bench.tell(SnapshotAnnounced(OWN, "p", 1)) == ()


def test_complete_snapshots_are_stored_one_after_the_other():
    bench = Bench("p")
    bench.want()
    bench.want()
    bench.record("p", snapshot=K)
    assert bench.record("p", snapshot=K2) == ()
    end, store = bench.tell(SnapshotStored(K))
    assert (end.snapshot, store.cut.snapshot) == (K, K2)


# Successors ----------------------------------------------------------------------------------------


def test_a_successor_begins_above_the_floor_and_ignores_what_is_below():
    bench = Bench("p", floor=4)
    assert bench.record("p", snapshot=SnapshotId(1, "coordinator", 4)) == ()
    assert bench.want() == (SendBegin("p", SnapshotId(1, "coordinator", 5), 5),)


def test_a_successor_ends_what_the_living_had_open_and_tells_once():
    bench = Bench(floor=1, stored=(OWN,))
    effects = bench.tell(ProcessJoined("p", (K, OWN)))
    assert [(end.snapshot, end.reason) for end in effects] == [(K, AbortReason.COORDINATOR_LOST), (OWN, None)]
    assert bench.tell(ProcessJoined("q", (K, OWN))) == ()
    assert bench.tell(SnapshotAnnounced(OWN, "p", 1)) == ()


def test_a_record_that_a_late_marker_brought_about_revives_nothing():
    bench = Bench("p", "q", floor=1)
    bench.record("q", snapshot=OWN)
    bench.end("p")
    assert bench.effects == []
    assert bench.collector.open_snapshots == ()


def test_a_coordinator_that_was_only_thought_dead_takes_no_counter_away():
    bench = Bench("p")
    assert bench.record("p", snapshot=SnapshotId(1, "coordinator", 6)) == ()
    assert bench.want()[0].snapshot == SnapshotId(1, "coordinator", 7)


def test_a_counter_that_the_lost_coordinator_used_is_not_used_again():
    bench = Bench()
    bench.tell(ProcessJoined("p", (SnapshotId(1, "coordinator", 3),)))
    assert bench.want()[0].snapshot == SnapshotId(1, "coordinator", 4)
    bench = Bench("p", stored=(SnapshotId(1, "coordinator", 3),))
    assert bench.want()[0].snapshot == SnapshotId(1, "coordinator", 4)


STOPPED = SnapshotId(1, "stopped", 1)


def test_a_stopped_world_records_when_the_last_one_is_quiet():
    bench = Bench("p", "q")
    assert bench.tell(SnapshotWanted(STOP_THE_WORLD)) == (SendBegin("p", STOPPED, 1), SendBegin("q", STOPPED, 1))
    assert bench.tell(ProcessQuiet(STOPPED, "q")) == ()
    assert bench.tell(ProcessQuiet(STOPPED, "q")) == ()
    everybody = (SendBegin("p", STOPPED, 1, quiet=True), SendBegin("q", STOPPED, 1, quiet=True))
    assert bench.tell(ProcessQuiet(STOPPED, "p")) == everybody
    assert bench.tell(ProcessJoined("r")) == (SendBegin("r", STOPPED, 1, quiet=True),)


def test_who_joins_a_world_that_is_stopping_is_stopped_and_not_waited_for():
    bench = Bench("p")
    bench.tell(SnapshotWanted(STOP_THE_WORLD))
    assert bench.tell(ProcessJoined("q")) == (SendBegin("q", STOPPED, 1),)
    assert len(bench.tell(ProcessQuiet(STOPPED, "p"))) == 2


def test_who_ended_is_as_quiet_as_can_be():
    bench = Bench("p", "q")
    bench.tell(SnapshotWanted(STOP_THE_WORLD))
    bench.tell(ProcessQuiet(STOPPED, "p"))
    last = Record(SnapshotId(1, "q", 0), "q", ended=True)
    assert SendBegin("p", STOPPED, 1, quiet=True) in bench.tell(ProcessEnded(last))
