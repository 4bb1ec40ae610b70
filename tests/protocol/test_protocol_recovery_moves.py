"""The table of recovery: what cannot come is an assertion, and the one in the documentation is made from it."""

import re
from itertools import product

import pytest

from rayshot.protocol.recovery import MOVES, Phase, Recovery
from rayshot.protocol.recovery_events import LifeBegan, LogRefused, Past, ProcessLost, StopWanted, TookOver
from tests.processes import ROOT
from tests.protocol.running import running
from tests.written import check_written

PAGE = ROOT / "docs/design/0039-one-state-of-a-life.md"
TABLE = re.compile(r"(?s)<!-- phases -->\n.*?<!-- end -->")


def written():
    """The phases with the events that lead from one to another."""
    labels = {}
    for event, moves in MOVES.items():
        for phase, move in moves.items():
            for to in () if move is None else move.to:
                labels.setdefault((phase, to), []).append(event.__name__)
    rows = [
        f"| {phase.value} | {to.value} | {', '.join(labels[phase, to])} |"
        for phase, to in product(Phase, Phase)
        if phase is not to and (phase, to) in labels
    ]
    return "\n".join(["<!-- phases -->", "| from | to | behind |", "| --- | --- | --- |", *rows, "<!-- end -->"])


def test_the_table_in_the_documentation_is_that_of_the_machine():
    text = PAGE.read_text()
    assert TABLE.search(text) is not None
    check_written(PAGE, TABLE.sub(written(), text))


def test_each_move_is_a_method():
    named = {move.method for moves in MOVES.values() for move in moves.values() if move is not None}
    assert [name for name in named if not callable(getattr(Recovery, name, None))] == []


def test_what_cannot_come_says_event_phase_and_life():
    machine = running(3)
    with pytest.raises(AssertionError, match=r"life 3, running .*LogRefused\(detail='no disk'\)"):
        machine.handle(LogRefused("no disk"))


def test_a_machine_that_is_not_at_rest_is_not_taken_over():
    machine = running(1)
    machine.handle(ProcessLost(1, "bob", 1, "it died", 0.0))
    with pytest.raises(AssertionError, match="goes back for 'it died'"):
        machine.handle(TookOver(1, marked=True, lost=(), at=0.0))


def test_nothing_that_comes_after_the_stop_is_an_error():
    machine = running(1)
    machine.handle(StopWanted("a person stops it"))
    assert machine.handle(LogRefused("no disk")) == ()
    assert machine.handle(LifeBegan(2, ("bob",), Past(rollbacks=1))) == ()
