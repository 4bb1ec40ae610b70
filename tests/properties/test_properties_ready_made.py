"""Each ready-made property: where it holds, where not, and where the naive answer is wrong."""

from collections import deque

import msgpack
import numpy as np
import pytest

from rayshot.model.handle import ActorHandle
from rayshot.properties import (
    conserved_sum,
    counter_reached,
    deadlock,
    detect,
    judge,
    lost_reply,
    quantity,
    termination,
    token_census,
    unreferenced,
    wait_graph,
)
from rayshot.properties.global_state import GlobalState
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.snapshot import Snapshot
from tests.processes import ROOT
from tests.properties.builders import Actor, History, Line, call, holds, reply, snapshot_of, station, tell

AB, BA, DRIVER = ("alice", "bob"), ("bob", "alice"), ("driver:main", "alice")
TWO = {"alice": Actor(), "bob": Actor()}


# Termination -----------------------------------------------------------------------------------------------------


def test_it_is_over_where_nothing_can_happen():
    verdict = judge(termination(), snapshot_of(TWO, {AB: Line(3), DRIVER: Line(2)}))
    assert verdict.holds is True
    assert verdict.told == {"driver:main": 2}
    assert "no driver speaks from before the snapshot began" in verdict.meaning


def test_it_is_not_over_while_a_message_is_in_flight():
    assert holds(termination(), TWO, {AB: Line(3, [tell("go")])}) is False


def test_it_is_not_over_though_nothing_is_in_flight():
    timer = Actor(timers=[(5.0, "go_on", ())])
    awaits = Actor(calls={1: ("got", None, ())}, callees={1: "bob"})
    assert holds(termination(), {"alice": timer}) is False, "a timer is set"
    assert holds(termination(), {"alice": awaits, "bob": Actor()}) is False, "a reply is awaited"
    found = judge(termination(), snapshot_of({"alice": timer}))
    assert found.why == "alice has set a timer for go_on"


def test_it_is_over_only_when_the_sources_have_ended():
    asked = termination({"feed": "at_end"})
    assert holds(asked, {"feed": Actor({"at_end": False})}) is False
    assert holds(asked, {"feed": Actor({"at_end": True})}) is True
    assert holds(asked, {"alice": Actor()}, ended=("feed",)) is True
    assert holds(asked, {"alice": Actor()}) is None, "there is no such source"


def test_what_this_program_told_and_is_not_inside_is_in_flight():
    snapshot = snapshot_of(TWO)
    behind = Snapshot(snapshot._store, snapshot.system, snapshot.record, left_out={"bob": 2, "alice": 0})
    assert judge(termination(), snapshot).holds is True
    assert judge(termination(), behind).why == "messages told before and not inside the snapshot: 2"


def test_it_was_over_until_a_driver_spoke():
    history = History()
    over = history.snapshot(TWO, {DRIVER: Line(1)})
    goes_on = history.snapshot(TWO, {DRIVER: Line(2), AB: Line(1, [tell("go")])})
    found = detect(history.system, termination())
    assert [one.holds for one in found.verdicts] == [True, False]
    assert (found.holds, found.contradictions) == (False, []), "it was stable, and the doors were not closed"
    assert judge(termination(), over).says_of(goes_on) is None


def test_it_was_over_until_a_driver_spoke_that_nobody_saw():
    """It came, spoke and went between two snapshots. Whatever moves proves that somebody spoke."""
    history = History()
    over = history.snapshot(TWO, {AB: Line(2)})
    still_over = history.snapshot(TWO, {AB: Line(2)})
    goes_on = history.snapshot(TWO, {AB: Line(3, [tell("go")])})
    yes, no = judge(termination(), over), judge(termination(), goes_on)
    assert (yes.holds, no.holds) == (True, False)
    assert [yes.says_of(one) for one in (over, still_over, goes_on)] == [True, True, None]
    assert [no.says_of(one) for one in (over, still_over, goes_on)] == [None, None, False]
    found = detect([over, still_over], termination())
    assert (found.holds, found.decisive.snapshot) == (True, over.id)
    found = detect(history.system, termination())
    assert (found.holds, found.decisive, found.contradictions) == (False, None, [])
    again = history.snapshot(TWO, {AB: Line(3)})
    found = detect(history.system, termination())
    assert (found.holds, found.decisive.snapshot) == (True, again.id), "the first yes was out of date"


# Lost reply ------------------------------------------------------------------------------------------------------

AWAITS = Actor(calls={7: ("got", None, ())}, callees={7: "bob"})


def test_a_reply_is_lost_where_the_callee_ended_before_it_took_the_call():
    verdict = judge(lost_reply(), snapshot_of({"alice": AWAITS}, ended=("bob",)))
    assert verdict.holds is True
    assert verdict.evidence["lost"] == [{"caller": "alice", "callee": "bob", "call_id": 7}]


def test_a_lost_reply_is_lost_until_its_caller_ends_and_the_verdict_says_so():
    assert "as long as no actor ends while it awaits" in judge(lost_reply(), snapshot_of({"alice": AWAITS})).meaning


def test_no_reply_is_lost_while_the_request_or_the_reply_is_in_flight():
    actors = {"alice": AWAITS, "bob": Actor()}
    assert holds(lost_reply(), actors, {AB: Line(1, [call(7, "ask")])}) is False
    assert holds(lost_reply(), actors, {AB: Line(1), BA: Line(1, [reply(7, 3)])}) is False
    assert holds(lost_reply(), {"alice": AWAITS}, {BA: Line(1, [reply(7, 3)])}, ("bob",)) is False, "it replied first"


def test_no_reply_is_lost_that_its_callee_owes():
    owes = {"alice": AWAITS, "bob": Actor(owed={("alice", 7): 1})}
    assert holds(lost_reply(), owes, {AB: Line(1)}) is False
    others = {("alice", 8): 1, ("carol", 7): 1}
    assert holds(lost_reply(), {"alice": AWAITS, "bob": Actor(owed=others)}, {AB: Line(1)}) is True


def test_a_message_between_the_two_that_is_of_another_call_brings_no_reply():
    lines = {AB: Line(2, [call(8, "ask"), tell("go")]), BA: Line(1, [call(7, "ask")])}
    assert holds(lost_reply(), {"alice": AWAITS, "bob": Actor()}, lines) is True


def test_of_a_call_that_an_older_rayshot_recorded_nothing_is_told_but_what_is_seen():
    old = Actor(calls={7: ("got", None, ())})
    assert holds(lost_reply(), {"alice": old, "bob": Actor()}) is None
    assert holds(lost_reply(), {"alice": old, "bob": Actor()}, {AB: Line(1, [call(7, "ask")])}) is False


def test_a_storage_of_the_first_format_says_unknown_and_never_no():
    old = open_storage(ROOT / "tests" / "golden" / "format-1").system("bank").snapshots()[-1]
    assert {actor.calls[0].callee for actor in GlobalState(old).born() if actor.calls} == {None}
    assert judge(lost_reply(), old).holds is False, "its request is in flight"
    graph = wait_graph(GlobalState(old))
    assert (dict(graph.edges), bool(graph.unknown)) == ({}, True)


# Counters, references, waits -------------------------------------------------------------------------------------


def test_a_counter_is_reached():
    asked = counter_reached("bob", "done", 330)
    assert holds(asked, {"bob": Actor({"done": 334})}) is True
    assert holds(asked, {"bob": Actor({"done": 317})}) is False
    assert holds(asked, {"alice": Actor()}) is False, "it is not born yet"
    assert holds(asked, {"alice": Actor()}, ended=("bob",)) is None, "its counter is gone with it"


def handle(name):
    return ActorHandle("bank", name, None, None)


def test_an_actor_is_unreferenced_where_no_handle_of_it_can_be_reached():
    asked = unreferenced("carol", roots=["alice"])
    lonely = {"alice": Actor({"others": [handle("bob")]}), "bob": Actor(), "carol": Actor({"friend": handle("alice")})}
    verdict = judge(asked, snapshot_of(lonely))
    assert (verdict.holds, verdict.evidence) == (True, {"unreferenced": ["carol"]})
    known = lonely | {"bob": Actor({"deep": {"down": (handle("carol"),)}})}
    assert holds(asked, known) is False
    assert holds(asked, {"alice": Actor()}, ended=("carol",)) is True
    assert holds(asked, {"alice": Actor()}) is False


def test_who_may_still_give_its_own_handle_away_is_not_unreferenced():
    asked = unreferenced("carol", roots=["alice"])
    timer = Actor(timers=[(1.0, "announce", ())])
    assert holds(asked, {"alice": Actor(), "carol": timer}) is False
    mail = {("driver:main", "carol"): Line(1, [tell("announce")])}
    assert holds(asked, {"alice": Actor(), "carol": Actor()}, mail) is False
    name = msgpack.packb(["meet", msgpack.ExtType(1, b"carol")])
    assert holds(asked, {"alice": Actor(), "carol": Actor()}, {("driver:main", "alice"): Line(1, [name])}) is False


def test_who_keeps_a_handle_in_a_timer_or_for_a_reply_may_give_it_away():
    asked = unreferenced("carol", roots=[])
    timer = Actor(timers=[(1.0, "greet", (handle("carol"),))])
    assert holds(asked, {"alice": timer, "carol": Actor()}) is False
    keeps = Actor(calls={1: ("got", None, (handle("carol"),))}, callees={1: "bob"})
    lines = {AB: Line(1, [call(1, "ask")])}
    assert holds(asked, {"alice": keeps, "bob": Actor(), "carol": Actor()}, lines) is False
    nothing = Actor(calls={1: ("got", None, ())}, callees={1: "bob"})
    assert holds(asked, {"alice": nothing, "bob": Actor(), "carol": Actor()}, lines) is True


def boxed(value):
    box = np.empty((1, 1), dtype=object)
    box[0, 0] = value
    return box


@pytest.mark.parametrize("hold", [lambda one: deque([one]), boxed, lambda one: {"in": [deque([boxed(one)])]}])
def test_a_handle_in_any_container_is_held(hold):
    actors = {"alice": Actor({"others": hold(handle("carol"))}), "carol": Actor()}
    assert holds(unreferenced("carol", roots=["alice"]), actors) is False


def waiting(*others):
    return Actor({"waits_for": list(others)})


def test_a_cycle_is_a_deadlock_where_all_are_needed_and_a_knot_where_any_is():
    cycle = {"alice": waiting("bob"), "bob": waiting("alice", "carol"), "carol": waiting()}
    verdict = judge(deadlock("waits_for"), snapshot_of(cycle))
    assert (verdict.holds, verdict.evidence["groups"]) == (True, [["alice", "bob"]])
    assert holds(deadlock("waits_for", needs="any"), cycle) is False, "carol may answer bob"
    knot = cycle | {"carol": waiting("alice")}
    assert holds(deadlock("waits_for", needs="any"), knot) is True
    assert holds(deadlock("waits_for"), {"alice": waiting("bob"), "bob": waiting()}) is False
    assert holds(deadlock("waits_for"), {"alice": waiting("alice")}) is True


def test_the_graph_can_be_looked_at():
    actors = {"alice": waiting("bob"), "bob": waiting("alice", "carol"), "carol": waiting("carol"), "dave": Actor()}
    graph = wait_graph(GlobalState(snapshot_of(actors)), "waits_for")
    assert {name: sorted(others) for name, others in graph.edges.items()} == {
        "alice": ["bob"],
        "bob": ["alice", "carol"],
        "carol": ["carol"],
    }
    assert (graph.cycles(), graph.knots()) == ([["alice", "bob"], ["carol"]], [["carol"]])


def test_an_actor_that_has_ended_answers_nobody_who_needs_any_one():
    knot = {"alice": waiting("bob", "carol"), "bob": waiting("alice")}
    assert holds(deadlock("waits_for", needs="any"), knot, ended=("carol",)) is True
    assert holds(deadlock("waits_for", needs="any"), knot) is False, "carol may be born yet"
    answer = {("carol", "alice"): Line(1, [tell("granted")])}
    assert holds(deadlock("waits_for", needs="any"), knot, answer, ("carol",)) is False


def test_a_cycle_is_no_deadlock_while_what_ends_it_is_in_flight():
    cycle = {"alice": waiting("bob"), "bob": waiting("alice")}
    assert holds(deadlock("waits_for"), cycle, {BA: Line(1, [tell("granted")])}) is False
    assert holds(deadlock("waits_for"), cycle, {DRIVER: Line(1, [tell("give_up")])}) is False
    patient = Actor({"waits_for": ["bob"]}, timers=[(9.0, "give_up", ())])
    assert holds(deadlock("waits_for"), cycle | {"alice": patient}) is False


def test_a_message_of_a_third_actor_may_end_a_wait():
    cycle = {"alice": waiting("bob"), "bob": waiting("alice"), "carol": Actor()}
    assert holds(deadlock("waits_for"), cycle, {("carol", "alice"): Line(1, [tell("cancel")])}) is False
    assert holds(deadlock("waits_for"), cycle, {("carol", "alice"): Line(1)}) is True


@pytest.mark.parametrize(
    "asked",
    [
        unreferenced("carol", roots=["alice"]),
        deadlock("waits_for"),
        token_census("has_token", "take", expected=0),
    ],
)
def test_what_this_program_told_and_is_not_inside_may_change_the_answer(asked):
    cycle = {"waits_for": ["bob"], "has_token": False}, {"waits_for": ["alice"]}
    snapshot = snapshot_of({"alice": Actor(cycle[0]), "bob": Actor(cycle[1]), "carol": Actor()})
    behind = Snapshot(snapshot._store, snapshot.system, snapshot.record, left_out={"bob": 1})
    assert judge(asked, snapshot).holds is True
    assert judge(asked, behind).holds is None
    threads = "no actor has a thread that acts by itself"
    assert (threads in asked.conditions) is (asked.closed)


def test_replies_that_are_awaited_make_the_graph_and_old_ones_are_unknown():
    awaits = {"alice": Actor(calls={1: ("got", None, ())}, callees={1: "bob"})}
    graph = wait_graph(GlobalState(snapshot_of(awaits, ended=("bob",))))
    assert (dict(graph.edges), graph.cycles()) == ({"alice": frozenset({"bob"})}, [])
    asked = {AB: Line(1, [call(1, "ask")])}
    assert wait_graph(GlobalState(snapshot_of(awaits | {"bob": Actor()}, asked))).edges == {}, "bob will answer"
    old = {"alice": Actor(calls={1: ("got", None, ())}), "bob": Actor()}
    graph = wait_graph(GlobalState(snapshot_of(old)))
    assert (dict(graph.edges), graph.unknown) == ({}, frozenset({"alice"}))
    with pytest.raises(TypeError, match="waits_for"):
        deadlock()


def test_cycles_are_found_in_deep_graphs_too():
    ring = {f"a{n:05}": waiting(f"a{(n + 1) % 3000:05}") for n in range(3000)}
    (group,) = wait_graph(GlobalState(snapshot_of(ring)), "waits_for").cycles()
    assert len(group) == 3000


# Broken conditions -----------------------------------------------------------------------------------------------

CYCLE = {"alice": waiting("bob"), "bob": waiting("alice")}
BROKEN = {
    "a caller ends": (lost_reply(), {"alice": AWAITS, "carol": Actor()}, {"carol": Actor()}, {}, ("alice",)),
    "a thread of an actor ends its wait": (deadlock("waits_for"), CYCLE, TWO, {AB: Line(1)}),
    "a token is made": (
        token_census("has_token", "take", expected=0),
        {"alice": station(False), "bob": Actor()},
        {"alice": station(True), "bob": Actor()},
        {AB: Line(1)},
    ),
    "a token is destroyed": (
        token_census("has_token", "take", expected=2, or_more=True),
        {"alice": station(True), "bob": station(True)},
        {"alice": station(True), "bob": station(False)},
        {AB: Line(1)},
    ),
    "a counter falls": (
        counter_reached("bob", "done", 10),
        {"alice": Actor(), "bob": Actor({"done": 10})},
        {"alice": Actor(), "bob": Actor({"done": 9})},
        {AB: Line(1)},
    ),
    "an actor looks up a name": (
        unreferenced("bob", roots=["alice"]),
        TWO,
        {"alice": Actor({"friend": handle("bob")}), "bob": Actor()},
        {BA: Line(1)},
    ),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_where_a_condition_is_broken_a_yes_that_did_not_stay_decides_nothing(broken):
    asked, before, after, lines, *ended = broken
    history = History()
    history.snapshot(before)
    history.snapshot(after, lines, *ended)
    found = detect(history.system, asked)
    assert [one.holds for one in found.verdicts] == [True, False]
    assert (len(found.contradictions), found.decisive, found.holds) == (1, None, None)


@pytest.mark.parametrize(
    ("asked", "before", "after"),
    [
        (deadlock("waits_for"), CYCLE, TWO),
        (unreferenced("bob", roots=["alice"]), TWO, {"alice": Actor({"friend": handle("bob")}), "bob": Actor()}),
    ],
)
def test_when_a_driver_spoke_a_yes_before_says_nothing_and_contradicts_nothing(asked, before, after):
    history = History()
    yes = history.snapshot(before, {DRIVER: Line(1)})
    no = history.snapshot(after, {DRIVER: Line(2)})
    found = detect(history.system, asked)
    assert [one.holds for one in found.verdicts] == [True, False]
    assert (found.contradictions, found.holds) == ([], False)
    assert judge(asked, yes).says_of(no) is None


def test_what_a_driver_brings_in_breaks_the_condition_of_a_sum_and_the_verdict_names_it():
    asked = conserved_sum(quantity("balance", "deposit"), 100)
    verdict = judge(asked, snapshot_of({"alice": Actor({"balance": 100})}, {DRIVER: Line(1, [tell("deposit", 5)])}))
    assert verdict.holds is False
    assert "as long as no step makes or loses any of it and drivers bring nothing in" in verdict.meaning
