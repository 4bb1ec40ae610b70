"""The two machines that bring conversations to their end, with orders and reports in any order."""

import pytest

from rayshot.protocol.concluding import Conclusion, ConclusionId, Doing, HoldBack, Rest
from rayshot.protocol.identity import SnapshotId

FIRST, SECOND, OF_SUCCESSOR = ConclusionId(1, 1), ConclusionId(1, 2), ConclusionId(2, 1)
OLD, NEW = SnapshotId(1, "coordinator", 1), SnapshotId(1, "coordinator", 2)


def conclusion_of(*told):
    conclusion = Conclusion(FIRST)
    for name in told:
        conclusion.tell(name)
    return conclusion


@pytest.fixture
def hold():
    hold = HoldBack()
    assert hold.begin(FIRST, [OLD])
    return hold


def test_who_is_held_begins_only_what_is_asked():
    hold = HoldBack()
    hold.asked("a", 3)
    hold.asked("a", 2)  # a packet that was overtaken
    hold.begin(FIRST, ())
    assert hold.limits({}, ["a", "b"]) == {"a": 3, "b": 0}
    assert hold.limits({"a": 2, "c": 9}, ["a", "b", "c"]) == {"a": 2, "b": 0, "c": 0}


def test_an_order_that_comes_twice_or_too_late_changes_nothing(hold):
    assert not hold.begin(FIRST, ())
    hold.recorded(NEW)
    assert not hold.begin(FIRST, ())
    assert hold.conclusion is None
    hold.end(SECOND)  # it overtakes the order to hold
    assert not hold.begin(SECOND, ())
    assert hold.begin(OF_SUCCESSOR, ())
    hold.end(SECOND)
    assert hold.conclusion == OF_SUCCESSOR


def test_only_the_record_of_the_coordinators_next_snapshot_lets_an_actor_go(hold):
    hold.recorded(OLD)
    hold.recorded(SnapshotId(1, "another actor", 1))
    assert hold.conclusion == FIRST
    hold.recorded(NEW)
    assert hold.conclusion is None


def test_only_a_change_is_reported_and_each_report_has_a_higher_number(hold):
    assert hold.begins() is None
    assert hold.rests() == Rest(FIRST, 1, rests=True)
    assert hold.rests() is None
    assert hold.begins() == Rest(FIRST, 2, rests=False)
    hold.begin(SECOND, ())
    assert hold.rests() == Rest(SECOND, 3, rests=True)
    hold.end()
    assert (hold.begins(), hold.rests()) == (None, None)


def test_a_breath_is_for_so_many_messages_and_the_rest_is_reported_anew(hold):
    hold.rests()
    hold.breathe(SECOND, 1)
    assert hold.breaths == 0
    hold.breathe(FIRST, 2)
    hold.begins()
    assert hold.breaths == 1
    assert hold.rests() == Rest(FIRST, 2, rests=True)
    assert hold.breaths == 0  # what comes later was not meant
    hold.breathe(FIRST, 1)
    assert hold.rests() == Rest(FIRST, 3, rests=True)  # there was nothing to begin


def test_the_end_is_found_when_the_last_report_of_each_says_that_it_rests():
    conclusion = conclusion_of("a", "b")
    conclusion.hear("a", Rest(FIRST, 2, rests=False))
    conclusion.hear("a", Rest(FIRST, 1, rests=True))  # it was overtaken
    conclusion.hear("b", Rest(FIRST, 1, rests=True))
    assert conclusion.restless == ("a",)
    conclusion.hear("a", Rest(SECOND, 3, rests=True))
    assert conclusion.restless == ("a",)
    conclusion.tell("c")
    conclusion.hear("a", Rest(FIRST, 3, rests=True))
    assert conclusion.restless == ("c",)
    conclusion.lose("c")
    conclusion.hear("c", Rest(FIRST, 1, rests=False))
    assert conclusion.restless == ()
    assert conclusion.told == {"a", "b"}


def waits_for(*names, waits_s=2.0):
    return Doing(handles=True, waits_for=names, waits_s=waits_s, held=1)


def rests(held):
    return Doing(handles=False, waits_for=(), waits_s=0.0, held=held)


RUNS = Doing(handles=True, waits_for=(), waits_s=0.0, held=0)


@pytest.mark.parametrize(
    ("doing", "chosen"),
    [
        ({"a": waits_for("server"), "b": rests(3), "server": rests(0)}, {"b": 1}),
        ({"a": waits_for("server"), "b": rests(0), "server": rests(0)}, {}),
        ({"a": waits_for("server"), "b": rests(3), "server": rests(3)}, {"b": 1}),
        ({"a": waits_for("server"), "b": rests(3), "server": RUNS}, {}),
        ({"a": waits_for("server"), "b": rests(3), "server": waits_for("x"), "x": RUNS}, {}),
        ({"a": waits_for("server"), "b": rests(3)}, {}),  # the server does not answer
        ({"a": waits_for("server"), "b": rests(3), "server": rests(0), "bystander": RUNS}, {"b": 1}),
        ({"a": waits_for("server", waits_s=0.5), "b": rests(3), "server": rests(0)}, {}),
        ({"a": RUNS, "b": rests(3)}, {}),
        ({"a": rests(0), "b": rests(3)}, {}),
    ],
)
def test_a_held_message_begins_where_all_others_wait_and_nobody_of_them_works(doing, chosen):
    conclusion = conclusion_of("a", "b")
    conclusion.hear("b", Rest(FIRST, 1, rests=True))
    assert conclusion.breathe(doing, 1.0) == chosen
    assert ("b" in conclusion.restless) is bool(chosen)


def test_looks_that_find_nothing_to_begin_cost_no_more_each_time():
    conclusion = conclusion_of("a", "b")
    doing = {"a": waits_for("server"), "b": rests(0), "server": rests(0)}
    assert [conclusion.breathe(doing, 1.0) for _ in range(100)] == [{}] * 100
    assert conclusion.breathe(doing | {"b": rests(9)}, 1.0) == {"b": 1}


def test_they_take_turns_each_time_twice_as_many_begin_and_nobody_does_when_all_rest():
    conclusion = conclusion_of("a", "b", "c")
    doing = {"a": waits_for("server"), "b": rests(100), "c": rests(5), "server": rests(0)}
    assert [conclusion.breathe(doing, 1.0) for _ in range(4)] == [
        {"b": 1},
        {"b": 1, "c": 1},
        {"b": 2, "c": 2},
        {"b": 4, "c": 4},
    ]
    assert conclusion.breathe(doing, 1.0) == {"b": 11, "c": 5}
    for name in "abc":
        conclusion.hear(name, Rest(FIRST, 1, rests=True))
    assert conclusion.breathe(doing, 1.0) == {}
