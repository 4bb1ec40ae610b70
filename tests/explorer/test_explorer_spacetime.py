"""Where events stand: in both pictures causes lie left of effects, and straightened all records are one instant."""

import json

import pytest

from rayshot.audit.history import ActorHistory
from rayshot.audit.segment import AtTop, Handled, LoopOver, PassBegan, PassWaited, Recorded, Resumed, Suspended
from rayshot.explorer.data import snapshot_document, storage_document
from rayshot.explorer.spacetime import spacetime
from rayshot.format.entries import ChannelEntry
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.explorer.computations import overlapping, store_all
from tests.snapshots.snapshot_builder import open_bank


def stored(seed=1, **made):
    store = MemoryStore()
    return store_all(overlapping(seed=seed, **made), open_bank(store))


def records(cut):
    return [cut["events"][index] for index, lane in zip(cut["cuts"], cut["lanes"], strict=True) if not lane["driver"]]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("which", [0, 1, 2])
def test_each_message_in_flight_is_an_arrow_and_all_arrows_lead_to_the_right(seed, which):
    snapshot = stored(seed)[which]
    cut = snapshot_document(snapshot)["cut"]
    assert cut["kind"] == "traced"
    crossing = [arrow for arrow in cut["messages"] if arrow["crosses"]]
    assert len(crossing) == cut["crossing"] == snapshot.in_flight > 0
    assert (cut["from_right_to_left"], cut["undrawn"]) == (0, 0)
    for place in ("x", "straight"):
        for arrow in cut["messages"]:
            if arrow["sent_at"] is not None and arrow["handled_at"] is not None:
                assert cut["events"][arrow["sent_at"]][place] < cut["events"][arrow["handled_at"]][place]
    for arrow in crossing:
        assert arrow["sent_at"] is None or cut["events"][arrow["sent_at"]]["side"] < 0
        assert arrow["handled_at"] is None or cut["events"][arrow["handled_at"]]["side"] > 0


@pytest.mark.parametrize("seed", range(8))
def test_straightened_all_records_are_one_instant_and_the_past_lies_left_of_it(seed):
    cut = snapshot_document(stored(seed)[0])["cut"]
    assert len({event["x"] for event in records(cut)}) > 1
    assert {event["straight"] for event in records(cut)} == {0.5}
    for event in cut["events"]:
        assert (event["straight"] > 0.5) - (event["straight"] < 0.5) == event["side"]


def test_events_of_a_row_never_change_their_order():
    cut = snapshot_document(stored()[0])["cut"]
    for lane in range(len(cut["lanes"])):
        row = [event for event in cut["events"] if event["lane"] == lane]
        for place in ("x", "straight"):
            places = [event[place] for event in row]
            assert places == sorted(set(places))


def test_where_no_cause_orders_two_events_clocks_do():
    """Of two actors that have nothing to do with each other one works before the other does, and a driver orders it."""
    orders = [Handled("driver:main", at=float(second)) for second in range(20)]
    histories = {
        "ann": ActorHistory("ann", "", 1, {}, {}, [*orders[:9], Recorded("1-coordinator-1", at=20.0)]),
        "bea": ActorHistory("bea", "", 1, {}, {}, [*orders[10:19], Recorded("1-coordinator-1", at=21.0)]),
    }
    channels = [ChannelEntry("driver:main", name, 9, 9, 9) for name in histories]
    cut = spacetime("1-coordinator-1", histories, channels, ["driver:main", *histories])
    ann, bea = ([event["x"] for event in cut["events"] if event["lane"] == lane] for lane in (1, 2))
    assert ann[-2] < bea[3]
    assert ann[-1] >= bea[-4]
    told = cut["events"][cut["cuts"][0]]
    assert told["x"] >= bea[-4]


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_question_leaves_where_its_handler_waits_and_the_answer_comes_where_it_goes_on(in_flight):
    cut, turn = Recorded("1-coordinator-1"), Handled("bea")
    asks = [Suspended("driver:main", ("bea",)), Resumed("bea", 1), Handled("driver:main")]
    histories = {
        "ann": ActorHistory("ann", "", 1, {}, {}, [*asks, *((cut, turn) if in_flight else (turn, cut))]),
        "bea": ActorHistory("bea", "", 1, {}, {}, [Handled("ann", ("ann",)), cut]),
    }
    channels = [ChannelEntry(*ends, 1, 1, 1) for ends in (("driver:main", "ann"), ("ann", "bea"))]
    channels.append(ChannelEntry("bea", "ann", 1, 1, 0 if in_flight else 1))
    picture = spacetime("1-coordinator-1", histories, channels, ["driver:main", *histories])
    events = picture["events"]
    kinds = {
        (arrow["from"], arrow["to"]): tuple(events[arrow[at]]["kind"] for at in ("sent_at", "handled_at"))
        for arrow in picture["messages"]
    }
    comes = "handled" if in_flight else "answered"
    assert kinds == {(0, 1): ("told", "waited"), (1, 2): ("waited", "handled"), (2, 1): ("handled", comes)}
    for arrow in picture["messages"]:
        assert events[arrow["sent_at"]]["x"] < events[arrow["handled_at"]]["x"]
        assert (events[arrow["handled_at"]]["side"] > 0) == arrow["crosses"]


@pytest.mark.parametrize("in_flight", [False, True])
def test_the_answer_of_a_pass_comes_where_the_pass_begins_and_its_turn_is_behind_the_pass(in_flight):
    cut = Recorded("1-coordinator-1")
    loop = [Handled("driver:main", ("bea",)), AtTop(), PassBegan("bea", 1), PassWaited(), AtTop(("bea",))]
    behind = (cut, AtTop(), Handled("bea")) if in_flight else (Handled("bea"), cut, AtTop())
    histories = {
        "ann": ActorHistory("ann", "", 1, {}, {}, [*loop, *behind, PassBegan(), LoopOver()]),
        "bea": ActorHistory("bea", "", 1, {}, {}, [Handled("ann", ("ann",)), cut]),
    }
    channels = [ChannelEntry("driver:main", "ann", 1, 1, 1), ChannelEntry("ann", "bea", 2, 2, 1)]
    channels.append(ChannelEntry("bea", "ann", 1, 1, 0 if in_flight else 1))
    picture = spacetime("1-coordinator-1", histories, channels, ["driver:main", *histories])
    kinds = [event["kind"] for event in picture["events"] if event["lane"] == 1]
    loops = ["handled", "at top", "pass began", "waited", "at top"]
    behind_pass = ["recorded", "at top", "handled"] if in_flight else ["handled", "recorded", "at top"]
    assert kinds == [*loops, *behind_pass, "pass began", "loop over"]
    (comes,) = (one for one in picture["messages"] if (one["from"], one["to"]) == (2, 1))
    assert picture["events"][comes["handled_at"]]["kind"] == ("handled" if in_flight else "pass began")
    assert comes["crosses"] == in_flight
    assert picture["from_right_to_left"] == 0


def test_an_answer_from_behind_the_cut_leads_back_though_its_turn_comes_later():
    cut = Recorded("1-coordinator-1")
    asks = [Suspended("driver:main", ("bea",)), Resumed("bea", 1), Handled("driver:main")]
    histories = {
        "ann": ActorHistory("ann", "", 1, {}, {}, [*asks, cut, Handled("bea")]),
        "bea": ActorHistory("bea", "", 1, {}, {}, [cut, Handled("ann", ("ann",))]),
    }
    channels = [ChannelEntry(*ends, 1, 1, 0) for ends in (("driver:main", "ann"), ("ann", "bea"), ("bea", "ann"))]
    picture = spacetime("1-coordinator-1", histories, channels, ["driver:main", *histories])
    assert picture["from_right_to_left"] == 1


def test_of_two_cuts_that_overlap_each_is_drawn_in_the_picture_of_the_other():
    first, second, _ = stored()
    assert second.relation(first).name == "incomparable"
    document = snapshot_document(first, before=second)
    assert (document["changes"]["relation"], document["changes"]["rows"]) == ("incomparable", [])
    places = document["cut"]["other_cuts"][str(second.id)]
    ways = {
        (document["cut"]["events"][place]["side"] if isinstance(place, int) else place)
        for place, lane in zip(places, document["cut"]["lanes"], strict=True)
        if not lane["driver"]
    }
    assert ways == {-1, 1}


def test_where_a_trace_tells_of_messages_that_lead_back_they_are_counted():
    made = overlapping()
    events = made.actors["bea"].events  # it is made to record behind what it did later
    events.remove([4, "1-coordinator-1"])
    events.append([4, "1-coordinator-1"])
    repository = open_bank(MemoryStore())
    first, *_ = [made.commit(repository, counter) for counter in (1, 2, 3)]
    cut = snapshot_document(first)["cut"]
    assert cut["kind"] == "traced"
    assert cut["from_right_to_left"] > 0


def test_documents_are_plain_json():
    snapshots = stored()
    store = snapshots[0]._store
    for document in (storage_document(Storage(store).system()), snapshot_document(snapshots[0])):
        assert json.loads(json.dumps(document, allow_nan=False)) == document
