"""Vector clocks and Theorem 1 on small computations written by hand."""

import json
import re
import tracemalloc
from types import SimpleNamespace

import pytest

from rayshot.audit.computation import Computation, describe
from rayshot.audit.document import ListedActor, StoredChannel
from rayshot.audit.findings import NoTrace, Unproved
from rayshot.audit.history import forget_strangers, from_common_cut, join
from rayshot.audit.proof import trace_of
from rayshot.audit.segment import (
    AtTop,
    Fired,
    Handled,
    LoopOver,
    PassBegan,
    PassWaited,
    Recorded,
    Resumed,
    Segment,
    Sent,
    Suspended,
)
from rayshot.cli.trace import PARSER, _host, shiviz
from rayshot.protocol.identity import SnapshotId
from tests.protocol.test_protocol_identity import NAMES

CUT = "1-coordinator-1"


def segment(actor, *events, base="", first=1, sent=None, received=None):
    return Segment(actor, False, base, first, sent or {}, received or {}, events)


def document(channels=(), *, actors=("p", "q"), ended=()):
    return SimpleNamespace(
        snapshot=CUT,
        actors={name: ListedActor(name, born=True, deterministic=False) for name in actors},
        ended=frozenset(ended),
        channels=tuple(StoredChannel(s, r, n, n, m, None, None, False) for s, r, n, m in channels),
    )


def computation(*segments, actors=("p", "q")):
    histories = join(segments)
    from_common_cut(histories, CUT, actors, {})
    return Computation(histories)


def kick(*receivers):
    """A message of a driver, on which these were sent."""
    return Handled("driver:d", receivers)


def test_a_consistent_cut_with_a_message_in_flight_is_proved():
    made = computation(
        segment("p", kick("q", "q"), Recorded(CUT), kick("q")),
        segment("q", Handled("p"), Recorded(CUT), Handled("p"), Handled("p", ("p",))),
    )
    cut = document([("p", "q", 2, 1)])
    assert "2 pairs" in made.check_clocks(cut)
    assert "4 events before the recording and 3 after it" in made.check_theorem_1(cut)


def test_an_effect_without_its_cause_is_found_by_the_clocks_and_by_the_execution():
    made = computation(
        segment("p", Recorded(CUT), kick("q")),
        segment("q", Handled("p"), Recorded(CUT)),
    )
    with pytest.raises(Unproved, match="q had recorded knowing of event 2 of p, which had recorded after 1"):
        made.check_clocks(document())
    with pytest.raises(Unproved, match="q would handle message 1 of p, which was sent behind its recording"):
        made.check_theorem_1(document())


def test_knowledge_that_came_by_way_of_a_third_actor_counts():
    made = computation(
        segment("p", Recorded(CUT), kick("r")),
        segment("r", Recorded(CUT), Handled("p", ("q",))),
        segment("q", Handled("r"), Recorded(CUT)),
        actors=("p", "q", "r"),
    )
    with pytest.raises(Unproved, match="q had recorded knowing of event 2 of p"):
        made.check_clocks(document(actors=("p", "q", "r")))


@pytest.mark.parametrize("counters", [(2, 0), (1, 1), (0, 0)])
def test_counters_of_the_snapshot_that_the_events_do_not_lead_to_are_found(counters):
    made = computation(segment("p", kick("q"), Recorded(CUT)), segment("q", Recorded(CUT), Handled("p")))
    with pytest.raises(Unproved, match="the snapshot"):
        made.check_theorem_1(document([("p", "q", *counters)]))
    with pytest.raises(Unproved, match="not in the snapshot"):
        made.check_theorem_1(document())


def test_a_message_that_was_handled_and_never_sent_is_found():
    made = computation(segment("p", Recorded(CUT)), segment("q", Handled("p"), Recorded(CUT)))
    with pytest.raises(Unproved, match="never sent"):
        made.check_theorem_1(document())


def asks(*behind):
    """Actor p handles a kick: it asks q, which tells it something before, and waits for the answer."""
    return (
        segment("p", Suspended("driver:d", ("q",)), Resumed("q", 2), Handled("driver:d", ("q",)), *behind),
        segment("q", Handled("p", ("p", "p")), Recorded(CUT), Handled("p")),
    )


def test_a_handler_that_waits_gets_its_answer_before_the_turn_of_the_answer():
    made = computation(*asks(Recorded(CUT), Handled("q"), Handled("q")))
    made.check_clocks(document())
    made.check_theorem_1(document([("p", "q", 2, 1), ("q", "p", 2, 0)]))
    clocks = {(step.actor, step.place): step.clock for step in made.steps()}
    assert clocks["p", 0] == (1, 0)
    assert clocks["p", 1] == (2, 1)  # it knows that q has handled its question
    assert clocks["q", 0] == (1, 1)
    assert list(map(describe, made.histories["p"].events[:3])) == [
        "waited in its handler of a message of driver:d, sent 1 to q",
        "got answer 2 of q",
        "handled a message of driver:d, sent 1 to q",
    ]


def test_an_answer_from_behind_the_cut_is_found_though_its_turn_is_behind_the_cut_too():
    made = computation(
        segment("p", Suspended("driver:d", ("q",)), Resumed("q", 1), Handled("driver:d"), Recorded(CUT), Handled("q")),
        segment("q", Recorded(CUT), Handled("p", ("p",))),
    )
    with pytest.raises(Unproved, match="p had recorded knowing of event 2 of q"):
        made.check_clocks(document())
    with pytest.raises(Unproved, match="p would get message 1 of q, which was sent behind its recording"):
        made.check_theorem_1(document([("p", "q", 1, 0)]))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((Suspended("driver:d"), Handled("driver:e")), "handled a message of driver:e while its handler of a message"),
        ((Suspended("driver:d"), Recorded("2-other")), "recorded 2-other while its handler of a message of driver:d"),
        ((Suspended("driver:d"), Fired()), "a timer fired while its handler of a message of driver:d waited"),
        ((Resumed("q", 1),), "p got answer 1 of q while no handler of its waited"),
        ((Handled("q"), Suspended("driver:d"), Resumed("q", 1)), "p got answer 1 of q while its handler"),
    ],
)
def test_an_order_of_waiting_that_cannot_be_is_found(events, said):
    with pytest.raises(Unproved, match=said):
        computation(segment("p", *events, Recorded(CUT)), segment("q", Handled("driver:d", ("p",)), Recorded(CUT)))


def loops(*behind):
    """Actor p handles a kick and loops: in its first pass it asks q once more."""
    top = Handled("driver:d", ("q",)), AtTop()
    a_pass = PassBegan("q", 2), PassWaited(("q",)), Resumed("q", 3), AtTop(("q",))
    return (
        segment("p", *top, *a_pass, *behind),
        segment("q", Handled("p", ("p", "p")), Handled("p", ("p",)), Recorded(CUT), Handled("p")),
    )


def test_a_pass_is_a_part_of_the_computation_and_its_answer_counts_as_handled_behind_it():
    made = computation(
        *loops(Handled("q"), Handled("q"), Handled("q"), Recorded(CUT), AtTop(), PassBegan(), LoopOver())
    )
    made.check_clocks(document())
    made.check_theorem_1(document([("p", "q", 3, 2), ("q", "p", 3, 3)]))
    clocks = {(step.actor, step.place): step.clock for step in made.steps()}
    assert clocks["p", 2] == (3, 1)  # it knows that q has handled its question
    assert list(map(describe, made.histories["p"].events[1:6])) == [
        "came to the top of a pass of its loop",
        "began a pass of its loop with answer 2 of q",
        "waited in a pass of its loop, sent 1 to q",
        "got answer 3 of q",
        "came to the top of a pass of its loop, sent 1 to q",
    ]
    assert list(map(describe, made.histories["p"].events[-2:])) == ["began a pass of its loop", "ended its loop"]


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        ((PassBegan("q", 2),), "began a pass of its loop with answer 2 of q while a method of its was at the top"),
        ((Handled("q"), Handled("q"), PassBegan("q", 2)), "began a pass of its loop with answer 2 of q while"),
        ((PassBegan(), PassBegan()), "began a pass of its loop while a method of its was in a pass of its loop"),
        ((PassBegan(), Recorded("2-other")), "recorded 2-other while a method of its was in a pass of its loop"),
        ((PassBegan(), Handled("q")), "handled a message of q while a method of its was in a pass of its loop"),
        ((PassWaited(),), "waited in a pass of its loop while a method of its was at the top of a pass"),
        ((Handled("q", ("q",)),), "handled a message of q, sent 1 to q while a method of its was at the top"),
        ((Suspended("driver:d"),), "waited in its handler of a message of driver:d while a method of its was at"),
        ((LoopOver(), PassBegan()), "began a pass of its loop while no handler of its waited"),
        ((LoopOver(), LoopOver()), "ended its loop while no handler of its waited"),
    ],
)
def test_an_order_of_passes_that_cannot_be_is_found(behind, said):
    with pytest.raises(Unproved, match=said):
        computation(*loops(*behind, Recorded(CUT)))


def test_a_pass_with_an_answer_from_behind_the_cut_is_found():
    made = computation(
        segment("p", Handled("driver:d", ("q",)), AtTop(), PassBegan("q", 1), AtTop(), Recorded(CUT)),
        segment("q", Recorded(CUT), Handled("p", ("p",))),
    )
    with pytest.raises(Unproved, match="p had recorded knowing of event 2 of q"):
        made.check_clocks(document())
    with pytest.raises(Unproved, match="p would get message 1 of q, which was sent behind its recording"):
        made.check_theorem_1(document([("p", "q", 1, 0)]))


def test_an_answer_of_an_actor_without_a_trace_may_be_no_later_than_what_it_had_sent():
    made = computation(
        segment("p", Suspended("driver:d"), Resumed("q", 3), Handled("driver:d"), Recorded(CUT)), actors=("p",)
    )
    made.check_theorem_1(document([("q", "p", 3, 0)], actors=("p",)))
    with pytest.raises(Unproved, match="q -> p: message 3 was an answer that came before the recording"):
        made.check_theorem_1(document([("q", "p", 2, 0)], actors=("p",)))


def test_what_a_task_sends_while_another_one_waits_may_bring_the_answer():
    asks = (Suspended("driver:d", ("q",)), Suspended("driver:d", ("q",)), Resumed("q", 1), Handled("driver:d"))
    made = computation(
        segment("p", *asks, Recorded(CUT)), segment("q", Handled("p"), Handled("p", ("p",)), Recorded(CUT))
    )
    made.check_clocks(document())
    made.check_theorem_1(document([("p", "q", 2, 2), ("q", "p", 1, 0)]))


def test_an_answer_that_was_never_sent_is_found():
    made = computation(
        segment("p", Suspended("driver:d"), Resumed("q", 1), Handled("driver:d"), Recorded(CUT)),
        segment("q", Recorded(CUT)),
    )
    with pytest.raises(Unproved, match="never sent"):
        made.check_theorem_1(document())


def test_a_timer_is_a_message_to_oneself():
    made = computation(segment("p", Fired(), Recorded(CUT), Handled("p")), segment("q", Recorded(CUT)))
    made.check_theorem_1(document([("p", "p", 1, 0)]))


@pytest.mark.acceptance("X13")
def test_what_a_thread_sent_before_its_actor_recorded_is_in_flight_and_what_it_sent_later_is_behind_the_cut():
    made = computation(
        segment("p", Sent(("q", "q")), Recorded(CUT), Sent(("q",))),
        segment("q", Handled("p"), Recorded(CUT), Handled("p"), Handled("p")),
    )
    made.check_clocks(document())
    made.check_theorem_1(document([("p", "q", 2, 1)]))
    orphan = computation(segment("p", Recorded(CUT), Sent(("q",))), segment("q", Handled("p"), Recorded(CUT)))
    with pytest.raises(Unproved, match="q would handle message 1 of p, which was sent behind its recording"):
        orphan.check_theorem_1(document())
    assert next(shiviz(made)).endswith("sent 2 to q beside its handlers")


def test_an_actor_in_the_snapshot_that_never_recorded_is_found():
    made = Computation(join([segment("p", Recorded(CUT)), segment("q", kick())]))
    with pytest.raises(Unproved, match="q is in the snapshot, but its trace knows of no recording"):
        made.check_clocks(document())


def test_segments_join_and_start_at_the_latest_cut_that_all_have_in_common():
    earlier = "1-coordinator-0"
    first = segment("p", kick("q"), Recorded(earlier), kick("q"))
    second = segment("p", kick("q"), Recorded(CUT), base=earlier, first=3, sent={"q": 1}, received={"driver:d": 1})
    late = segment("q", Handled("p"), Recorded(CUT), base=earlier, first=9, received={"driver:d": 8})
    histories = join([second, first, late])
    assert [type(event) for event in histories["p"].events] == [Handled, Recorded, Handled, Recorded]
    assert from_common_cut(histories, CUT, ("p", "q"), {}) == earlier
    assert (histories["p"].first, histories["p"].sent) == (3, {"q": 1})
    Computation(histories).check_theorem_1(document([("p", "q", 2, 1)]))


def test_two_stories_of_the_same_events_are_found():
    with pytest.raises(Unproved, match="differ in its events from 1 on"):
        join([segment("p", kick("q"), kick()), segment("p", kick(), kick())])


def test_without_a_common_cut_there_is_nothing_to_judge_by():
    lost = [
        segment("p", Recorded(CUT), base="1-coordinator-7", sent={"q": 1}),
        segment("q", Recorded(CUT), base="1-coordinator-8", received={"p": 1}),
    ]
    with pytest.raises(NoTrace, match="start at different cuts"):
        from_common_cut(join(lost), CUT, ("p", "q"), {})
    with pytest.raises(NoTrace, match="there is no trace of q"):
        from_common_cut(join([segment("p", Recorded(CUT))]), CUT, ("p", "q"), {})


def recorded_in_order(actor, order, bases):
    """The segments of an actor that recorded snapshots in this order, and began each at its base, by snapshot."""
    found = {}
    for place, snapshot in enumerate(order):
        base = bases.get(snapshot, "")
        start = order.index(base) + 1 if base else 0
        events = [Recorded(one) for one in order[start : place + 1]]
        before = {"driver:d": 1} if base else {}
        found[snapshot] = segment(actor, *events, base=base, first=start + 1, received=before)
    return found


def test_where_the_nearest_snapshots_have_no_cut_in_common_further_ones_are_read(monkeypatch):
    *names, target = [f"1-coordinator-{number}" for number in range(1, 10)]
    one, two, three, four, five, six, seven, eight = names
    p = recorded_in_order("p", [five, *names[:4], *names[5:], target], dict.fromkeys((six, seven, eight, target), four))
    q = recorded_in_order("q", [six, seven, eight, four, one, two, three, five, target], {five: three, target: three})
    documents = {
        name: SimpleNamespace(
            snapshot=name,
            actors={actor: ListedActor(actor, born=True, deterministic=False) for actor in "pq"},
            traces=[p[name], q[name]],
            ended=frozenset(),
        )
        for name in (*names, target)
    }
    monkeypatch.setattr("rayshot.audit.proof._document_of", lambda snapshot: documents[str(snapshot.id)])
    monkeypatch.setattr("rayshot.audit.proof._segments", lambda document: list(document.traces))
    snapshots = [
        SimpleNamespace(id=SnapshotId.parse(name), record=SimpleNamespace(sealed_for=position))
        for position, name in enumerate(documents)
    ]
    with pytest.raises(NoTrace, match="start at different cuts"):
        trace_of(snapshots[-1], snapshots[4:-1])
    assert trace_of(snapshots[-1], snapshots[:-1]).base == ""


def test_one_who_recorded_before_it_came_into_being_is_no_obstacle():
    histories = join(
        [
            segment("p", kick("r"), Recorded(CUT), kick()),
            segment("r", Handled("p"), base=CUT, first=2),
        ]
    )
    assert from_common_cut(histories, CUT, ("p", "r"), {}) == ""
    made = Computation(histories)
    made.check_theorem_1(document([("p", "r", 1, 0)], actors=("p",)))


def test_the_proof_keeps_the_clocks_of_messages_under_way_and_no_others():
    names = [f"p{number:02}" for number in range(64)]
    rounds = 100
    ring = []
    for number, name in enumerate(names):
        to, sender = names[(number + 1) % 64], names[number - 1]
        first = kick(to) if number == 0 else Handled(sender, (to,))
        rest = [Handled(sender, (to,)) for _ in range(rounds)]
        ring.append(segment(name, Recorded(CUT), first, *rest))
    histories = join(ring)
    tracemalloc.start()
    made = Computation(histories)
    made.check_clocks(document(actors=names))
    made.check_theorem_1(document(actors=names))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made) == 64 * (rounds + 2)
    assert peak < 500_000  # a clock for each event: above 3.5 MB


def test_a_gap_in_the_trace_leaves_the_part_that_is_judged():
    target = segment("p", kick("q"), Recorded(CUT))
    later = segment("p", kick("q"), Recorded("1-coordinator-9"), base="1-coordinator-8", first=50, sent={"q": 9})
    histories = join([later, target], CUT)
    assert histories["p"].events == [kick("q"), Recorded(CUT)]


def test_no_cut_behind_the_one_that_is_judged_serves_as_a_beginning():
    later = "1-aligned-6"
    histories = join(
        [
            segment("p", kick("n"), Recorded(CUT), Recorded(later), base="1-coordinator-0", sent={"x": 1}),
            segment("n", Recorded(later), Handled("p")),
        ]
    )
    assert from_common_cut(histories, CUT, ("p",), {}) == "1-coordinator-0"


def test_who_is_said_to_have_ended_unborn_or_nobody_must_be_so():
    made = computation(
        segment("p", kick("q"), Recorded(CUT)),
        segment("q", Handled("p"), Recorded(CUT)),
        segment("r", kick("q"), Recorded(CUT)),
        actors=("p", "q", "r"),
    )
    cut = document([("p", "q", 1, 1), ("r", "q", 1, 0)], actors=("p", "q", "r"))
    made.check_theorem_1(cut)
    with pytest.raises(Unproved, match="said to have ended"):
        made.check_theorem_1(document([("r", "q", 1, 0)], actors=("q", "r"), ended=("p",)))
    cut.actors["q"] = ListedActor("q", born=False, deterministic=False)
    with pytest.raises(Unproved, match="said not to be born"):
        made.check_theorem_1(cut)
    with pytest.raises(Unproved, match="which the snapshot does not know"):
        made.check_theorem_1(document([("r", "q", 1, 0)], actors=("q", "r")))
    with pytest.raises(Unproved, match="not in the snapshot"):
        made.check_theorem_1(document([("r", "q", 1, 0)], actors=("p", "q", "r")))


def test_one_who_ended_before_the_common_cut_is_no_obstacle():
    earlier = "1-coordinator-0"
    gone = segment("e", kick("q"))
    histories = join(
        [
            gone,
            segment("p", Recorded(CUT), base=earlier, first=5),
            segment("q", Handled("e"), Recorded(CUT), base=earlier, first=7),
        ]
    )
    assert from_common_cut(histories, CUT, ("p", "q"), {earlier: {"e"}}) == earlier
    Computation(histories).check_theorem_1(document(ended=("e",)))


@pytest.mark.acceptance("X3")
def test_shiviz_tells_actors_of_any_name_apart():
    pattern = re.compile(PARSER.replace("(?<", "(?P<"))
    hosts = {_host(name) for name in NAMES}
    assert len(hosts) == len(NAMES)
    assert {"worker:0", "a/b", "%7Bn!r%7D", "a%20b", "%252F"} < hosts
    for host in hosts:
        line = pattern.fullmatch(f"{host} {json.dumps({host: 1})} ended")
        assert (line["host"], json.loads(line["clock"]), line["event"]) == (host, {host: 1}, "ended")


def test_every_line_for_shiviz_parses_and_every_clock_steps_by_one():
    made = computation(
        segment("p", kick("q", "q"), Recorded(CUT)),
        segment("q", Handled("p", ("p",)), Recorded(CUT), Handled("p")),
    )
    pattern = re.compile(PARSER.replace("(?<", "(?P<"))
    lines = [pattern.fullmatch(line) for line in shiviz(made)]
    assert [line["event"] for line in lines if line["host"] == "q"] == [
        "handled a message of p, sent 1 to p",
        f"recorded {CUT}",
        "handled a message of p",
    ]
    assert [line["clock"] for line in lines if line["host"] == "q"] == [
        '{"p": 1, "q": 1}',
        '{"p": 1, "q": 2}',
        '{"p": 1, "q": 3}',
    ]


def test_a_later_stretch_of_an_actor_that_came_behind_the_target_says_nothing_of_it():
    """Where a system is traced now and then; one that others got messages of has lost its beginning, and is missed."""
    known = segment("p", kick(), Recorded(CUT))
    later = segment(
        "q", Handled("driver:d"), Recorded("1-coordinator-9"), base="1-coordinator-8", received={"driver:d": 3}
    )
    histories = join([known, later])
    forget_strangers(histories, ["p"])
    assert list(histories) == ["p"]
    for event, left in ((kick("q"), ["p"]), (Handled("q"), ["p", "q"])):
        histories = join([segment("p", kick(), Recorded(CUT), event), later])
        forget_strangers(histories, ["p"])
        assert sorted(histories) == left
    chain = join([segment("r", Handled("q"), base="1-coordinator-8"), segment("p", kick(), Handled("r")), later])
    forget_strangers(chain, ["p"])
    assert sorted(chain) == ["p", "q", "r"]
    ended = join([known, later])
    forget_strangers(ended, ["p", "q"])
    assert sorted(ended) == ["p", "q"]
