"""Tokens and sums: where they are counted, and where nobody can tell."""

import pytest

from rayshot.errors import ConfigError, PredicateFailed
from rayshot.properties import conserved_sum, judge, quantity, token_census
from tests.properties.builders import Actor, Line, call, create, holds, reply, snapshot_of, station, tell

AB, BA, DRIVER = ("alice", "bob"), ("bob", "alice"), ("driver:main", "alice")

ONE_TOKEN = token_census("has_token", "take")


def test_one_token_is_held_or_on_its_way():
    assert holds(ONE_TOKEN, {"alice": station(True), "bob": station(False)}) is True
    assert holds(ONE_TOKEN, {"alice": station(False), "bob": station(False)}, {AB: Line(1, [tell("take")])}) is True
    verdict = judge(ONE_TOKEN, snapshot_of({"alice": station(True), "bob": station(True)}))
    assert (verdict.holds, verdict.evidence["holders"]) == (False, ["alice", "bob"])
    assert "a bug" in verdict.meaning


def test_a_token_that_no_actor_holds_is_not_lost_while_a_timer_will_bring_it():
    waiting = Actor({"has_token": False}, timers=[(1.0, "take", ())])
    assert holds(ONE_TOKEN, {"alice": waiting, "bob": station(False)}) is True
    assert holds(token_census("has_token", "take", expected=0), {"alice": waiting}) is False


def test_tokens_that_were_lost_or_doubled_are_stable():
    lost = token_census("has_token", "take", expected=0)
    doubled = token_census("has_token", "take", expected=2, or_more=True)
    assert [lost.kind, doubled.kind, ONE_TOKEN.kind] == ["stable", "stable", "invariant"]
    assert (lost.conditions, doubled.conditions) == (("nobody makes tokens",), ("nobody destroys tokens",))
    three = {"alice": Actor({"baton": 2}), "bob": Actor({"baton": "a thing"})}
    assert holds(token_census("baton", "take", expected=3, or_more=True), three) is True
    assert holds(doubled, {"alice": station(True), "bob": station(True)}) is True
    assert holds(lost, {"alice": station(None)}) is True
    with pytest.raises(ConfigError, match="always are"):
        token_census("has_token", None, expected=0, or_more=True)


def test_a_sum_that_is_off_is_a_bug_and_what_is_in_flight_belongs_to_it():
    asked = conserved_sum(quantity("balance", "deposit"), 100)
    moving = {AB: Line(1, [tell("deposit", 30)])}
    assert holds(asked, {"alice": Actor({"balance": 70})}, {}) is False
    assert holds(asked, {"alice": Actor({"balance": 70}), "bob": Actor()}, moving) is True
    verdict = judge(asked, snapshot_of({"alice": Actor({"balance": 60}), "bob": Actor()}, moving))
    assert (verdict.holds, verdict.why) == (False, "60 held and 30 in flight, -10 to 100")
    assert verdict.evidence == {"held": 60, "in_flight": 30, "total": 90}


def test_a_name_that_no_actor_knows_is_no_bug_of_the_system():
    account = {"alice": Actor({"balance": 100})}
    assert holds(conserved_sum(quantity("balanse"), 100), account) is None
    assert holds(token_census("tokn", "take"), account) is None


def test_what_is_named_like_a_secret_is_not_counted_as_tokens():
    with pytest.raises(PredicateFailed, match="named like a secret"):
        holds(token_census("pin", None), {"alice": Actor({"pin": 1234})})


def test_a_reply_of_that_method_carries_nothing_twice():
    asked = conserved_sum(quantity("balance", "deposit"), 100)
    assert holds(asked, {"alice": Actor({"balance": 100}), "bob": Actor()}, {BA: Line(1, [reply(1, 30)])}) is True


def awaiting(method, state, *context, on_error=None):
    return Actor(state, calls={1: (method, on_error, context)}, callees={1: "bob"})


LENDS = {"alice": awaiting("take", {"has_token": False}), "bob": station(False)}
LENT = {BA: Line(1, [reply(1, True)])}


@pytest.mark.parametrize("lines", [LENT, {AB: Line(1, [call(1, "lend")])}, {}])
def test_a_token_that_a_reply_brings_to_the_method_is_not_lost(lines):
    lost = token_census("has_token", "take", expected=0)
    for asked in (lost, ONE_TOKEN, token_census("has_token", "take", expected=2, or_more=True)):
        verdict = judge(asked, snapshot_of(LENDS, lines))
        assert verdict.holds is None
        assert verdict.why.startswith("alice awaits a reply of bob with take")
    assert holds(lost, {"alice": awaiting("done", {"has_token": False}), "bob": station(False)}, LENT) is True
    fails = awaiting("done", {"has_token": False}, on_error="take")
    assert holds(lost, {"alice": fails, "bob": station(False)}, LENT) is None


def test_tokens_that_are_seen_are_enough_whatever_a_reply_brings():
    two = LENDS | {"bob": station(True), "carol": station(True)}
    assert holds(token_census("has_token", "take", expected=0), two, LENT) is False
    assert holds(token_census("has_token", "take", expected=2, or_more=True), two, LENT) is True
    assert holds(ONE_TOKEN, two, LENT) is False
    assert holds(token_census("has_token", "take", expected=2), two, LENT) is None


def test_functions_count_tokens_in_replies_and_in_what_is_kept_for_them():
    def has(actor):
        return actor["has_token"] + sum("token" in one.context for one in actor.calls)

    def brings(message):
        return message.method == "take" or (message.kind == "reply" and message.args == (True,))

    asked = token_census(has, brings)
    assert holds(asked, LENDS, LENT) is True
    assert holds(asked, LENDS) is False
    assert holds(asked, {"alice": awaiting("take", {"has_token": False}, "token"), "bob": station(False)}) is True
    assert holds(token_census(has, brings, expected=0), LENDS, LENT) is False


def test_a_sum_is_not_told_while_a_reply_brings_some_of_it():
    asked = conserved_sum(quantity("balance", "deposit"), 100)
    moving = {BA: Line(1, [reply(1, 30)])}
    actors = {"alice": awaiting("deposit", {"balance": 70}), "bob": Actor({"balance": 0})}
    verdict = judge(asked, snapshot_of(actors, moving))
    assert (verdict.holds, verdict.evidence["total"]) == (None, 70)
    assert "give functions" in verdict.why
    assert holds(conserved_sum(quantity("balance"), 70), actors, moving) is True, "messages carry nothing"

    def brings(message):
        return message.args[0] if message.kind == "reply" or message.method == "deposit" else 0

    assert holds(conserved_sum(quantity("balance", brings), 100), actors, moving) is True


CREATES = {"alice": station(False), "bob": None}


def test_a_token_that_a_constructor_is_given_is_not_lost():
    lost = token_census("has_token", "take", expected=0)
    born = {AB: Line(1, [create(True)])}
    for asked in (lost, ONE_TOKEN, token_census("has_token", "take", expected=2, or_more=True)):
        verdict = judge(asked, snapshot_of(CREATES, born))
        assert verdict.holds is None
        assert verdict.why.startswith("alice creates bob, and what a constructor is given is not counted by a method")
    two = CREATES | {"alice": station(True), "carol": station(True)}
    assert [holds(one, two, born) for one in (lost, ONE_TOKEN)] == [False, False], "more than expected are seen"
    assert holds(token_census("has_token", "take", expected=2, or_more=True), two, born) is True
    assert holds(lost, CREATES, {AB: Line(1, [create()])}) is True, "it is given nothing"
    assert holds(lost, CREATES | {"bob": station(False)}, {AB: Line(1)}) is True


def test_a_function_counts_what_a_constructor_is_given_and_so_does_its_name():
    def brings(message):
        return message.method == "take" or (message.kind == "create" and message.args == (True,))

    born = {AB: Line(1, [create(True)])}
    assert holds(token_census("has_token", brings), CREATES, born) is True
    assert holds(token_census("has_token", brings, expected=0), CREATES, born) is False
    assert holds(token_census("has_token", "__init__"), CREATES, born) is True


def test_a_sum_is_not_told_while_a_constructor_is_given_some_of_it():
    actors = {"alice": Actor({"balance": 60}), "bob": None}
    born = {AB: Line(1, [create(40)])}
    verdict = judge(conserved_sum(quantity("balance", "deposit"), 100), snapshot_of(actors, born))
    assert (verdict.holds, verdict.evidence["total"]) == (None, 60)
    assert verdict.why.startswith("alice creates bob")
    assert holds(conserved_sum(quantity("balance", "__init__"), 100), actors, born) is True
    assert holds(conserved_sum(quantity("balance"), 60), actors, born) is True, "messages carry nothing"
