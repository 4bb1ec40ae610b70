"""Questions of states that are lost, or on their way twice."""

from types import SimpleNamespace

import pytest

from rayshot.audit.findings import Unproved
from rayshot.audit.questions import OpenQuestion, _open_in, check_ways

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
    with pytest.raises(Unproved, match="not laid out"):
        list(_open_in("p", recorded))
