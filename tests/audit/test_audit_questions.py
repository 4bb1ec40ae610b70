"""Questions of states that are lost, or on their way twice."""

from types import SimpleNamespace

import pytest

from rayshot.audit.findings import Unproved
from rayshot.audit.questions import OpenQuestion, check_ways
from rayshot.errors import BadState
from rayshot.snapshots.state import read_owed, read_questions

ASKED = OpenQuestion("p", -1)


@pytest.mark.parametrize(("count", "said"), [(0, "to q is lost: nothing is on its way"), (2, "is on its way 2 times")])
def test_a_question_must_be_on_its_way_once(count, said):
    with pytest.raises(Unproved, match=f"question -1 of p {said}" if count == 0 else said):
        check_ways({ASKED: "q"}, {ASKED: count}, ())
    check_ways({ASKED: "q"}, {ASKED: 1}, ())


def test_who_has_ended_need_not_answer():
    check_ways({ASKED: "q"}, {}, {"q"})


@pytest.mark.parametrize(
    "recorded", [7, {"a": SimpleNamespace(args=(1, "q", None))}, {-1: 5}, {-1: SimpleNamespace(args=(1, 2))}]
)
def test_hostile_questions_are_refused(recorded):
    with pytest.raises(BadState, match="the kept replies of 'p' do not have the form"):
        list(read_questions("p", recorded))


@pytest.mark.parametrize("recorded", [7, {"a": 1}, {("a", "b"): 1}, {("a", 1): "b"}])
def test_hostile_debts_are_refused(recorded):
    with pytest.raises(BadState, match="the owed answers of 'p' do not have the form"):
        list(read_owed("p", recorded))
