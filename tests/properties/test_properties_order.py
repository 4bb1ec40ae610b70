"""Drivers that come and go between snapshots that overlapped, and what verdicts say then."""

from rayshot.properties import detect, judge, stable
from tests.properties.builders import Actor, History, Line

BB = ("bob", "bob")
ONE = ("driver:one", "alice")


@stable
def alice_has_done_4(state):
    return state.actor("alice")["done"] >= 4


def overlapping_where_a_driver_goes(**begun):
    """The third began first. The driver died and alice forgot it; then the second began, and was complete first."""
    history = History()
    history.snapshot(done(5, 0), {ONE: Line(5)})
    gone = history.snapshot(done(5, 0), {}, **begun)
    early = history.snapshot(done(3, 0), {ONE: Line(3)})
    return history, gone, early


def test_of_overlapping_snapshots_a_driver_that_only_one_knows_decides_nothing():
    history, gone, early = overlapping_where_a_driver_goes()
    assert (gone.relation(early).name, gone.relation(early).sure) == ("before", False)
    assert judge(alice_has_done_4, gone).says_of(early) is None
    assert judge(alice_has_done_4, early).says_of(gone) is None
    found = detect(history.system, alice_has_done_4)
    assert (found.contradictions, found.holds) == ([], True)
    assert [one.snapshot.counter for one in found.verdicts] == [3, 1, 2], "the first lies behind the third, surely"


def test_a_driver_that_goes_or_comes_between_overlapping_snapshots_makes_no_no_the_last_word():
    history = History()
    history.snapshot(done(3, 1), {ONE: Line(3), BB: Line(1)})
    history.snapshot(done(5, 1), {BB: Line(1)})
    history.snapshot(done(2, 2), {ONE: Line(2), BB: Line(2)})
    found = detect(history.system, alice_has_done_4)
    assert [one.holds for one in found.verdicts] == [False, True, False]
    assert (found.contradictions, found.holds) == ([], True)


def test_a_snapshot_that_began_behind_the_commit_of_another_is_later_whatever_drivers_do():
    history = History()
    told = history.snapshot(done(5, 0), {ONE: Line(5)})
    gone = history.snapshot(done(1, 0), {}, follows=told.position)
    other = history.snapshot(done(1, 0), {("driver:two", "alice"): Line(1)}, follows=gone.position)
    assert [told.relation(one).sure for one in (gone, other)] == [True, True]
    yes, no = judge(alice_has_done_4, told), judge(alice_has_done_4, other)
    assert [yes.says_of(one) for one in (gone, other)] == [True, True]
    assert [no.says_of(one) for one in (told, gone)] == [False, False]
    assert len(detect(history.system, alice_has_done_4).contradictions) == 2, "it is not stable"


def done(alice, bob):
    return {"alice": Actor({"done": alice}), "bob": Actor({"done": bob})}
