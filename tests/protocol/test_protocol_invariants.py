"""A machine that has come to count wrongly says so itself."""

import pytest

from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import ProcessEnded, ProcessJoined, SnapshotWanted
from rayshot.protocol.events import (
    BatchAcknowledged,
    BatchArrived,
    BatchTaken,
    Begun,
    Marker,
    ReceiverReady,
    StateCaptured,
)
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.protocol.record import Record

OWN = SnapshotId(1, COORDINATOR, 1)


def recording():
    """A process that sent 4 messages to q, holds one of r that is early, and has recorded a snapshot."""
    machine = Participant("p")
    for event in (
        ReceiverReady("q"),
        BatchTaken("q", 4),
        BatchAcknowledged("q", 2),
        BatchArrived("r", 1, 1, 2),
        BatchArrived("r", 1, 5, 1),
        Begun(OWN, 0, frozenset(), quiet=False),
        StateCaptured(OWN, born=True, sent={"q": 4}, received={}),
    ):
        machine.handle(event)
        machine.validate()
    return machine


def more_acknowledged_than_sent(machine):
    machine._out["q"].acknowledged = 5


def kept_from_behind_what_is_acknowledged(machine):
    machine._recorders[OWN].recorded = False
    machine._out["q"].due.clear()
    machine._out["q"].kept_from[OWN] = 3


def kept_for_one_that_is_recorded(machine):
    machine._out["q"].kept_from[OWN] = 1


def held_though_its_turn_has_come(machine):
    machine._arrived["r"] = 4


def more_arrived_than_there_was(machine):
    machine._closed_at["r"] = 1


def forgotten_and_counted(machine):
    machine._closed_at["r"] = 2
    machine._forgotten.add("r")


def a_marker_of_one_that_is_not_open(machine):
    other = SnapshotId(1, COORDINATOR, 2)
    machine._out["q"].due[other] = Marker(other, 0)


def a_marker_before_the_record(machine):
    machine._recorders[OWN].recorded = False


def open_and_over(machine):
    machine._tombstones.add(OWN)


def of_another_life(machine):
    machine.incarnation = 2


def paused_by_one_that_stops_nothing(machine):
    machine._recorders[OWN].paused = True


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (more_acknowledged_than_sent, "to q: "),
        (kept_from_behind_what_is_acknowledged, "kept from 3"),
        (kept_for_one_that_is_recorded, "which waits for nothing"),
        (held_though_its_turn_has_come, "are held though 4 have arrived"),
        (more_arrived_than_there_was, "2 arrived, 1 was the last one"),
        (forgotten_and_counted, "it is forgotten, and counted"),
        (a_marker_of_one_that_is_not_open, "is due, which is not open"),
        (a_marker_before_the_record, "is due, which is not recorded"),
        (open_and_over, "is open, and has ended"),
        (of_another_life, "is open in life 2"),
        (paused_by_one_that_stops_nothing, "pauses the handlers"),
    ],
)
def test_a_participant_that_is_damaged_says_how(machines, damage, says):
    machine = recording()
    machines.clear()
    damage(machine)
    with pytest.raises(AssertionError, match=says):
        machine.validate()


def collecting():
    """A collector with a snapshot of two processes under way, and one process that has ended."""
    machine = Collector(1)
    nothing = SnapshotId(1, "c", 0)
    for event in (
        ProcessJoined("a"),
        ProcessJoined("b"),
        ProcessEnded(Record(nothing, "c", born=True, ended=True), ()),
        SnapshotWanted(),
    ):
        machine.handle(event)
        machine.validate()
    return machine


def alive_and_ended(machine):
    machine._processes.add("c")


def a_last_record_of_one_that_lives(machine):
    machine._last_records["a"] = machine._last_records["c"]


def over(machine):
    machine._tombstones.add(OWN)


def a_counter_that_comes_again(machine):
    machine._counter = 0


def a_record_of_another(machine):
    machine._open[OWN].records["a"] = Record(OWN, "b", born=True)


def one_that_waits_for_quiet_without_need(machine):
    machine._open[OWN].loud.add("a")


def in_two_states(machine):
    machine._unannounced[OWN] = machine._open[OWN]


def two_are_stored(machine):
    other = SnapshotId(1, "a", 1)
    machine._open[other] = type(machine._open[OWN])(storing=object())
    machine._open[OWN].storing = object()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (alive_and_ended, "are alive, and have ended"),
        (a_last_record_of_one_that_lives, "of who ended"),
        (over, "is open, and over"),
        (a_counter_that_comes_again, "will begin again"),
        (a_record_of_another, "is kept for a"),
        (one_that_waits_for_quiet_without_need, "waits for"),
        (in_two_states, "are open, and not announced"),
        (two_are_stored, "are stored at a time"),
    ],
)
def test_a_collector_that_is_damaged_says_how(machines, damage, says):
    machine = collecting()
    machines.clear()
    damage(machine)
    with pytest.raises(AssertionError, match=says):
        machine.validate()
