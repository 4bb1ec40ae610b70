"""What a property says of every snapshot, as a table."""

import json

import pytest

from rayshot.analysis.verdicts import verdict_table
from rayshot.errors import ConfigError, NotStable, PredicateFailed, SnapshotNotFound
from rayshot.properties import conserved_sum, counter_reached, possibly, quantity, stable, termination
from tests.properties.builders import Actor, History, Line, tell

AB = ("alice", "bob")


@pytest.fixture
def system():
    history = History()
    history.snapshot({"alice": Actor({"pin": 5}), "bob": Actor()}, {AB: Line(1, [tell("go")])})
    history.snapshot({"alice": Actor({"pin": 7}), "bob": Actor()}, {AB: Line(2), ("driver:main", "alice"): Line(4)})
    return history.system


def test_every_snapshot_is_a_row_with_its_verdict(system):
    rows = verdict_table(system, termination()).to_pylist()
    assert [(row["snapshot"], row["log_index"], row["life"], row["holds"]) for row in rows] == [
        ("1-coordinator-1", 1, 1, False),
        ("1-coordinator-2", 2, 1, True),
    ]
    assert {row["kind"] for row in rows} == {"stable"}
    assert json.loads(rows[1]["told"]) == {"driver:main": 4}
    assert rows[0]["meaning"] == "it did not hold when 1-coordinator-1 began"


def test_a_snapshot_that_does_not_tell_is_null(system):
    assert verdict_table(system, counter_reached("bob", "done", 1)).column("holds").to_pylist() == [None, None]


def test_options_select_snapshots_and_show_secrets(system):
    asked = conserved_sum(quantity("pin"), 7)
    assert verdict_table(system, asked, snapshot="latest", show_secrets="pin").column("holds").to_pylist() == [True]
    with pytest.raises(PredicateFailed, match="named like a secret"):
        verdict_table(system, asked)
    with pytest.raises(ConfigError, match="has no option 'actor'"):
        verdict_table(system, asked, actor="alice")
    with pytest.raises(SnapshotNotFound):
        verdict_table(system, asked, snapshot="1-coordinator-9")


def test_what_is_not_stable_and_what_raises_is_no_row(system):
    with pytest.raises(NotStable):
        verdict_table(system, possibly(lambda state: True))
    with pytest.raises(PredicateFailed, match="asked of 1-coordinator-1, raised ZeroDivisionError"):
        verdict_table(system, stable(lambda state: 1 / 0))
