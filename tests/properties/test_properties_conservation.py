"""Where a sum that should never change did, and whose books do not balance."""

from decimal import Decimal
from fractions import Fraction
from importlib import import_module

import pytest

from rayshot.errors import ConfigError, PredicateFailed, SnapshotDeleted
from rayshot.properties import conservation, conserved_sum, counter_reached, judge, quantity
from rayshot.properties.books import Books
from tests.properties.builders import Actor, History, Line, create, reply, snapshot_of, tell
from tests.snapshots.snapshot_builder import delete

MONEY = quantity("balance", "deposit")
AB, BA = ("alice", "bob"), ("bob", "alice")


def bank(alice, bob, **others):
    return {name: Actor({"balance": n}) for name, n in {"alice": alice, "bob": bob, **others}.items()}


def deposits(sent, *amounts):
    return Line(sent, [tell("deposit", amount) for amount in amounts])


def test_money_that_only_moves_is_the_same_in_every_snapshot():
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot(bank(70, 0), {AB: deposits(1, 30)})
    history.snapshot(bank(60, 30), {AB: deposits(2, 10)})
    found = conservation(history.system, MONEY)
    assert found.holds
    assert [(one.held, one.moving, one.total) for one in found.totals] == [(100, 0, 100), (70, 30, 100), (90, 10, 100)]


def test_the_first_interval_and_the_actor_are_found():
    history = History()
    history.snapshot(bank(100, 0), {AB: deposits(3)})
    history.snapshot(bank(70, 0), {AB: deposits(4, 30)})
    history.snapshot(bank(70, 20), {AB: deposits(4)})
    history.snapshot(bank(0, 20), {AB: deposits(5)})
    found = conservation(history.system, MONEY)
    assert (str(found.broken.old.id), str(found.broken.new.id)) == ("1-coordinator-2", "1-coordinator-3")
    assert found.broken.change == -10
    assert found.broken.suspects == ("bob",)
    account = found.broken.accounts[0]
    assert (account.before, account.after, account.processed, account.appeared) == (0, 20, 30, -10)
    assert found.broken.why == "-10 between 1-coordinator-2 and 1-coordinator-3: -10 at bob"


def test_messages_that_nobody_saw_make_one_account_of_both_ends():
    history = History()
    history.snapshot(bank(100, 0, carol=5))
    history.snapshot(bank(70, 20, carol=5), {AB: deposits(3)})
    (wrong, right) = conservation(history.system, MONEY).broken.accounts
    assert (wrong.actors, wrong.appeared, wrong.unseen) == (("alice", "bob"), -10, 3)
    assert (right.actors, right.balanced) == (("carol",), True)


def test_whoever_may_have_exchanged_with_an_actor_that_ended_is_not_told_apart():
    """Alice paid 10 by way of bob to carol, and bob ended. Dave lost 5."""
    history = History()
    history.snapshot(bank(100, 0, carol=100, dave=100))
    left = {name: Actor({"balance": n}) for name, n in {"alice": 90, "carol": 110, "dave": 95}.items()}
    history.snapshot(left, ended=("bob",))
    broken = conservation(history.system, MONEY).broken
    (account,) = broken.accounts
    assert (account.actors, account.appeared) == (("alice", "bob", "carol", "dave"), -5)
    assert "ended: bob, with whom anybody may have exchanged" in broken.why
    history.snapshot(left | {"dave": Actor({"balance": 90})}, ended=("bob",))
    later = conservation(history.system.snapshots()[1:], MONEY).broken
    assert later.suspects == ("dave",), "bob had ended before, and has exchanged nothing since"


def test_who_was_born_and_ended_between_two_snapshots_belongs_to_the_account_too():
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot(bank(80, 0), {("eve", "bob"): deposits(1, 15)}, ended=("eve",))
    broken = conservation(history.system, MONEY).broken
    (account,) = broken.accounts
    assert (account.actors, account.appeared, broken.change) == (("alice", "bob", "eve"), -5, -5)


def test_an_end_joins_nobody_where_messages_carry_nothing():
    history = History()
    history.snapshot(bank(100, 0, carol=7))
    history.snapshot({"alice": Actor({"balance": 99}), "carol": Actor({"balance": 7})}, ended=("bob",))
    assert conservation(history.system, quantity("balance")).broken.suspects == ("alice",)


def test_a_total_that_a_reply_may_add_to_is_compared_with_no_other():
    history = History()
    history.snapshot(bank(100, 0))
    awaits = Actor({"balance": 0}, calls={1: ("deposit", None, ())}, callees={1: "alice"})
    history.snapshot({"alice": Actor({"balance": 70}), "bob": awaits}, {AB: Line(1, [reply(1, 30)]), BA: Line(1)})
    history.snapshot(bank(70, 30), {AB: Line(1), BA: Line(1)})
    found = conservation(history.system, MONEY)
    assert (found.holds, found.broken) == (None, None)
    assert [bool(one.untold) for one in found.totals] == [False, True, False]
    counted = quantity("balance", lambda message: message.args[0] if message.kind == "reply" else 0)
    assert conservation(history.system, counted).holds is True
    history.snapshot(bank(70, 25), {AB: Line(1), BA: Line(1)})
    broken = conservation(history.system, MONEY).broken
    assert (str(broken.old.id), broken.suspects) == ("1-coordinator-3", ("bob",))


def test_a_total_that_a_constructor_may_add_to_is_compared_with_no_other():
    history = History()
    carol = {"carol": Actor({"balance": 0})}
    history.snapshot({"alice": Actor({"balance": 100}), **carol})
    history.snapshot({"alice": Actor({"balance": 60}), "bob": None, **carol}, {AB: Line(1, [create(40)])})
    history.snapshot(bank(60, 40) | carol, {AB: Line(1)})
    found = conservation(history.system, MONEY)
    assert (found.holds, found.broken) == (None, None)
    assert [bool(one.untold) for one in found.totals] == [False, True, False]
    brought = quantity("balance", lambda message: message.args[0] if message.kind == "create" else 0)
    assert conservation(history.system, brought).holds is True
    history.snapshot(bank(60, 35) | carol, {AB: Line(1)})
    assert conservation(history.system, MONEY).broken.suspects == ("bob",)
    assert conservation(history.system, brought).broken.suspects == ("bob",)


def test_a_message_that_is_in_flight_in_both_snapshots_counts_for_nobody():
    history = History()
    history.snapshot(bank(70, 0), {AB: deposits(2, 30)})
    history.snapshot(bank(60, 1), {AB: deposits(3, 30, 10)})
    assert conservation(history.system, MONEY).broken.suspects == ("bob",)


def test_money_in_a_timer_is_not_lost():
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot({"alice": Actor({"balance": 70}, timers=[(1.0, "deposit", (30,))]), "bob": Actor({"balance": 0})})
    assert conservation(history.system, MONEY).holds


def test_snapshots_that_overlapped_are_compared_with_what_lies_before_them():
    history = History()
    first = history.snapshot(bank(100, 0), {AB: deposits(1), BA: deposits(1)})
    history.snapshot(bank(90, 0), {AB: deposits(2, 10), BA: deposits(1)})
    history.snapshot(bank(100, 0), {AB: deposits(1), BA: deposits(2, 5)})
    found = conservation(history.system, MONEY)
    assert found.broken.old == first
    assert found.broken.suspects == ("bob",)


def test_a_snapshot_that_was_committed_late_stands_where_its_cut_belongs():
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot(bank(80, 0), {AB: deposits(2, 10)})
    history.snapshot(bank(90, 0), {AB: deposits(1, 10)})
    found = conservation(history.system, MONEY)
    assert [str(one.snapshot) for one in found.totals] == [f"1-coordinator-{n}" for n in (1, 3, 2)]
    assert str(found.broken.old.id) == "1-coordinator-3"


def test_a_life_is_compared_with_what_it_was_restored_from():
    history = History()
    origin = history.snapshot(bank(100, 0))
    history.snapshot(bank(90, 0), {AB: deposits(1, 10)})
    history.restore(origin)
    history.snapshot(bank(95, 0))
    found = conservation(history.system, MONEY)
    assert (found.broken.old, found.broken.change) == (origin, -5)
    assert found.broken.suspects == ("alice",)


def test_across_a_restore_from_a_deleted_snapshot_the_interval_is_named_without_accounts():
    history = History()
    kept = history.snapshot(bank(100, 0))
    origin = history.snapshot(bank(90, 10), {AB: Line(1)})
    history.restore(origin)
    delete(history.repository, origin.id)
    history.snapshot(bank(90, 5), {AB: Line(1)})
    history.snapshot(bank(80, 15), {AB: Line(2)})
    found = conservation(history.system, MONEY)
    assert found.holds is False
    assert (found.broken.old, str(found.broken.new.id), found.broken.change) == (kept, "2-coordinator-3", -5)
    assert (found.broken.comparable, found.broken.suspects) == (False, ())
    assert "between them life 2 began, with a snapshot whose total is not known" in found.broken.why


def test_in_a_list_of_snapshots_of_two_lives_the_interval_across_the_border_is_named():
    history = History()
    first = history.snapshot(bank(100, 0))
    history.restore(first)
    second = history.snapshot(bank(95, 0))
    found = conservation([first, second], MONEY)
    assert (found.broken.old, found.broken.new, found.broken.comparable) == (first, second, False)
    assert conservation([first], MONEY).holds


def test_a_life_is_not_compared_with_snapshots_of_another_life_than_its_origins():
    history = History()
    origin = history.snapshot(bank(100, 0))
    kept = history.snapshot(bank(100, 0), {AB: Line(1)})
    history.restore(origin)
    history.snapshot(bank(100, 0))
    history.restore(origin)
    delete(history.repository, origin.id)
    history.snapshot(bank(95, 0))
    assert conservation(history.system, MONEY).broken.old == kept


def test_a_driver_that_died_in_between_is_said():
    history = History()
    history.snapshot(bank(100, 0), {("driver:main", "alice"): Line(2)})
    history.snapshot(bank(105, 0))
    broken = conservation(history.system, MONEY).broken
    assert (broken.suspects, broken.drivers_gone) == (("alice",), ("driver:main",))
    assert broken.why.endswith("died: driver:main, who may have told more")


def test_a_driver_that_brought_something_and_died_shares_the_account_of_whom_it_told():
    history = History()
    history.snapshot(bank(100, 0), {("driver:main", "alice"): deposits(1, 5)})
    history.snapshot(bank(112, 0))
    broken = conservation(history.system, MONEY).broken
    assert (broken.change, broken.suspects) == (7, ("alice", "driver:main")), "it may have told more before it died"


def test_a_driver_did_not_die_because_an_actor_that_it_had_told_ended():
    history = History()
    history.snapshot(bank(100, 0), {("driver:main", "bob"): Line(2)})
    history.snapshot({"alice": Actor({"balance": 105})}, ended=("bob",))
    assert conservation(history.system, MONEY).broken.drivers_gone == ()


def test_of_a_driver_that_came_and_died_in_between_no_snapshot_tells():
    """What the docstring says: only its receiver is a suspect."""
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot(bank(105, 0))
    broken = conservation(history.system, MONEY).broken
    assert (broken.suspects, dict(broken.told), broken.drivers_gone) == (("alice",), {}, ())


def test_what_a_driver_brings_is_said():
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot(bank(100, 0), {("driver:main", "alice"): deposits(2, 5)})
    broken = conservation(history.system, MONEY).broken
    assert (broken.change, broken.brought_in, dict(broken.told)) == (5, 5, {"driver:main": 2})
    assert broken.accounts[0].actors == ("alice", "driver:main")


def test_who_comes_with_money_in_its_hands_is_named():
    history = History()
    history.snapshot(bank(100, 0))
    history.snapshot(bank(100, 0, carol=50), {("alice", "carol"): Line(1)})
    broken = conservation(history.system, MONEY).broken
    assert broken.born == ("carol",)
    assert "born: carol" in broken.why


def test_floats_are_added_without_rounding_and_rounding_of_the_actors_needs_a_tolerance():
    history = History()
    history.snapshot(bank(0.1, 0.2))
    history.snapshot(bank(0.1 + 0.2, 0.0))
    assert not conservation(history.system, MONEY).holds
    assert conservation(history.system, MONEY, tolerance=1e-9).holds
    mixed = snapshot_of(bank(1e16, 1.0, carol=-1e16, dave=Decimal("0.5")))
    assert judge(conserved_sum(MONEY, 1.5), mixed).holds


HUGE = 10**400


def test_numbers_that_no_float_holds_are_added_up_as_any_others():
    history = History()
    history.snapshot(bank(HUGE, Fraction(1, 2)))
    history.snapshot(bank(HUGE, 0))
    found = conservation(history.system, MONEY)
    assert found.broken.change == -0.5
    assert [one.total for one in found.totals] == [HUGE, HUGE]
    assert found.broken.suspects == ("bob",)
    assert conservation(history.system, MONEY, tolerance=HUGE).holds
    last = history.system.latest()
    assert judge(conserved_sum(MONEY, HUGE), last).holds is True
    assert judge(conserved_sum(MONEY, HUGE, tolerance=Fraction(1, 3)), last).evidence["total"] == str(HUGE)
    assert judge(counter_reached("alice", "balance", HUGE), last).holds is True
    assert counter_reached("alice", "balance", 10**6).name == "alice.balance >= 1000000"


WIDE = {"int": 10**5000, "large": Decimal("1e999999999"), "fine": Decimal("1e-999999999")}


@pytest.mark.parametrize("value", WIDE.values(), ids=WIDE)
def test_a_number_whose_digits_nobody_can_write_is_refused_in_words(value):
    history = History()
    history.snapshot(bank(100, value))
    with pytest.raises(ConfigError, match=r"bob.balance has more than 4,096 bits"):
        conservation(history.system, MONEY)
    with pytest.raises(ConfigError, match="4,096 bits"):
        conserved_sum(MONEY, value)
    with pytest.raises(ConfigError, match="4,096 bits"):
        conserved_sum(MONEY, Fraction(1, 10**5000))


@pytest.mark.parametrize("value", [float("nan"), "100", [1]])
def test_what_is_no_number_is_refused(value):
    history = History()
    history.snapshot(bank(100, value))
    with pytest.raises(ConfigError, match=r"bob.balance is .*cannot be added up"):
        conservation(history.system, MONEY)


def test_what_is_named_like_a_secret_is_counted_only_where_it_is_shown():
    from rayshot.inert.redaction import show_secrets

    snapshot = snapshot_of({"alice": Actor({"pin": 1234})})
    with pytest.raises(ConfigError, match="named like a secret"):
        conservation([snapshot], quantity("pin"))
    with show_secrets({"pin"}):
        assert conservation([snapshot], quantity("pin")).totals[0].total == 1234


def test_a_function_that_raises_is_named_with_its_snapshot():
    with pytest.raises(PredicateFailed, match="counting in 1-coordinator-1 raised ZeroDivisionError") as caught:
        conservation([snapshot_of(bank(1, 2))], quantity(lambda actor: 1 / 0))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_without_a_part_for_messages_none_is_read(monkeypatch):
    from rayshot.snapshots.channel_state import ChannelState

    monkeypatch.setattr(ChannelState, "frames", None)
    assert conservation([snapshot_of(bank(1, 2), {AB: deposits(1, 5)})], quantity("balance")).totals[0].total == 3


def test_a_snapshot_that_is_deleted_meanwhile_is_left_out_and_counted():
    history = History()
    first, second, third = [history.snapshot(bank(100 - n, n), {AB: deposits(n)}) for n in (0, 1, 2)]

    def deletes(actor):
        if (actor.name, actor["balance"]) == ("alice", 100) and second.id in history.repository.log.refresh().retained:
            delete(history.repository, second.id)
        return actor["balance"]

    found = conservation(history.system, quantity(deletes))
    assert [one.snapshot for one in found.totals] == [first.id, third.id]
    assert (found.holds, found.deleted) == (True, (second.id,))


@pytest.mark.parametrize(("doomed", "old"), [(1, 0), (2, 1)])
def test_a_snapshot_that_is_deleted_while_its_accounts_are_kept_is_left_out_and_counted(doomed, old, monkeypatch):
    history = History()
    given = [history.snapshot(bank(balance, 0), {AB: Line(n)}) for n, balance in enumerate((100, 100, 95, 94))]
    kept = []

    def books(*args):
        kept.append(args)
        if len(kept) == 1:
            raise SnapshotDeleted("gone", snapshot=str(given[doomed].id))
        return Books(*args)

    monkeypatch.setattr(import_module("rayshot.properties.conservation"), "Books", books)
    found = conservation(history.system, MONEY)
    assert found.deleted == (given[doomed].id,)
    assert [one.snapshot for one in found.totals] == [one.id for one in given if one != given[doomed]]
    assert (found.broken.old, found.holds) == (given[old], False)


def test_a_sum_that_creeps_away_is_not_the_same_in_all_snapshots():
    history = History()
    for lost in range(4):
        history.snapshot(bank(100 - lost, 0))
    found = conservation(history.system, MONEY, tolerance=1)
    assert (found.holds, found.broken) == (False, None)
    assert conservation(history.system, MONEY, tolerance=3).holds
